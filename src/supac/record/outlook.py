"""The outlook of a search: time left, and the gain that more runs promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.record.record import Record
from supac.record.timeline import stretches

_RECENT = 50  # runs whose pace counts
_MISSES = 4  # rounds whose predictions are compared with what came of them
_FEWEST = 3  # comparisons without which nothing is said


def seconds_left(record: Record, now: float) -> float:
    """Estimate the seconds until the budget is spent, at the pace of the last runs.

    Runs of a coarse model count as what they cost.

    NaN before the first run has ended, and for files without a timeline. A search that converges
    ends earlier.
    """
    costs = {(run.task, run.id): 1.0 for run in record.made}
    use = record.coarse_use
    if use is not None:
        costs |= {(run.task, run.id): use.cost for run in record.coarse_runs}
    begun = {
        key: span for key, span in record.timeline.items() if key in costs or not span.ended > 0.0
    }
    active = stretches(list(begun.values()), now)
    if not active:
        return math.nan
    latest = [(key, span) for key, span in begun.items() if span.started >= active[-1][0]]
    ends = sorted((span.ended, costs[key]) for key, span in latest if span.ended > 0.0)
    if not ends:
        return math.nan
    first, counted = active[-1][0], ends
    if len(ends) > _RECENT:
        first, counted = ends[-_RECENT - 1][0], ends[-_RECENT:]
    pace = (ends[-1][0] - first) / sum(cost for _, cost in counted)
    return max(record.budget - record.spent, 0.0) * pace


@dataclass(frozen=True)
class Promise:
    """Decrease of the objective that a number of further runs is expected to bring."""

    runs: int
    next_step: float
    """Decrease that the model predicts for the step that was just made."""
    most: float
    """Decrease if every further batch brought as much."""
    noise: float
    """Twice the root mean square error of such predictions in the last rounds."""
    possible: float = math.inf
    """Decrease down to the lower limit of the objective: a risk of zero at the prior, where no
    risk is negative."""
    objective: float = math.nan
    """Objective that was measured last, from which decreases are counted."""

    @property
    def least_and_most(self) -> tuple[float, float]:
        """Return the limits of the decrease that is told."""
        most = min(self.most + self.noise, self.possible)
        return min(self.next_step, most), most

    @property
    def sentence(self) -> str:
        """Explanation for the user."""
        again = f"another {self.runs} runs"
        if math.isnan(self.noise):
            return (
                f"It is too early to say what {again} would bring: that takes "
                f"{_FEWEST + 1} rounds and a prediction of the next."
            )
        least, most = self.least_and_most
        if self.next_step > self.noise:
            range_ = f"{least:.2g} to {most:.2g}" if least < most else f"up to {most:.2g}"
            return f"Expect {again} to lower the objective by {range_}{self._from_in_words}."
        if self.most > self.noise:
            return (
                f"Expect {again} to lower the objective by at most {most:.2g}"
                f"{self._from_in_words}; predictions are off by {self.noise:.2g}."
            )
        return (
            f"{again.capitalize()} promise no gain beyond {self.noise:.1g}, the error of such "
            f"predictions; the last step promises {self._next_in_words}."
        )

    @property
    def _from_in_words(self) -> str:
        """The objective that a decrease is counted from: the one shown may be a prediction."""
        known = math.isfinite(self.objective)
        return f" from {self.objective:.3g}, the last one measured" if known else ""

    @property
    def _next_in_words(self) -> str:
        """Decrease of the next step, where it is not negligible beside the noise."""
        small = self.next_step < 0.01 * self.noise
        return "next to nothing" if small else f"{self.next_step:.1g}"


def promise(record: Record, runs: int = 20) -> Promise:
    """Predict what further runs will bring, from the last rounds; NaN while that is not known.

    Each round predicts the objective of its new posterior, and the next one measures it. The least
    is what the last step promises, the most as much for every further batch.
    """
    history = record.history
    queries, objective, predicted = (
        history[name] for name in ("queries", "objective", "predicted")
    )
    misses = objective[1:] - predicted[:-1]
    misses = misses[np.isfinite(misses)][-_MISSES:]
    unknown = Promise(runs, math.nan, math.nan, math.nan)
    if len(misses) < _FEWEST or not math.isfinite(objective[-1] - predicted[-1]):
        return unknown
    batch = float(np.mean(np.diff(queries)[-3:]))
    gain = float(objective[-1] - predicted[-1])
    noise = 2.0 * math.sqrt(float(np.mean(misses**2)))
    most = max(gain, gain * runs / max(batch, 1.0))
    negative = any(run.risk < 0.0 for run in record.light_runs)
    possible = math.inf if negative else max(float(objective[-1]) - _lowest(record.bound), 0.0)
    return Promise(runs, gain, most, noise, possible, float(objective[-1]))


def _lowest(bound: Any) -> float:
    """Return the objective of a risk of zero at the prior; 0 where that is not known."""
    value = float(bound(0.0, 0.0)) if callable(bound) else 0.0
    return value if math.isfinite(value) else 0.0
