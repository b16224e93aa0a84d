"""Problems: parameters with priors, bounds, losses, and the columns of past runs."""

from supac.problem.bounds import Bound
from supac.problem.columns import ColumnLoss
from supac.problem.combined import CombinedMeasurements
from supac.problem.composite import Composite
from supac.problem.data import Data, Observations
from supac.problem.likelihood import Measurements
from supac.problem.log_observations import LogObservations
from supac.problem.measured import MeasuredOutputs
from supac.problem.problem import Evaluations, Function, Loss, Parameters, Problem, joined, names_of

__all__ = [
    "Bound", "ColumnLoss", "CombinedMeasurements", "Composite", "Data", "Evaluations", "Function",
    "LogObservations", "Loss", "MeasuredOutputs", "Measurements", "Observations", "Parameters",
    "Problem", "joined", "names_of",
]  # fmt: skip
