"""Turns points into risks, and a bad answer into an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from supac.arrays import FloatArray


class EvaluationError(RuntimeError):
    """The risk failed, or answered something that is not a risk."""


def evaluate(
    risk: Callable[[FloatArray], Any], x: FloatArray, *, vectorized: bool, raising: bool
) -> FloatArray:
    """The risk of each row of x: (n, dim) → (n,), NaN for a failed run.

    A run fails by raising an exception or by returning NaN or ±infinity. Where `raising`, the
    first failure ends the evaluation; a wrong type or shape always does.
    """
    read_only = x.view()
    read_only.flags.writeable = False
    risks = _all_at_once(risk, read_only) if vectorized else _one_by_one(risk, read_only, raising)
    finite = np.isfinite(risks)
    if raising and not finite.all():
        worst = int(np.argmin(finite))
        raise EvaluationError(
            f"risk returned {risks[worst]} at x = {x[worst]}; make it finite, or pass "
            'on_failure="penalise" or on_failure="drop" to go on without such runs'
        )
    return np.where(finite, risks, np.nan)


def _all_at_once(risk: Callable[[FloatArray], Any], x: FloatArray) -> FloatArray:
    answer = risk(x)
    risks = _as_floats(answer)
    if risks is None or risks.shape != (len(x),):
        raise EvaluationError(
            f"risk, called with vectorized=True on {len(x)} points, must return an array of shape "
            f"({len(x)},), not {_describe(answer)}; leave out vectorized=True if it takes one point"
        )
    return risks


def _one_by_one(risk: Callable[[FloatArray], Any], x: FloatArray, raising: bool) -> FloatArray:
    risks = np.empty(len(x))
    for i, point in enumerate(x):
        try:
            answer = risk(point)
        except Exception as error:
            if raising:
                raise EvaluationError(
                    f"risk raised {type(error).__name__} at x = {point}: {error}; pass on_failure="
                    '"penalise" or on_failure="drop" to go on without such runs'
                ) from error
            answer = np.nan
        number = _as_floats(answer)
        if number is None or number.ndim != 0:
            raise EvaluationError(
                f"risk must return one number a point, not {_describe(answer)}; pass "
                "vectorized=True if it takes an (n, dim) array and returns n risks"
            )
        risks[i] = number
    return risks


def _as_floats(answer: Any) -> FloatArray | None:
    """The answer as an array, None where it is not a number or an array of numbers."""
    if answer is None or isinstance(answer, list | tuple | str | bytes):
        return None
    try:
        return np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _describe(answer: Any) -> str:
    kind = type(answer).__name__
    if isinstance(answer, np.ndarray):
        return f"an array of shape {answer.shape}"
    if isinstance(answer, list | tuple):
        return f"a {kind} of length {len(answer)}"
    return f"{answer!r} of type {kind}"
