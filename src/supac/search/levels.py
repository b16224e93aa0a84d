"""A search with a coarse model: first on that alone, then on fine runs with coarse ones beside.

Points of the first batch are run on both levels. If the coarse model follows the differences
between fine runs, it is searched by itself until that search settles; then fine runs begin at the
posterior so found, and an emulator of both levels (`emulator/levels.py`) takes over. If not, the
first batch is completed with fine runs, and the search is the same as without a coarse model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.emulator.levels import TwoLevelEmulator
from supac.emulator.outputs import OutputEmulator
from supac.families import Distribution
from supac.problem import Batch, Evaluations, Problem, Role
from supac.problem.coarse import COARSE, FINE
from supac.search.algorithm import DRAW, Algorithm, Info, State
from supac.search.coarse_runs import (
    CoarseRuns,
    CoarseStage,
    Together,
    made_here,
    of_level,
    without_round,
)
from supac.search.level_batches import Told, joined, missed_share, on_level, rows_of
from supac.search.note import Note, is_among
from supac.search.supac import SuPAC
from supac.search.tuning import CoarseTuning
from supac.surrogate.estimator import RiskModel
from supac.surrogate.memory import Memory

ON_COARSE = Note("coarse", "the coarse model was searched: no fine run was made")
USELESS = Note(
    "useless coarse model",
    "the coarse model does not follow the fine one over the prior, or costs too much: the search "
    "goes on without it",
)
KNOWN_ON_COARSE = Note(
    "known coarse runs", "runs of the coarse model that were made elsewhere are known: no step"
)
WITHOUT_MODEL = ON_COARSE, USELESS, KNOWN_ON_COARSE
"""Notes of rounds without a model of the fine risk."""
_LEAST_COST = 1e-4
_FEWEST = 3  # good runs that an emulator needs


def is_on_coarse(info: Info) -> bool:
    """Return True for a round of the search of the coarse model alone."""
    return any(is_among(note, (ON_COARSE,)) for note in info.notes)


@dataclass(frozen=True)
class CoarseFirst(Algorithm):
    """Search a problem that has a coarse model, by the rules of a search without one."""

    inner: SuPAC
    cost: float | None = None
    since: int | None = None
    """Rounds that were told before the coarse model changed; None if it has not."""

    @property
    def tolerance(self) -> float | None:  # type: ignore[override]
        """Return that of the search without a coarse model."""
        return self.inner.tolerance

    @property
    def reuses(self) -> bool:
        """Return True: earlier batches are learnt from."""
        return True

    def validation(self, budget: int) -> int:
        """Return the number of fine runs to keep for checking the last posterior."""
        return self.inner.validation(budget)

    def advice(self, problem: Problem, state: State) -> tuple[str, ...]:
        """Return sentences on what would save runs."""
        told = self.inner.advice(problem, state)
        if state.coarse is None or state.coarse.useful:
            return told
        missed = state.coarse.differs
        dim = problem.start.dim
        if _is_dear(state.tuning.coarse, dim, state.coarse.cost):
            worth = _least_search(state.tuning.coarse, dim, state.coarse.cost)
            why = f"a search of it costs {worth:.2g} fine runs, and {dim} parameters save fewer"
            what = "leave out coarse=, or use a cheaper one"
        elif np.isfinite(missed):
            why = f"it misses {100.0 * missed:.0f} % of the squared differences between fine runs"
            what = "leave out coarse=, or use a finer one"
        else:
            why = "fewer than two points succeeded on both levels"
            what = "mend what `result.record.coarse_use.failure` says, or leave out coarse="
        made = len(state.coarse.runs)
        return (*told, f"the coarse model was left after {made} runs, since {why}: {what}")

    def conclude(self, state: State) -> State:
        """Return the state at the end: further runs, those of the validation, are fine ones."""
        own = _of(state)
        if own.stage is CoarseStage.REST:
            assert own.search is not None
            ended = replace(own, stage=CoarseStage.ENDED, search=None)
            first = Told.of_runs(own.search.evaluations)
            state = replace(state, evaluations=first.added(state.evaluations), coarse=ended)
        elif own.stage is not CoarseStage.ENDED:
            beside = replace(own, stage=CoarseStage.BESIDE, together=None)
            state = replace(state, coarse=beside)
        batch = state.batch
        if batch is not None and (batch.level != FINE).any():
            state = replace(state, batch=None)
        return self.inner.conclude(state)

    def uses_known(self, problem: Problem) -> bool:
        """Return True if runs made elsewhere can be learnt from."""
        return self.inner.uses_known(problem)

    def init(self, problem: Problem, seed: int) -> State:
        """Return the state before the first batch."""
        begun = self.inner.init(problem, seed)
        cost = np.nan if self.cost is None else float(self.cost)
        runs = Evaluations.none(problem.start.dim)
        own = CoarseRuns(CoarseStage.PAIRS, runs, cost, search=begun)
        if _is_dear(begun.tuning.coarse, problem.start.dim, cost):
            own = replace(own, stage=CoarseStage.ENDED, useful=False, search=None)
        return replace(begun, coarse=own)

    def model(self, problem: Problem, state: State) -> RiskModel | None:
        """Fit the model of the risk to all runs of a state; None if there are too few."""
        return self._rule(state).model(problem, state)

    # What is asked

    def ask(self, problem: Problem, state: State) -> Batch:
        """Return the runs to make next, of either level or both."""
        coarse = _of(state)
        if coarse.stage is CoarseStage.SEARCH:
            assert coarse.search is not None
            return on_level(self.inner.ask(problem, coarse.search), COARSE)
        batch = self._rule(state).ask(problem, state)
        if coarse.stage is CoarseStage.PAIRS:
            some = rows_of(batch, np.arange(_pairs(batch, state.tuning.coarse)))
            return joined(some, on_level(some, COARSE))
        if coarse.stage is CoarseStage.BESIDE:
            return joined(batch, on_level(batch, COARSE))
        return batch

    def price(self, state: State, batch: Batch) -> float:
        """Return what a batch costs, in fine runs."""
        coarse = int((batch.level == COARSE).sum())
        return len(batch) - coarse + _cost(_of(state), coarse)

    def counted(self, state: State) -> int:
        """Return the number of fine runs that were told."""
        coarse = _of(state)
        waiting = coarse.search if coarse.stage is CoarseStage.REST else None
        return len(state.evaluations) + (0 if waiting is None else len(waiting.evaluations))

    def spent(self, state: State) -> float:
        """Return what the runs of a state cost, in fine runs."""
        coarse = _of(state)
        return self.counted(state) + _cost(coarse, int(made_here(coarse.runs).sum()))

    def timed(self, state: State, level: Sequence[int], seconds: Sequence[float]) -> State:
        """Return the state with the measured cost of a coarse run, if it was not given.

        Rounded to one digit: the result then hardly depends on how long runs took.
        """
        coarse = _of(state)
        if not np.isnan(coarse.cost):
            return state
        times, levels = np.asarray(seconds), np.asarray(level)
        fine, other = (times[levels == each] for each in (FINE, COARSE))
        if not len(fine) or not len(other):
            return state
        ratio = float(np.median(other)) / max(float(np.median(fine)), 1e-12)
        cost = float(f"{np.clip(ratio, _LEAST_COST, 1.0):.0e}")
        return replace(state, coarse=replace(coarse, cost=cost))

    # What is told

    def tell(
        self,
        problem: Problem,
        state: State,
        batch: Batch,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> tuple[State, Info]:
        """Learn from runs of either level or both."""
        coarse, fine = _of(state), batch.level == FINE
        told = Told(batch, np.asarray(risk, dtype=np.float64), outputs)
        runs = told.of(~fine).added(coarse.runs)
        state = replace(state, coarse=replace(coarse, runs=runs))
        mine = told.of(fine)
        if len(batch) and (batch.role == Role.KNOWN).all():
            return self._tell_known(problem, state, mine, told.of(~fine))
        if coarse.stage is CoarseStage.PAIRS:
            return self._tell_pairs(problem, state, mine, told.of(~fine))
        if coarse.stage is CoarseStage.REST:
            return self._tell_rest(problem, state, mine)
        if coarse.stage is CoarseStage.SEARCH:
            return self._tell_search(problem, state, told)
        return self._tell_fine(problem, state, mine)

    def _tell_fine(self, problem: Problem, state: State, mine: Told) -> tuple[State, Info]:
        """Learn from fine runs, and from the coarse ones that were just told."""
        coarse = _of(state)
        if coarse.stage is CoarseStage.BETWEEN:
            before = state
            state = replace(state, evaluations=mine.added(state.evaluations), batch=None)
            after, info = self._rule(state).revise(problem, state)
            return self._go_on(problem, before, after, info), info
        after, info = self._rule(state).tell(problem, state, *mine.columns)
        if coarse.stage is CoarseStage.ENDED:
            return after, info
        return self._go_on(problem, state, self._judged(after), info), info

    def _tell_known(
        self, problem: Problem, state: State, fine: Told, coarse: Told
    ) -> tuple[State, Info]:
        """Learn from runs of either level or both that were made elsewhere."""
        own = _of(state)
        if own.stage in (CoarseStage.SEARCH, CoarseStage.REST):
            raise ValueError(
                "known= has runs that this search has not begun with, and it cannot take them "
                "while it searches the coarse model: go on without them, or begin a new store"
            )
        if own.stage is not CoarseStage.PAIRS:
            told = replace(state, evaluations=fine.added(state.evaluations), batch=None)
            return self._rule(state).revise(problem, told)
        alone = replace(state, coarse=None, batch=None)
        if len(fine.batch):
            moved, info = self.inner.tell(problem, alone, *fine.columns)
        else:
            moved = replace(alone, evaluations=fine.added(alone.evaluations))
            info = Info(notes=(KNOWN_ON_COARSE,))
        if len(self.inner.ask(problem, moved)) <= state.tuning.coarse.pairs:
            moved = self.inner.plan(problem, moved, state.tuning.coarse.pairs + 1)
        assert own.search is not None
        search = replace(own.search, seed=state.seed, batch=None)
        if len(coarse.batch):
            search, _ = self.inner.tell(problem, search, *coarse.columns)
        else:
            told_nothing = coarse.added(search.evaluations)
            search = replace(search, evaluations=told_nothing, posterior=moved.posterior)
        own = replace(own, search=search)
        of_fine, of_coarse = fine.at_points_of(coarse)
        if of_fine is None or len(of_fine) < state.tuning.coarse.pairs:
            return replace(moved, coarse=own), info
        differs = missed_share(of_fine, of_coarse)
        if self._is_of_use(state, differs):
            own = replace(own, stage=CoarseStage.SEARCH, differs=differs)
            return replace(moved, batch=None, coarse=own), info
        own = replace(own, stage=CoarseStage.ENDED, differs=differs, useful=False, search=None)
        return replace(moved, coarse=own), replace(info, notes=(*info.notes, USELESS))

    def _is_of_use(self, state: State, differs: float) -> bool:
        """Return True for a coarse model that misses so much of the differences of fine runs."""
        dear = _is_dear(state.tuning.coarse, state.posterior.dim, _of(state).cost)
        return differs < state.tuning.coarse.differs and not dear

    def _tell_pairs(
        self, problem: Problem, state: State, fine: Told, coarse: Told
    ) -> tuple[State, Info]:
        """Decide whether the coarse model is of use, from points that were run on both levels."""
        own = _of(state)
        differs = missed_share(fine.outputs, coarse.outputs)
        first = self.inner.ask(problem, state)
        rest = rows_of(first, np.arange(len(fine.batch), len(first)))
        if not self._is_of_use(state, differs):
            # They are told with the rest of the first batch: as in a search without a coarse model.
            none = Evaluations.none(problem.start.dim)
            waiting = replace(state, evaluations=fine.added(none), coarse=None)
            left = replace(
                own, stage=CoarseStage.REST, useful=False, differs=differs, search=waiting
            )
            return replace(state, batch=rest, coarse=left), Info(notes=(USELESS,))
        assert own.search is not None
        knows = own.search.iteration > 0
        begun = replace(own.search, evaluations=own.runs, batch=None if knows else rest)
        searched = replace(own, stage=CoarseStage.SEARCH, differs=differs, search=begun)
        evaluations = fine.added(state.evaluations)
        state = replace(state, evaluations=evaluations, batch=None, coarse=searched)
        return state, Info(notes=(ON_COARSE,))

    def _tell_rest(self, problem: Problem, state: State, rest: Told) -> tuple[State, Info]:
        """Tell the whole first batch of fine runs, as if there were no coarse model."""
        own = _of(state)
        assert own.search is not None
        whole = Told.of_runs(own.search.evaluations).joined(rest)
        alone = replace(state, batch=None, coarse=None)
        after, info = self.inner.tell(problem, alone, *whole.columns)
        ended = replace(own, stage=CoarseStage.ENDED, search=None)
        return replace(after, coarse=ended), info

    def _tell_search(self, problem: Problem, state: State, told: Told) -> tuple[State, Info]:
        """Tell runs to the search of the coarse model, and end it when it has settled."""
        own, tuning = _of(state), state.tuning.coarse
        assert own.search is not None
        nothing = told.of(np.zeros(len(told.batch), dtype=bool))
        evaluations = nothing.added(state.evaluations)
        after, _ = self.inner.tell(problem, own.search, *told.columns)
        state = replace(
            state,
            posterior=after.posterior,
            evaluations=evaluations,
            coarse=replace(own, search=after, settled=_settled(own, after)),
        )
        own = _of(state)
        info = Info(notes=(ON_COARSE,))
        least, most = _sizes(tuning, problem.start.dim, own.cost)
        known, moving = len(after.evaluations), after.stage.moves
        made = int(made_here(after.evaluations).sum())
        lately = after.evaluations.latest(tuning.failing)
        fails = 2 * lately.failed > tuning.failing
        if not fails and (known < least or (made < most and moving)):
            return state, info
        settled = own.settled or _good(after.evaluations)
        beside = replace(
            own, stage=CoarseStage.BESIDE, search=replace(after, batch=None), settled=settled
        )
        if state.evaluations.ok[~made_here(state.evaluations)].sum() >= _FEWEST:
            known_too = replace(state, batch=None, coarse=beside)
            return self._rule(known_too).revise(problem, known_too)
        x = _spread(
            after.posterior, state.rng(DRAW).standard_normal((tuning.first, problem.start.dim))
        )
        x[0] = after.posterior.mean
        roles = np.where(np.arange(len(x)) == 0, Role.MEAN, Role.DRAW)
        batch = Batch.of(x, after.posterior, roles, state.iteration)
        return replace(state, batch=batch, coarse=beside), info

    def _judged(self, state: State) -> State:
        """Return the state after a fit, without coarse runs if they were of no use for long."""
        own, memory = _of(state), state.emulator
        used = memory is not None and memory.corrects
        idle = 0 if used else own.idle + 1
        stage = CoarseStage.ENDED if idle >= state.tuning.coarse.idle else CoarseStage.BESIDE
        return replace(state, coarse=replace(own, stage=stage, idle=idle))

    def _go_on(self, problem: Problem, before: State, after: State, info: Info) -> State:
        """Plan a further step on coarse runs alone, or fine runs that test all steps together."""
        own, tuning, last = _of(after), after.tuning.coarse, after.last_step
        memory, together = after.emulator, own.together
        if last is None or own.stage is CoarseStage.ENDED:
            return replace(after, coarse=replace(own, together=None))
        if own.stage is CoarseStage.BETWEEN and together is not None:
            joined = Together(
                together.previous,
                together.gain + last.gain,
                together.nats + last.nats,
                max(together.shift, last.shift),
                together.count + 1,
            )
        else:
            joined = Together(last.previous, last.gain, last.nats, last.shift)
        far = info.step_kl >= tuning.at_limit * info.radius and not info.ratio <= tuning.gained
        used = memory is not None and memory.corrects
        if used and far and joined.count < tuning.steps:
            n = max(1, round(tuning.step_cost / own.cost))
            z = tuning.width * after.rng(DRAW).standard_normal((n, problem.start.dim))
            z[0] = 0.0
            x = _spread(after.posterior, z)
            batch = on_level(Batch.of(x, after.posterior, Role.DRAW, after.iteration), COARSE)
            between = replace(own, stage=CoarseStage.BETWEEN, together=joined)
            return replace(after, batch=batch, coarse=between)
        beside = replace(own, stage=CoarseStage.BESIDE, together=None)
        if not joined.count:
            return replace(after, coarse=beside)
        step = replace(
            last,
            previous=joined.previous,
            gain=joined.gain,
            nats=joined.nats,
            shift=joined.shift,
        )
        return replace(after, last_step=step, coarse=beside)

    def restart(
        self, problem: Problem, before: State, state: State, info: Info
    ) -> tuple[State, Info] | None:
        """Return a new beginning, and why, if rounds up to `state` learnt nothing or failed."""
        own = _of(state)
        if own.stage not in (CoarseStage.BESIDE, CoarseStage.BETWEEN, CoarseStage.ENDED):
            return None
        found = self._rule(state).restart(problem, before, state, info)
        if found is None or own.stage is CoarseStage.ENDED:
            return found
        again = replace(own, stage=CoarseStage.BESIDE, together=None)
        return replace(found[0], coarse=again), found[1]

    def restored(self, state: State) -> State:
        """Return a state that was read from a file, whose evaluations are runs of all levels."""
        if state.coarse is None:
            raise ValueError(
                "the search in this store began without a coarse model: leave out coarse=, or "
                "begin a new store"
            )
        own, every = _of(state), state.evaluations
        fine, runs = of_level(every, FINE), of_level(every, COARSE)
        paired = runs.iteration[made_here(runs)].min(initial=len(runs.proposals))
        if self.since is not None:
            runs = runs.select(runs.iteration >= self.since)
        own = replace(own, cost=own.cost if self.cost is None else float(self.cost))
        if own.stage is CoarseStage.REST:
            assert own.search is not None
            waiting = replace(own.search, evaluations=fine.select(made_here(fine)))
            before = fine.select(~made_here(fine))
            fine = replace(before, proposals=before.proposals[:paired])
            return replace(state, evaluations=fine, coarse=replace(own, runs=runs, search=waiting))
        if not own.useful:
            fine = without_round(fine, paired)
        search = own.search
        if search is not None:
            begins = own.stage in (CoarseStage.PAIRS, CoarseStage.SEARCH)
            told = runs if begins else Evaluations.none(runs.x.shape[1])
            search = replace(search, evaluations=told)
        state = replace(state, evaluations=fine, coarse=replace(own, runs=runs, search=search))
        return self._anew(state) if self.since == state.iteration else state

    def _anew(self, state: State) -> State:
        """Return a state in which the coarse model has just changed: none of its runs is known.

        One that was of no use over the prior is not tried again.
        """
        own = _of(state)
        if not own.useful:
            return state
        own = replace(own, idle=0, together=None, settled=0)
        start = state.evaluations.proposals[0]
        begun = State(state.seed, start, own.runs, tuning=state.tuning)
        if own.stage is CoarseStage.PAIRS:
            return replace(state, coarse=replace(own, search=begun))
        if own.stage is CoarseStage.SEARCH:
            return replace(state, posterior=start, batch=None, coarse=replace(own, search=begun))
        cost = np.nan if self.cost is None else own.cost
        batch = None if own.stage is CoarseStage.BETWEEN else state.batch
        beside = replace(own, stage=CoarseStage.BESIDE, search=None, cost=cost)
        return replace(state, batch=batch, emulator=None, coarse=beside)

    def _rule(self, state: State) -> SuPAC:
        """Return the search of the fine model in a state."""
        own = _of(state)
        if own.stage not in (CoarseStage.BESIDE, CoarseStage.BETWEEN):
            return self.inner
        numbers = state.tuning.emulator
        begun: Memory | None = None if own.search is None else own.search.emulator
        rule = TwoLevelEmulator(OutputEmulator(tuning=numbers), own.runs, begun)
        return replace(self.inner, estimator=rule)


def _of(state: State) -> CoarseRuns[State]:
    assert state.coarse is not None
    return state.coarse


def _pairs(batch: Batch, tuning: CoarseTuning) -> int:
    """Return the number of points that are run on both levels: one at least is left."""
    return max(min(tuning.pairs, len(batch) - 1), 1)


def _sizes(tuning: CoarseTuning, dim: int, cost: float) -> tuple[int, int]:
    """Return the least and the largest number of runs of a search of the coarse model."""
    affordable = tuning.dearest / cost
    cap = int(min(tuning.most, max(affordable, tuning.least)))
    least = int(np.clip(tuning.a_parameter * dim, tuning.least, cap))
    return least, max(least, int(min(tuning.ever, affordable)))


def _least_search(tuning: CoarseTuning, dim: int, cost: float) -> float:
    """Return what the least search of the coarse model costs after the pairs, in fine runs."""
    return cost * max(_sizes(tuning, dim, cost)[0] - tuning.pairs, 0)


def _is_dear(tuning: CoarseTuning, dim: int, cost: float) -> bool:
    """Return True if a search of the coarse model costs more than it may save; False if unknown."""
    if np.isnan(cost):
        return False
    return cost >= 1.0 or _least_search(tuning, dim, cost) > tuning.dear * dim


def _settled(own: CoarseRuns[State], after: State) -> int:
    """Return the number of good runs after which a search had settled; 0 if it still moves."""
    if own.settled or after.stage.moves or after.last_step is None:
        return own.settled
    return _good(after.evaluations)


def _good(runs: Evaluations) -> int:
    """Return the number of good runs that were made here."""
    return int((runs.ok & made_here(runs)).sum())


def _cost(coarse: CoarseRuns[State], count: int) -> float:
    """Return the cost of so many coarse runs, in fine ones."""
    return count * (1.0 if np.isnan(coarse.cost) else coarse.cost)


def _spread(posterior: Distribution, z: FloatArray) -> FloatArray:
    """Return whitened points z (n, dim) of a Gaussian posterior as points."""
    whitening = posterior.whiten().normal
    assert whitening is not None
    return whitening.spread(z)
