"""Check of the assumptions of a bound that a problem file can tell: n, ceiling and loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from supac.problem.composite import Composite
from supac.problem.observations import Observations
from supac.problem_file.errors import Key


def objections(
    n: int | None,
    ceiling: float | None,
    risk: Callable[..., Any],
    observations: Observations | None,
) -> list[tuple[Key, str]]:
    """Return the violated assumptions: the key and a message each; None: not given in the file."""
    loss = risk.loss if isinstance(risk, Composite) else None
    largest = getattr(loss, "ceiling", None)
    found: list[tuple[Key, str]] = []
    if largest is not None and ceiling is not None and ceiling < largest:
        found.append((("bound", "ceiling"), f"this loss goes up to {largest:g}: remove ceiling"))
    if n is None:
        return found
    if observations is not None and n > observations.measured:
        message = (
            f"n = {n}, but {observations.measured} numbers were measured: n counts independent data"
        )
        found.append((("bound", "n"), message))
    if not getattr(loss, "is_mean", True):
        message = (
            "this loss is no mean over the data, as every bound assumes: choose another loss, or "
            "remove n and give a temperature"
        )
        found.append((("bound", "n"), message))
    elif loss is not None and largest is None and ceiling is None:
        message = (
            "with this loss, n needs a ceiling, the largest possible risk; or choose a loss that "
            'has one, such as "welsch"'
        )
        found.append((("bound",), message))
    return found
