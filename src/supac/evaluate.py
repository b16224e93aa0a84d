"""Turns points into risks, and a bad answer into an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.composite import Composite

Risk = Callable[[FloatArray], Any]

_GO_ON = 'pass on_failure="penalise" or on_failure="drop" to go on without such runs'
_ALL_AT_ONCE = "pass vectorized=True if {name} takes an (n, dim) array and answers for all points"
_ONE = "leave out vectorized=True if it takes one point"


class EvaluationError(RuntimeError):
    """The risk failed, or answered something that is not a risk."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a batch."""

    risk: FloatArray
    """(n,), NaN for a failed run."""
    outputs: FloatArray | None
    """(n, m) where the risk is a `Composite`, NaN for a failed run."""
    reasons: list[str]
    """Why runs failed."""


def evaluate(
    risk: Risk, x: FloatArray, *, vectorized: bool, raising: bool, outputs: int | None = None
) -> Outcome:
    """The risk of each row of x: (n, dim).

    A run fails by raising an exception or by answering NaN or ±infinity. Where `raising`, the first
    failure ends the evaluation; a wrong type or shape always does. A failed run of a `Composite`
    has the risk that its loss gives to NaN outputs; only where that is NaN too it has none. How
    many `outputs` there are is known from earlier runs, or from those of this batch.
    """
    read_only = x.view()
    read_only.flags.writeable = False
    if isinstance(risk, Composite):
        return _evaluate_composite(risk, read_only, vectorized, raising, outputs)
    answers, reasons = _answers(risk, "risk", read_only, vectorized, raising, ndim=0)
    return Outcome(_checked(answers, x, "risk", reasons, raising), None, _kept(reasons))


def _evaluate_composite(
    risk: Composite, x: FloatArray, vectorized: bool, raising: bool, known: int | None
) -> Outcome:
    outputs, reasons = _answers(risk.simulate, "simulate", x, vectorized, raising, ndim=1)
    failed = ~np.isfinite(outputs).all(axis=1, keepdims=True)
    outputs = np.where(failed, np.nan, outputs)
    for i in np.flatnonzero(failed):
        reasons[i] = reasons[i] or "simulate returned NaN or infinity"
    if failed.all() and all(reasons):
        outputs = np.full((len(x), known or outputs.shape[1]), np.nan)
        if known is None and not vectorized:
            raise EvaluationError(
                f"every run of the first batch failed, the first with: {reasons[0]}; look at the "
                "simulator, narrow the prior to where it works, or "
                + _ALL_AT_ONCE.format(name="simulate")
            )
    if known is not None and outputs.shape[1] != known:
        raise EvaluationError(
            f"simulate returned {outputs.shape[1]} outputs a point, but {known} before; it must "
            "always return as many"
        )
    if not outputs.shape[1]:
        raise EvaluationError("simulate returned no outputs; it must return at least one a point")
    try:
        losses = _as_floats(risk.loss(outputs))
    except Exception as error:
        raise EvaluationError(
            f"loss raised {_name(error)} for outputs of shape {outputs.shape}; it must take many "
            "rows of outputs, (n, m), and return n risks"
        ) from error
    if losses is None or losses.shape != (len(x),):
        shape = "no numbers" if losses is None else f"shape {losses.shape}"
        raise EvaluationError(
            f"loss must take outputs (n, m) and return n risks; for {outputs.shape} it returned "
            f"{shape}"
        )
    return Outcome(_checked(losses, x, "loss", reasons, raising), outputs, _kept(reasons))


def _kept(reasons: list[str]) -> list[str]:
    return [reason for reason in reasons if reason]


def _checked(
    risks: FloatArray, x: FloatArray, name: str, reasons: list[str], raising: bool
) -> FloatArray:
    for i in np.flatnonzero(~np.isfinite(risks)):
        reasons[i] = reasons[i] or f"{name} returned {risks[i]}"
        if raising:
            raise EvaluationError(f"{reasons[i]} at x = {x[i]}; make it finite, or {_GO_ON}")
    return np.where(np.isfinite(risks), risks, np.nan)


def _answers(
    function: Risk, name: str, x: FloatArray, vectorized: bool, raising: bool, ndim: int
) -> tuple[FloatArray, list[str]]:
    """One row of answers a point, NaN where it failed, and why."""
    if vectorized:
        return _all_at_once(function, name, x, ndim), [""] * len(x)
    return _one_by_one(function, name, x, raising, ndim)


def _all_at_once(function: Risk, name: str, x: FloatArray, ndim: int) -> FloatArray:
    try:
        answer = function(x)
    except Exception as error:
        raise EvaluationError(
            f"{name}, called with vectorized=True on an array of shape {x.shape}, raised "
            f"{_name(error)}; {_ONE}"
        ) from error
    values = _as_floats(answer)
    if values is None or values.ndim != ndim + 1 or len(values) != len(x):
        shape = f"({len(x)},)" if ndim == 0 else f"({len(x)}, m)"
        raise EvaluationError(
            f"{name}, called with vectorized=True on {len(x)} points, must return an array of "
            f"shape {shape}, not {_describe(answer)}; {_ONE}"
        )
    return values


def _one_by_one(
    function: Risk, name: str, x: FloatArray, raising: bool, ndim: int
) -> tuple[FloatArray, list[str]]:
    answers: list[FloatArray | None] = [None] * len(x)
    reasons = [""] * len(x)
    wanted = "one number" if ndim == 0 else "a 1-D NumPy array of outputs"
    all_at_once = _ALL_AT_ONCE.format(name=name)
    for i, point in enumerate(x):
        try:
            answer = function(point)
        except Exception as error:
            if raising:
                raise EvaluationError(
                    f"{name} raised {_name(error)} at x = {point}; {all_at_once}; {_GO_ON}"
                ) from error
            reasons[i] = _name(error)
            continue
        values = _as_floats(answer)
        known = next((each for each in answers if each is not None), values)
        if values is not None and known is not None and known.shape != values.shape:
            raise EvaluationError(
                f"{name} returned an array of shape {values.shape} at x = {point}, but "
                f"{known.shape} before; it must always return as many outputs"
            )
        if values is None or values.ndim != ndim:
            raise EvaluationError(
                f"{name} must return {wanted} a point, not {_describe(answer)}; {all_at_once}"
            )
        answers[i] = values
        if raising and ndim == 0 and not np.isfinite(values):
            break  # the rest would be run in vain
    shape = next((each.shape for each in answers if each is not None), (1,) * ndim)
    filled = [np.full(shape, np.nan) if each is None else each for each in answers]
    return np.array(filled, dtype=np.float64), reasons


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
