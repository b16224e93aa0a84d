"""From evaluations to a projected risk."""

from supac.surrogate.emulator import OutputEmulator
from supac.surrogate.gated import GatedModel
from supac.surrogate.gaussian_process import GaussianProcess
from supac.surrogate.importance import Importance, Uniform, pareto_shape
from supac.surrogate.known import view_prior
from supac.surrogate.ridge import Ridge
from supac.surrogate.solve import ray_minimiser
from supac.surrogate.surrogate import Context, Estimator, Loss, RiskModel, Surrogate
from supac.surrogate.voronoi import Voronoi

__all__ = [
    "Context",
    "Estimator",
    "GatedModel",
    "GaussianProcess",
    "Importance",
    "Loss",
    "OutputEmulator",
    "Ridge",
    "RiskModel",
    "Surrogate",
    "Uniform",
    "Voronoi",
    "pareto_shape",
    "ray_minimiser",
    "view_prior",
]
