"""What every algorithm shares: the problem it solves, its state, and what it reports.

An algorithm is three pure functions:

    state = algorithm.init(problem, seed)
    x = algorithm.ask(problem, state)
    state, info = algorithm.tell(problem, state, x, risk)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from supac.arrays import BoolArray, FloatArray, points, vector, whole
from supac.families import Distribution
from supac.problem import Evaluations, Problem


@dataclass(frozen=True, eq=False)
class Batch:
    """Points to evaluate, and where they come from."""

    x: FloatArray
    proposal: Distribution
    drawn: BoolArray
    """Which of them were drawn from the proposal; the others were chosen on purpose."""
    expected: FloatArray | None = None
    """The risks that a model predicts, where there is one."""

    @classmethod
    def plain(cls, x: FloatArray, proposal: Distribution) -> Batch:
        """All drawn."""
        return cls(x, proposal, np.ones(len(x), dtype=bool))

    def reordered(self, x: FloatArray) -> Batch | None:
        """The same batch with its points in the order of x; None if x holds other points."""
        if x.shape != self.x.shape:
            return None
        mine, yours = np.lexsort(self.x.T), np.lexsort(x.T)
        if not np.array_equal(self.x[mine], x[yours]):
            return None
        rows = np.empty(len(x), dtype=np.intp)
        rows[yours] = mine
        expected = None if self.expected is None else self.expected[rows]
        return Batch(x, self.proposal, self.drawn[rows], expected)


@dataclass(frozen=True, eq=False)
class State:
    """Where an algorithm stands: all that the next `ask` and `tell` depend on."""

    seed: int
    posterior: Distribution
    evaluations: Evaluations
    batch: Batch | None = None
    """What the algorithm asks for next, where that was planned with the last step."""
    memory: Mapping[str, FloatArray] = field(default_factory=dict)
    """Named arrays that an algorithm carries from one iteration to the next."""

    @property
    def iteration(self) -> int:
        """How many batches have been told."""
        return len(self.evaluations.proposals)

    def rng(self, stream: int) -> np.random.Generator:
        """The random numbers of this iteration; one stream for each use."""
        return np.random.default_rng([self.seed, self.iteration, stream])

    def draw(self, n: int, stream: int = 0) -> FloatArray:
        """n draws of the posterior, the same whenever they are asked for."""
        return self.posterior.sample(n, self.rng(stream))

    def planned(self, x: FloatArray) -> Batch:
        """Where x comes from: the batch that was planned, or else draws of the posterior."""
        planned = None if self.batch is None else self.batch.reordered(x)
        return planned or Batch.plain(x, self.posterior)

    def told(
        self, x: FloatArray, risk: FloatArray, outputs: FloatArray | None = None
    ) -> Evaluations:
        """All evaluations with one batch more; a NaN risk, or NaN outputs, is a failed run."""
        checked = points(x, "x", self.posterior.dim)
        risks = np.asarray(risk, dtype=np.float64)
        if risks.shape != (len(checked),):
            raise ValueError(
                f"risk must hold one number a point, shape ({len(checked)},), not {risks.shape}"
            )
        vector(risks[~np.isnan(risks)], "risk")
        if outputs is not None and (np.ndim(outputs) != 2 or len(outputs) != len(checked)):
            raise ValueError(
                f"outputs must hold one row a point, ({len(checked)}, m), not {np.shape(outputs)}"
            )
        batch = self.planned(checked)
        return self.evaluations.append(checked, risks, batch.proposal, outputs, batch.drawn)


DRAW, PROJECT, FIT, VALIDATE, PRIOR = 0, 1, 2, 3, 4
"""Streams of random numbers."""


@dataclass(frozen=True)
class Info:
    """What one iteration saw and did. The risk is that of the posterior that drew its batch."""

    mean_risk: float
    kl: float
    objective: float
    """bound(mean_risk, kl)."""
    alpha: float = np.nan
    """The share of the way to the surrogate's minimiser that was gone."""
    step_kl: float = np.nan
    """KL(new posterior, old posterior); NaN where no step was made."""
    predicted: float = np.nan
    """What the surrogate expects the new posterior's objective to be."""
    r_squared: float = np.nan
    effective_size: float = np.nan
    """How many independent draws of the posterior all runs so far are worth."""
    k_hat: float = np.nan
    """Pareto shape of their weights: below 0.7 they cover the posterior."""
    loo_error: float = np.nan
    """Root mean square error of predicting a run from the others."""
    radius: float = np.nan
    """How far, in KL, the step was allowed to go."""
    shortfall: float = np.nan
    """By how much the batch's mean risk exceeded what the last step predicted."""
    ratio: float = np.nan
    """Realised over predicted decrease of the last step."""
    wrong: float = np.nan
    """How many runs failed or lie outside what the others explain."""
    failure_chance: float = np.nan
    """The share of the new posterior's runs that are expected to go wrong."""
    notes: tuple[str, ...] = ()
    """Sentences on anything out of the ordinary."""


NO_STEP = "no step within the trust region promised a gain: the posterior stayed where it was"
"""A note that means convergence where steps had become small, and trouble elsewhere."""


class Algorithm(Protocol):
    """Three pure functions of a problem and a state."""

    def init(self, problem: Problem, seed: int) -> State:
        """The state before the first batch."""

    def ask(self, problem: Problem, state: State) -> FloatArray:
        """The points to evaluate next: (n, dim)."""

    def tell(
        self,
        problem: Problem,
        state: State,
        x: FloatArray,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> tuple[State, Info]:
        """The state after their risks are known, and their outputs where there are any."""


def initial_state(problem: Problem, seed: int) -> State:
    """Nothing evaluated, the posterior at its start."""
    return State(whole(seed, "seed", least=0), problem.start, Evaluations.none(problem.start.dim))
