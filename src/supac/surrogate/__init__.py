"""From evaluations to a projected risk."""

from supac.surrogate.importance import Importance, Uniform
from supac.surrogate.known import Density, view_prior
from supac.surrogate.solve import ray_minimiser
from supac.surrogate.surrogate import Estimator, RiskModel, Surrogate
from supac.surrogate.voronoi import Voronoi

__all__ = [
    "Density",
    "Estimator",
    "Importance",
    "RiskModel",
    "Surrogate",
    "Uniform",
    "Voronoi",
    "ray_minimiser",
    "view_prior",
]
