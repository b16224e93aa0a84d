"""From evaluations to the projection of the risk on the family's statistics, and its minimiser."""

from supac.surrogate.estimator import (
    BatchPlan,
    Context,
    EmulatorState,
    Estimator,
    RiskModel,
    batch_plan,
)
from supac.surrogate.importance import FreshDraws, Importance, pareto_shape
from supac.surrogate.least_squares import project_known
from supac.surrogate.prior_view import LocalPrior, view_prior
from supac.surrogate.proxy import WithProxy
from supac.surrogate.ridge import Ridge
from supac.surrogate.solve import ray_minimiser
from supac.surrogate.surrogate import Surrogate
from supac.surrogate.voronoi import Voronoi

__all__ = [
    "BatchPlan",
    "Context",
    "EmulatorState",
    "Estimator",
    "FreshDraws",
    "Importance",
    "LocalPrior",
    "Ridge",
    "RiskModel",
    "Surrogate",
    "Voronoi",
    "WithProxy",
    "batch_plan",
    "pareto_shape",
    "project_known",
    "ray_minimiser",
    "view_prior",
]
