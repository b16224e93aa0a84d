"""Every run of the simulator ever made."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.families import Distribution


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Immutable columns, one row a run.

    Row i was drawn from `proposals[iteration[i]]`, unless it was chosen on purpose: then `drawn[i]`
    is false. A run that failed is not `ok`; its risk is NaN, or what its loss makes of a failure.
    """

    x: FloatArray
    risk: FloatArray
    iteration: IntArray
    drawn: BoolArray
    ok: BoolArray
    proposals: tuple[Distribution, ...]
    outputs: FloatArray | None = None
    """What the simulator said, (n, m), where the risk is a `Composite`; NaN where it failed."""

    @classmethod
    def none(cls, dim: int) -> Evaluations:
        """No run yet."""
        nothing = np.empty(0, dtype=bool)
        return cls(np.empty((0, dim)), np.empty(0), np.empty(0, np.intp), nothing, nothing, ())

    def __len__(self) -> int:
        return len(self.risk)

    @property
    def failed(self) -> int:
        """Number of failed runs."""
        return int((~self.ok).sum())

    def append(
        self,
        x: FloatArray,
        risk: FloatArray,
        proposal: Distribution,
        outputs: FloatArray | None = None,
        drawn: BoolArray | None = None,
    ) -> Evaluations:
        """One more iteration: points drawn from `proposal`, their risks and outputs."""
        if len(self) and (outputs is None) != (self.outputs is None):
            raise ValueError("outputs must be told of every batch or of none")
        iteration = np.full(len(risk), len(self.proposals), dtype=np.intp)
        ok = np.isfinite(risk)
        if outputs is not None:
            ok = ok & np.isfinite(outputs).all(axis=1)
            before = np.empty((0, outputs.shape[1])) if self.outputs is None else self.outputs
            outputs = frozen(np.concatenate([before, outputs]))
        drawn = np.ones(len(risk), dtype=bool) if drawn is None else drawn
        return Evaluations(
            x=frozen(np.concatenate([self.x, x])),
            risk=frozen(np.concatenate([self.risk, risk])),
            iteration=frozen(np.concatenate([self.iteration, iteration])),
            drawn=frozen(np.concatenate([self.drawn, drawn])),
            ok=frozen(np.concatenate([self.ok, ok])),
            proposals=(*self.proposals, proposal),
            outputs=outputs,
        )

    def select(self, rows: BoolArray | IntArray) -> Evaluations:
        """Some of the runs."""
        return replace(
            self,
            x=self.x[rows],
            risk=self.risk[rows],
            iteration=self.iteration[rows],
            drawn=self.drawn[rows],
            ok=self.ok[rows],
            outputs=None if self.outputs is None else self.outputs[rows],
        )

    def latest(self, n: int) -> Evaluations:
        """The last n of the runs."""
        return self if len(self) <= n else self.select(np.arange(len(self) - n, len(self)))

    def usable(self, failure_risk: float | None) -> Evaluations:
        """The runs to learn from: NaN risks count as `failure_risk`, or are left out for None.

        Never as less than the worst run that did not fail, so that failing is never rewarded.
        """
        unknown = np.isnan(self.risk)
        if not unknown.any():
            return self
        if failure_risk is None:
            return self.select(~unknown)
        worst = max(failure_risk, self.risk[~unknown].max(initial=-np.inf))
        return replace(self, risk=np.where(unknown, worst, self.risk))

    def minus(self, known: FloatArray) -> Evaluations:
        """The same runs with `known` taken off their risks, which outputs then do not explain."""
        return replace(self, risk=self.risk - known, outputs=None)
