"""Keywords of version 0.1, accepted for one more release with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from supac.running.execution import Execution

_EXECUTION = {
    "executor": "workers", "mode": "mode", "timeout": "timeout", "retries": "retries",
    "on_failure": "on_failure", "max_failures": "max_failures", "vectorized": "vectorized",
}  # fmt: skip
_ELSEWHERE = {
    "tolerance": "tolerance of the algorithm, such as SuPAC(tolerance=…)",
    "description": "the text of a problem file, which `supac run` keeps",
    "monte_carlo": "an option of certify_draws",
    "prior_is_independent": "an option of certify_draws",
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
    tolerance: float
    description: str | None
    monte_carlo: float
    prior_is_independent: bool


def with_old(
    execution: Any, old: OldKeywords, *others: str, defaults: Mapping[str, Any] | None = None
) -> tuple[Execution, dict[str, Any]]:
    """Return the execution with old keywords applied, and the given ones of `others`.

    `defaults` are fields to use unless the user gave an `Execution`.
    """
    given: dict[str, Any] = dict(old)
    changes = {} if isinstance(execution, Execution) else dict(defaults or {})
    rest = {}
    for name, value in given.items():
        if name in _EXECUTION:
            new = f"execution=Execution({_EXECUTION[name]}=…)"
            changes[_EXECUTION[name]] = value
        elif name in others:
            new, rest[name] = _ELSEWHERE[name], value
        else:
            known = {*Execution.__dataclass_fields__}
            hint = f": how runs are made is execution=Execution({name}=…)" if name in known else ""
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")
        warnings.warn(
            f"{name}= is now {new}, and will be removed in the next release",
            DeprecationWarning,
            stacklevel=_level_of_the_user(),
        )
    return replace(Execution.of(execution), **changes), rest


def _level_of_the_user() -> int:
    """Return the stack level of the first caller outside this package, for `warnings.warn`."""
    package, frame, level = str(Path(__file__).parents[1]), sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level
