"""Turns points into risks, and a bad answer into an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from supac.arrays import FloatArray

Risk = Callable[[FloatArray], Any]

_GO_ON = 'pass on_failure="penalise" or on_failure="drop" to go on without such runs'
_ALL_AT_ONCE = "pass vectorized=True if risk takes an (n, dim) array and returns n risks"


class EvaluationError(RuntimeError):
    """The risk failed, or answered something that is not a risk."""


def evaluate(
    risk: Risk, x: FloatArray, *, vectorized: bool, raising: bool
) -> tuple[FloatArray, list[str]]:
    """The risk of each row of x, (n, dim) → (n,), NaN for a failed run; and why runs failed.

    A run fails by raising an exception or by returning NaN or ±infinity. Where `raising`, the
    first failure ends the evaluation; a wrong type or shape always does.
    """
    read_only = x.view()
    read_only.flags.writeable = False
    if vectorized:
        risks, reasons = _all_at_once(risk, read_only), [""] * len(x)
    else:
        risks, reasons = _one_by_one(risk, read_only, raising)
    for i in np.flatnonzero(~np.isfinite(risks)):
        reasons[i] = reasons[i] or f"risk returned {risks[i]}"
        if raising:
            raise EvaluationError(f"{reasons[i]} at x = {x[i]}; make it finite, or {_GO_ON}")
    return np.where(np.isfinite(risks), risks, np.nan), [reason for reason in reasons if reason]


def _all_at_once(risk: Risk, x: FloatArray) -> FloatArray:
    try:
        answer = risk(x)
    except Exception as error:
        raise EvaluationError(
            f"risk, called with vectorized=True on an array of shape {x.shape}, raised "
            f"{_name(error)}; leave out vectorized=True if it takes one point"
        ) from error
    risks = _as_floats(answer)
    if risks is None or risks.shape != (len(x),):
        raise EvaluationError(
            f"risk, called with vectorized=True on {len(x)} points, must return an array of shape "
            f"({len(x)},), not {_describe(answer)}; leave out vectorized=True if it takes one point"
        )
    return risks


def _one_by_one(risk: Risk, x: FloatArray, raising: bool) -> tuple[FloatArray, list[str]]:
    risks, reasons = np.zeros(len(x)), [""] * len(x)
    for i, point in enumerate(x):
        try:
            answer = risk(point)
        except Exception as error:
            if raising:
                raise EvaluationError(
                    f"risk raised {_name(error)} at x = {point}; {_ALL_AT_ONCE}; {_GO_ON}"
                ) from error
            risks[i], reasons[i] = np.nan, _name(error)
            continue
        number = _as_floats(answer)
        if number is None or number.ndim != 0:
            raise EvaluationError(
                f"risk must return one number a point, not {_describe(answer)}; {_ALL_AT_ONCE}"
            )
        risks[i] = number
        if raising and not np.isfinite(number):
            break  # the rest would be run in vain
    return risks, reasons


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _as_floats(answer: Any) -> FloatArray | None:
    """The answer as an array, None where it is not a number or an array of numbers."""
    if answer is None or isinstance(answer, list | tuple | str | bytes):
        return None
    try:
        return np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _describe(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of shape {answer.shape}"
    if isinstance(answer, list | tuple):
        return f"a {type(answer).__name__} of length {len(answer)}"
    return f"{answer!r} of type {type(answer).__name__}"
