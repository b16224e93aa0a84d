"""Runs as columns: where each was made and why, and what it returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Self

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.families import Distribution
from supac.families.family import ParametricFamily


class Role(IntEnum):
    """Reason why a run is made. The numbers are in memory alone: files have the names."""

    OPENING = 0
    """Draw of the start, of the first batch of a beginning."""
    NARROW = 1
    """Point near the centre of the start, of a first batch along orthogonal directions."""
    DRAW = 2
    """Draw of the posterior, or of one somewhat wider."""
    DIRECTION = 3
    """Draw of many parameters, turned to a direction that no run has taken yet."""
    MEAN = 4
    """Mean of a posterior that still moves."""
    BESIDE = 5
    """Point about as far from that mean as it has moved."""
    AHEAD = 6
    """Minimum that the model sees beyond the trust region."""
    TELLS = 7
    """Point that tells most about the risk of the posterior."""
    PROBE = 8
    """Point in the tails of the posterior where a run may fail."""
    LOOK = 9
    """Draw of the widened start, of a search of an earlier version that had begun narrowly."""
    KNOWN = 10
    """Run that was made elsewhere."""

    @property
    def drawn(self) -> bool:
        """Return True if such runs are random draws of the proposal of their step."""
        return self in _DRAWN


_DRAWN = {Role.OPENING, Role.DRAW, Role.DIRECTION, Role.MEAN, Role.BESIDE, Role.LOOK}
_IS_DRAWN = np.array([each in _DRAWN for each in Role])


@dataclass(frozen=True, eq=False)
class Planned:
    """Hold a point to run, and why; the run that answers carries the same."""

    x: FloatArray
    """(dim,)."""
    role: Role = Role.DRAW
    step: int = 0
    """Number of the step that the run tests: of the rounds before it was planned."""
    expected: float = np.nan
    """Risk that the model predicts; NaN without one."""
    level: int = 0
    """0 for the model that counts, 1 and more for coarser ones."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Hold planned runs as columns, and the distribution that those of this step come from."""

    x: FloatArray
    """(n, dim)."""
    proposal: Distribution
    role: IntArray
    """Values of `Role`, (n,)."""
    step: IntArray
    expected: FloatArray
    level: IntArray

    @classmethod
    def of(
        cls,
        x: FloatArray,
        proposal: Distribution,
        role: Role | Sequence[Role] | IntArray,
        step: int,
        expected: FloatArray | None = None,
    ) -> Self:
        """Make a batch of one step, on the level that counts; one role stands for all."""
        n = len(x)
        return cls(
            x,
            proposal,
            np.broadcast_to(np.asarray(role, dtype=np.intp), n),
            np.full(n, step, dtype=np.intp),
            np.full(n, np.nan) if expected is None else expected,
            np.zeros(n, dtype=np.intp),
        )

    @classmethod
    def gathered(cls, planned: Sequence[Planned], proposal: Distribution, dim: int) -> Self:
        """Make a batch of planned runs in `dim` dimensions, also of different steps."""
        return cls(
            np.array([each.x for each in planned]).reshape(len(planned), dim),
            proposal,
            np.array([each.role for each in planned], dtype=np.intp),
            np.array([each.step for each in planned], dtype=np.intp),
            np.array([each.expected for each in planned], dtype=np.float64),
            np.array([each.level for each in planned], dtype=np.intp),
        )

    def __len__(self) -> int:
        return len(self.x)

    @property
    def drawn(self) -> BoolArray:
        """Return True for random draws: (n,)."""
        return _IS_DRAWN[self.role]

    @property
    def planned(self) -> list[Planned]:
        """Return the runs one by one."""
        columns = zip(self.x, self.role, self.step, self.expected, self.level, strict=True)
        return [Planned(x, Role(r), int(s), float(e), int(lv)) for x, r, s, e, lv in columns]


Jacobians = tuple[FloatArray | None, ...]
"""Of some runs: (k, dim) each, None for a run that has none."""

