"""Charts of a search on its way: the objective by round, and the risk of every run."""

from __future__ import annotations

import math

import numpy as np

from supac.arrays import FloatArray
from supac.problem import Role
from supac.record.run import Run
from supac.report import elements as html
from supac.report.elements import Markup
from supac.report.live.panel import RunPanel
from supac.report.live.snapshot import Snapshot
from supac.report.svg import Panel, span
from supac.report.words import number

_PURPOSES = {
    Role.OPENING: "first draw",
    Role.NARROW: "near the prior’s centre",
    Role.DRAW: "draw",
    Role.DIRECTION: "draw in a new direction",
    Role.MEAN: "mean",
    Role.BESIDE: "beside the mean",
    Role.AHEAD: "ahead of the step",
    Role.TELLS: "tells most",
    Role.PROBE: "probe of the tails",
    Role.LOOK: "look around the prior",
    Role.KNOWN: "imported",
}
_MANY = 300  # runs, from which on dots are small
_TOP = 10.0  # times the upper decile, above which risks are drawn at the upper edge


def objective_chart(snapshot: Snapshot) -> Markup:
    """Draw objective and mean risk by round, and the prediction for the step just made."""
    history = snapshot.account.history
    queries, objective, mean_risk = (history[n] for n in ("queries", "objective", "mean_risk"))
    shown = objective[np.isfinite(objective)]
    cap = 4.0 * float(np.median(shown)) if len(shown) else math.inf
    ahead = _ahead(snapshot)
    view = span(np.minimum(objective, cap), mean_risk.clip(max=cap), ahead[1], zero=True)
    panel = Panel("objective", (0.0, 1.02 * float(max(queries[-1], *ahead[0]))), view)
    panel.area(queries, mean_risk, objective, "posterior")
    panel.line(queries, mean_risk, "prior dashed")
    panel.dots(queries, mean_risk, "prior")
    panel.line(queries, objective, "posterior")
    panel.dots(queries, objective, "posterior")
    panel.line(*ahead, "data dashed")
    panel.dots(ahead[0][1:], ahead[1][1:], "final", 5.0)
    words = (
        f"Line chart: the objective by round, from {number(float(objective[0]))} to "
        f"{number(float(objective[-1]))}."
    )
    return panel.draw(words, "runs of the simulator", "risk")


def _ahead(snapshot: Snapshot) -> tuple[FloatArray, FloatArray]:
    """Return the last objective and what comes next: a prediction, or that of the fresh runs."""
    history, account = snapshot.account.history, snapshot.account
    last, objective = float(history["queries"][-1]), float(history["objective"][-1])
    if account.validated:
        return np.array([last, float(max(account.made, last))]), np.array(
            [objective, account.objective]
        )
    batch = float(np.diff(history["queries"])[-1]) if len(history["queries"]) > 1 else 0.3 * last
    return np.array([last, last + batch]), np.array([objective, float(history["predicted"][-1])])


def risk_chart(snapshot: Snapshot) -> Markup:
    """Draw the risk of every run, failed ones at the upper edge; a click selects a run."""
    runs = [run for run in snapshot.runs if not run.source]
    risks = np.array([run.risk for run in runs if run.ok])
    top = _top(risks)
    last = max((run.id for run in runs), default=1)
    panel = RunPanel(
        "risks", (-0.02 * last, 1.02 * last + 0.5), span(np.array([_bottom(risks), top]))
    )
    panel.dot = 4.0 if len(runs) <= _MANY else 2.5
    for run in runs:
        y = min(run.risk, top) if run.ok else top
        panel.run_dot(run.id, float(run.id), y, kind_of(run), run_words(run))
    words = f"Scatter chart: the risk of {len(runs)} runs by their number; failed runs at the top."
    above = int((risks > top).sum())
    if above:
        told = f"{above} more at the top, up to {number(float(risks.max()))}"
        panel.note(told)
        words += f" {told}."
    return panel.draw(words, "number of the run", "risk")


def _top(risks: FloatArray) -> float:
    """Return the largest risk that is drawn at its place."""
    if not len(risks):
        return 1.0
    low = _bottom(risks)
    top = float(min(risks.max(), low + _TOP * (np.quantile(risks, 0.9) - low)))
    return top if top > low else low + 1.0


def _bottom(risks: FloatArray) -> float:
    """Return 0, or the least risk if that is negative, as of a likelihood."""
    return min(0.0, float(risks.min(initial=0.0)))


def kind_of(run: Run) -> str:
    """Return the class of a run's marks."""
    if run.ok:
        return "fresh" if run.purpose == "validation" else "ok"
    return run.status.value.replace(" ", "-")


def run_words(run: Run) -> str:
    """Describe a run in a line."""
    outcome = f"risk {number(run.risk)}" if run.ok else f"{run.status.value}: {run.message[:120]}"
    return f"run {run.id}, {purpose_words(run)}, {outcome}"


def purpose_words(run: Run) -> str:
    """Return the reason why a run was made, in a few words."""
    if run.level:
        return "coarse model"
    return "validation" if run.purpose == "validation" else _PURPOSES[run.role]


def legend_of_runs(kinds: set[str]) -> Markup:
    """Return the legend of the marks of runs: those kinds that there are."""
    names = {
        "ok": "ok", "fresh": "fresh run of the posterior", "raised": "raised an error",
        "invalid": "no valid numbers", "timed-out": "timed out", "crashed": "crashed",
        "refused": "refused", "running": "in progress", "lost": "lost with its process",
    }  # fmt: skip
    return html.legend(**{kind: words for kind, words in names.items() if kind in kinds})
