"""What a run gives: the posterior, what it costs, how it was found, and what to know of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import numpy as np

from supac.algorithm import PRIOR, Info, Problem, State
from supac.arrays import FloatArray
from supac.bounds import Bound
from supac.certificate import Certificate
from supac.certify import certify
from supac.evaluations import Evaluations
from supac.families import Density, Distribution
from supac.missed import notes_on_modes
from supac.parameters import Parameters
from supac.runs import Run
from supac.surrogate import Importance
from supac.validation import Checked

_RECENT = 20_000  # runs that the estimate of the mean risk rests on, where no fresh ones do


class StopReason(StrEnum):
    """Why a run ended."""

    BUDGET = "budget"
    CONVERGED = "converged"
    USER = "user"
    FAILURES = "too many failures"
    INTERRUPTED = "interrupted"

    @property
    def sentence(self) -> str:
        """What it means, and what one might do."""
        return {
            "budget": "The budget is spent, or too little is left for another batch.",
            "converged": "Successive posteriors differ by less than the tolerance.",
            "user": "The callback asked to stop.",
            "too many failures": "More of the runs failed than max_failures allows: look at the "
            "simulator, or narrow the prior to where it works.",
            "interrupted": "Ctrl-C: what had been learnt until then is returned.",
        }[self.value]


@dataclass(eq=False)
class Journal:
    """What happened on the way, iteration by iteration."""

    infos: list[Info] = field(default_factory=list)
    queries: list[int] = field(default_factory=list)
    """How many there had been after each."""
    failures: list[Run] = field(default_factory=list)
    seconds: float = 0.0
    """That the simulator took."""

    def columns(self) -> dict[str, FloatArray]:
        """One array a quantity."""
        names = [each.name for each in fields(Info) if each.name != "notes"]
        columns = {name: np.array([getattr(info, name) for info in self.infos]) for name in names}
        return {"queries": np.array(self.queries, dtype=np.float64), **columns}


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

    @property
    def mean_risk(self) -> float:
        """Of `posterior`, as far as its runs tell."""
        return self.info.mean_risk

    @property
    def kl(self) -> float:
        """KL(posterior, prior)."""
        return self.info.kl


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
    kl_error: float
    """Standard error of `kl`; 0 where it is exact."""
    stop_reason: StopReason
    evaluations: Evaluations
    history: dict[str, FloatArray]
    """One column a quantity, one row an iteration; `queries` are those made until then."""
    notes: tuple[str, ...] = ()
    """Sentences on anything that should be known before the result is used."""
    parameters: Parameters | None = None
    failures: tuple[Run, ...] = ()
    """The runs that failed, with the reason of each."""
    on_failure: str = "raise"
    """What became of them: it changes what is bounded."""
    seconds: float = 0.0
    """That the simulator took in all."""
    known: int = 0
    """How many of the evaluations were made elsewhere."""
    prior: Density | None = None
    bound: Bound | None = None

    def certify(self, risk: Callable[[FloatArray], Any], *, n: int, **options: Any) -> Certificate:
        """What is guaranteed of the posterior: fresh runs, and the bound with its assumptions.

        `n` is the number of independent data behind each risk; the options are those of `certify`:
        `delta=0.05`, `draws=1000`, another `bound`, an `executor` and so on.
        """
        prior = self.parameters or self.prior
        bound = options.pop("bound", self.bound)
        return certify(self.posterior, prior, risk, bound, n=n, **options)  # type: ignore[arg-type]

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
        known = f" and {self.known} known ones" if self.known else ""
        summary = (
            f"objective {self.objective:.5g} (mean risk {self.mean_risk:.5g} "
            f"± {self.mean_risk_error:.1g}, {self._basis}; "
            f"KL {round(self.kl, 12):.4g}); "
            f"{len(self.evaluations) - self.known} runs{known}, {self.evaluations.failed} failed; "
            f"stopped: {self.stop_reason}"
        )
        return "\n".join([summary, *(f"note: {note}" for note in self.notes)])


def _notes_on_the_estimate(
    problem: Problem, state: State, size: float, *, fresh: bool
) -> tuple[str, ...]:
    """What to know before using the mean risk, and the bound made of it."""
    notes = []
    unknowns = state.posterior.family.size + 1
    if size < unknowns and not fresh:
        notes.append(
            f"the mean risk rests on the equivalent of {size:.1f} independent runs, fewer than the "
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


def _notes_on_the_way(queries: Sequence[int], infos: Sequence[Info]) -> tuple[str, ...]:
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


def note_on_the_budget(objective: FloatArray) -> tuple[str, ...]:
    """Whether more runs would have helped: the last two steps gained over a tenth of it all.

    And the last one half of that: a search that has just arrived is not falling any more.
    """
    known = objective[np.isfinite(objective)]
    if len(known) < 4 or known[-3] - known[-1] < 0.1 * (known[0] - known[-1]):
        return ()
    if known[-2] - known[-1] < 0.05 * (known[0] - known[-1]):
        return ()
    falling = " → ".join(f"{value:.3g}" for value in known[-3:])
    return (f"the objective was still falling when the budget ended ({falling}): raise it",)


def notes_on_failures(failures: Sequence[Run], *, left_out: bool) -> tuple[str, ...]:
    """How many runs failed, and why most of them did."""
    if not failures:
        return ()
    # Messages may name a folder or a point of their own: their first words tell them apart.
    kinds = Counter((run.status, run.message.split("(in ")[0][:60]) for run in failures)
    (status, words), count = kinds.most_common(1)[0]
    reason = next(
        run.message for run in failures if run.status is status and run.message.startswith(words)
    )
    share = "all" if count == len(failures) else f"{count} of them"
    note = f"{len(failures)} runs failed, {share} with: {reason}"
    if len(failures) == 1:
        note = f"a run failed with: {reason}"
    if left_out:
        note += ". They were left out: the bound is about runs that do not fail"
    return (note,)


def make_result(
    problem: Problem,
    checked: Checked,
    journal: Journal,
    known: int,
    stop: StopReason,
    parameters: Parameters | None,
    on_failure: str,
) -> Result:
    """The posterior with what is known of it."""
    state, fresh = checked.state, checked.runs
    posterior = state.posterior if fresh is None else fresh.posterior
    divergence = posterior.divergence(problem.prior, [state.seed, state.iteration, PRIOR, 1])
    kl = divergence.value
    runs = state.evaluations.usable(problem.failure_risk)
    mean_risk = error = size = np.nan
    if fresh is not None:
        mean_risk, error, size = fresh.mean_risk, fresh.error, float(len(fresh.risk))
    elif runs.drawn.any():
        recent = runs.select(runs.drawn).latest(_RECENT)
        mean_risk, error, size = Importance().fit(recent, posterior).mean_risk(posterior)
    history = journal.columns()
    notes = _notes_on_the_estimate(problem, state, size, fresh=fresh is not None) + checked.notes
    if stop is StopReason.BUDGET:
        notes += note_on_the_budget(history["objective"])
    notes += notes_on_modes(problem, runs, posterior, mean_risk)
    notes += _notes_on_the_way(journal.queries, journal.infos)
    left_out = problem.failure_risk is None and bool(np.isnan(state.evaluations.risk).any())
    notes += notes_on_failures(journal.failures, left_out=left_out)
    return Result(
        posterior=posterior,
        start=problem.start,
        objective=problem.bound(mean_risk, kl),
        mean_risk=mean_risk,
        mean_risk_error=error,
        effective_size=size,
        validated=0 if fresh is None else len(fresh.risk),
        kl=kl,
        kl_error=divergence.error,
        stop_reason=stop,
        evaluations=state.evaluations,
        history=history,
        notes=notes,
        parameters=parameters,
        failures=tuple(journal.failures),
        on_failure=on_failure,
        seconds=journal.seconds,
        known=known,
        prior=problem.prior,
        bound=problem.bound,
    )
