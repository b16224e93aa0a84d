"""What the terminal shows of a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from supac.arrays import FloatArray
from supac.codec.text import visible
from supac.record.ending import StopReason
from supac.record.parameter_change import ParameterChange
from supac.record.record import Record
from supac.running.progress import duration

_ROWS = 8  # of the history, the latest
_KINDS = 5  # of failures, the commonest
HISTORY = {
    "objective": "objective",
    "mean risk": "mean_risk",
    "KL": "kl",
    "step": "step_kl",
    "radius": "radius",
    "wrong": "wrong",
}
"""Headings of the history and its columns."""


def summary(run: Record, title: str, width: int = 80) -> RenderableType:
    """A run on one screen of this width."""
    run.check_search()
    parts: list[RenderableType] = [Text(title, style="bold"), _facts(run), Text()]
    rows = run.parameter_changes
    if rows:
        parts += [parameter_table(rows, width=width), Text()]
    if len(run.history["queries"]):
        parts += [history_table(run.history, _ROWS), Text()]
    parts += [Text(f"note: {note}") for note in run.notes]
    return Group(*parts)


def _facts(run: Record) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("state", state(run))
    table.add_row("runs", _counts(run))
    kinds = run.failures_by_kind
    for status, count, message in kinds[:_KINDS]:
        table.add_row(Text("failed", style="red"), Text(f"{count} {status}: {message}"))
    if len(kinds) > _KINDS:
        rest = sum(count for _, count, _ in kinds[_KINDS:])
        table.add_row(Text("failed", style="red"), f"{rest} in {len(kinds) - _KINDS} other ways")
    if np.isfinite(run.estimate.objective):
        table.add_row("objective", Text(_objective(run), style="bold"))
        table.add_row("mean risk", _mean_risk(run))
        table.add_row("KL to prior", f"{run.estimate.kl:.3g} nats")
    table.add_row("bound", Text(str(run.settings["bound"])))
    if run.seconds > 0.0:
        each = duration(run.seconds / max(len(run.made), 1))
        table.add_row("simulation", f"{duration(run.seconds)} in all, {each} a run")
    return table


def _counts(run: Record) -> str:
    """How many runs there are, and what for."""
    # A larger budget has its posterior validated anew: what it had before is left over.
    left_over = max(len(run.made) - run.budget, 0)
    validating = sum(each.purpose == "validation" for each in run.made) - left_over
    imported = run.known
    words = f"{len(run.made) - left_over} of {run.budget}"
    words += f", {validating} of them to validate" if validating > 0 else ""
    words += f", and {left_over} that validated an earlier posterior" if left_over else ""
    return words + (f", and {imported} made elsewhere" if imported else "")


def state(run: Record) -> Text:
    """Whether it is under way, done, or to be gone on with."""
    name = "" if run.path is None else f" {shlex.quote(run.path.name)}"
    again = f"`supac resume{name}` goes on"
    if run.running:
        return Text("running", style="green")
    if run.stop_reason is None:
        return Text(f"stopped before its end; {again}", style="yellow")
    if run.stop_reason in (StopReason.INTERRUPTED, StopReason.USER):
        return Text(f"interrupted; {again}", style="yellow")
    if run.stop_reason is StopReason.FAILURES:
        return Text(run.stop_reason.sentence, style="red")
    return Text(f"done. {run.stop_reason.sentence}", style="green")


def _objective(run: Record) -> str:
    objective = run.estimate.objective
    if run.stop_reason is not None:
        return f"{objective:.4g}"
    return f"{objective:.4g} after the last batch, {run.best:.4g} at best"


def _mean_risk(run: Record) -> str:
    about = run.estimate
    error = f" ± {about.mean_risk_error:.1g}" if np.isfinite(about.mean_risk_error) else ""
    fresh = f", from {about.validated} fresh runs" if about.validated else ", estimated on the way"
    return f"{about.mean_risk:.4g}{error}{fresh}"


def parameter_table(
    rows: Sequence[ParameterChange], truth: FloatArray | None = None, width: int = 80
) -> RenderableType:
    """Median and middle 90 % of each parameter, before and after, in its unit.

    With two digits where three do not fit the width.
    """
    headings = ["parameter", "unit", "prior", "posterior", "width"]
    headings += [] if truth is None else ["truth"]
    cells = _cells(rows, truth, 3)
    longest = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    fits = sum(longest) + 2 * len(longest) <= width
    if not fits:
        cells = _cells(rows, truth, 2)
    gap = 2 if fits else 1
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for heading in headings:
        side: JustifyMethod = "left" if heading in ("parameter", "unit") else "right"
        table.add_column(heading, justify=side, no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row))
    words = (
        "Median (5 % to 95 %) of each parameter. Width: posterior over prior, 1 where nothing was "
        "learnt. The posterior minimises the objective; its ranges are no credible intervals."
    )
    return Group(table, Text(words, style="dim"))


def _cells(
    rows: Sequence[ParameterChange], truth: FloatArray | None, digits: int
) -> list[list[str]]:
    return [
        [
            visible(row.name),  # now, so that the columns are as wide as what they show
            visible(row.unit),
            _range(row.prior, digits),
            _range(row.posterior, digits),
            f"{row.width:.2f}",
            *([] if truth is None else [f"{truth[i]:.{digits}g}".replace("e-0", "e-")]),
        ]
        for i, row in enumerate(rows)
    ]


def _range(quantiles: tuple[float, float, float], digits: int) -> str:
    """Median (low to high), with a common power of ten where the numbers are far from one."""
    largest = max(map(abs, quantiles))
    power = 0 if 1e-2 <= largest < 1e5 or largest == 0.0 else int(np.floor(np.log10(largest)))
    low, median, high = (f"{value / 10.0**power:.{digits}g}" for value in quantiles)
    dash = " to " if digits > 2 or quantiles[0] < 0.0 else "–"
    return f"{median} ({low}{dash}{high})" + (f"e{power}" if power else "")


def history_table(history: dict[str, FloatArray], most: int | None = None) -> RenderableType:
    """One row an iteration, the latest ones where there are many."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("runs", *HISTORY):
        table.add_column(heading, justify="right", no_wrap=True)
    count = len(history["queries"])
    for i in range(0 if most is None else max(count - most, 0), count):
        values = [history[name][i] for name in HISTORY.values()]
        cells = ("" if np.isnan(value) else f"{value:.3g}" for value in values)
        table.add_row(f"{history['queries'][i]:.0f}", *cells)
    words = (
        "Each row is a batch: the posterior that drew it, how far (in KL) the next one went and "
        "might have gone, and how many runs so far went wrong: they failed, or are far from what "
        "all others predict."
    )
    return Group(table, Text(words, style="dim"))
