"""One `tell` of an algorithm, with its diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.families import Distribution
from supac.search.algorithm import Info


@dataclass(frozen=True, eq=False)
class Round:
    """Runs passed to one `tell`, their proposal, and the diagnostics."""

    ids: tuple[int, ...]
    drawn: BoolArray
    """True for random draws from `proposal`, False for designed points: (n,)."""
    proposal: Distribution | None
    """None if the file holds only the name of a family of the user's own."""
    info: Info
    task: int = 0


def history_of(rounds: Sequence[Round], imported: Iterable[int] = ()) -> dict[str, FloatArray]:
    """Return diagnostics as columns, one row per round.

    `queries` counts the runs made until then, without the ids in `imported`.
    """
    elsewhere = set(imported)
    made = [sum(run not in elsewhere for run in each.ids) for each in rounds]
    names = [each.name for each in fields(Info) if each.name != "notes"]
    columns = {name: np.array([getattr(each.info, name) for each in rounds]) for name in names}
    return {"queries": np.cumsum(made, dtype=np.float64), **columns}
