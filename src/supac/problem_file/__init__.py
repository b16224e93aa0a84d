"""Problem files: reading, checking, and the arguments of `minimize` that they describe."""

from supac.problem import Observations
from supac.problem_file import builtin, fmu, pest, petab
from supac.problem_file.candidates import CandidatesFile, read_candidates
from supac.problem_file.errors import FileError, ProblemFileError
from supac.problem_file.fmu_starter import fmu_starter_files
from supac.problem_file.petab import petab_starter_files
from supac.problem_file.problem import ProblemFile
from supac.problem_file.reader import (
    certified_by_others,
    check_compatible,
    is_problem_file,
    make_problem,
    observations_of,
    problem_of,
    read_problem,
    source_of,
    store_of,
    title_of,
)
from supac.problem_file.scenario import Scenario, read_scenario
from supac.problem_file.schema import BOUNDS
from supac.problem_file.starter import StarterGoal, StarterKind, starter_files

__all__ = [
    "BOUNDS", "CandidatesFile", "FileError", "Observations", "ProblemFile", "ProblemFileError",
    "Scenario", "StarterGoal", "StarterKind",
    "builtin", "certified_by_others", "check_compatible", "fmu", "fmu_starter_files",
    "is_problem_file", "make_problem", "observations_of", "pest", "petab",
    "petab_starter_files", "problem_of", "read_candidates", "read_problem", "read_scenario",
    "source_of", "starter_files", "store_of", "title_of",
]  # fmt: skip
