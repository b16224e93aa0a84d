"""The public loop: ask, evaluate, tell, show, until there is a reason to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from supac.algorithm import PROJECT, Algorithm, Info, Problem, State
from supac.arrays import FloatArray, whole
from supac.bounds import Bound
from supac.composite import Composite
from supac.evaluate import Outcome, evaluate
from supac.evaluations import Evaluations
from supac.families import Distribution
from supac.parameters import Parameters
from supac.progress import ProgressBar
from supac.supac import SuPAC
from supac.surrogate import Density, Importance, Loss, view_prior
from supac.surrogate.known import Function
from supac.validation import Checked, validate


class StopReason(StrEnum):
    """Why a run ended."""

    BUDGET = "budget"
    CONVERGED = "converged"
    USER = "user"
    FAILURES = "too many failures"

    @property
    def sentence(self) -> str:
        """What it means, and what one might do."""
        return {
            "budget": "The budget is spent, or too little is left for another batch.",
            "converged": "Successive posteriors differ by less than the tolerance.",
            "user": "The callback asked to stop.",
            "too many failures": "More than half of the runs failed: look at the simulator, or "
            "narrow the prior to where it works.",
        }[self.value]


@dataclass(frozen=True)
class Iteration:
    """What a callback is given after each iteration."""

    queries: int
    posterior: Distribution
    """The posterior that drew the batch, which `objective` is about."""
    objective: float
    info: Info
    next_posterior: Distribution
    """Where the step led, before any run has been made there."""


@dataclass(frozen=True, eq=False)
class Result:
    """The posterior, what it costs, and how it was found.

    `mean_risk` is the mean of `validated` fresh runs. Where there are none it is estimated from the
    runs already made, reweighted for the posterior; that was fitted to the same runs, so the
    estimate is optimistic, strongly so where `effective_size` is small.
    """

    posterior: Distribution
    start: Distribution
    """Where the search began: the prior, unless another was given."""
    objective: float
    mean_risk: float
    mean_risk_error: float
    """Standard error of `mean_risk`."""
    effective_size: float
    """How many independent runs the estimate of `mean_risk` is worth."""
    validated: int
    """How many fresh runs of the posterior itself `mean_risk` rests on."""
    kl: float
    stop_reason: StopReason
    evaluations: Evaluations
    history: dict[str, FloatArray]
    """One column a quantity, one row an iteration; `queries` are those made until then."""
    notes: tuple[str, ...] = ()
    """Sentences on anything that should be known before the result is used."""
    parameters: Parameters | None = None

    @property
    def x(self) -> FloatArray:
        """The points that were evaluated, in the user's units: (n, dim)."""
        latent = self.evaluations.x
        return latent if self.parameters is None else self.parameters.from_latent(latent)

    def sample(self, n: int, rng: np.random.Generator | int) -> FloatArray:
        """Draws of the posterior, in the user's units where `Parameters` were given: (n, dim)."""
        if self.parameters is None:
            return self.posterior.sample(n, rng)
        return self.parameters.sample(self.posterior, n, rng)

    @property
    def _basis(self) -> str:
        if self.validated:
            return f"from {self.validated} fresh runs"
        return f"worth {self.effective_size:.0f} runs"

    def __str__(self) -> str:
        summary = (
            f"objective {self.objective:.5g} (mean risk {self.mean_risk:.5g} "
            f"± {self.mean_risk_error:.1g}, {self._basis}; "
            f"KL {round(self.kl, 12):.4g}); "
            f"{len(self.evaluations)} runs, {self.evaluations.failed} failed; "
            f"stopped: {self.stop_reason}"
        )
        return "\n".join([summary, *(f"note: {note}" for note in self.notes)])


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
    on_failure: Literal["raise", "penalise", "drop"] = "raise",
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
        Whether `risk` takes many points at a time.
    on_failure
        What a run that raises, or returns NaN or infinity, does: "raise" an error; "penalise",
        count as the bound's ceiling; "drop", be left out, which changes what is bounded.
    validation
        Queries of the budget with which the posterior is checked before it is returned; by default
        a fifth, at most 60, and what is left over, for algorithms that ask for it. Where they are
        worse than predicted the algorithm learns from half of them, and the better of the two
        posteriors is returned.
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
    if not tolerance >= 0.0:
        raise ValueError(f"tolerance must not be negative, but is {tolerance!r}")
    state = algorithm.init(problem, seed)
    x = algorithm.ask(problem, state)
    if whole(budget, "budget", least=1) < len(x):
        raise ValueError(
            f"budget = {budget} is smaller than the first batch of {len(x)} queries; raise it, or "
            f"make the batch smaller, such as algorithm=SuPAC(first={budget}, batch={budget})"
        )
    reserve = _reserve(validation, algorithm, budget, len(x))
    infos: list[Info] = []
    queries: list[int] = []
    reasons: Counter[str] = Counter()

    def run(points: FloatArray, before: Evaluations) -> Outcome:
        outcome = evaluate(
            risk,
            points if parameters is None else parameters.from_latent(points),
            vectorized=vectorized,
            raising=on_failure == "raise",
            outputs=None if before.outputs is None else before.outputs.shape[1],
        )
        reasons.update(outcome.reasons)
        return outcome

    with ProgressBar(budget, progress) as bar:
        stop = None
        while stop is None:
            outcome = run(x, state.evaluations)
            drawn_from = state.posterior
            state, info = algorithm.tell(problem, state, x, outcome.risk, outcome.outputs)
            infos.append(info)
            queries.append(len(state.evaluations))
            bar.update(queries[-1], info)
            event = Iteration(queries[-1], drawn_from, info.objective, info, state.posterior)
            asked = callback is not None and bool(callback(event))
            x = algorithm.ask(problem, state)
            stop = _reason_to_stop(state, info, budget - reserve - len(x), tolerance, asked)
        checked = Checked(state)
        if reserve > 1 and stop in (StopReason.BUDGET, StopReason.CONVERGED):
            spare = validation is None and stop is StopReason.BUDGET
            left = budget - len(state.evaluations) if spare else reserve
            checked = validate(problem, algorithm, state, run, left, infos[-1].predicted)
            bar.update(len(checked.state.evaluations), infos[-1])
    history = _columns(queries, infos)
    notes = _notes_on_the_way(queries, infos) + _notes_on_failures(reasons)
    if stop is StopReason.BUDGET:
        notes = _note_on_the_budget(history["objective"]) + notes
    return _result(problem, checked, stop, history, parameters, notes)


