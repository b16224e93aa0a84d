"""What a store holds, read as a whole while it may be written."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from supac.codec import Spec, UnknownSpecError, from_spec
from supac.families import Distribution, ParametricFamily
from supac.problem.parameters import Parameters
from supac.record.run import Run
from supac.record.store.file import reading, sound
from supac.record.store.rows import (
    member_from_spec,
    read_config_of,
    read_infos,
    read_posterior,
    read_rounds,
    read_runs_of,
    unsealed,
)
from supac.search.algorithm import Info


@dataclass(frozen=True, eq=False)
class Contents:
    """A store at one moment."""

    config: dict[str, Spec]
    runs: tuple[Run, ...]
    rounds: tuple[tuple[tuple[int, ...], Info], ...]
    """The ids that each was told, and what it learnt."""
    proposals: tuple[Distribution, ...]
    """The posterior behind each round; none where their family is not known."""
    posterior: Distribution | None
    """The one that was returned, or else the latest; None where its family is not known."""
    end: dict[str, Spec] | None
    """How the run ended; None where it has not."""
    description: str
    created: str
    made_with: str


def read_contents(path: str | os.PathLike[str]) -> Contents:
    """All of a store, also while it is being written."""
    path = Path(path)
    with reading(path) as db:
        db.execute("BEGIN")  # what another process writes meanwhile is not half seen
        config = read_config_of(db, path)
        meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
        end = None
        if "end" in meta:
            with sound(path, "its end"):
                end = dict(json.loads(unsealed(meta["end"], path, "its end")))
        family = _family(config)
        posterior = None if family is None else read_posterior(db, path, family)
        if family is not None and end is not None:
            with sound(path, "its end"):
                posterior = member_from_spec(end["posterior"], family)
        rounds, proposals = _rounds(db, path, family)
        return Contents(
            config,
            tuple(read_runs_of(db, path)),
            rounds,
            proposals,
            posterior,
            end,
            unsealed(meta["description"], path, "its description") if "description" in meta else "",
            str(meta.get("created", "")),
            str(meta.get("made with", "")),
        )


def _rounds(
    db: sqlite3.Connection, path: Path, family: ParametricFamily | None
) -> tuple[tuple[tuple[tuple[int, ...], Info], ...], tuple[Distribution, ...]]:
    """What each round was told and learnt, and where its runs came from."""
    if family is None:
        return tuple(read_infos(db, path)), ()
    every = tuple(read_rounds(db, path, family))
    return tuple((each.ids, each.info) for each in every), tuple(each.proposal for each in every)


def _family(config: dict[str, Spec]) -> ParametricFamily | None:
    """The posterior's, where it can be told from the settings."""
    try:
        start = from_spec(config["prior"] if config["start"] is None else config["start"])
    except UnknownSpecError:
        return None
    if isinstance(start, Parameters):
        return start.prior.family
    return start.family if isinstance(start, Distribution) else None
