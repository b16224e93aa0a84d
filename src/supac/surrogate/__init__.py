"""From evaluations to the projection of the risk on the family's statistics, and its minimiser."""

from supac.surrogate.importance import Importance, Uniform, pareto_shape
from supac.surrogate.least_squares import project_known
from supac.surrogate.prior_view import LocalPrior, view_prior
from supac.surrogate.proxy import Corrected
from supac.surrogate.ridge import Ridge
from supac.surrogate.solve import ray_minimiser
from supac.surrogate.surrogate import Context, Estimator, RiskModel, Surrogate
from supac.surrogate.voronoi import Voronoi

__all__ = [
    "Context",
    "Corrected",
    "Estimator",
    "Importance",
    "LocalPrior",
    "Ridge",
    "RiskModel",
    "Surrogate",
    "Uniform",
    "Voronoi",
    "pareto_shape",
    "project_known",
    "ray_minimiser",
    "view_prior",
]
