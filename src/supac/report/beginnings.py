"""Beginnings of a search: how many there were, what each ended at, and whether they agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import names_of
from supac.record.record import Record
from supac.record.run import Round
from supac.report.words import count_of, number
from supac.search.note import is_among
from supac.search.restart import BEGAN_AGAIN

_NAMED = 4  # beginnings that a sentence names one by one
_CLOSE = 3.0  # nats by which another valley is worse at most to be as good
_REACH = 3.0  # standard deviations a parameter within which two means are the same


@dataclass(frozen=True, eq=False)
class Beginning:
    """Rounds from a beginning to the next one, or to the end."""

    runs: int
    """Runs of these rounds that the search made itself."""
    objective: float
    """Objective of the last posterior, as the model predicted it; NaN without a step."""
    posterior: Distribution | None
    """Posterior that the last batch was planned around, if it is known."""

    @classmethod
    def of(cls, rounds: list[Round], own: set[int]) -> Beginning:
        """Return that of these rounds; `own` are the ids of the runs that were made for it."""
        runs = sum(i in own for each in rounds for i in each.ids)
        return cls(runs, rounds[-1].info.predicted, rounds[-1].proposal)

    def agrees(self, other: Beginning) -> bool:
        """Return True if the mean of each lies where the other explores."""
        mine, theirs = self.posterior, other.posterior
        if mine is None or theirs is None:
            return False
        if not (mine.family.is_gaussian and theirs.family.is_gaussian):
            return False
        return _within(mine, theirs.mean) and _within(theirs, mine.mean)


def _within(posterior: Distribution, x: FloatArray) -> bool:
    """Return True for a point (dim,) that the posterior explores."""
    z = posterior.whiten().points(x[None])[0]
    return bool(z @ z < _REACH**2 * len(z))


def beginnings(record: Record) -> list[Beginning]:
    """Return the beginnings of a search, the first one first."""
    own, found, rounds = {run.id for run in record.made}, [], []
    for each in record.rounds:
        rounds.append(each)
        if any(is_among(note, BEGAN_AGAIN) for note in each.info.notes):
            found.append(Beginning.of(rounds, own))
            rounds = []
    return [*found, Beginning.of(rounds, own)] if rounds else found


def rivals(record: Record, nat: float) -> list[Beginning]:
    """Return beginnings that ended elsewhere than the best one, and are about as good.

    `nat` is the worth of a nat in units of the objective.
    """
    known = [each for each in beginnings(record) if math.isfinite(each.objective)]
    best = min(known, key=lambda each: each.objective, default=None)
    if best is None:
        return []
    close = [each for each in known if each.objective <= best.objective + _CLOSE * nat]
    return [each for each in close if each is not best and not each.agrees(best)]


def words_on_rival(record: Record, rival: Beginning) -> str:
    """Say where another valley is, and how many runs have seen it."""
    assert rival.posterior is not None
    mean, own = rival.posterior.mean[None], record.parameters
    seen = sum(_within(rival.posterior, each.x) for each in record.search_runs if each.ok)
    values = (mean if own is None else own.from_latent(mean))[0]
    names = names_of(own, len(values))
    told = ", ".join(
        f"{name} {number(float(value))}"
        for name, value in zip(names[:_NAMED], values[:_NAMED], strict=True)
    )
    return (
        f"objective {number(rival.objective)} around {told}, and "
        f"{count_of(seen, 'run has', 'runs have')} seen it"
    )


def words_on_beginnings(record: Record) -> str:
    """Say how often a search began, what each beginning ended at, and whether they agree.

    "" before the first round.
    """
    found = beginnings(record)
    if not found:
        return ""
    if len(found) == 1:
        return (
            "The search began once. Whether another beginning would end elsewhere, another seed "
            "can tell."
        )
    told = [f"{_ended_at(each)} ({count_of(each.runs, 'run', 'runs')})" for each in found[:_NAMED]]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    what = "ends" if record.stop_reason is None else "ended"
    return (
        f"The search began {len(found)} times, and {what} at objectives of {', '.join(told)}{more}."
        f" {_agreement(found)}"
    )


def _ended_at(beginning: Beginning) -> str:
    return number(beginning.objective) if math.isfinite(beginning.objective) else "nothing"


def _agreement(found: list[Beginning]) -> str:
    """Say if the beginnings have ended in the same place."""
    known = [each for each in found if math.isfinite(each.objective)]
    if len(known) < 2:
        return "They cannot be compared."
    same = [one.agrees(other) for one, other in combinations(known, 2)]
    if all(same):
        return "They agree: all are in the same place."
    if any(same):
        return "Some agree, others are elsewhere; the best is returned."
    return "They do not agree: each is elsewhere, and the best is returned."
