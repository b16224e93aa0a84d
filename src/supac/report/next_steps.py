"""The next commands to use after a report, in words."""

from __future__ import annotations

import shlex

from supac.record.ending import StopReason
from supac.record.parameter_change import UNINFORMED, uninformed
from supac.report.account import Account
from supac.report.check import Level
from supac.report.elements import Markup, fill, prose
from supac.report.verdict import Verdict

_REASONS = 3  # checks that are not passed and are told at once
_STOPPED = (None, StopReason.INTERRUPTED, StopReason.USER)
_ENDED = (StopReason.BUDGET, StopReason.CONVERGED)


def next_steps(run: Account, verdict: Verdict) -> list[Markup]:
    """Return what to do next, each with the command or the call that does it."""
    reason, named = run.record.stop_reason, bool(run.source[0])
    if reason in _STOPPED and run.record.running:
        words = "Wait for its end: <code>supac show $store --follow</code> shows how it goes on."
        return [fill(words, store=run.store)]
    steps: list[Markup] = []
    if reason in _STOPPED:
        again = f"supac resume {run.store}" if named else "supac.resume(store, risk)"
        steps.append(fill("Let it come to its end: <code>$again</code>.", again=again))
    for i, check in enumerate(verdict.reasons[:_REASONS]):
        words = f"{'Also' if i else 'Before these numbers are used'}: $question $answer"
        steps.append(fill(words, question=check.question, answer=prose(check.answer)))
    left = len(verdict.reasons) - _REASONS
    if left > 0:
        steps.append(
            fill('Read $left more under <a href="#trust">Can it be trusted?</a>', left=left)
        )
    certifiable = reason in _ENDED and not run.record.never_certified
    if run.certificate is None and certifiable:
        command = f"supac certify {run.store} --draws 20 --out certificate.json"
        call = 'result.certify(risk, draws=20, subject="ensemble")'
        words = "Get a guarantee on new data: <code>$command</code>."
        steps.append(fill(words, command=command if named else call))
    if verdict.level is not Level.DO_NOT_TRUST and run.validated:
        count, told = run.validated, run.certificate
        if told is not None and told.subject == "ensemble" and run.store:
            count = told.draws
        more = f" --draws {count}" if count != run.validated else ""
        command = f"supac export {run.store} sets.csv --ensemble{more}"
        words = "Predict with these $count parameter sets: <code>$command</code> writes them"
        command = command if run.store else "result.ensemble.x"
        words = words if run.store else words.replace(" writes them", " has them")
        scenario = named and run.observations is not None
        own = scenario and not more
        runs = ", <code>ensemble = true</code> in a scenario runs them." if own else "."
        steps.append(fill(f"{words}{runs}", count=count, command=command))
        if scenario:
            other = "Look at another scenario: <code>supac predict $store scenario.toml</code>."
            steps.append(fill(other, store=run.store))
            steps += _of_the_uninformed(run)
    return steps


def _of_the_uninformed(run: Account) -> list[Markup]:
    """Return how to find measurements that inform parameters of which these data say nothing."""
    names = [row.name for row in run.learnt if row.words == UNINFORMED]
    if not names:
        return []
    command = f"supac next {run.store} --quantity {shlex.quote(names[0])}"
    words = (
        "Measure something that informs $names, which these data hardly do: "
        "<code>$command</code> ranks candidates."
    )
    return [fill(words, names=uninformed(run.learnt), command=command)]
