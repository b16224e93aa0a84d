"""Batches of runs of two levels, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.problem import Batch, Evaluations


def rows_of(batch: Batch, rows: BoolArray | IntArray) -> Batch:
    """Return some runs of a batch."""
    columns = (getattr(batch, each)[rows] for each in ("role", "step", "expected", "level"))
    return Batch(batch.x[rows], batch.proposal, *columns)


def on_level(batch: Batch, level: int) -> Batch:
    """Return the same points on another level, of which nothing is expected."""
    return replace(
        batch, level=np.full(len(batch), level, dtype=np.intp), expected=np.full(len(batch), np.nan)
    )


def joined(first: Batch, second: Batch) -> Batch:
    """Return the runs of both, with the proposal of the first."""
    names = ("x", "role", "step", "expected", "level")
    x, *others = (np.concatenate([getattr(first, each), getattr(second, each)]) for each in names)
    return Batch(x, first.proposal, *others)


def missed_share(fine: FloatArray | None, coarse: FloatArray | None) -> float:
    """Compute the median over pairs of runs of |Δ(fine − coarse)|²/|Δ fine|²; infinite if unknown.

    From outputs (n, m) at the same n points, NaN where a run failed.
    """
    if fine is None or coarse is None:
        return np.inf
    ok = np.isfinite(fine).all(axis=1) & np.isfinite(coarse).all(axis=1)
    if ok.sum() < 2:
        return np.inf
    first, second = np.triu_indices(int(ok.sum()), 1)
    f, d = fine[ok], (fine - coarse)[ok]
    own = ((f[first] - f[second]) ** 2).sum(axis=1)
    missed = ((d[first] - d[second]) ** 2).sum(axis=1)
    return float(np.median(missed / np.maximum(own, 1e-300)))


@dataclass(frozen=True, eq=False)
class Told:
    """Runs of a batch, with their risks and outputs."""

    batch: Batch
    risk: FloatArray
    outputs: FloatArray | None

    @classmethod
    def of_runs(cls, runs: Evaluations) -> Told:
        """Return runs as a batch of the last of their proposals."""
        planned = (runs.role, runs.step, runs.expected, runs.level)
        return cls(Batch(runs.x, runs.proposals[-1], *planned), runs.risk, runs.outputs)

    def of(self, rows: BoolArray) -> Told:
        """Return some of the runs."""
        outputs = None if self.outputs is None else self.outputs[rows]
        return Told(rows_of(self.batch, rows), self.risk[rows], outputs)

    def joined(self, other: Told) -> Told:
        """Return these runs and others."""
        outputs = None
        if self.outputs is not None or other.outputs is not None:
            outputs = np.concatenate(_of_one_width(self, other))
        risk = np.concatenate([self.risk, other.risk])
        return Told(joined(self.batch, other.batch), risk, outputs)

    def added(self, runs: Evaluations) -> Evaluations:
        """Return runs with these as a further round."""
        if (self.outputs is None) == (runs.outputs is None):
            return runs.told(self.batch, self.risk, self.outputs)
        before, outputs = _of_one_width(runs, self)
        return replace(runs, outputs=frozen(before)).told(self.batch, self.risk, outputs)

    def at_points_of(self, other: Told) -> tuple[FloatArray | None, FloatArray | None]:
        """Return the outputs of these runs and of others, (n, m), at the points that both have."""
        places = {x.tobytes(): i for i, x in enumerate(other.batch.x)}
        both = [(i, places.get(x.tobytes())) for i, x in enumerate(self.batch.x)]
        rows = np.array([each for each in both if each[1] is not None], dtype=np.intp)
        if self.outputs is None or other.outputs is None or not len(rows):
            return None, None
        return self.outputs[rows[:, 0]], other.outputs[rows[:, 1]]

    @property
    def columns(self) -> tuple[Batch, FloatArray, FloatArray | None]:
        """Return the runs as an algorithm is told them."""
        return self.batch, self.risk, self.outputs


def _of_one_width(
    first: Evaluations | Told, second: Evaluations | Told
) -> tuple[FloatArray, FloatArray]:
    """Return the outputs of both; NaN for those of which none has succeeded yet."""
    known = second.outputs if first.outputs is None else first.outputs
    assert known is not None
    found = [
        np.full((len(each.risk), known.shape[1]), np.nan) if each.outputs is None else each.outputs
        for each in (first, second)
    ]
    return found[0], found[1]