def _reserve(validation: int | None, algorithm: Algorithm, budget: int, first: int) -> int:
    """Queries kept for the end."""
    if validation is None:
        asks = getattr(algorithm, "validation", None)
        return min(asks(budget), budget - first) if asks is not None else 0
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
    x = start.sample(3, 0)
    _check_function(density.log_prob, x, "prior.log_prob")
    if proxy is not None:
        if isinstance(prior, Parameters):
            proxy = _in_units(proxy, prior)
        _check_function(proxy, x, "proxy")
    failure_risk = getattr(bound, "ceiling", None) if on_failure == "penalise" else None
    return Problem(density, bound, start, proxy, failure_risk, loss)


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


def _reason_to_stop(
    state: State, info: Info, room: int, tolerance: float, asked: bool
) -> StopReason | None:
    """`room` is the number of queries after which the next batch no longer fits."""
    if asked:
        return StopReason.USER
    enough_to_tell = len(state.evaluations) >= 30 or room < len(state.evaluations)
    if enough_to_tell and 2 * state.evaluations.failed > len(state.evaluations):
        return StopReason.FAILURES
    if info.alpha > 0.0 and info.step_kl < tolerance:
        return StopReason.CONVERGED
    return StopReason.BUDGET if len(state.evaluations) > room else None


