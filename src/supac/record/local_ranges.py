"""Words on ranges that are local: which combinations, and what to do."""

from __future__ import annotations

from supac.problem import names_of
from supac.record.record import Record
from supac.shape.ranges import RangeCheck


def words_on_local_ranges(run: Record) -> str:
    """Say which combinations of parameters have ranges that are too narrow; "" if none has."""
    found = _check(run)
    if found is None:
        return ""
    names = names_of(run.parameters, len(found.wider))
    return f"ranges are local: the data leave more open along {found.words(names)}"


def advice_on_local_ranges(run: Record) -> str:
    """Say how ranges that are local may be widened; "" if none is."""
    found = _check(run)
    if found is None:
        return ""
    any_shape = "" if run.settings.shape == "auto" else (
        '`shape="auto"` of resume, or `shape = "auto"` in [posterior] of a problem file, lets the '
        "posterior follow it, at no further run of the search"
    )  # fmt: skip
    farther = "more runs, which do not reach its end yet, or tighter priors"
    more = "more runs, or tighter priors"
    if found.unknown:
        return f"{farther}; {any_shape}" if any_shape else farther
    return any_shape or more


def _check(run: Record) -> RangeCheck | None:
    found = None if run.ending is None else run.ending.range_check
    return found if found is not None and found.local else None
