"""Problems written down in a file: read, checked, and ready for `minimize`."""

from supac.problem.observations import Observations
from supac.problem_file.belonging import check_belongs
from supac.problem_file.errors import Complaint, ProblemFileError
from supac.problem_file.problem import ProblemFile
from supac.problem_file.reader import (
    files_of,
    make_problem,
    observations_of,
    problem_of,
    read_problem,
    source_of,
    store_of,
    title_of,
)
from supac.problem_file.schema import BOUNDS
from supac.problem_file.starter import StarterKind, starter_files

__all__ = [
    "BOUNDS",
    "Complaint",
    "Observations",
    "ProblemFile",
    "ProblemFileError",
    "StarterKind",
    "check_belongs",
    "files_of",
    "make_problem",
    "observations_of",
    "problem_of",
    "read_problem",
    "source_of",
    "starter_files",
    "store_of",
    "title_of",
]