def _columns(queries: list[int], infos: list[Info]) -> dict[str, FloatArray]:
    names = [each.name for each in fields(Info) if each.name != "notes"]
    columns = {name: np.array([getattr(info, name) for info in infos]) for name in names}
    return {"queries": np.array(queries, dtype=np.float64), **columns}


def _notes_on_the_estimate(
    problem: Problem, state: State, size: float, *, fresh: bool
) -> tuple[str, ...]:
    """What to know before using the mean risk, and the bound made of it."""
    notes = []
    unknowns = state.posterior.family.size + 1
    if size < unknowns and not fresh:
        notes.append(
            f"the mean risk rests on the equivalent of {size:.0f} independent runs, fewer than the "
            f"{unknowns} unknowns of the surrogate: check it with fresh draws of the posterior"
        )
    risk, ceiling = state.evaluations.risk, getattr(problem.bound, "ceiling", None)
    certifying = getattr(problem.bound, "n", None) is not None or problem.failure_risk is not None
    if (
        ceiling is not None
        and certifying
        and not (np.isnan(risk) | (risk >= 0.0) & (risk <= ceiling)).all()
    ):
        notes.append(
            f"risks from {np.nanmin(risk):.3g} to {np.nanmax(risk):.3g} leave the range "
            f"[0, {ceiling:.3g}] that the bound assumes: its value guarantees nothing"
        )
    return tuple(notes)


def _notes_on_the_way(queries: list[int], infos: list[Info]) -> tuple[str, ...]:
    """Each different note of the iterations once, with how often and since when."""
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for made, info in zip(queries, infos, strict=True):
        for note in info.notes:
            first.setdefault(note, made)
            counts[note] += 1
    return tuple(
        f"{note} ({counts[note]} of {len(infos)} iterations, first at {made} queries)"
        for note, made in first.items()
    )


def _note_on_the_budget(objective: FloatArray) -> tuple[str, ...]:
    """Whether more runs would have helped: the last two steps gained over a tenth of it all."""
    known = objective[np.isfinite(objective)]
    if len(known) < 4 or known[-3] - known[-1] < 0.1 * (known[0] - known[-1]):
        return ()
    falling = " → ".join(f"{value:.3g}" for value in known[-3:])
    return (f"the objective was still falling when the budget ended ({falling}): raise it",)


def _notes_on_failures(reasons: Counter[str]) -> tuple[str, ...]:
    if not reasons:
        return ()
    reason, count = reasons.most_common(1)[0]
    share = "all" if count == reasons.total() else f"{count} of them"
    return (f"{reasons.total()} runs failed, {share} with: {reason}",)


def _result(
    problem: Problem,
    checked: Checked,
    stop: StopReason,
    history: dict[str, FloatArray],
    parameters: Parameters | None,
    notes: tuple[str, ...],
) -> Result:
    """The posterior with what is known of it."""
    state, fresh = checked.state, checked.runs
    posterior = state.posterior if fresh is None else fresh.posterior
    kl = view_prior(problem.prior, posterior, state.rng(PROJECT)).kl(posterior.theta)
    runs = state.evaluations.usable(problem.failure_risk)
    mean_risk = error = size = np.nan
    if fresh is not None:
        mean_risk, error, size = fresh.mean_risk, fresh.error, float(len(fresh.risk))
    elif len(runs):
        mean_risk, error, size = Importance().fit(runs, posterior).mean_risk(posterior)
    about = _notes_on_the_estimate(problem, state, size, fresh=fresh is not None)
    return Result(
        posterior=posterior,
        start=problem.start,
        objective=problem.bound(mean_risk, kl),
        mean_risk=mean_risk,
        mean_risk_error=error,
        effective_size=size,
        validated=0 if fresh is None else len(fresh.risk),
        kl=kl,
        stop_reason=stop,
        evaluations=state.evaluations,
        history=history,
        notes=about + checked.notes + notes,
        parameters=parameters,
    )
