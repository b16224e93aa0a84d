"""The arguments of `minimize`, `resume` and `reoptimize`, and the search that they make."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from supac.arrays import FloatArray, whole
from supac.calibration.diagnostics import advice_on_decades
from supac.calibration.ending import EarlierPosterior, Halves, Validated, make_ending, validate
from supac.calibration.loop import Iteration, Loop, jacobians_cost
from supac.calibration.old_keywords import OldKeywords, with_old
from supac.calibration.setup import (
    check_coarse_search,
    check_known,
    checked_algorithm,
    make_problem,
    reserve_for_validation,
    with_coarse,
)
from supac.calibration.shaping import checked_shape, range_check, shaped
from supac.codec import describe
from supac.exchange.other_runs import Known, known_runs
from supac.families import Density, Distribution
from supac.guarantee.origin import Origin
from supac.guarantee.provenance import Provenance
from supac.problem import Bound, Function, Parameters, Problem
from supac.problem.composite import as_composite, loss_and_data, parts_of
from supac.problem.course import course_of
from supac.problem.problem import latent_of, parameters_of
from supac.record.ending import Ending, StopReason
from supac.record.record import Record
from supac.record.result import Result
from supac.record.settings import Settings
from supac.record.status import Status
from supac.running.execution import Execution
from supac.running.interrupt import Interrupted
from supac.running.runner import Runner
from supac.running.terminal import ProgressBar
from supac.search.algorithm import Algorithm, State
from supac.search.supac import SuPAC

Risk = Callable[[FloatArray], Any]
Callback = Callable[[Iteration], object]
Path = str | os.PathLike[str]
_TOLERANCE = 1e-12
_Function = TypeVar("_Function", bound=Callable[..., Any])


class SharedOptions(OldKeywords, total=False):
    """Options of `minimize`, `resume` and `reoptimize`: fields of `Search`."""

    algorithm: Algorithm | None
    start: Distribution | None
    execution: Any
    validation: int | None
    shape: str
    callback: Callback | None


class Options(SharedOptions, total=False):
    """Options of `minimize`."""

    proxy: Function | None
    known: Known
    store: Path | None
    seed: int
    provenance: Provenance


@dataclass(frozen=True, eq=False)
class Search:
    """Arguments of `minimize`, checked and run by `run`."""

    risk: Risk
    prior: Density | Parameters
    bound: Bound
    budget: int
    _: KW_ONLY
    algorithm: Algorithm | None = None
    start: Distribution | None = None
    proxy: Function | None = None
    known: Any = None
    """As `minimize` takes them; `KnownRuns` once they are read."""
    execution: Execution = Execution()
    store: Path | None = None
    validation: int | None = None
    shape: str = "auto"
    seed: int = 0
    callback: Callback | None = None
    tolerance: float | None = None
    """KL between successive posteriors below which the search has converged."""
    description: str | None = None
    """Text kept in the store beside the settings."""
    provenance: Provenance = Provenance()
    """Facts on prior, loss, temperature and certificates, beside those of a store."""
    again: frozenset[Status] = frozenset()
    """Runs of a store that are made again: those that ended so."""
    coarse_since: int | None = None
    """Rounds of a store that were told before its coarse model changed; None if it has not."""

    def __post_init__(self) -> None:
        known = known_runs(self.known, parameters_of(self.prior), self.risk)
        object.__setattr__(self, "known", known)
        checked_shape(self.shape)

    @classmethod
    def of(
        cls,
        options: Mapping[str, Any],
        kept: Mapping[str, Any] = MappingProxyType({}),
        **others: Any,
    ) -> Search:
        """Make a search of arguments as a user gives them, former keywords included.

        `kept` are fields of its `Execution`, and `others` arguments, that hold unless they are
        given.
        """
        own = {each.name for each in fields(cls)} - set(OldKeywords.__annotations__)
        given = {name: value for name, value in options.items() if name in own}
        old: Any = {name: value for name, value in options.items() if name not in own}
        execution = given.pop("execution", None)
        where, former = with_old(execution, old, "tolerance", "description", kept=kept)
        return cls(**{**others, **given, **former}, execution=where)

    def run(self) -> Result:
        """Check the arguments, search, validate, and return the result."""
        if not callable(self.risk):
            raise TypeError(f"risk must be a function of x, not {self.risk!r}")
        loss = loss_and_data(self.risk)["loss"]
        problem = make_problem(self.prior, self.bound, self.start, self.proxy, self.execution, loss)
        cost = parts_of(self.risk).jacobian_cost
        problem = problem if cost is None else replace(problem, jacobian_cost=cost)
        problem = replace(problem, course=course_of(self.risk))
        algorithm = SuPAC() if self.algorithm is None else checked_algorithm(self.algorithm)
        check_known(self.known, algorithm, problem)
        self._check_jacobian(algorithm)
        check_coarse_search(self.risk, algorithm, problem, self.execution)
        state = algorithm.init(problem, self.seed)
        first = len(algorithm.ask(problem, state))
        self._check_budget(first, first + jacobians_cost(first, algorithm, problem, state))
        reserve = reserve_for_validation(self.validation, algorithm, self.budget, first)
        bar = ProgressBar(self.budget, self.execution.progress)
        with Runner.opened(
            [self.risk],
            self.execution,
            partial(self._record, problem, algorithm),
            bar,
            parameters=parameters_of(self.prior),
            ceilings=[problem.failure_risk],
        ) as runner:
            if self.execution.mode == "async":
                wide = algorithm.widened(runner.capacity, self.budget - reserve, 0)
                state = wide.init(problem, self.seed)
            else:
                algorithm = self._for_workers(algorithm, runner, bar, self.budget - reserve)
                algorithm = with_coarse(self.risk, algorithm, self.coarse_since)
                state = algorithm.init(problem, self.seed)
            loop = Loop(
                problem, algorithm, runner, state,
                budget=self.budget - reserve,
                reserve=reserve if self.validation is None else 0,
                tolerance=self._tolerance(algorithm),
                execution=self.execution,
                bar=bar,
                callback=self.callback,
            )  # fmt: skip
            self._restore(loop)
            stop = loop.run()
            halves = self._halves(reserve, loop, stop)
            validated, stop = _validate(loop, stop, halves, self.shape)
            function = runner.functions[0]
            risk = function.composite or self.risk
            ending = make_ending(problem, validated, loop.record, stop, risk, function.failure_loss)
            decades = advice_on_decades(problem, validated.state.evaluations)
            ending = replace(ending, advice=loop.advice + decades)
            ending = _with_range_check(ending, problem, algorithm, validated.state)
            loop.record.finish(ending, validated.state.evaluations)
        made = ending.certificate or ending.held_out
        if self._origin is not None and made is not None and self.known.origin is not None:
            self.known.origin.count_certificate(made)
        return Result.of(loop.record)

    def _check_jacobian(self, algorithm: Algorithm) -> None:
        """Raise ValueError if Jacobians are given to a search that cannot learn from them."""
        own = as_composite(self.risk)
        if own is None or own.jacobian is False:
            return
        default = isinstance(algorithm, SuPAC) and algorithm.estimator is None
        if default and self.proxy is None:
            return
        what = f"algorithm={algorithm!r}" if self.proxy is None else "proxy="
        raise ValueError(
            f"jacobian= of the Composite is of no use with {what}: leave out one of the two"
        )

    def _for_workers(
        self, algorithm: Algorithm, runner: Runner, bar: ProgressBar, budget: int
    ) -> Algorithm:
        """Return the algorithm with batches for many workers: chosen once, and kept in the file."""
        record = runner.record
        if record.batches is None and not record.light_runs:
            declared = self.execution.workers
            most = declared if isinstance(declared, int) else 0
            wide = algorithm.for_workers(max(runner.capacity, most), budget)
            if isinstance(wide, SuPAC) and wide is not algorithm:
                record.keep_batches((wide.first or 0, wide.batch or 0))
        if record.batches is None or not isinstance(algorithm, SuPAC):
            return algorithm
        first, batch = record.batches
        bar.say(
            f"batches of {batch} runs for many workers, whose number at the beginning they depend "
            "on; batch = 4 in [run], or SuPAC(batch=4), gives the same result on any number"
        )
        return replace(algorithm, first=first, batch=batch)

    def _halves(self, reserve: int, loop: Loop, stop: StopReason) -> Halves:
        """Return how many fresh runs validate the posterior, at once where there are many workers.

        At the end of the budget with what did not fill another batch; before, with as many as there
        are workers, since others would have nothing to do.
        """
        if reserve < 2 or self.validation is not None:
            return Halves.of(reserve)
        left, batches = int(self.budget - loop.spent), loop.record.batches
        runs = left if stop is StopReason.BUDGET else min(reserve, left)
        if batches is None:
            return Halves.of(runs)
        return Halves.at_once(max(runs, min(batches[1], left)))

    def _check_budget(self, first: int, cost: float) -> None:
        if whole(self.budget, "budget", least=1) < cost:
            if cost > first:
                raise ValueError(
                    f"budget = {self.budget} is smaller than the first batch of {first} runs with "
                    f"their Jacobians, which cost {cost:g} runs; raise it"
                )
            raise ValueError(
                f"budget = {self.budget} is smaller than the first batch of {first} runs; raise "
                "it, or make the batch smaller, such as "
                f"algorithm=SuPAC(first={self.budget}, batch={self.budget})"
            )

    def _tolerance(self, algorithm: Algorithm) -> float:
        values = self.tolerance, algorithm.tolerance, _TOLERANCE
        value = next(each for each in values if each is not None)
        if not value >= 0.0:
            raise ValueError(f"tolerance must not be negative, but is {value!r}")
        return float(value)

    def _record(self, problem: Problem, algorithm: Algorithm) -> Record:
        settings = Settings(
            prior=self.prior,
            bound=self.bound,
            budget=self.budget,
            algorithm=algorithm,
            start=self.start,
            validation=self.validation,
            shape=self.shape,
            tolerance=self._tolerance(algorithm),
            seed=self.seed,
            **loss_and_data(self.risk),
            held_out=parts_of(self.risk).held_out,
            **self.execution.settings,
        )
        proxy = None if self.proxy is None else describe(self.proxy)
        family = problem.start.family
        return Record.of_search(self.store, settings, family, kind="minimize", proxy=proxy)

    @property
    def _origin(self) -> Origin | None:
        """Search that the known runs come from, if it has some of the same data."""
        origin = None if self.known is None else self.known.begun_from
        return origin if origin is not None and origin.shares_data(self.risk) else None

    @property
    def known_provenance(self) -> Provenance:
        """Notice what was chosen after a result on the same data, from which runs are known."""
        if self.known is None:
            return self.provenance
        own, origin = self.provenance.joined(self.known.lost), self.known.begun_from
        if origin is None:
            return own
        told = self.prior, latent_of(self.prior), self.bound, self.risk
        return own.joined(origin.provenance_of(*told))

    def _restore(self, loop: Loop) -> None:
        """Continue from the record, and tell imported runs."""
        if self.again:
            loop.runner.remake(self.again)
        if self.coarse_since == len(loop.record.rounds):
            loop.runner.forget("coarse")  # made by the earlier coarse model, and not told yet
        loop.restore()
        if loop.queries > self.budget:
            raise ValueError(
                f"budget = {self.budget}, but {self.store} has learnt from {loop.queries} runs "
                "already; raise it"
            )
        seen = self.known_provenance
        loop.record.provenance = loop.record.provenance.joined(seen)
        loop.record.confirm(self.description)
        if loop.record.rounds and loop.queries:
            told = loop.record.told_ids(())
            failed = sum(run.id in told for run in loop.record.failures)
            # Those of a batch that was not finished are made, and not told yet.
            made = sum(r.purpose == "search" and not r.source for r in loop.record.light_runs)
            words = f"{self.store}: going on after {max(made, loop.queries)} runs"
            loop.bar.resume(words, failed, loop.queries)
        loop.adopt(self.known)


def _with_range_check(
    ending: Ending, problem: Problem, algorithm: Algorithm, state: State
) -> Ending:
    """Compare the posterior with what the data leave open, if the search ended normally."""
    if ending.stop_reason not in (StopReason.BUDGET, StopReason.CONVERGED):
        return ending
    return replace(ending, range_check=range_check(problem, algorithm, state, ending.posterior))


def _validate(
    loop: Loop, stop: StopReason, halves: Halves, shape: str
) -> tuple[Validated, StopReason]:
    """Shape the final posterior and validate it with fresh runs, if the search ended normally."""
    problem, state = loop.problem, loop.state
    ended = stop in (StopReason.BUDGET, StopReason.CONVERGED)
    predicted = loop.predicted if ended else np.nan
    if halves.first + halves.second < 2 or not ended:
        shape = shape if ended else "gaussian"
        return Validated(state, shaped(problem, loop.algorithm, state, predicted, shape)), stop
    loop.bar.say(f"validating the posterior with {halves.shown} fresh runs")
    try:
        earlier = EarlierPosterior.best_of(loop.record.rounds)
        told = problem, loop.algorithm, state, loop.runner, halves, predicted, shape
        return validate(*told, earlier), stop
    except Interrupted:
        own = shaped(problem, loop.algorithm, state, predicted, "gaussian")
        return Validated(state, own), StopReason.INTERRUPTED


def shows(options: type) -> Callable[[_Function], _Function]:
    """Show options by their names, with the defaults of `Search`, in a function's signature.

    That of `execution` is None, as short as it is usual.
    """
    names = [name for name in options.__annotations__ if name not in OldKeywords.__annotations__]
    known = {each.name: each for each in fields(Search)}
    listed = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=None if name == "execution" else known[name].default,
            annotation=known[name].type,
        )
        for name in names
    ]

    def add(function: _Function) -> _Function:
        found = signature(function)
        own = [each for each in found.parameters.values() if each.kind is not each.VAR_KEYWORD]
        vars(function)["__signature__"] = found.replace(parameters=[*own, *listed])
        return function

    return add
