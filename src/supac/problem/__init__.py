"""Problems: parameters with priors, bounds, losses, and the columns of past runs."""

from supac.problem.evaluations import Evaluations
from supac.problem.parameters import Parameters
from supac.problem.problem import Function, Loss, Problem

__all__ = ["Evaluations", "Function", "Loss", "Parameters", "Problem"]
