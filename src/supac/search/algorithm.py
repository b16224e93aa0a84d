"""The interface of search algorithms: their state and what they report.

An algorithm is three pure functions:

    state = algorithm.init(problem, seed)
    batch = algorithm.ask(problem, state)
    state, info = algorithm.tell(problem, state, batch, risk)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256

import numpy as np
import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, which must be loaded to be limited
from threadpoolctl import ThreadpoolController

from supac.arrays import FloatArray, points, vector, whole
from supac.families import Distribution
from supac.problem import Batch, Evaluations, Problem, Role
from supac.problem.evaluations import Jacobians
from supac.search.coarse_runs import CoarseRuns
from supac.search.note import Note
from supac.search.stages import Stage
from supac.search.tuning import DEFAULT, Tuning
from supac.surrogate.estimator import RiskModel
from supac.surrogate.memory import Memory


@dataclass(frozen=True, eq=False)
class LastStep:
    """Hold a step, and what the runs that test it are compared with."""

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
    objective: float = np.nan
    """Predicted bound of the new posterior."""
    number: int = 0
    """Number of rounds before the batch that tests it."""
    size: int = 0
    """Number of runs of that batch; 0 if none was planned yet."""


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
    untested: tuple[LastStep, ...] = ()
    """Earlier steps whose runs have not come back: asynchronous ones end in any order."""
    emulator: Memory | None = None
    momentum: Momentum | None = None
    abandoned: Abandoned | None = None
    tuning: Tuning = DEFAULT
    """Numbers that the search began with."""
    stage: Stage = Stage.OPENING
    """Purpose of its next batch."""
    horizon: float = 1.0
    """Share of the data, the first of each series, that steps are made on."""
    horizon_since: int = 0
    """Number of evaluations when it was chosen."""
    coarse: CoarseRuns[State] | None = None
    """Runs of a coarse model, and what is done with them; None without such a model."""

    @property
    def iteration(self) -> int:
        """Return the number of batches told."""
        return len(self.evaluations.proposals)

    def rng(self, stream: int) -> np.random.Generator:
        """Return the random numbers of this iteration; one stream for each use."""
        return np.random.default_rng([self.seed, self.iteration, stream])

    def beginning_from(self, x: FloatArray) -> State:
        """Return the state with random numbers of its own, for a search that knows runs at x.

        With the same seed, it must not repeat the draws that these runs, and the posteriors
        fitted to them, come from.
        """
        told = sha256(f"{self.seed} ".encode() + np.ascontiguousarray(x).tobytes())
        return replace(self, seed=int.from_bytes(told.digest()[:8]))

    def draw(self, n: int, stream: int = 0) -> FloatArray:
        """Draw n points of the posterior, always the same in one state."""
        return self.posterior.sample(n, self.rng(stream))

    def drawn(self, n: int, stream: int = 0) -> Batch:
        """Return n draws of the posterior as a batch."""
        return self.batch_of(self.draw(n, stream), Role.DRAW if self.iteration else Role.OPENING)

    def batch_of(
        self, x: FloatArray, role: Role = Role.DRAW, proposal: Distribution | None = None
    ) -> Batch:
        """Return points as a batch that tests the last step, by default draws of the posterior."""
        return Batch.of(x, proposal or self.posterior, role, self.iteration)

    def told(
        self,
        batch: Batch,
        risk: FloatArray,
        outputs: FloatArray | None = None,
        jacobians: Jacobians | None = None,
    ) -> Evaluations:
        """Append a batch to the evaluations; a NaN risk, or NaN outputs, is a failed run."""
        checked = points(batch.x, "x", self.posterior.dim)
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
        return self.evaluations.told(replace(batch, x=checked), risks, outputs, jacobians)


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


class Algorithm(ABC):
    """Search by three pure functions of a problem and a state."""

    @abstractmethod
    def init(self, problem: Problem, seed: int) -> State:
        """Return the state before the first batch."""

    @abstractmethod
    def ask(self, problem: Problem, state: State) -> Batch:
        """Return the runs to make next, always the same in one state."""

    @abstractmethod
    def tell(
        self,
        problem: Problem,
        state: State,
        batch: Batch,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> tuple[State, Info]:
        """Return the state that knows what these runs returned."""

    learns_from_jacobians = False
    """True if `tell` takes `jacobians=`, those of the runs."""

    def wants_jacobians(self, problem: Problem, state: State) -> bool:
        """Return True if the runs of the next batch are worth their Jacobians."""
        return False

    tolerance: float | None = None
    """KL between successive posteriors below which a search has converged; 1e-12 by default."""

    @property
    def reuses(self) -> bool:
        """Return True if earlier batches are learnt from."""
        return True

    def model(self, problem: Problem, state: State) -> RiskModel | None:
        """Fit a model of the risk to the runs of a state; None if it has none to predict with."""
        return None

    def counted(self, state: State) -> int:
        """Return the number of runs of a state, of the model that counts."""
        return len(state.evaluations)

    def spent(self, state: State) -> float:
        """Return what the runs of a state cost, in runs of the model that counts."""
        return self.counted(state)

    def price(self, state: State, batch: Batch) -> float:
        """Return what a batch costs, in runs of the model that counts."""
        return len(batch)

    def timed(self, state: State, level: Sequence[int], seconds: Sequence[float]) -> State:
        """Return the state that knows how long runs of these levels have taken."""
        return state

    def restored(self, state: State) -> State:
        """Return a state that was read from a file, whose evaluations are runs of all levels."""
        if state.coarse is not None:
            raise ValueError(
                "the search in this store has a coarse model: pass it again, as in "
                "Composite(simulate, loss, data, coarse=Coarse(…))"
            )
        return state

    def validation(self, budget: int) -> int:
        """Return the number of queries to keep for checking the last posterior."""
        return 0

    def uses_known(self, problem: Problem) -> bool:
        """Return True if runs made elsewhere can be learnt from."""
        return False

    def widened(self, workers: int, budget: int, n: int) -> Algorithm:
        """Return the algorithm with batches for many asynchronous workers, after n runs."""
        return self

    def for_workers(self, workers: int, budget: int) -> Algorithm:
        """Return the algorithm with batches that keep many workers busy, which wait for others."""
        return self

    def restart(
        self, problem: Problem, before: State, state: State, info: Info
    ) -> tuple[State, Info] | None:
        """Return a state elsewhere, and info that says so, if the search has learnt nothing."""
        return None

    def conclude(self, state: State) -> State:
        """Return the state with the posterior to return."""
        return state

    def advice(self, problem: Problem, state: State) -> tuple[str, ...]:
        """Return sentences on what would save runs."""
        return ()


def initial_state(
    problem: Problem, seed: int, *, regresses: bool = True, tuning: Tuning = DEFAULT
) -> State:
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
    none = Evaluations.none(problem.start.dim)
    return State(whole(seed, "seed", least=0), problem.start, none, tuning=tuning)


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
