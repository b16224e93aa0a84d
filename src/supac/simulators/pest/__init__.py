"""PEST control files: the model that they run, and what is known of its parameters and outputs."""

from supac.simulators.pest.control import Control, PestError, read_control
from supac.simulators.pest.problem import Problem, load
from supac.simulators.pest.write_back import write_covariance, write_parameters, write_sets

__all__ = [
    "Control", "PestError", "Problem", "load", "read_control", "write_covariance",
    "write_parameters", "write_sets",
]  # fmt: skip
