"""The interface of search algorithms: their state and what they report.

An algorithm is three pure functions:

    state = algorithm.init(problem, seed)
    x = algorithm.ask(problem, state)
    state, info = algorithm.tell(problem, state, x, risk)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np
import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, which must be loaded to be limited
from threadpoolctl import ThreadpoolController

from supac.arrays import BoolArray, FloatArray, points, vector, whole
from supac.families import Distribution
from supac.problem import Evaluations, Problem
from supac.search.note import Note
from supac.surrogate.estimator import EmulatorState


@dataclass(frozen=True, eq=False)
class Batch:
    """Hold points to evaluate, and the distribution that they come from."""

    x: FloatArray
    proposal: Distribution
    drawn: BoolArray
    """True for points drawn from the proposal; the others were chosen."""
    expected: FloatArray | None = None
    """Risks that a model predicts."""

    @classmethod
    def plain(cls, x: FloatArray, proposal: Distribution) -> Batch:
        """Return a batch of which all points were drawn."""
        return cls(x, proposal, np.ones(len(x), dtype=bool))

    def reordered(self, x: FloatArray) -> Batch | None:
        """Return the batch with its points in the order of x; None if x holds other points."""
        if x.shape != self.x.shape:
            return None
        if np.array_equal(self.x, x):
            return replace(self, x=x)
        mine, yours = np.lexsort(self.x.T), np.lexsort(x.T)
        if not np.array_equal(self.x[mine], x[yours]):
            return None
        rows = np.empty(len(x), dtype=np.intp)
        rows[yours] = mine
        expected = None if self.expected is None else self.expected[rows]
        return Batch(x, self.proposal, self.drawn[rows], expected)


MOVING, MOVING_AGAIN = 3.0, 12.0
"""Nats that a step gains while the posterior moves; more are needed once it has settled."""


@dataclass(frozen=True, eq=False)
class LastStep:
    """Hold what the next batch is compared with."""

    radius: float
    """Radius of the trust region, in KL."""
    previous: FloatArray
    """θ before the step."""
    gain: float
    """Predicted decrease of the bound."""
    nats: float = 0.0
    """Predicted decrease in nats."""
    shift: float = 0.0
    """Distance that the mean moved, in standard deviations of the new posterior."""
    settled: bool = False
    """A step before, or this one, gained little."""
    objective: float = np.nan
    """Predicted bound of the new posterior."""

    @property
    def moving(self) -> bool:
        """Return True if steps gain so much that the next batch will soon be out of place."""
        return self.gains_more_than(MOVING)

    def gains_more_than(self, nats: float) -> bool:
        """Return True if the step gains as much, or more once the posterior has settled."""
        return self.nats > (MOVING_AGAIN if self.settled else nats)


@dataclass(frozen=True, eq=False)
class Abandoned:
    """Hold posteriors that were hardly better than the start, and so were left."""

    thetas: FloatArray
    """(k, size)."""
    objectives: FloatArray
    """(k,)."""
    runs: int = 0
    """Number of evaluations when the last one was left."""


@dataclass(frozen=True, eq=False)
class Momentum:
    """Hold a point in the family's chart and its velocity."""

    coordinates: FloatArray
    velocity: FloatArray


@dataclass(frozen=True, eq=False)
class State:
    """Hold all that the next `ask` and `tell` of an algorithm depend on."""

    seed: int
    posterior: Distribution
    evaluations: Evaluations
    batch: Batch | None = None
    """The next batch, if it was planned with the last step."""
    last_step: LastStep | None = None
    emulator: EmulatorState | None = None
    momentum: Momentum | None = None
    abandoned: Abandoned | None = None

    @property
    def iteration(self) -> int:
        """Return the number of batches told."""
        return len(self.evaluations.proposals)

    def rng(self, stream: int) -> np.random.Generator:
        """Return the random numbers of this iteration; one stream for each use."""
        return np.random.default_rng([self.seed, self.iteration, stream])

    def draw(self, n: int, stream: int = 0) -> FloatArray:
        """Draw n points of the posterior, always the same in one state."""
        return self.posterior.sample(n, self.rng(stream))

    def planned(self, x: FloatArray) -> Batch:
        """Return the planned batch if x holds its points, else x as draws of the posterior."""
        planned = None if self.batch is None else self.batch.reordered(x)
        return planned or Batch.plain(x, self.posterior)

    def told(
        self, x: FloatArray, risk: FloatArray, outputs: FloatArray | None = None
    ) -> Evaluations:
        """Append a batch to the evaluations; a NaN risk, or NaN outputs, is a failed run."""
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
    """Report one iteration. The risk is that of the posterior that drew its batch."""

    mean_risk: float = np.nan
    kl: float = np.nan
    objective: float = np.nan
    """bound(mean_risk, kl)."""
    alpha: float = np.nan
    """Share of the way to the surrogate's minimiser of the last update."""
    step_kl: float = np.nan
    """KL(new posterior, old posterior); NaN if no step was made."""
    predicted: float = np.nan
    """Objective of the new posterior that the surrogate predicts."""
    r_squared: float = np.nan
    effective_size: float = np.nan
    """Number of independent draws of the posterior that all runs so far are worth."""
    k_hat: float = np.nan
    """Pareto shape of their weights: below 0.7 they cover the posterior."""
    loo_error: float = np.nan
    """Root mean square error of predicting a run from the others."""
    radius: float = np.nan
    """Largest KL that the step was allowed."""
    shortfall: float = np.nan
    """Excess of the batch's mean risk over the prediction of the last step."""
    ratio: float = np.nan
    """Realised over predicted decrease of the last step."""
    wrong: float = np.nan
    """Number of runs that failed or are outliers."""
    failure_chance: float = np.nan
    """Expected share of the new posterior's runs that fail or are outliers."""
    noise: float = np.nan
    """Standard deviation of the simulator's noise in those of its outputs."""
    notes: tuple[str, ...] = ()
    """Sentences on anything out of the ordinary."""


