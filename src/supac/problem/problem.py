"""The problem to solve, and the runs that answer it, as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.families import Density, Distribution
from supac.problem.bounds import Bound
from supac.problem.parameters import Parameters

_COLUMNS = ("x", "risk", "iteration", "drawn", "ok")

Function = Callable[[FloatArray], FloatArray]
"""(n, dim) → (n,)."""
Loss = Callable[[FloatArray], FloatArray]
"""Outputs (n, m) → risks (n,)."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise bound(π[R], KL(π, prior)) over the family of `start`."""

    prior: Density
    bound: Bound
    start: Distribution
    proxy: Function | None = None
    """A cheap approximation of the risk, (n, dim) → (n,)."""
    failure_risk: float | None = None
    """What a failed run counts as; None leaves it out."""
    loss: Loss | None = None
    """From the simulator's outputs to risks, where `tell` is told the outputs."""
    scale: Distribution | None = None
    """The scales on which parameters vary, where they are not the prior's: that may change."""

    @classmethod
    def within(
        cls,
        prior: Distribution | Parameters,
        bound: Bound,
        *,
        loss: Loss | None = None,
        failure_risk: float | None = None,
    ) -> Problem:
        """The usual case: the posterior is sought in the prior's family, from the prior on.

        The points of `Parameters` are latent: `parameters.from_latent(x)` has the user's units.
        """
        latent = prior.prior if isinstance(prior, Parameters) else prior
        return cls(latent, bound, latent, failure_risk=failure_risk, loss=loss)


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Immutable columns, one row per run.

    Row i was drawn from `proposals[iteration[i]]` if `drawn[i]`, else chosen deterministically. A
    failed run is not `ok`; its risk is NaN, or the value that the loss gives to a failure.
    """

    x: FloatArray
    risk: FloatArray
    iteration: IntArray
    drawn: BoolArray
    ok: BoolArray
    proposals: tuple[Distribution, ...]
    outputs: FloatArray | None = None
    """What the loss of a `Composite` takes, (n, k): residuals, or the simulator's outputs if there
    are no data; NaN for failed runs."""

    @classmethod
    def none(cls, dim: int) -> Evaluations:
        """Return empty columns."""
        nothing = np.empty(0, dtype=bool)
        return cls(np.empty((0, dim)), np.empty(0), np.empty(0, np.intp), nothing, nothing, ())

    def __len__(self) -> int:
        return len(self.risk)

    @property
    def failed(self) -> int:
        """Return the number of failed runs."""
        return int((~self.ok).sum())

    def append(
        self,
        x: FloatArray,
        risk: FloatArray,
        proposal: Distribution,
        outputs: FloatArray | None = None,
        drawn: BoolArray | None = None,
    ) -> Evaluations:
        """Return the columns with one more iteration: points from `proposal`, risks and outputs."""
        if len(self) and (outputs is None) != (self.outputs is None):
            raise ValueError("give outputs for every batch or for none")
        new = Evaluations.of_batches(x, risk, [(len(risk), proposal, drawn)], outputs)
        new = replace(new, iteration=new.iteration + len(self.proposals))
        shared = _COLUMNS if self.outputs is None or outputs is None else (*_COLUMNS, "outputs")
        columns: dict[str, Any] = {
            name: frozen(np.concatenate([getattr(self, name), getattr(new, name)]))
            for name in shared
        }
        return replace(new, **columns, proposals=(*self.proposals, proposal))

    @classmethod
    def of_batches(
        cls,
        x: FloatArray,
        risk: FloatArray,
        batches: Sequence[tuple[int, Distribution, BoolArray | None]],
        outputs: FloatArray | None = None,
    ) -> Evaluations:
        """Make columns of several iterations at once: (size, proposal, drawn) each.

        `drawn` None means all.
        """
        sizes = [size for size, _, _ in batches]
        ok = np.isfinite(risk)
        if outputs is not None:
            ok = ok & np.isfinite(outputs).all(axis=1)
            outputs = frozen(outputs)
        drawn = [np.ones(n, dtype=bool) if given is None else given for n, _, given in batches]
        iteration = np.repeat(np.arange(len(batches), dtype=np.intp), sizes)
        return cls(
            frozen(x),
            frozen(risk),
            frozen(iteration),
            frozen(np.concatenate(drawn)),
            frozen(ok),
            tuple(proposal for _, proposal, _ in batches),
            outputs,
        )

    def select(self, rows: BoolArray | IntArray) -> Evaluations:
        """Return some of the runs."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        outputs = None if self.outputs is None else self.outputs[rows]
        return replace(self, **columns, outputs=outputs)

    def latest(self, n: int) -> Evaluations:
        """Return the last n runs."""
        return self if len(self) <= n else self.select(np.arange(len(self) - n, len(self)))

    def usable(self, failure_risk: float | None) -> Evaluations:
        """Return the runs to learn from: NaN risks become `failure_risk`, or are left out for None.

        At least the largest risk of a successful run, so that failing is never better.
        """
        unknown = np.isnan(self.risk)
        if not unknown.any():
            return self
        if failure_risk is None:
            return self.select(~unknown)
        worst = max(failure_risk, self.risk[~unknown].max(initial=-np.inf))
        return replace(self, risk=np.where(unknown, worst, self.risk))

    def minus(self, known: FloatArray) -> Evaluations:
        """Subtract `known` from the risks; drop the outputs, which explain the full risks."""
        return replace(self, risk=self.risk - known, outputs=None)
