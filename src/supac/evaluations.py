"""Every run of the simulator ever made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray, IntArray, frozen
from supac.families import Distribution


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Immutable columns, one row a run; a failed run has risk NaN.

    Row i was drawn from `proposals[iteration[i]]`.
    """

    x: FloatArray
    risk: FloatArray
    iteration: IntArray
    proposals: tuple[Distribution, ...]

    @classmethod
    def none(cls, dim: int) -> Evaluations:
        """No run yet."""
        return cls(np.empty((0, dim)), np.empty(0), np.empty(0, dtype=np.intp), ())

    def __len__(self) -> int:
        return len(self.risk)

    @property
    def failed(self) -> int:
        """Number of failed runs."""
        return int(np.isnan(self.risk).sum())

    def append(self, x: FloatArray, risk: FloatArray, proposal: Distribution) -> Evaluations:
        """One more iteration: points drawn from `proposal`, and their risks."""
        iteration = np.full(len(risk), len(self.proposals), dtype=np.intp)
        return Evaluations(
            x=frozen(np.concatenate([self.x, x])),
            risk=frozen(np.concatenate([self.risk, risk])),
            iteration=frozen(np.concatenate([self.iteration, iteration])),
            proposals=(*self.proposals, proposal),
        )

    def usable(self, failure_risk: float | None) -> Evaluations:
        """The runs to learn from: failed ones count as `failure_risk`, or are left out for None.

        Never as less than the worst run that did not fail, so that failing is never rewarded.
        """
        failed = np.isnan(self.risk)
        if failure_risk is not None:
            worst = max(failure_risk, self.risk[~failed].max(initial=-np.inf))
            risk = np.where(failed, worst, self.risk)
            return Evaluations(self.x, risk, self.iteration, self.proposals)
        kept = ~failed
        return Evaluations(self.x[kept], self.risk[kept], self.iteration[kept], self.proposals)

    def minus(self, known: FloatArray) -> Evaluations:
        """The same runs with `known` taken off their risks."""
        return Evaluations(self.x, self.risk - known, self.iteration, self.proposals)
