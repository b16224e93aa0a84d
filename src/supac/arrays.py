"""Float64 arrays, and the checks they pass at the door."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]
Frozen = TypeVar("Frozen", FloatArray, IntArray, BoolArray)


def as_floats(raw: Any) -> FloatArray | None:
    """Convert an answer of user code to an array; None where it is not made of real numbers."""
    if raw is None or isinstance(raw, str | bytes | dict | set) or np.iscomplexobj(raw):
        return None
    try:
        return np.array(raw, dtype=np.float64)
    except Exception:  # whatever a foreign array type may raise
        return None


def finite(value: Any, name: str) -> FloatArray:
    """`value` as a float64 array without NaN or infinity."""
    # Texts first: NumPy would give every entry as much room as the longest of them takes.
    given = np.asarray(None if _holds_text(value) else value)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be made of numbers, not {value!r:.200}")
    array = given.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity: {array}; every entry must be finite")
    return array


def _holds_text(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_text, value))
    return isinstance(value, str | bytes)


def vector(value: Any, name: str, length: int | None = None) -> FloatArray:
    """`value` as a finite vector, of `length` entries where that is given."""
    array = finite(value, name)
    if array.ndim != 1 or (length is not None and len(array) != length):
        expected = "(n,)" if length is None else f"({length},)"
        raise ValueError(f"{name} must be a vector of shape {expected}, not {array.shape}")
    return array


def points(value: Any, name: str, dim: int) -> FloatArray:
    """`value` as finite points, shape (n, dim)."""
    array = finite(value, name)
    if array.ndim != 2 or array.shape[1] != dim:
        raise ValueError(f"{name} must hold one point a row, shape (n, {dim}), not {array.shape}")
    return array


def covariance_matrix(value: Any, name: str, dim: int | None = None) -> FloatArray:
    """`value` as a symmetric positive definite matrix."""
    array = finite(value, name)
    side = len(array) if dim is None and array.ndim else dim
    if array.shape != (side, side):
        expected = "square matrix" if dim is None else f"matrix of shape ({dim}, {dim})"
        raise ValueError(f"{name} must be a {expected}, not of shape {array.shape}")
    if not np.allclose(array, array.T, rtol=1e-8, atol=1e-300):
        raise ValueError(f"{name} is not symmetric; pass (A + A.T) / 2 if that is what is meant")
    scales = np.sqrt(np.maximum(np.diag(array), 0.0))
    # Tested on the correlations: parameters may have very different units.
    correlation = array / np.outer(scales, scales) if scales.all() else array
    smallest = float(np.linalg.eigvalsh(correlation)[0])
    if not (scales.all() and smallest > 0.0):
        raise ValueError(
            f"{name} is not positive definite (smallest eigenvalue of the correlations "
            f"{smallest:.3g}); check its entries, or add a small multiple of the identity"
        )
    return array


def positive(value: Any, name: str) -> float:
    """`value` as a positive, finite float."""
    number = float(finite(value, name)) if np.ndim(value) == 0 else float("nan")
    if not number > 0.0:
        raise ValueError(f"{name} must be a positive number, not {value!r}")
    return number


def whole(value: Any, name: str, least: int) -> int:
    """`value` as an integer, `least` or more."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number, {least} or more, not {value!r}")
    return int(value)


def probability(value: Any, name: str) -> float:
    """Return a number between 0 and 1; ValueError for any other value."""
    if not (isinstance(value, int | float) and 0.0 < value < 1.0):
        raise ValueError(f"{name} must be between 0 and 1, not {value!r}")
    return float(value)


def frozen(array: Frozen) -> Frozen:
    """A read-only copy, so that a value that holds it cannot change."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy
