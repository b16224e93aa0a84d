"""The public functions `minimize`, `resume` and `reoptimize`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Unpack

from supac.arrays import FloatArray, whole
from supac.calibration.ending import Validated, make_ending, validate
from supac.calibration.loop import Iteration, Loop
from supac.calibration.old_keywords import OldKeywords, with_old
from supac.calibration.setup import (
    check_known,
    checked_algorithm,
    make_problem,
    reserve_for_validation,
)
from supac.codec import Spec, UnknownSpecError, describe, from_spec, to_spec
from supac.exchange.known import KnownRuns
from supac.exchange.other_runs import Known, known_runs
from supac.families import Density, Distribution
from supac.guarantee.gate import Provenance
from supac.problem import Bound, Composite, Function, Observations, Parameters, Problem
from supac.problem.composite import loss_and_data
from supac.record.diagnostics import advice_on_decades
from supac.record.ending import StopReason
from supac.record.record import Record
from supac.record.result import Result
from supac.record.store.store import read_config
from supac.running.execution import Execution
from supac.running.runner import Runner
from supac.running.terminal import Interrupted, ProgressBar
from supac.search.algorithm import Algorithm, widened
from supac.search.supac import SuPAC

Risk = Callable[[FloatArray], Any]
Callback = Callable[[Iteration], object]
Path = str | os.PathLike[str]
_TOLERANCE = 1e-12


def minimize(
    risk: Risk,
    prior: Density | Parameters,
    bound: Bound,
    *,
    budget: int,
    algorithm: Algorithm | None = None,
    start: Distribution | None = None,
    proxy: Function | None = None,
    known: Known = None,
    execution: Execution | Any = None,
    store: Path | None = None,
    validation: int | None = None,
    seed: int = 0,
    callback: Callback | None = None,
    provenance: Provenance = Provenance(),
    **old: Unpack[OldKeywords],
) -> Result:
    """Minimise bound(π[risk], KL(π, prior)) over distributions π, in at most `budget` runs.

    Parameters
    ----------
    risk, proxy
        x (dim,) → float, or `Composite(simulate, loss)`, which needs far fewer runs; and a cheap
        approximation of the risk, (n, dim) → (n,), so that only the difference is learnt.
    prior, start
        A distribution, or `Parameters`: then risk and proxy take the user's units. `start` is the
        first posterior, whose family is searched: needed if that of the prior is not exponential.
    bound, algorithm, callback
        Such as `Catoni(temperature=0.01)`, and `SuPAC()`, the default. `callback` is called with an
        `Iteration` after each round; a true return value stops the search.
    budget, validation
        Runs in all, and those that check the posterior at the end: by default a fifth, at most 60.
    known, provenance
        Earlier runs to learn from: a table or a store by its path, a result, or a pair of points
        and outputs (or risks) of another tool; and what only you know:
        `Provenance(prior_is_independent=False)` if the prior was made from these data.
    execution, store, seed
        An `Execution`, or just its workers, such as 8 processes; a file that keeps every run, from
        which an interrupted search continues; same seed, same result.

    """
    where, rest = with_old(execution, old, "tolerance", "description")
    return Search(
        risk,
        prior,
        bound,
        budget,
        algorithm=algorithm,
        start=start,
        proxy=proxy,
        known=known,
        execution=where,
        store=store,
        validation=validation,
        seed=seed,
        callback=callback,
        provenance=provenance,
        **rest,
    ).run()


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
    seed: int = 0
    callback: Callback | None = None
    tolerance: float | None = None
    """KL between successive posteriors below which the search has converged."""
    description: str | None = None
    """Text kept in the store beside the settings."""
    provenance: Provenance = Provenance()
    """Facts on prior, loss, temperature and certificates, beside those of a store."""

    def __post_init__(self) -> None:
        parameters = self.prior if isinstance(self.prior, Parameters) else None
        known = known_runs(self.known, parameters, self.risk)
        object.__setattr__(self, "known", known)

    def run(self) -> Result:
        """Check the arguments, search, validate, and return the result."""
        parameters = self.prior if isinstance(self.prior, Parameters) else None
        if not callable(self.risk):
            raise TypeError(f"risk must be a function of x, not {self.risk!r}")
        loss = loss_and_data(self.risk)["loss"]
        problem = make_problem(self.prior, self.bound, self.start, self.proxy, self.execution, loss)
        algorithm = SuPAC() if self.algorithm is None else checked_algorithm(self.algorithm)
        check_known(self.known, algorithm, problem)
        state = algorithm.init(problem, self.seed)
        first = len(algorithm.ask(problem, state))
        self._check_budget(first)
        reserve = reserve_for_validation(self.validation, algorithm, self.budget, first)
        bar = ProgressBar(self.budget, self.execution.progress)
        with Runner.opened(
            [self.risk],
            self.execution,
            partial(self._record, problem, algorithm),
            bar,
            parameters=parameters,
            ceilings=[problem.failure_risk],
        ) as runner:
            if self.execution.mode == "async":
                wide = widened(algorithm, runner.capacity, self.budget - reserve, 0)
                state = wide.init(problem, self.seed)
            loop = Loop(
                problem,
                algorithm,
                runner,
                state,
                budget=self.budget - reserve,
                tolerance=self._tolerance(algorithm),
                execution=self.execution,
                bar=bar,
                callback=self.callback,
            )
            self._restore(loop)
            stop = loop.run()
            if reserve > 1 and self.validation is None and stop is StopReason.BUDGET:
                reserve = self.budget - loop.queries  # with what did not fill another batch
            validated, stop = _validate(loop, stop, reserve)
            function = runner.functions[0]
            risk = function.composite or self.risk
            ending = make_ending(problem, validated, loop.record, stop, risk, function.failure_loss)
            decades = advice_on_decades(problem, validated.state.evaluations)
            ending = replace(ending, advice=loop.advice + decades)
            loop.record.finish(ending, validated.state.evaluations)
        made = ending.certificate or ending.held_out
        if self._origin is not None and made is not None:
            self._origin.count_certificate(made)
        return Result.of(loop.record)

    def _check_budget(self, first: int) -> None:
        if whole(self.budget, "budget", least=1) < first:
            raise ValueError(
                f"budget = {self.budget} is smaller than the first batch of {first} runs; raise "
                "it, or make the batch smaller, such as "
                f"algorithm=SuPAC(first={self.budget}, batch={self.budget})"
            )

    def _tolerance(self, algorithm: Algorithm) -> float:
        values = self.tolerance, getattr(algorithm, "tolerance", None), _TOLERANCE
        value = next(each for each in values if each is not None)
        if not value >= 0.0:
            raise ValueError(f"tolerance must not be negative, but is {value!r}")
        return float(value)

    def _record(self, problem: Problem, algorithm: Algorithm) -> Record:
        settings: dict[str, Any] = {
            "prior": self.prior,
            "bound": self.bound,
            "budget": self.budget,
            "algorithm": algorithm,
            "start": self.start,
            "validation": self.validation,
            "tolerance": self._tolerance(algorithm),
            "seed": self.seed,
            **loss_and_data(self.risk),
            "held_out": self.risk.held_out if isinstance(self.risk, Composite) else None,
            **self.execution.settings,
        }
        proxy = None if self.proxy is None else describe(self.proxy)
        family = problem.start.family
        return Record.of_search(self.store, settings, family, kind="minimize", proxy=proxy)

    @property
    def _origin(self) -> Record | None:
        """Record that the known runs come from, if it has some of the same data."""
        origin = None if self.known is None else self.known.origin
        if origin is None:
            return None
        both = origin.settings.get("data"), loss_and_data(self.risk)["data"]
        # As words: a missing measurement is NaN, which equals nothing, not even itself.
        theirs, ours = (json.dumps(to_spec(each)) for each in both)
        return origin if theirs == ours or self._shared(origin) else None

    def _shared(self, origin: Record) -> list[tuple[int, int]]:
        """Return the measurements that these data have in common with those of another search."""
        theirs, ours = origin.settings.get("data"), loss_and_data(self.risk)["data"]
        if isinstance(theirs, Observations) and isinstance(ours, Observations):
            return theirs.shared(ours)
        return []

    def _same_noise(self, origin: Record) -> bool:
        """Return True unless the noise of a measurement was changed after a result on it."""
        theirs: Any = origin.settings.get("data")
        ours = loss_and_data(self.risk)["data"]
        return all(
            theirs.noise[i] == ours.noise[j] and theirs.logarithmic == ours.logarithmic
            for i, j in self._shared(origin)
        )

    @property
    def known_provenance(self) -> Provenance:
        """Notice what was chosen after a result on the same data, from which runs are known."""
        origin = self._origin
        if origin is None:
            return self.provenance
        if origin.ending is None:
            prior = self.prior.prior if isinstance(self.prior, Parameters) else self.prior
            learnt = origin.posterior == prior
            seen = origin.provenance.joined(Provenance(prior_is_independent=not learnt))
            return self.provenance.joined(seen)
        seen = origin.next_provenance(self.prior, self.bound, self.risk)
        if not self._same_noise(origin):
            seen = replace(seen, loss_is_independent=False)
        return self.provenance.joined(seen)

    def _restore(self, loop: Loop) -> None:
        """Continue from the record, and tell imported runs."""
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


def _validate(loop: Loop, stop: StopReason, runs: int) -> tuple[Validated, StopReason]:
    """Validate the final posterior with fresh runs, if the search ended normally."""
    if runs < 2 or stop not in (StopReason.BUDGET, StopReason.CONVERGED):
        return Validated(loop.state), stop
    loop.bar.say(f"validating the posterior with {runs} fresh runs")
    try:
        done = validate(loop.problem, loop.algorithm, loop.state, loop.runner, runs, loop.predicted)
        return done, stop
    except Interrupted:
        return Validated(loop.state), StopReason.INTERRUPTED


def resume(
    store: Path,
    risk: Risk,
    *,
    budget: int | None = None,
    prior: Density | Parameters | None = None,
    bound: Bound | None = None,
    algorithm: Algorithm | None = None,
    start: Distribution | None = None,
    proxy: Function | None = None,
    known: Known = None,
    execution: Execution | Any = None,
    validation: int | None = None,
    callback: Callback | None = None,
    **old: Unpack[OldKeywords],
) -> Result:
    """Continue the search in `store`, to the same result as without the interruption.

    The file holds all settings but functions: pass the risk again, and any other object of your
    own. `execution` may be other workers, such as 8, or an `Execution`; what is not given of it is
    the file's. `budget` may be larger; other changes of the search are refused.
    """
    config = read_config(store)
    given: dict[str, Any] = {
        "prior": prior,
        "bound": bound,
        "budget": budget,
        "algorithm": algorithm,
        "start": start,
        "validation": validation,
    }
    settings: dict[str, Any] = {"seed": config["seed"], "tolerance": config["tolerance"]}
    for name, value in given.items():
        settings[name] = _from_file(store, name, config[name]) if value is None else value
    if config["proxy"] is not None and proxy is None:
        raise _only_a_name(store, "proxy", config["proxy"])
    kept = {name: config[name] for name in Execution().settings}
    where, rest = with_old(execution, old, "tolerance", "description", kept=kept)
    return Search(
        risk,
        store=store,
        proxy=proxy,
        known=known,
        execution=where,
        callback=callback,
        **{**settings, **rest},
    ).run()


def _from_file(store: Path, name: str, spec: Spec) -> Any:
    try:
        return from_spec(spec)
    except UnknownSpecError as error:
        raise _only_a_name(store, name, error) from error


def _only_a_name(store: Path, name: str, word: object) -> ValueError:
    return ValueError(f"{os.fspath(store)} has only the name of {name}, {word}: pass {name}= again")


def reoptimize(
    result: Result,
    risk: Risk,
    *,
    budget: int,
    prior: Density | Parameters | None = None,
    bound: Bound | None = None,
    algorithm: Algorithm | None = None,
    start: Distribution | None = None,
    execution: Execution | Any = None,
    store: Path | None = None,
    validation: int | None = None,
    seed: int = 0,
    callback: Callback | None = None,
    **old: Unpack[OldKeywords],
) -> Result:
    """Minimise another bound, or with another prior, from the runs of an earlier result.

    The surrogate of the risk depends on neither, so few new runs suffice: the search begins at the
    earlier posterior with the earlier runs. `prior`, `bound` and the treatment of failed runs are
    by default the earlier ones; `budget` counts new runs only; other arguments as in `minimize`.
    """
    result.record.check_runs()
    own = result.parameters
    if isinstance(prior, Parameters) and (own is None or prior.names != own.names):
        raise ValueError(f"prior must have the parameters of the result, not {prior!r}")
    same = not isinstance(prior, Parameters) or (own and prior.marginals == own.marginals)
    before = prior or own or result.prior
    policy = {"on_failure": result.on_failure}
    where, rest = with_old(execution, old, "tolerance", "description", kept=policy)
    risk = result.record.risk_as_stored(risk)
    batch, seen = min(budget, 10), result.record.next_provenance(prior, bound, risk)
    return Search(
        risk,
        before,
        bound or result.bound,  # type: ignore[arg-type]
        budget,
        algorithm=algorithm or SuPAC(first=batch, batch=batch),
        start=start or (result.posterior if same else None),  # latent points mean the same
        known=KnownRuns.of_record(result.record),
        execution=where,
        store=store,
        validation=validation,
        seed=seed,
        callback=callback,
        provenance=seen,
        **rest,
    ).run()
