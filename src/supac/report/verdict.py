"""The verdict on a result: a list of checks, and the worst outcome."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from supac.calibration.diagnostics import (
    hardly_begun,
    last_known,
    note_on_noise,
    note_on_the_budget,
)
from supac.guarantee.certificate import HARDLY, Certificate
from supac.problem.losses import reason_of_no_ceiling
from supac.record.ending import StopReason
from supac.record.parameter_change import uninformed
from supac.report.account import Account
from supac.report.check import NAMED, Answer, Check, Level
from supac.report.fit_checks import (
    OFF,
    fits,
    fits_held_out,
    is_alone,
    nat,
    noise_has_grown,
    noise_remains,
)
from supac.report.range_checks import covers_what_is_open
from supac.report.words import at_most, count_of, number, percent


@dataclass(frozen=True)
class Verdict:
    """All checks, the worst first."""

    checks: tuple[Check, ...]

    @property
    def level(self) -> Level:
        """Return the worst level."""
        return max((check.level for check in self.checks), default=Level.TRUST)

    @property
    def reasons(self) -> tuple[Check, ...]:
        """Return the checks that are not passed."""
        return tuple(check for check in self.checks if check.level)

    @property
    def sentence(self) -> str:
        """Return the meaning of the level."""
        return (
            "All checks are passed.",
            "The result may be right, but read the following before you use it.",
            "Do not use these numbers before the following is corrected.",
        )[self.level]


_NOTHING_MORE = Level.TRUST, "The objective was no longer decreasing at the end."

_COVERED = 0.7  # largest Pareto k̂ at which weighted runs represent the posterior
_MANY_FAILURES, _SOME_FAILURES = 0.5, 0.1
_FALLING = 6.0  # nats of the last two steps from which on too few runs were made
_SETTLED = 1.0  # nats that the last two steps gain if the objective is no longer decreasing
_ROUGH = 0.2  # standard error of the mean risk, relative to the objective
_CONFLICT = 2.5  # prior standard deviations between prior and posterior means


def assess(run: Account) -> Verdict:
    """Check a run; checks of one level keep the order of the questions."""
    if run.posterior is None:
        missing = "No: nothing has been learnt yet. `supac resume` continues the run."
        return Verdict((Check("Is there a posterior?", missing, Level.DO_NOT_TRUST),))
    names = list(_QUESTIONS)
    if run.record.stop_reason is StopReason.FAILURES and not len(run.risks):
        names = [_ENDED, _FAILED]  # no risk is known
    elif hardly_begun(run.history) and run.record.stop_reason is not StopReason.CONVERGED:
        # The intermediate posterior says nothing about the data, the model or the prior.
        names = [_ENOUGH, _ENDED, _CHECKED, _FAILED, _SAME, _RANGE]
    answers = [(name, _QUESTIONS[name](run)) for name in names]
    checks = [Check(name, given[1], given[0]) for name, given in answers if given is not None]
    return Verdict(tuple(sorted(checks, key=lambda check: -check.level)))


def so_far(run: Account) -> str:
    """Return how many runs there are of a search without an end."""
    of = "" if run.budget is None else f" of {run.budget:,}"
    way = "is under way" if run.record.running else "was stopped before its end"
    made = f"{run.made:,}{of} runs" if run.record.coarse_use is None else run.record.spent_words
    return f"This run {way}: {made} so far."


def _ended(run: Account) -> Answer:
    reason, running = run.record.stop_reason, run.record.running
    if reason is None:
        words = "it is still running" if running else "it was stopped; `supac resume` continues"
        return Level.LOOK, f"No: {words}. These are the numbers so far."
    if reason is StopReason.FAILURES:
        return Level.DO_NOT_TRUST, f"No. {reason.sentence}"
    if reason in (StopReason.INTERRUPTED, StopReason.USER):
        return Level.LOOK, f"No. {reason.sentence}"
    return Level.TRUST, f"Yes. {reason.sentence}"


def _validated(run: Account) -> Answer:
    if run.validated > 1:
        words = f"Yes: its mean risk is that of {run.validated} runs that the search did not use."
        return Level.TRUST, words
    covered, told = _coverage(run)
    if covered:
        words = f"the estimate is optimistic, although these runs cover the posterior ({told})."
        return Level.LOOK, f"No: its mean risk is estimated from the runs it was fitted to; {words}"
    return Level.DO_NOT_TRUST, (
        f"No, and the runs do not cover the posterior ({told}): its mean risk is a guess of the "
        "model. Let the run finish, or increase the budget."
    )


def _coverage(run: Account) -> tuple[bool, str]:
    """Return True if the weighted runs represent the posterior, and the diagnostic."""
    assert run.posterior is not None
    k_hat, size = last_known(run.history["k_hat"]), last_known(run.history["effective_size"])
    if not math.isnan(k_hat):
        side = "below" if k_hat <= _COVERED else "above"
        return k_hat <= _COVERED, f"Pareto k̂ = {number(k_hat)}, {side} {_COVERED}"
    # Voronoi weights have no Pareto tail.
    unknowns = run.posterior.family.size + 1
    worth = "an unknown number" if math.isnan(size) else number(size)
    told = f"they are worth {worth} of its draws, and the surrogate has {unknowns} unknowns"
    return size >= unknowns, told


def _predicted(run: Account) -> Answer:
    """Compare the validated objective with the prediction for the last step."""
    predicted = last_known(run.history["predicted"])
    if run.validated < 2 or run.record.bound is None or math.isnan(predicted):
        return None
    error = 0.0 if math.isnan(run.mean_risk_error) else run.mean_risk_error
    told = f"objective {number(run.objective)}, predicted {number(predicted)}"
    if run.record.bound(run.mean_risk - 2.0 * error, run.kl) > predicted:
        return Level.LOOK, (
            f"No: they are worse by more than two standard errors ({told}). The fresh runs count, "
            "but the model was wrong somewhere: more runs may find a better posterior."
        )
    return Level.TRUST, f"Yes, within two standard errors: {told}."


def _precise(run: Account) -> Answer:
    if run.validated < 2 or not math.isfinite(run.mean_risk_error):
        return None
    told = f"{number(run.mean_risk)} ± {number(run.mean_risk_error, 2)} (one standard error)"
    if run.mean_risk_error > _ROUGH * abs(run.objective):
        return Level.LOOK, f"Roughly: {told}. {_more_precision(run)}"
    return Level.TRUST, f"Yes: {told}."


def _more_precision(run: Account) -> str:
    """Return how the mean risk can be known better."""
    if reason_of_no_ceiling(run.record.settings.loss):
        return "More validation runs are more precise: `validation` in [run], validation= in Python"
    return "A certificate with more draws is more precise."


def _failed(run: Account) -> Answer:
    total, failed = run.made + run.record.known, len(run.failures)
    if not failed:
        return Level.TRUST, f"None of {total:,}."
    share = failed / max(total, 1)
    causes = Counter(each.status.value for each in run.failures)
    counts = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    told = f"{failed} of {total:,} ({percent(share)}; {counts})"
    if share > _MANY_FAILURES:
        words = f"Most: {told}. Correct the simulator, or narrow the prior to where it works."
        return Level.DO_NOT_TRUST, words
    if run.record.settings.on_failure == "drop":
        words = f"{told}. They were left out: all numbers are about successful runs."
        return Level.LOOK, f"{words} {_listing(run)}."
    if share > _SOME_FAILURES:
        words = f"{told}. They count as the largest risk; check their reasons below."
        if run.source[0] and any("NaN or infinity" in each.message for each in run.failures):
            words += ' If they end before the data do, write after_end = "hold" in [data].'
        return Level.LOOK, f"{words} {_listing(run)}."
    return Level.TRUST, f"{told}; each counts as the largest risk. {_listing(run)}."


def _listing(run: Account) -> str:
    """Name what has the runs one by one."""
    if not run.store:
        return "`result.to_pandas()` has every run"
    return f"`supac export {run.store} runs.csv` lists every run"


def _one_simulator(run: Account) -> Answer:
    """Return None where the simulator was not changed."""
    found = run.record.simulators
    if len(found) < 2:
        return None
    return Level.LOOK, (
        f"No, it was changed: {', '.join(each.words for each in found)}. The posterior rests on "
        "all of them. If the change matters, begin anew with another store. "
        f"{_listing(run)}, with its version."
    )


def _outlying(run: Account) -> Answer:
    """Count the successful runs that the search modelled apart from the others."""
    wrong, penalised = (
        last_known(run.history["wrong"]),
        run.record.settings.on_failure == "penalise",
    )
    failed = sum(each.purpose == "search" for each in run.failures) if penalised else 0
    count = 0 if math.isnan(wrong) else int(wrong) - failed
    if count <= 0:
        return None
    return Level.TRUST, (
        f"Yes: {count} of {int(run.history['queries'][-1]):,} runs succeeded, but with a far "
        "larger risk than the other runs predict. The search models such runs separately, like "
        "failed ones, and the mean risk counts them as often as the posterior draws them. "
        f"{_listing(run)}, with its risk."
    )


def _in_range(run: Account) -> Answer:
    if run.ceiling is None or not len(run.risks):
        return None
    low, high = float(run.risks.min()), float(run.risks.max())
    told = f"from {number(low)} to {number(high)}, with a ceiling of {run.ceiling:g}"
    outside = low < 0.0 or high > run.ceiling
    if outside and low >= 0.0 and run.certificate is not None and run.certificate.capped:
        return Level.TRUST, (
            f"No: {told}. So the objective is no limit. The certificate is one all the same, since "
            "it counts the loss of each datum up to the ceiling."
        )
    if outside:
        return Level.DO_NOT_TRUST, (
            f"No: {told}. The objective bounds nothing. Use a bounded loss, or give the bound the "
            "ceiling of the loss."
        )
    return Level.TRUST, f"Yes: {told}."


def _learnt(run: Account) -> Answer:
    known = run.history["objective"][np.isfinite(run.history["objective"])]
    if not len(known) or not math.isfinite(run.objective):
        return None
    told = f"objective {number(run.objective)} after {number(known[0])}"
    if run.objective >= known[0]:
        words = f"No: {told}. The data may say nothing, or the search has not converged yet."
        return Level.LOOK, words
    return Level.TRUST, f"Yes: {told}."


def _enough_runs(run: Account) -> Answer:
    """Return None if too few steps were made to tell, or if the search has not ended."""
    if run.record.stop_reason is None:
        return None
    if run.record.stop_reason is StopReason.CONVERGED:
        return _NOTHING_MORE
    if hardly_begun(run.history):
        if run.record.stop_reason is not StopReason.BUDGET:
            return None
        return Level.LOOK, f"No: only one step was made. {_more_budget(run, 3)}"
    if note_on_the_budget(run.history, run.record.bound):
        return Level.LOOK, f"No: the objective was still falling at the end. {_more_budget(run, 2)}"
    return _last_gains(run)


def _last_gains(run: Account) -> Answer:
    """Say by how much the last two steps lowered the objective, if by more than a nat."""
    known = run.history["objective"][np.isfinite(run.history["objective"])]
    if len(known) < 4:
        return None
    gained, worth = float(known[-3] - known[-1]), nat(run)
    if gained <= _SETTLED * worth or known[-1] > known.min():
        return _NOTHING_MORE
    told = f"lowered the objective from {number(known[-3])} to {number(known[-1])}"
    if gained > max(_FALLING * worth, 2.0 * float(np.nan_to_num(run.mean_risk_error))):
        return Level.LOOK, f"Perhaps not: the last two steps still {told}. {_more_budget(run, 2)}"
    return Level.TRUST, (
        f"Probably: the last two steps {told}, which is little. A larger budget may lower it a bit "
        "further."
    )


def _more_budget(run: Account, factor: int) -> str:
    """Return the advice to multiply the budget."""
    if run.budget is None or not run.source[0]:
        return "Continue with a larger budget."
    return f"Increase it: `supac resume {run.store} --budget {factor * run.budget}`."


def _informs_all(run: Account) -> Answer:
    """Name the parameters that the data hardly inform; no fault of a calibration."""
    names = uninformed(run.learnt, NAMED)
    if not run.learnt or any(math.isnan(row.width) for row in run.learnt):
        return None
    if not names:
        return Level.TRUST, "Yes: each has become narrower than in the prior, or has moved."
    return Level.TRUST, (
        f"No: they hardly inform {names}. What is known there is the prior, also in every "
        "prediction that depends on it."
    )


def _agrees_with_prior(run: Account) -> Answer:
    rows = run.learnt
    if not rows or math.isnan(rows[0].shift):
        return None
    far = [row for row in rows if abs(row.shift) > _CONFLICT]
    limit = f"by more than {_CONFLICT} prior standard deviations"
    if far:
        left = max(len(far) - NAMED, 0)
        far = sorted(far, key=lambda row: -abs(row.shift))[:NAMED] if left else far
        told = ", ".join(f"{row.name} by {number(abs(row.shift), 2)}" for row in far)
        told += f" and {left} more" if left else ""
        words = f"No: the posterior moved {limit} ({told}). Is the prior right, is the model?"
        return Level.LOOK, words
    return Level.TRUST, f"Yes: no parameter moved {limit}."


def _informative(run: Account) -> Answer:
    certificate, ceiling = run.certificate, run.ceiling
    if certificate is not None:
        trouble = _what_it_lacks(run, certificate)
        if trouble:
            # Without n nobody asked for a guarantee: that it says little is no doubt of the fit.
            return (Level.TRUST if run.data is None else Level.LOOK), trouble
        return Level.TRUST, f"Yes: at most {at_most(certificate.value)}."
    if ceiling is None or not math.isfinite(run.objective) or run.objective < ceiling:
        return None
    return Level.LOOK, (
        f"No: the bound ({number(run.objective)}) is no less than the largest possible risk "
        f"({ceiling:g}), because there are only {count_of(run.data or 0, 'datum', 'data')}."
    )


def _what_it_lacks(run: Account, certificate: Certificate) -> str:
    """Return why a certificate says little; "" if it says something."""
    ceiling = "ceiling in [bound]" if run.source[0] else "ceiling= of the bound"
    higher = (
        f"In a new study, set the {ceiling} to the loss of a residual of 3 noises or more: "
        "9 for a mean square."
    )
    close = certificate.cap is not None and certificate.cap < OFF
    if certificate.vacuous:
        return "No: the certificate only says that the risk is at most its largest value."
    if certificate.value > HARDLY * certificate.ceiling:
        return (
            f"Hardly: at most {at_most(certificate.value)}, where no risk counts as more than "
            f"{number(certificate.ceiling)}. More independent data lower it."
            f"{f' {higher}' if close else ''}"
        )
    if close:
        return f"Less than it seems: {certificate.cap_in_words}. {higher}"
    if certificate.warnings:
        return f"At most {at_most(certificate.value)}, but {certificate.warnings[0]}."
    return ""


def _other_notes(run: Account) -> Answer:
    return (Level.LOOK, " — ".join(run.other_notes)) if run.other_notes else None


def _noisy(run: Account) -> Answer:
    noise = note_on_noise(run.history)
    return (Level.TRUST, f"Perhaps: {noise[0]}.") if noise else None


def _advice(run: Account) -> Answer:
    advice = run.record.advice
    return (Level.TRUST, " — ".join(advice)) if advice else None


_ENDED, _CHECKED = "Did the search come to its end?", "Was the posterior checked with fresh runs?"
_FAILED, _ENOUGH = "Did runs fail?", "Were there enough runs?"
_SAME = "Were all runs made by the same simulator?"
_RANGE = "Are all risks in the range that the bound assumes?"
_QUESTIONS: dict[str, Callable[[Account], Answer]] = {
    _ENDED: _ended,
    _CHECKED: _validated,
    "Do the fresh runs confirm the prediction?": _predicted,
    "Is the mean risk known precisely?": _precise,
    _FAILED: _failed,
    _SAME: _one_simulator,
    "Were there outliers among the runs?": _outlying,
    _RANGE: _in_range,
    "Is the posterior better than the start of the search?": _learnt,
    _ENOUGH: _enough_runs,
    "Does the simulator fit the data?": fits,
    "Are the residuals like noise?": noise_remains,
    "Is fitted noise near its prior?": noise_has_grown,
    "Is this the only valley that fits?": is_alone,
    "Does it fit the held-out data?": fits_held_out,
    "Is the simulator noisy?": _noisy,
    "Do the ranges cover what the data leave open?": covers_what_is_open,
    "Do the data inform every parameter?": _informs_all,
    "Do the data agree with the prior?": _agrees_with_prior,
    "Does the guarantee say something?": _informative,
    "What else did the search note?": _other_notes,
    "What would have saved runs or time?": _advice,
}