_PLANNED = ("x", "role", "step", "expected", "level")
_COLUMNS = (*_PLANNED, "risk", "iteration", "ok")


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Immutable columns, one row per run.

    Row i was drawn from `proposals[step[i]]` if `drawn[i]`, else chosen. It was told in round
    `iteration[i]`, which is that of its step unless runs end in another order. A failed run is not
    `ok`; its risk is NaN, or the value that the loss gives to a failure.
    """

    x: FloatArray
    risk: FloatArray
    iteration: IntArray
    role: IntArray
    """Values of `Role`."""
    step: IntArray
    expected: FloatArray
    """Risk that was predicted when the run was planned; NaN if none was."""
    level: IntArray
    ok: BoolArray
    proposals: tuple[Distribution, ...]
    """Of each round's batch."""
    outputs: FloatArray | None = None
    """Arguments of the loss of a `Composite`, (n, k): residuals, or the simulator's outputs if
    there are no data; NaN for failed runs."""
    jacobians: Jacobians | None = None
    """Derivatives of these outputs in x, (k, p) each, of the p parameters that are simulated."""

    @classmethod
    def none(cls, dim: int) -> Evaluations:
        """Return empty columns."""
        rows, number = np.empty(0), np.empty(0, np.intp)
        nothing = np.empty(0, dtype=bool)
        return cls(np.empty((0, dim)), rows, number, number, number, rows, number, nothing, ())

    def __len__(self) -> int:
        return len(self.risk)

    @property
    def drawn(self) -> BoolArray:
        """Return True for random draws from the proposals of their steps: (n,)."""
        return _IS_DRAWN[self.role]

    def told_last(self, *roles: Role) -> bool:
        """Return True if the last round had runs of these roles."""
        return bool(np.isin(self.role[self.iteration == len(self.proposals) - 1], roles).any())

    @cached_property
    def families(self) -> tuple[ParametricFamily, ...]:
        """Return the families of the proposals, as different objects: mostly one."""
        return tuple({id(each.family): each.family for each in self.proposals}.values())

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
        role: Role | Sequence[Role] | IntArray = Role.DRAW,
    ) -> Evaluations:
        """Return the columns with one more round, of runs that were planned for it."""
        return self.told(Batch.of(x, proposal, role, len(self.proposals)), risk, outputs)

    def told(
        self,
        batch: Batch,
        risk: FloatArray,
        outputs: FloatArray | None = None,
        jacobians: Jacobians | None = None,
    ) -> Evaluations:
        """Return the columns with one more round: planned runs, their risks and outputs."""
        if len(self) and (outputs is None) != (self.outputs is None):
            raise ValueError("give outputs for every batch or for none")
        new = Evaluations.of_rounds([batch], risk, outputs)
        new = replace(new, iteration=new.iteration + len(self.proposals))
        shared = _COLUMNS if self.outputs is None or outputs is None else (*_COLUMNS, "outputs")
        columns: dict[str, Any] = {
            name: _joined(getattr(self, name), getattr(new, name)) for name in shared
        }
        columns["jacobians"] = _all_jacobians(self, len(risk), jacobians)
        return replace(new, **columns, proposals=(*self.proposals, batch.proposal))

    @classmethod
    def of_rounds(
        cls,
        batches: Sequence[Batch],
        risk: FloatArray,
        outputs: FloatArray | None = None,
        jacobians: Jacobians | None = None,
    ) -> Evaluations:
        """Make columns of several rounds at once."""
        ok = np.isfinite(risk)
        if outputs is not None:
            ok = ok & np.isfinite(outputs).all(axis=1)
            outputs = frozen(outputs)
        rounds = np.arange(len(batches), dtype=np.intp)
        columns: dict[str, Any] = {
            name: frozen(np.concatenate([getattr(each, name) for each in batches]))
            for name in _PLANNED
        }
        return cls(
            **columns,
            risk=frozen(risk),
            iteration=frozen(np.repeat(rounds, [len(each) for each in batches])),
            ok=frozen(ok),
            proposals=tuple(each.proposal for each in batches),
            outputs=outputs,
            jacobians=jacobians,
        )

    def select(self, rows: BoolArray | IntArray | slice) -> Evaluations:
        """Return some of the runs."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        outputs = None if self.outputs is None else self.outputs[rows]
        jacobians = self.jacobians
        if jacobians is not None:
            jacobians = tuple(jacobians[i] for i in np.arange(len(self))[rows])
        return replace(self, **columns, outputs=outputs, jacobians=jacobians)

    def latest(self, n: int) -> Evaluations:
        """Return the last n runs."""
        return self if len(self) <= n else self.select(slice(len(self) - n, None))

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
        return replace(self, risk=self.risk - known, outputs=None, jacobians=None)


def _all_jacobians(runs: Evaluations, new: int, jacobians: Jacobians | None) -> Jacobians | None:
    """Return the Jacobians of runs and of so many new ones; None if none of them has any."""
    if runs.jacobians is None and jacobians is None:
        return None
    before = (None,) * len(runs) if runs.jacobians is None else runs.jacobians
    return (*before, *((None,) * new if jacobians is None else jacobians))


def _joined(first: Any, second: Any) -> Any:
    """Return both arrays as one, read-only."""
    both = np.concatenate([first, second])
    both.flags.writeable = False
    return both
