"""Can this result be used? A few questions to a run, the answer to each, and the worst of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from supac.arrays import FloatArray
from supac.record.diagnostics import hardly_begun, note_on_the_budget
from supac.record.ending import StopReason
from supac.report.account import Account
from supac.report.words import at_most, count_of, number, percent


class Level(IntEnum):
    """How far a result may be trusted; the worst answer decides."""

    TRUST = 0
    LOOK = 1
    DO_NOT_TRUST = 2

    @property
    def words(self) -> str:
        """As readers see it."""
        return ("trust", "look", "do not trust")[self]


@dataclass(frozen=True)
class Check:
    """A question, its answer, and what to do about it."""

    question: str
    answer: str
    level: Level = Level.TRUST


@dataclass(frozen=True)
class Verdict:
    """The worst of the answers, and all of them, the worst first."""

    checks: tuple[Check, ...]

    @property
    def level(self) -> Level:
        """The worst."""
        return max((check.level for check in self.checks), default=Level.TRUST)

    @property
    def reasons(self) -> tuple[Check, ...]:
        """The answers that are not good."""
        return tuple(check for check in self.checks if check.level)

    @property
    def sentence(self) -> str:
        """What it means."""
        return (
            "No check speaks against this result.",
            "The result may well be right, but read the following before you use it.",
            "Do not use these numbers before the following is mended.",
        )[self.level]


_COVERED = 0.7  # Pareto k̂ up to which weighted runs stand for the posterior
_MANY_FAILURES, _SOME_FAILURES = 0.5, 0.1
_ROUGH = 0.2  # of the objective, the standard error of the mean risk from which it is rough
_OFF = 2.0  # noises by which simulations typically miss the data from which they do not fit
_CONFLICT = 2.5  # prior standard deviations between prior and posterior means


def assess(run: Account) -> Verdict:
    """Every check of a run; the order of equals is that of this list."""
    if run.posterior is None:
        missing = "No: nothing has been learnt yet. `supac resume` goes on with the run."
        return Verdict((Check("Is there a posterior?", missing, Level.DO_NOT_TRUST),))
    if run.stop_reason is StopReason.FAILURES and not len(run.risks):
        return Verdict((_ended(run), _failed(run)))  # no risk is known: nothing else can be asked
    questions: tuple[Callable[[Account], Check | None], ...] = (
        _ended, _validated, _predicted, _precise, _failed, _in_range, _learnt, _enough_runs,
        _fits, _agrees_with_prior, _says_something, _other_notes,
    )  # fmt: skip
    if hardly_begun(run.history) and run.stop_reason is not StopReason.CONVERGED:
        # What is found on the way says nothing of the data, the model or the prior.
        questions = (_enough_runs, _ended, _validated, _failed, _in_range)
    checks = [check for check in (ask(run) for ask in questions) if check is not None]
    return Verdict(tuple(sorted(checks, key=lambda check: -check.level)))


def _ended(run: Account) -> Check:
    question = "Did the search come to its end?"
    if run.stop_reason is None:
        words = "it is still running" if run.running else "it was stopped; `supac resume` goes on"
        return Check(question, f"No: {words}. These are the numbers so far.", Level.LOOK)
    if run.stop_reason is StopReason.FAILURES:
        return Check(question, f"No. {run.stop_reason.sentence}", Level.DO_NOT_TRUST)
    if run.stop_reason in (StopReason.INTERRUPTED, StopReason.USER):
        return Check(question, f"No. {run.stop_reason.sentence}", Level.LOOK)
    return Check(question, f"Yes. {run.stop_reason.sentence}")


def _validated(run: Account) -> Check:
    question = "Was the posterior checked with fresh runs?"
    if run.validated > 1:
        words = f"Yes: its mean risk is that of {run.validated} runs that were not used to find it."
        return Check(question, words)
    covered, told = _coverage(run)
    if covered:
        words = (
            "No: its mean risk is estimated from the runs that it was fitted to, which is "
            f"optimistic, though they cover it ({told})."
        )
        return Check(question, words, Level.LOOK)
    words = (
        f"No, and the runs made do not cover it ({told}): its mean risk is a guess of the model. "
        "Let the run come to its end, or give it a larger budget."
    )
    return Check(question, words, Level.DO_NOT_TRUST)


def _coverage(run: Account) -> tuple[bool, str]:
    """Whether the runs made stand for the posterior by themselves, and what says so."""
    assert run.posterior is not None
    k_hat, size = _last(run.history["k_hat"]), _last(run.history["effective_size"])
    if not math.isnan(k_hat):
        side = "below" if k_hat <= _COVERED else "above"
        return k_hat <= _COVERED, f"Pareto k̂ = {number(k_hat)}, {side} {_COVERED}"
    # Where weights have no tail to look at, as those of Voronoi cells.
    unknowns = run.posterior.family.size + 1
    worth = "an unknown number" if math.isnan(size) else number(size)
    told = f"they are worth {worth} of its draws, and the surrogate has {unknowns} unknowns"
    return size >= unknowns, told


def _predicted(run: Account) -> Check | None:
    """Whether fresh runs bear out what the search expected of its last posterior."""
    predicted = _last(run.history["predicted"])
    if run.validated < 2 or run.bound is None or math.isnan(predicted):
        return None
    question = "Do they bear out what the search predicted?"
    error = 0.0 if math.isnan(run.mean_risk_error) else run.mean_risk_error
    least = run.bound(run.mean_risk - 2.0 * error, run.kl)
    told = f"objective {number(run.objective)}, predicted {number(predicted)}"
    if least > predicted:
        words = (
            f"No: they are worse by more than two standard errors ({told}). The fresh runs "
            "count; but the model was wrong somewhere, so more runs may find something better."
        )
        return Check(question, words, Level.LOOK)
    return Check(question, f"Yes, within two standard errors: {told}.")


def _precise(run: Account) -> Check | None:
    if run.validated < 2 or not math.isfinite(run.mean_risk_error):
        return None
    question = "Is the mean risk known precisely?"
    told = f"{number(run.mean_risk)} ± {number(run.mean_risk_error, 2)} (one standard error)"
    if run.mean_risk_error > _ROUGH * abs(run.objective):
        words = f"Roughly: {told}. A certificate with more draws says more."
        return Check(question, words, Level.LOOK)
    return Check(question, f"Yes: {told}.")


def _failed(run: Account) -> Check:
    question = "Did runs fail?"
    total, failed = run.made + run.known, len(run.failures)
    if not failed:
        return Check(question, f"None of {total:,}.")
    share = failed / max(total, 1)
    told = f"{failed} of {total:,} ({percent(share)})"
    if share > _MANY_FAILURES:
        words = f"Most: {told}. Mend the simulator, or narrow the prior to where it works."
        return Check(question, words, Level.DO_NOT_TRUST)
    if run.on_failure == "drop":
        words = f"{told}. They were left out: everything here is about runs that do not fail."
        return Check(question, words, Level.LOOK)
    if share > _SOME_FAILURES:
        words = f"{told}. They count as the worst risk; see below whether their reasons are known."
        return Check(question, words, Level.LOOK)
    return Check(question, f"{told}, few enough; each counts as the worst risk.")


def _in_range(run: Account) -> Check | None:
    if run.ceiling is None or not len(run.risks):
        return None
    question = f"Are all risks between 0 and {run.ceiling:g}, as the bound assumes?"
    low, high = float(run.risks.min()), float(run.risks.max())
    if low < 0.0 or high > run.ceiling:
        words = (
            f"No: from {number(low)} to {number(high)}. The objective bounds nothing. Use a loss "
            "with a largest value, or give the bound the ceiling that the loss has."
        )
        return Check(question, words, Level.DO_NOT_TRUST)
    return Check(question, f"Yes: from {number(low)} to {number(high)}.")


def _learnt(run: Account) -> Check | None:
    known = run.history["objective"][np.isfinite(run.history["objective"])]
    if not len(known) or not math.isfinite(run.objective):
        return None
    question = "Is the posterior better than where the search began?"
    told = f"objective {number(run.objective)} after {number(known[0])}"
    if run.objective >= known[0]:
        words = f"No: {told}. The data may say nothing, or the search has not found it yet."
        return Check(question, words, Level.LOOK)
    return Check(question, f"Yes: {told}.")


def _enough_runs(run: Account) -> Check | None:
    """Nothing where too few steps were made to tell, or where it has not come to its end."""
    question = "Were there enough runs?"
    settled = Check(question, "The objective was not falling any more at the end.")
    if run.stop_reason is StopReason.CONVERGED:
        return settled
    if hardly_begun(run.history):
        if run.stop_reason is not StopReason.BUDGET:
            return None
        return Check(question, f"No: only one step was made. {_go_on(run, 3)}", Level.LOOK)
    if note_on_the_budget(run.history):
        words = f"No: the objective was still falling at the end. {_go_on(run, 2)}"
        return Check(question, words, Level.LOOK)
    return settled if np.isfinite(run.history["objective"]).sum() >= 4 else None


def _go_on(run: Account, times: int) -> str:
    """How to have so many times the budget."""
    if run.budget is None or not run.origin.problem_file:
        return "Go on with a larger budget."
    return f"Raise the budget: `supac resume {run.origin.store} --budget {times * run.budget}`."


def _fits(run: Account) -> Check | None:
    """By the misfit of each observed column where it is known, and by the risk."""
    question = "Does the simulator fit the data?"
    advice = "Look at the fit: is the noise realistic, is the model right?"
    off = [each for each in run.misfits if each.typical > _OFF]
    if off:
        told = ", ".join(f"{each.column} by {number(each.typical, 2)}" for each in off)
        words = f"Badly: it is typically more than {_OFF:g} noises off ({told}). {advice} If both "
        words += "are, the posterior is too wide: more data, or a sharper loss, would narrow it."
        return Check(question, words, Level.LOOK)
    risk = f"mean risk {number(run.mean_risk)}"
    if run.ceiling is not None and math.isfinite(run.mean_risk):
        risk += f", of at most {run.ceiling:g}"
        if run.mean_risk > 0.5 * run.ceiling:
            return Check(question, f"Badly: {risk}. {advice}", Level.LOOK)
    if run.misfits:
        worst = max(run.misfits, key=lambda each: each.typical)
        words = f"Yes: no column is typically more than {number(worst.typical, 2)} noises off"
        return Check(question, f"{words} ({risk}).")
    if run.ceiling is None or not math.isfinite(run.mean_risk):
        return None
    return Check(question, f"As far as the loss tells: {risk}.")


def _agrees_with_prior(run: Account) -> Check | None:
    rows = run.learnt
    if not rows or math.isnan(rows[0].shift):
        return None
    question = "Do the data agree with the prior?"
    far = [row for row in rows if abs(row.shift) > _CONFLICT]
    if far:
        told = ", ".join(f"{row.name} by {number(abs(row.shift), 2)}" for row in far)
        words = (
            f"Not everywhere: the posterior moved by more than {_CONFLICT} prior standard "
            f"deviations ({told}). Is the prior right, is the model?"
        )
        return Check(question, words, Level.LOOK)
    return Check(
        question, f"No parameter moved by more than {_CONFLICT} prior standard deviations."
    )


def _says_something(run: Account) -> Check | None:
    certificate, ceiling = run.certificate, run.ceiling
    question = "Does the guarantee say something?"
    if certificate is not None:
        if certificate.vacuous:
            words = "No: the certificate only says that the risk is at most its largest value."
            return Check(question, words, Level.LOOK)
        return Check(question, f"Yes: at most {at_most(certificate.value)}.")
    if ceiling is None or not math.isfinite(run.objective):
        return None
    if run.objective >= ceiling:
        words = (
            f"No: the bound ({number(run.objective)}) is no less than the largest possible risk "
            f"({ceiling:g}), since there are only {count_of(run.data or 0, 'datum', 'data')}."
        )
        return Check(question, words, Level.LOOK)
    return None


def _other_notes(run: Account) -> Check | None:
    if not run.other_notes:
        return None
    return Check("What else did the search note?", " — ".join(run.other_notes), Level.LOOK)


def _last(column: FloatArray) -> float:
    """The last known value; NaN where there is none."""
    known = column[np.isfinite(column)]
    return float(known[-1]) if len(known) else math.nan
