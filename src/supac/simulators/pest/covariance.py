"""The prior covariance of a PEST case: `parcov` of PEST++."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from supac.simulators.pest.errors import PestError, similar

FloatArray = npt.NDArray[np.float64]
_READERS = {
    ".cov": "from_ascii",
    ".jcb": "from_binary",
    ".jco": "from_binary",
    ".unc": "from_uncfile",
}


def read_covariance(pyemu: Any, path: Path, names: Sequence[str], control: str) -> FloatArray:
    """Read the covariance of these parameters: (n, n), of decadic logarithms where they are log."""
    if not path.is_file():
        others = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        words = f"{control}: parcov names {path.name}, and there is no such file"
        raise PestError(f"{words}{similar(path.name, others)}")
    if path.suffix.lower() not in _READERS:
        known = ", ".join(_READERS)
        raise PestError(
            f"{control}: parcov names {path.name}; its name must end with one of {known}"
        )
    try:
        found = getattr(pyemu.Cov, _READERS[path.suffix.lower()])(str(path))
    except Exception as error:  # of pyemu, of several kinds
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PestError(f"{path.name} cannot be read as a covariance: {reason}") from error
    rows = [str(name).lower() for name in found.row_names]
    for name in names:
        if name not in rows:
            words = f"{path.name} has no row for the parameter {name} of {control}"
            raise PestError(f"{words}{similar(name, rows)}")
    places = [rows.index(name) for name in names]
    covariance = np.asarray(found.as_2d, dtype=np.float64)[np.ix_(places, places)]
    covariance = 0.5 * (covariance + covariance.T)
    if not np.isfinite(covariance).all() or np.linalg.eigvalsh(covariance)[0] <= 0.0:
        raise PestError(
            f"{path.name} is not positive definite: check its variances and covariances"
        )
    return np.asarray(covariance)
