"""From evaluations to the projection of the risk on the family's statistics, and its minimiser."""

from supac.surrogate.estimator import (
    BatchPlan,
    Context,
    EmulatorState,
    Estimator,
    RiskModel,
    Surrogate,
    batch_plan,
)
from supac.surrogate.importance import FreshDraws, Importance, Ridge, effective_size, pareto_shape
from supac.surrogate.least_squares import project_known
from supac.surrogate.proxy import WithProxy
from supac.surrogate.solve import LocalPrior, ray_minimiser, view_prior
from supac.surrogate.voronoi import Voronoi

__all__ = [
    "BatchPlan", "Context", "EmulatorState", "Estimator", "FreshDraws", "Importance", "LocalPrior",
    "Ridge", "RiskModel", "Surrogate", "Voronoi", "WithProxy", "batch_plan", "effective_size",
    "pareto_shape", "project_known", "ray_minimiser", "view_prior",
]  # fmt: skip
