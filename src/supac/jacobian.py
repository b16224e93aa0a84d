"""Jacobians as simulators return them, beside their outputs: split from an answer, and checked.

In a file of its own: the workers that make runs import little else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from supac.arrays import BoolArray, FloatArray, as_floats
from supac.simulators.jacobian_error import is_wrong

_DIGITS = 24  # binary digits that are kept: more than any emulator can use


def split_answer(raw: Any, *, many: bool) -> tuple[Any, Any]:
    """Return outputs and Jacobian of an answer; None for the latter if there is none.

    An answer with a Jacobian is a pair (outputs, jacobian), of `many` points or of one. The
    Jacobian is an array with one more axis than the outputs, or None.
    """
    if not isinstance(raw, tuple) or len(raw) != 2:
        return raw, None
    outputs, jacobian = raw
    if jacobian is None or is_wrong(jacobian):
        return outputs, jacobian
    axes, wanted = _axes(jacobian), 2 + many
    of_some = many and isinstance(jacobian, list | tuple) and _axes(outputs) == wanted - 1
    scalar = not many and _axes(outputs) == 0 and axes == 1
    if isinstance(jacobian, Mapping) or axes == wanted or (of_some and axes < wanted) or scalar:
        return outputs, jacobian
    return raw, None


def _axes(value: Any) -> int:
    """Return the number of axes of an array or of nested lists; −1 if it is neither."""
    if isinstance(value, Mapping):
        return 1  # outputs by name
    try:
        return np.ndim(value)
    except ValueError:  # lists of different lengths
        return -1


def checked_jacobian(
    jacobian: Any, outputs: int, dim: int, flat: Callable[[Any], FloatArray] | None
) -> FloatArray:
    """Return the Jacobian of a run as an array (outputs, dim); ValueError if it is none."""
    if is_wrong(jacobian):
        raise ValueError(str(jacobian))
    if isinstance(jacobian, Mapping) and flat is not None:
        jacobian = _by_name(jacobian, dim, flat)
    values = as_floats(jacobian)
    if values is not None and values.ndim == 1 and outputs == 1:
        values = values[None]
    if values is None or values.shape != (outputs, dim):
        found = "something else" if values is None else f"an array of shape {values.shape}"
        turned = values is not None and values.shape == (dim, outputs)
        hint = ": it is transposed, one row an output is wanted" if turned else ""
        raise ValueError(
            f"the Jacobian must have one row an output and one column a parameter, shape "
            f"({outputs}, {dim}), and was {found}{hint}"
        )
    return values


def _by_name(
    jacobian: Mapping[str, Any], dim: int, flat: Callable[[Any], FloatArray]
) -> FloatArray:
    """Return a Jacobian whose rows are given by column of the data, {"A": (rows, dim)}."""
    parts = {name: np.asarray(each, dtype=np.float64) for name, each in jacobian.items()}
    for name, each in parts.items():
        if each.ndim != 2 or each.shape[1] != dim:
            raise ValueError(
                f"the Jacobian of {name} must have one row a time and one column a parameter, "
                f"(rows, {dim}), not shape {each.shape}"
            )
    return np.column_stack([flat({n: each[:, j] for n, each in parts.items()}) for j in range(dim)])


def finite_jacobian(jacobian: FloatArray, needed: BoolArray | None) -> FloatArray:
    """Return a Jacobian (m, dim) of which all numbers that are needed are finite; ValueError else.

    Rows of outputs without a measurement may be NaN, and become 0.
    """
    wrong = ~np.isfinite(jacobian)
    if needed is not None and len(needed) == len(jacobian):
        jacobian = np.where(needed[:, None] | ~wrong, jacobian, 0.0)
        wrong = ~np.isfinite(jacobian)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"the Jacobian has NaN or infinity, first in row {row} (of an output) and "
            f"column {column} (of a parameter): return None in its place where it is not known"
        )
    return rounded(jacobian)


def rounded(jacobian: FloatArray) -> FloatArray:
    """Round to 24 binary digits, which take half of the space in a file."""
    digits, exponent = np.frexp(jacobian)
    return np.ldexp(np.round(np.ldexp(digits, _DIGITS)), exponent - _DIGITS)