MOST_STATISTICS = 5_000
"""Size of the largest family whose every statistic has a coefficient in a regression.

The cost of a round grows with the cube of it: 100 s and 1.2 GiB for the full covariance of 98
parameters (4,949 statistics) on one core.
"""
MOST_PARAMETERS = 1_000
"""Largest number of parameters of a Gaussian whose risk is emulated: the cost of a round grows with
the cube of it, whatever the number of statistics."""


class TooManyStatisticsError(ValueError):
    """The family of the posterior has more statistics than can be solved for."""


NO_STEP = Note(
    "no step", "no step within the trust region promised a gain: the posterior stayed where it was"
)
"""A note that means convergence where steps had become small, and trouble elsewhere."""


class Algorithm(Protocol):
    """Search by three pure functions of a problem and a state.

    Optional methods: `validation(budget)` returns the queries to keep for checking the last
    posterior, by default none; `uses_known(problem)` says if runs made elsewhere can be learnt
    from, by default not; `widened(workers, budget, n)` returns an algorithm with batches large
    enough for many asynchronous workers, after n runs; `restart(problem, before, state, info)`
    returns a state elsewhere, and info that says so, if a search has learnt nothing, by default
    None; `conclude(state)` returns the state with the posterior to return, by default the last
    one; `advice(problem, state)` returns sentences on what would save runs, by default none.
    """

    def init(self, problem: Problem, seed: int) -> State:
        """Return the state before the first batch."""

    def ask(self, problem: Problem, state: State) -> FloatArray:
        """Return the points to evaluate next: (n, dim)."""

    def tell(
        self,
        problem: Problem,
        state: State,
        x: FloatArray,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> tuple[State, Info]:
        """Return the state that knows their risks, and outputs if there are any."""


def widened(algorithm: Algorithm, workers: int, budget: int, n: int) -> Algorithm:
    """Return the algorithm after n runs for asynchronous workers, widened if it knows how."""
    own = getattr(algorithm, "widened", None)
    return algorithm if own is None else own(workers, budget, n)


def initial_state(problem: Problem, seed: int, *, regresses: bool = True) -> State:
    """Return the state without evaluations, with the posterior at its start.

    `regresses` is True if every round solves for a coefficient of each statistic.
    """
    family = problem.start.family
    if regresses and family.size > MOST_STATISTICS:
        raise TooManyStatisticsError(
            f"{family} has {family.size:,} statistics, and every round solves for a coefficient of "
            f"each: at most {MOST_STATISTICS:,} can be searched. The default algorithm needs none, "
            "with a prior of the same Gaussian family as start and without a proxy; or let fewer "
            "parameters correlate: blocks= of gaussian and Parameters names the groups that do, "
            "blocks=[] none"
        )
    if not regresses and family.dim > MOST_PARAMETERS:
        raise TooManyStatisticsError(
            f"{family} has {family.dim:,} parameters, and at most {MOST_PARAMETERS:,} can be "
            "searched: leave out parameters that the data do not determine, or describe a field by "
            "fewer numbers, such as its values on a coarser grid"
        )
    return State(whole(seed, "seed", least=0), problem.start, Evaluations.none(problem.start.dim))


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_is_one: ContextVar[bool] = ContextVar("_is_one", default=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread within.

    The matrices here are small: threads cost more than they bring, by a factor of a hundred where
    they compete with a simulator for the cores. And the bits of a result then do not depend on the
    number of cores.
    """
    if _is_one.get():
        yield
        return
    before = _is_one.set(True)
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _is_one.reset(before)
