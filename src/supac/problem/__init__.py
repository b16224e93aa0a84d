"""Problems: parameters with priors, bounds, losses, and the columns of past runs."""

from supac.problem.bounds import Bound
from supac.problem.columns import ColumnLoss
from supac.problem.combined import CombinedMeasurements
from supac.problem.composite import Composite
from supac.problem.data import Data, Observations
from supac.problem.evaluations import Batch, Evaluations, Planned, Role
from supac.problem.likelihood import Measurements
from supac.problem.log_observations import LogObservations
from supac.problem.measured import MeasuredOutputs
from supac.problem.problem import Function, Loss, Parameters, Problem, joined, names_of

__all__ = [
    "Batch", "Bound", "ColumnLoss", "CombinedMeasurements", "Composite", "Data", "Evaluations",
    "Function", "LogObservations", "Loss", "MeasuredOutputs", "Measurements", "Observations",
    "Parameters", "Planned", "Problem", "Role", "joined", "names_of",
]  # fmt: skip
