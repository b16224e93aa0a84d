"""What every bound assumes of the data and of the loss, as far as a problem file can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from supac.problem.composite import CappedSquare, Composite, RootMeanSquare, Welsch
from supac.problem.observations import Observations
from supac.problem_file.locate import Key


def objections(
    n: int | None,
    ceiling: float | None,
    risk: Callable[..., Any],
    observations: Observations | None,
) -> list[tuple[Key, str]]:
    """Why nothing holds with this n and this ceiling (None where none was given): key and words."""
    loss = risk.loss if isinstance(risk, Composite) else None
    limited = isinstance(loss, Welsch | CappedSquare)
    found: list[tuple[Key, str]] = []
    if limited and ceiling is not None and ceiling < 1.0:
        found.append((("bound", "ceiling"), "this loss goes up to 1: leave ceiling out"))
    if n is None:
        return found
    if observations is not None and n > observations.measured:
        words = (
            f"n = {n}, but {observations.measured} numbers were measured: n counts independent "
            "data, and cannot be more than there are"
        )
        found.append((("bound", "n"), words))
    if isinstance(loss, RootMeanSquare):
        words = (
            "the root of a mean is no mean over the data, as every bound assumes: choose another "
            "loss, or leave n out and give a temperature"
        )
        found.append((("bound", "n"), words))
    elif loss is not None and not limited and ceiling is None:
        words = (
            "with this loss, n needs a ceiling, the largest possible risk; the losses "
            '"welsch" and "capped-square" have one of themselves'
        )
        found.append((("bound",), words))
    return found
