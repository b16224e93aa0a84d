"""The public loop: ask, evaluate, tell, show, until there is a reason to stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import Any, Literal

import numpy as np

from supac.arrays import FloatArray, whole
from supac.calibration.finish import make_result
from supac.calibration.loop import Loop
from supac.calibration.validation import Checked, validate
from supac.codec import UnknownSpecError, describe, from_spec, to_spec
from supac.exchange import KnownRuns
from supac.families import Density, Distribution, Family
from supac.problem import Function, Loss, Problem
from supac.problem.bounds import Bound
from supac.problem.composite import Composite
from supac.problem.parameters import Parameters
from supac.record.history import Iteration, StopReason
from supac.record.result import Result
from supac.record.store import Store, read_config
from supac.running import open_flight
from supac.running.evaluate import Evaluator, simulator_of
from supac.running.interrupt import Interrupt, Interrupted
from supac.running.ledger import Ledger
from supac.running.progress import ProgressBar
from supac.search.algorithm import Algorithm, widened
from supac.search.supac import SuPAC


def minimize(  # noqa: PLR0913 - one argument a thing that a user decides, all but three by keyword
    risk: Callable[[FloatArray], Any],
    prior: Density | Parameters,
    bound: Bound,
    *,
    budget: int,
    algorithm: Algorithm | None = None,
    start: Distribution | None = None,
    proxy: Function | None = None,
    vectorized: bool = False,
    known: KnownRuns | None = None,
    executor: Executor | int | str | None = None,
    mode: Literal["batch", "async"] = "batch",
    timeout: float | None = None,
    retries: int = 2,
    on_failure: Literal["raise", "penalise", "drop"] = "raise",
    max_failures: float = 0.5,
    store: str | os.PathLike[str] | None = None,
    description: str | None = None,
    validation: int | None = None,
    tolerance: float = 1e-12,
    progress: bool | None = None,
    seed: int = 0,
    callback: Callable[[Iteration], object] | None = None,
) -> Result:
    """Minimise bound(π[risk], KL(π, prior)) over distributions π, in at most `budget` queries.

    Parameters
    ----------
    risk
        x (dim,) → float; with `vectorized=True`, (n, dim) → (n,). Or `Composite(simulate, loss)`,
        which takes far fewer runs.
    prior
        A distribution, or `Parameters`: then risk and proxy are called in the user's units.
    bound
        Such as `Catoni(temperature=0.01)`.
    budget
        Risk queries. Batches are never cut: a run with a larger budget begins the same way.
    algorithm
        By default `SuPAC()`.
    start
        The first posterior, whose family is searched; by default the prior. Needed where the
        prior is not a member of an exponential family.
    proxy
        A cheap approximation of the risk, (n, dim) → (n,): only what it misses has to be learnt.
    vectorized
        Whether `risk` takes many points at a time. On an executor it is given one a time.
    known
        Runs that were made elsewhere, such as `read_csv(path, parameters)`: learnt from before the
        first query.
    executor
        Where runs are made: in this process by default; a number of local processes; any
        `concurrent.futures.Executor`; or the address of a Dask scheduler.
    mode
        "batch" gives the same bits whatever the executor. With "async" no worker waits for a
        slower one, and results depend on the order in which runs end.
    timeout
        Seconds after which a run is killed, wherever it is.
    retries
        How often a run is tried again after its process died or its worker was lost.
    on_failure
        What a run does that raises, returns no finite number, takes too long or crashes: "raise"
        an error; "penalise", count as the bound's ceiling; "drop", be left out, which changes what
        is bounded.
    max_failures
        The share of failed runs from which there is no use in going on.
    store
        A file in which every run is kept as it ends. Where it holds the beginning of this very
        run, that is gone on with; see also `resume`.
    description
        A text that is kept in the store beside the settings, for those who read it.
    validation
        Queries of the budget with which the posterior is checked before it is returned; by default
        a fifth, at most 60, and what fills no further batch, for algorithms that ask for it. Where
        they are worse than predicted the algorithm learns from half of them, and the better of the
        two posteriors is returned.
    tolerance
        Stop when KL between successive posteriors falls below it.
    progress
        Show a progress bar; by default if the standard error is a terminal.
    seed
        Same seed, same result.
    callback
        Called with an `Iteration` after each; returning anything true stops the run.

    """
    parameters = prior if isinstance(prior, Parameters) else None
    if not callable(risk):
        raise TypeError(f"risk must be a function of x, not {risk!r}")
    loss = risk.loss if isinstance(risk, Composite) else None
    problem = _problem(prior, bound, start, proxy, on_failure, loss)
    algorithm = SuPAC() if algorithm is None else _checked(algorithm)
    _check_options(mode, executor, timeout, tolerance, max_failures)
    _check_known(known, algorithm, problem)
    state = algorithm.init(problem, seed)
    first = len(algorithm.ask(problem, state))
    if whole(budget, "budget", least=1) < first:
        raise ValueError(
            f"budget = {budget} is smaller than the first batch of {first} queries; raise it, or "
            f"make the batch smaller, such as algorithm=SuPAC(first={budget}, batch={budget})"
        )
    reserve = _reserve(validation, algorithm, budget, first)
    simulator = simulator_of(risk, vectorized=vectorized, parameters=parameters)
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        kept = None
        if store is not None:
            settings = {
                "prior": prior, "bound": bound, "algorithm": algorithm, "start": start,
                "loss": loss, "on_failure": on_failure, "mode": mode, "validation": validation,
                "tolerance": tolerance, "seed": seed, "budget": budget, "vectorized": vectorized,
                "timeout": timeout, "retries": retries, "max_failures": max_failures,
            }  # fmt: skip
            config = {name: to_spec(value) for name, value in settings.items()}
            config["proxy"] = None if proxy is None else describe(proxy)
            kept = stack.enter_context(Store(store, config, problem.start.family))
        flight = open_flight(executor, simulator, timeout, whole(retries, "retries", least=0))
        if flight is not None:
            stack.callback(flight.close)
            if mode == "async":
                wide = widened(algorithm, flight.capacity, budget - reserve, 0)
                state = wide.init(problem, seed)
        bar = stack.enter_context(ProgressBar(budget, progress))
        evaluator = Evaluator(
            risk,
            simulator,
            parameters=parameters,
            raising=on_failure == "raise",
            ceiling=problem.failure_risk,
            flight=flight,
            ledger=Ledger(kept),
            interrupt=interrupt,
            watch=bar.watch,
        )
        loop = Loop(
            problem=problem,
            algorithm=algorithm,
            evaluator=evaluator,
            state=state,
            budget=budget - reserve,
            tolerance=tolerance,
            max_failures=max_failures,
            store=kept,
            interrupt=interrupt,
            bar=bar,
            callback=callback,
            workers=0 if flight is None or mode == "batch" else flight.capacity,
        )
        loop.remember()
        if loop.queries > budget:
            raise ValueError(
                f"budget = {budget}, but {store} has learnt from {loop.queries} queries already; "
                "raise it"
            )
        if kept is not None:
            kept.confirm(description)
            if kept.rounds and loop.queries:
                words = f"{store}: going on after {loop.queries} queries"
                bar.resume(words, len(loop.journal.failures), loop.queries)
        loop.adopt(known)
        stop = loop.asynchronous() if mode == "async" else loop.batches()
        if reserve > 1 and validation is None and stop is StopReason.BUDGET:
            reserve = budget - loop.queries  # with what did not fill another batch
        checked, stop = _last_look(loop, stop, reserve)
        result = make_result(
            problem, checked, loop.journal, loop.imported, stop, parameters, on_failure
        )
        if kept is not None:
            fresh = () if checked.runs is None else checked.runs.ids
            kept.keep_end(_end(result, fresh), result.posterior)
    return result


def _end(result: Result, fresh: tuple[int, ...]) -> dict[str, Any]:
    """What a store tells of the end of a run."""
    return {
        "stopped": result.stop_reason.value,
        "objective": result.objective,
        "mean_risk": result.mean_risk,
        "mean_risk_error": result.mean_risk_error,
        "effective_size": result.effective_size,
        "validated": result.validated,
        "fresh": list(fresh),
        "kl": result.kl,
        "kl_error": result.kl_error,
        "notes": list(result.notes),
    }


def _last_look(loop: Loop, stop: StopReason, queries: int) -> tuple[Checked, StopReason]:
    """So many fresh runs of the last posterior, where there is one to be judged by them."""
    if queries < 2 or stop not in (StopReason.BUDGET, StopReason.CONVERGED):
        return Checked(loop.state), stop
    predicted = loop.journal.infos[-1].predicted
    try:
        run = loop.validate
        return validate(loop.problem, loop.algorithm, loop.state, run, queries, predicted), stop
    except Interrupted:
        return Checked(loop.state), StopReason.INTERRUPTED


def resume(
    store: str | os.PathLike[str],
    risk: Callable[[FloatArray], Any],
    **options: Any,
) -> Result:
    """Go on with the run in `store`, to the same result as if it had never been interrupted.

    The file knows all settings but functions: the risk is given again, and so is whatever else is
    of the user's own making. Any option of `minimize` may be given, a larger `budget` for
    instance; one that would make it another run is refused.
    """
    config = read_config(store)
    settings: dict[str, Any] = {}
    for name, spec in config.items():
        if name in ("loss", "proxy") or name in options:
            continue
        try:
            settings[name] = from_spec(spec)
        except UnknownSpecError as error:
            raise ValueError(
                f"{os.fspath(store)} knows only the name of {name}, {error}: pass {name}= again"
            ) from error
    if config.get("proxy") is not None and "proxy" not in options:
        raise ValueError(
            f"{os.fspath(store)} knows only the name of proxy, {config['proxy']}: pass proxy= again"
        )
    return minimize(risk, store=store, **{**settings, **options})


def reoptimize(
    result: Result,
    risk: Callable[[FloatArray], Any],
    *,
    budget: int,
    prior: Density | Parameters | None = None,
    bound: Bound | None = None,
    **options: Any,
) -> Result:
    """Minimise another bound, or with another prior, from all the runs of an earlier result.

    What was learnt of the risk depends on neither, so that few new queries do: the search begins at
    the earlier posterior with the earlier runs known. `prior` and `bound` are by default the
    earlier ones; `budget` counts new queries only; the other options are those of `minimize`.
    """
    if result.counts is not None:
        raise ValueError("the runs of result were left out of its file: write it with runs=True")
    before = result.parameters or result.prior
    settings: dict[str, Any] = {
        "known": KnownRuns.of(result.x, result.evaluations),
        "algorithm": SuPAC(first=min(budget, 10), batch=min(budget, 10)),
        "on_failure": result.on_failure,
    }
    own = result.parameters
    if isinstance(prior, Parameters) and (own is None or prior.names != own.names):
        raise ValueError(f"prior must have the parameters of the result, not {prior!r}")
    if not isinstance(prior, Parameters) or (own and prior.marginals == own.marginals):
        settings["start"] = result.posterior  # latent points mean the same
    settings |= options
    return minimize(
        risk,
        prior or before,  # type: ignore[arg-type]
        bound or result.bound,  # type: ignore[arg-type]
        budget=budget,
        **settings,
    )


def _check_options(
    mode: str, executor: object, timeout: float | None, tolerance: float, max_failures: float
) -> None:
    if mode not in ("batch", "async"):
        raise ValueError(f'mode must be "batch" or "async", not {mode!r}')
    if mode == "async" and executor is None:
        raise ValueError('mode="async" needs workers: pass executor=, such as executor=4')
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0.0):
        raise ValueError(f"timeout must be a positive number of seconds, not {timeout!r}")
    if not tolerance >= 0.0:
        raise ValueError(f"tolerance must not be negative, but is {tolerance!r}")
    if not 0.0 <= max_failures <= 1.0:
        raise ValueError(f"max_failures must be a share from 0 to 1, not {max_failures!r}")


def _check_known(known: KnownRuns | None, algorithm: Algorithm, problem: Problem) -> None:
    if known is None:
        return
    if not isinstance(known, KnownRuns):
        raise TypeError(f"known must be runs such as read_csv(path, names) gives, not {known!r}")
    dim = problem.start.dim
    if known.x.shape[1] != dim:
        raise ValueError(f"known has points of {known.x.shape[1]} coordinates, not {dim}")
    uses_known = getattr(algorithm, "uses_known", None)
    if uses_known is None or not uses_known(problem):
        raise ValueError(
            f"known runs are of no use to {algorithm!r}, which weighs runs by how they were drawn; "
            "use SuPAC() or SuPAC.paper(), or an estimator whose plan has uses_known=True"
        )


def _reserve(validation: int | None, algorithm: Algorithm, budget: int, first: int) -> int:
    """Queries kept for the end."""
    if validation is None:
        asks = getattr(algorithm, "validation", None)
        reserve = min(asks(budget), budget - first) if asks is not None else 0
        return reserve if reserve > 1 else 0
    if whole(validation, "validation", least=0) + first > budget:
        raise ValueError(
            f"validation = {validation} leaves too little of the budget of {budget} for the first "
            f"batch of {first} queries"
        )
    return validation


def _checked(algorithm: Algorithm) -> Algorithm:
    if isinstance(algorithm, type) or not hasattr(algorithm, "tell"):
        raise TypeError(f"algorithm must be one such as SuPAC(), not {algorithm!r}")
    return algorithm


def _problem(
    prior: Density | Parameters,
    bound: Bound,
    start: Distribution | None,
    proxy: Function | None,
    on_failure: str,
    loss: Loss | None,
) -> Problem:
    if not isinstance(bound, Bound):
        raise TypeError(f"bound must be a bound such as Catoni(temperature=0.01), not {bound!r}")
    if on_failure not in ("raise", "penalise", "drop"):
        raise ValueError(f'on_failure must be "raise", "penalise" or "drop", not {on_failure!r}')
    if on_failure == "penalise" and not hasattr(bound, "ceiling"):
        raise ValueError(
            f'on_failure="penalise" counts a failed run as the ceiling of the risk, but {bound!r} '
            "has no attribute `ceiling`; give it one"
        )
    density: Density = prior.prior if isinstance(prior, Parameters) else prior
    if start is None:
        if not isinstance(density, Distribution):
            raise TypeError(
                f"prior must be a Distribution, such as gaussian(mean, covariance), or Parameters, "
                f"not {density!r}; any other with a log_prob needs start=, the first posterior"
            )
        start = density
    if not isinstance(start, Distribution):
        raise TypeError(f"start must be a Distribution, the first posterior, not {start!r}")
    if isinstance(density, Distribution) and density.dim != start.dim:
        raise ValueError(f"start has {start.dim} coordinates, but the prior has {density.dim}")
    if not isinstance(start.family, Family):
        _check_score(start)
    x = start.sample(3, 0)
    _check_function(density.log_prob, x, "prior.log_prob")
    if proxy is not None:
        if isinstance(prior, Parameters):
            proxy = _in_units(proxy, prior)
        _check_function(proxy, x, "proxy")
    failure_risk = getattr(bound, "ceiling", None) if on_failure == "penalise" else None
    return Problem(density, bound, start, proxy, failure_risk, loss)


def _check_score(start: Distribution) -> None:
    """The score against differences of the log-density, in one direction: who wrote it may err."""
    family, theta, rng = start.family, start.theta, np.random.default_rng(0)
    x, direction = start.sample(20, rng), rng.standard_normal(family.size)
    score = np.asarray(family.score(theta, x))
    if score.shape != (len(x), family.size):
        raise ValueError(
            f"score of {family} must have one row a point and one column an entry of theta, "
            f"({len(x)}, {family.size}), not {score.shape}"
        )
    # In units of each entry's own effect: θ may have any scale.
    scale = np.sqrt((score**2).mean(axis=0))
    h = 1e-4 * direction / np.where(scale > 0.0, scale, np.inf)
    while not (family.contains(theta + h) and family.contains(theta - h)):
        h = 0.5 * h
    change = 0.5 * (family.log_prob(theta + h, x) - family.log_prob(theta - h, x))
    slope = change / max(float(np.linalg.norm(scale * h)), 1e-300)
    gap = float(np.abs(score @ h - change).max()) / max(float(np.linalg.norm(scale * h)), 1e-300)
    if not gap <= 0.01 * (1.0 + float(np.abs(slope).max())):
        raise ValueError(
            f"score of {family} is not the derivative of its log_prob in theta: along a random "
            f"direction they differ by {gap:.3g} where the derivative is {np.abs(slope).max():.3g}"
        )


def _in_units(function: Function, parameters: Parameters) -> Function:
    """A function of the user's units as one of latent points."""
    return lambda u: function(parameters.from_latent(u))


def _check_function(function: Function, x: FloatArray, name: str) -> None:
    """One call, to meet a wrong shape where it can be named."""
    try:
        values = np.asarray(function(x), dtype=np.float64)
        problem = "" if values.shape == (len(x),) else f"returned an array of shape {values.shape}"
    except Exception as error:
        problem = f"raised {type(error).__name__}: {error}"
    if problem:
        raise ValueError(
            f"{name} must take an array of points, shape (n, {x.shape[1]}), and return n numbers; "
            f"it {problem} for n = {len(x)}"
        )
