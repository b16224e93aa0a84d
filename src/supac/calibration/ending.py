"""The end of a search: validate the last posterior with fresh runs, and make the ending."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from supac.arrays import FloatArray
from supac.calibration.certify import Certifier
from supac.calibration.diagnostics import (
    hardly_begun,
    note_on_equal_risks,
    note_on_learning,
    note_on_noise,
    note_on_the_budget,
    notes_on_failures,
    notes_on_modes,
    notes_on_refusals,
    notes_on_the_estimate,
    notes_on_the_way,
)
from supac.calibration.shaping import Shaped, shaped
from supac.families import Distribution
from supac.guarantee.basis import CertificateError
from supac.guarantee.certificate import Certificate
from supac.guarantee.ensemble import FIRST, PASSED, SECOND
from supac.problem import Batch, Evaluations, Problem
from supac.problem.bounds import worth_of_a_nat
from supac.problem.composite import parts_of
from supac.record.ending import Ending, StopReason, ValidationBatch
from supac.record.record import Record
from supac.record.run import Round
from supac.record.simulator_versions import made_by_others, versions_of
from supac.running.runner import Runner
from supac.search.algorithm import PRIOR, VALIDATE, Algorithm, Info, State
from supac.shape.evidence import Evidence
from supac.surrogate.estimator import DEAREST
from supac.surrogate.importance import Importance

_COVERED = 0.7  # largest Pareto k̂ at which weighted runs represent a posterior
_CLEARLY = 3.0  # nats by which an earlier posterior must have been better to be tried again
_LEAST_SPARE = 12  # runs that are kept for another posterior where all others are made at once
_RECENT = 20_000  # latest runs that estimate the mean risk if there are no fresh ones


@dataclass(frozen=True, eq=False)
class FreshRisks:
    """Risks of independent runs of a posterior that were not used to find it."""

    posterior: Distribution
    kl: float
    x: FloatArray
    risk: FloatArray
    """With the risk of failed runs, if they count."""

    def joined(self, more: FreshRisks) -> FreshRisks:
        """Return these runs and more of the same posterior."""
        x, risk = np.concatenate([self.x, more.x]), np.concatenate([self.risk, more.risk])
        return replace(self, x=x, risk=risk)

    @property
    def mean_risk(self) -> float:
        """Mean risk; NaN without runs."""
        return float(self.risk.mean()) if len(self.risk) else np.nan

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN for fewer than two runs."""
        n = len(self.risk)
        return float(self.risk.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan

    def error_with_cliffs(self, chance: float, worst: float) -> float:
        """Standard error that knows of bad runs which these few did not meet.

        With `chance` a run of the posterior has about the `worst` risk; n runs without any leave
        room for no more than one in n + 1.
        """
        n = len(self.risk)
        rare = min(chance, 1.0 / (n + 1)) if chance > 0.0 and n else 0.0
        severity = max(worst - float(self.risk.max()), 0.0) if n else 0.0
        return float(np.hypot(self.error, severity * np.sqrt(rare / max(n, 1))))

    def objective(self, problem: Problem) -> float:
        """Compute the bound of the mean risk; infinite without runs."""
        return problem.bound(self.mean_risk, self.kl) if len(self.risk) else np.inf


@dataclass(frozen=True, eq=False)
class Validated:
    """Last state, and the fresh risks of the posterior to return, if any."""

    state: State
    shaped: Shaped
    """The posterior to return."""
    fresh: FreshRisks | None = None
    batches: tuple[ValidationBatch, ...] = ()
    notes: tuple[str, ...] = ()
    share: float = PASSED
    """Share of δ of the sample of fresh runs that is returned: see `guarantee.ensemble`."""

    def evidence(self, problem: Problem) -> Evidence | None:
        """Estimate the evidence, if there is a model of the risk, and a temperature."""
        if self.fresh is None:
            return self.shaped.evidence(problem, np.empty((0, problem.start.dim)), np.empty(0))
        return self.shaped.evidence(problem, self.fresh.x, self.fresh.risk)


@dataclass(frozen=True, eq=False)
class EarlierPosterior:
    """Posterior of an earlier round, and its objective as its runs have shown it."""

    posterior: Distribution
    objective: float

    @classmethod
    def best_of(cls, rounds: Sequence[Round]) -> EarlierPosterior | None:
        """Return that of the lowest objective whose runs cover it, if any."""
        shown = [
            cls(each.proposal, each.info.objective)
            for each in rounds
            if each.proposal is not None
            and np.isfinite(each.info.objective)
            and not each.info.k_hat > _COVERED
        ]
        return min(shown, key=lambda each: each.objective, default=None)

    def clearly_beats(self, fresh: FreshRisks, problem: Problem) -> bool:
        """Return True if it is better than fresh runs by two standard errors and a few nats."""
        if not len(fresh.risk):
            return True
        mean = fresh.mean_risk
        low = mean - 2.0 * float(np.nan_to_num(fresh.error))
        nat = worth_of_a_nat(problem.bound, mean, fresh.kl)
        return bool(self.objective < problem.bound(low, fresh.kl) - _CLEARLY * nat)


@dataclass(frozen=True)
class Halves:
    """Numbers of fresh runs that validate a posterior, and those after a bad validation."""

    first: int
    second: int
    always: bool = True
    """The second are made after a good validation as well, to make the estimate more precise."""

    @classmethod
    def of(cls, runs: int) -> Halves:
        """Return two halves."""
        return cls((runs + 1) // 2, runs // 2)

    @classmethod
    def at_once(cls, runs: int) -> Halves:
        """Return nearly all at once, for many workers, with a few for another posterior.

        Two halves one after the other would keep half of the workers busy for twice the time.
        """
        spare = min(max(runs // 8, _LEAST_SPARE), runs // 2)
        return cls(runs - spare, spare, always=False)

    @property
    def shown(self) -> int:
        """Number of runs that a good validation takes."""
        return self.first + self.second * self.always


def validate(
    problem: Problem,
    algorithm: Algorithm,
    state: State,
    runner: Runner,
    halves: Halves,
    predicted: float,
    shape: str,
    earlier: EarlierPosterior | None = None,
) -> Validated:
    """Make the first half of fresh runs; if they are bad, learn from them and try again.

    If the runs of an `earlier` posterior were clearly better, that is tried in its place. If they
    are good, the other half makes the estimate more precise.
    """
    own = shaped(problem, algorithm, state, predicted, shape)
    predicted = own.predicted
    first = _FreshRuns.of(problem, state, own.posterior, runner, halves.first)
    fresh, error = first.risks, np.nan_to_num(first.risks.error)
    passed = len(fresh.risk) and problem.bound(fresh.mean_risk - 2.0 * error, fresh.kl) <= predicted
    back = earlier is not None and earlier.clearly_beats(fresh, problem)
    keep = not back and (passed or np.isnan(predicted))
    if keep and not halves.always:
        return Validated(first.told, own, fresh, (first.batch,))
    if back and earlier is not None:
        after = replace(first.told, posterior=earlier.posterior)
        again = shaped(problem, algorithm, after, np.nan, "gaussian")
    else:
        after = first.told if keep else algorithm.tell(problem, first.asked, *first.columns)[0]
        again = own if keep else shaped(problem, algorithm, after, np.nan, shape)
    second = _FreshRuns.of(problem, after, again.posterior, runner, halves.second)
    batches = first.batch, second.batch
    if keep:
        return Validated(second.told, own, fresh.joined(second.risks), batches)
    if not len(fresh.risk) + len(second.risks.risk):
        words = (
            "all fresh runs of the last posterior failed: it could not be checked; their messages "
            "are in the table of `supac export`"
        )
        return Validated(second.told, again, None, batches, (words,))
    values = [each.objective(problem) for each in (fresh, second.risks)]
    note = (
        f"fresh runs of the last posterior gave an objective of {values[0]:.4g}, and those of an "
        f"earlier one, whose runs had been better, {values[1]:.4g}"
        if back
        else f"fresh runs of the last posterior gave an objective of {values[0]:.4g} where "
        f"{predicted:.4g} was predicted; after learning from them, {values[1]:.4g}"
    )
    note += (
        ". The better of the two posteriors is returned; `supac resume --budget`, or budget= of "
        "resume, goes on"
    )
    if values[0] <= values[1]:
        return Validated(second.told, own, fresh, batches, (note,), FIRST)
    return Validated(second.told, again, second.risks, batches, (note,), SECOND)


@dataclass(frozen=True, eq=False)
class _FreshRuns:
    """Fresh runs of a posterior, made in a state."""

    asked: State
    """State that has asked for them."""
    columns: tuple[Batch, FloatArray, FloatArray | None]
    """Planned runs, their risks and outputs."""
    risks: FreshRisks
    batch: ValidationBatch

    @classmethod
    def of(
        cls, problem: Problem, state: State, posterior: Distribution, runner: Runner, n: int
    ) -> _FreshRuns:
        x = posterior.sample(n, state.rng(VALIDATE))
        batch = state.batch_of(x, proposal=posterior)
        runs = runner.run_planned(batch.planned, "validation")
        risk, outputs = runner.functions[0].columns(runs)
        new = Evaluations.none(posterior.dim).append(batch.x, risk, posterior)
        # A failed run counts as no less than the worst of all runs, not only of these.
        before = state.evaluations.risk
        worst = float(before[np.isfinite(before)].max(initial=-np.inf))
        failure_risk = None if problem.failure_risk is None else max(problem.failure_risk, worst)
        kl = posterior.divergence(problem.prior, [state.seed, state.iteration, PRIOR, 1]).value
        usable = new.usable(failure_risk)
        return cls(
            state,
            (batch, risk, outputs),
            FreshRisks(posterior, kl, usable.x, usable.risk),
            ValidationBatch(tuple(run.id for run in runs), posterior),
        )

    @property
    def told(self) -> State:
        """State with these runs added, without a step."""
        return replace(self.asked, evaluations=self.asked.told(*self.columns), batch=None)


def make_ending(
    problem: Problem,
    validated: Validated,
    record: Record,
    stop: StopReason,
    risk: object,
    failure_loss: float,
) -> Ending:
    """Estimate the objective of the returned posterior, certify its draws, collect warnings."""
    state, fresh = validated.state, validated.fresh
    posterior = validated.shaped.posterior
    divergence = posterior.divergence(problem.prior, [state.seed, state.iteration, PRIOR, 1])
    runs = state.evaluations.usable(problem.failure_risk)
    mean_risk = error = size = np.nan
    if fresh is not None:
        mean_risk, size = fresh.mean_risk, float(len(fresh.risk))
        error = fresh.error_with_cliffs(*_cliffs(problem, record, runs, validated))
    elif runs.drawn.any():
        mean_risk, error, size = _estimated_on_the_way(runs, posterior)
    history = record.history
    notes = notes_on_the_estimate(problem, state, size, risk, fresh=fresh is not None)
    notes += validated.notes + notes_of(risk) + note_on_equal_risks(state.evaluations)
    objective = problem.bound(mean_risk, divergence.value)
    if stop is StopReason.BUDGET:
        notes += note_on_the_budget(history, problem.bound)
    known = np.isfinite(mean_risk)
    nat = worth_of_a_nat(problem.bound, mean_risk, divergence.value) if known else np.inf
    if stop in (StopReason.BUDGET, StopReason.CONVERGED) and not hardly_begun(history):
        error_of_model = record.rounds[-1].info.loo_error
        notes += note_on_learning(problem, state, objective, nat, error_of_model)
    if not hardly_begun(history):
        notes += notes_on_modes(problem, runs, posterior, mean_risk)
        notes += note_on_noise(history)
    queries = history["queries"].astype(int).tolist()
    notes += notes_on_the_way(queries, [each.info for each in record.rounds], nat)
    left_out = problem.failure_risk is None and bool(np.isnan(state.evaluations.risk).any())
    told = record.told_ids(validated.batches)
    failures = [run for run in record.failures if run.id in told or not told]
    notes += notes_on_failures(failures, left_out=left_out)
    refused = [run for run in record.refused if run.id in told or not told]
    notes += notes_on_refusals(refused, len(told), left_out=left_out)
    certificates, reason = _certificates(problem, validated, record, stop, risk)
    return Ending(
        posterior=posterior,
        evidence=validated.evidence(problem),
        stop_reason=stop,
        objective=objective,
        mean_risk=mean_risk,
        mean_risk_error=error,
        effective_size=size,
        validated=0 if fresh is None else len(fresh.risk),
        kl=divergence.value,
        kl_error=divergence.error,
        notes=notes,
        validation=validated.batches,
        failure_loss=failure_loss,
        certificate=certificates.get("certificate"),
        held_out=certificates.get("held_out"),
        uncertified=reason,
    )


def _estimated_on_the_way(runs: Evaluations, posterior: Distribution) -> tuple[float, float, float]:
    """Estimate posterior[R] from the runs that were made; return its error and effective size.

    The error is NaN where one run counts, or none has succeeded: these show no spread.
    """
    recent = runs.select(runs.drawn).latest(_RECENT)
    mean_risk, error, size = Importance().fit(recent, posterior).mean_risk(posterior)
    return mean_risk, error if size >= 2.0 and runs.ok.any() else np.nan, size


def notes_of(risk: object) -> tuple[str, ...]:
    """Return what a simulator says of its own set-up, in `notes`, if it says anything."""
    found = getattr(parts_of(risk).simulate, "notes", ())
    return tuple(map(str, found)) if isinstance(found, tuple | list) else ()


def _cliffs(
    problem: Problem, record: Record, runs: Evaluations, validated: Validated
) -> tuple[float, float]:
    """Return the chance of a bad run of the returned posterior, and its risk.

    The chance is 0 if no bad run was met, or if the posterior is not the last round's.
    """
    info = record.rounds[-1].info if record.rounds else Info()
    other = validated.state.abandoned is not None or validated.share == SECOND
    met = info.wrong > 0.0 and info.failure_chance > 0.0
    if not met or other or validated.fresh is None:
        return 0.0, 0.0
    # Risks without a limit say nothing on what a bad run costs: the worst of the prior is an
    # accident.
    mean = validated.fresh.mean_risk
    nat = worth_of_a_nat(problem.bound, mean, validated.fresh.kl) if np.isfinite(mean) else np.inf
    dearest = max(problem.failure_risk or 0.0, mean + DEAREST * nat)
    return info.failure_chance, min(float(runs.risk.max(initial=0.0)), dearest)


def _certificates(
    problem: Problem, validated: Validated, record: Record, stop: StopReason, risk: object
) -> tuple[dict[str, Certificate], str]:
    """Certify the fresh runs of the returned posterior; or say why that cannot be done.

    With held-out data there are two certificates, each with half of δ. They are counted in the
    record.
    """
    fresh = validated.fresh
    if fresh is None:
        return {}, record.provenance.refusal or _not_validated(validated, stop)
    ids = [
        i for batch in validated.batches if batch.posterior == fresh.posterior for i in batch.ids
    ]
    others = len(made_by_others(versions_of(record.description), ids))
    if others:
        return {}, (
            f"another version of the simulator made {others} of the {len(ids)} fresh runs; "
            "`supac certify --draws 20` certifies new parameter sets with the present one"
        )
    runs, tested = record.runs_of(ids), parts_of(risk).tested
    about = Certifier(
        fresh.posterior, problem.prior, risk, problem.bound, provenance=record.provenance
    )
    if tested is not None:
        about = replace(about, delta=0.5 * about.probability)
    make = {"certificate": partial(about.ensemble, runs, validated.share)}
    if tested is not None:
        make["held_out"] = partial(about.held_out, runs, tested)
    made, reasons = {}, []
    for name, certificate in make.items():
        try:
            made[name] = certificate()
        except CertificateError as error:
            reasons.append(str(error))
        except Exception as error:  # of a loss of the user's: the runs are made, keep the result
            reasons.append(f"{type(error).__name__}: {error}")
    if made:
        record.provenance = record.provenance.after(about.name("ensemble", runs))
    return made, "; ".join(reasons)


def _not_validated(validated: Validated, stop: StopReason) -> str:
    """Say why there is no fresh run of the posterior to certify, and what to do."""
    if stop in (StopReason.INTERRUPTED, StopReason.USER):
        return (
            "the search was stopped before its posterior was validated: `supac resume`, or "
            "`resume`, goes on, validates it and certifies what it finds"
        )
    if stop is StopReason.FAILURES or validated.batches:
        runs = "all fresh runs of the posterior" if validated.batches else "too many runs"
        return f"{runs} failed: look at the failures of the simulator first"
    return (
        "no fresh run of the posterior is left; with any number of further runs, such as 20, "
        "`certify` draws as many parameter sets and certifies them"
    )
