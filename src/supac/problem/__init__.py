"""Problems: parameters with priors, bounds, losses, and the columns of past runs."""

from supac.problem.bounds import Bound
from supac.problem.composite import Composite, Data, Observations
from supac.problem.parameters import Parameters
from supac.problem.problem import Evaluations, Function, Loss, Problem

__all__ = [
    "Bound", "Composite", "Data", "Evaluations", "Function", "Loss", "Observations", "Parameters",
    "Problem",
]  # fmt: skip
