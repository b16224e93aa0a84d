"""Keywords of version 0.1, accepted for one more release with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from supac.running.execution import Execution

_ELSEWHERE = {
    "tolerance": "tolerance of the algorithm, such as SuPAC(tolerance=…)",
    "description": "the text of a problem file, which `supac run` keeps",
    "monte_carlo": "an option of certify_draws",
    "prior_is_independent": "provenance=Provenance(prior_is_independent=…)",
    "temperatures_tried": "provenance=Provenance(temperatures_tried=…)",
    "ceiling": "the ceiling of the bound",
}


class OldKeywords(TypedDict, total=False):
    """Former arguments that are now part of `Execution` or of the algorithm."""

    executor: Any
    mode: Any
    timeout: float | None
    retries: int
    on_failure: Any
    max_failures: float
    vectorized: bool
    progress: bool | None
    tolerance: float
    description: str | None
    monte_carlo: float
    prior_is_independent: bool
    temperatures_tried: float
    ceiling: float | None


def with_old(
    execution: Any, old: OldKeywords, *others: str, kept: Mapping[str, Any] | None = None
) -> tuple[Execution, dict[str, Any]]:
    """Return the execution with old keywords applied, and the given ones of `others`.

    `kept` are values of fields that the user has not given.
    """
    where, rest = Execution.of(execution), {}
    changes = {name: value for name, value in (kept or {}).items() if name not in where.given}
    given: dict[str, Any] = dict(old)
    for name, value in given.items():
        field = "workers" if name == "executor" else name
        if name in others:
            new, rest[name] = _ELSEWHERE[name], value
        elif name in OldKeywords.__annotations__ and name not in _ELSEWHERE:
            new, changes[field] = f"execution=Execution({field}=…)", value
        else:
            hint = f": how runs are made is execution=Execution({name}=…)" * (name == "workers")
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")
        warnings.warn(
            f"{name}= is now {new}, and will be removed in the next release",
            DeprecationWarning,
            stacklevel=_level_of_the_user(),
        )
    return replace(where, **changes), rest


def _level_of_the_user() -> int:
    """Return the stack level of the first caller outside this package, for `warnings.warn`."""
    package, frame, level = str(Path(__file__).parents[1]), sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level
