"""Tables of a run for the terminal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from supac.arrays import FloatArray
from supac.codec.text import visible
from supac.record.ending import StopReason
from supac.record.local_ranges import advice_on_local_ranges, words_on_local_ranges
from supac.record.many_parameters import FEW, field_changes, shown
from supac.record.parameter_change import ParameterChange, uninformed
from supac.record.record import Record
from supac.record.run import by_kind, quoted
from supac.report.account import account_of
from supac.report.bayes import NOT_CREDIBLE, words_on_ranges
from supac.report.scores import SCORES, score_cells
from supac.report.standing import standing
from supac.report.words import common_power, loss_name, objective_words
from supac.running.terminal import duration

_ROWS = 8  # last rows of the history that are shown
_SCORES = 12  # rows of scores that are shown
_KINDS = 5  # kinds of failures that are shown
_PARAMETERS, _WIDTHS = 10, 8  # of many parameters, and directions, those that are shown
_HISTORY = {
    "objective": "objective", "mean risk": "mean_risk", "KL": "kl", "step": "step_kl",
    "radius": "radius", "wrong": "wrong",
}  # fmt: skip


def summary(
    run: Record, title: str, width: int = 80, truth: FloatArray | None = None
) -> RenderableType:
    """Return a summary of a run for a terminal of this width; with true parameters, if known."""
    run.check_search()
    parts: list[RenderableType] = [Text(title, style="bold"), _facts(run), Text()]
    rows = run.parameter_changes
    if len(rows) > FEW:
        parts += [many_parameters_table(run, rows, width), Text()]
    elif rows:
        ranges = words_on_ranges(run)
        local, uninformed_ones = words_of_local_ranges(run), _uninformed(run, rows)
        parts += [parameter_table(rows, truth, width, ranges), *local, *uninformed_ones, Text()]
    if len(run.history["queries"]):
        parts += [history_table(run.history, _ROWS), Text()]
    parts += score_table(run)
    parts += [Text(f"note: {note}") for note in run.notes]
    parts += [Text(f"advice: {each}") for each in run.advice]
    return Group(*parts)


def words_of_local_ranges(run: Record) -> list[Text]:
    """Say that ranges are local, of which combinations, and what helps; empty if they are not."""
    local = words_on_local_ranges(run)
    if not local:
        return []
    words = f"{local[:1].upper()}{local[1:]}. What helps: {advice_on_local_ranges(run)}."
    return [Text(words, style="yellow")]


def _uninformed(run: Record, rows: Sequence[ParameterChange]) -> list[Text]:
    """Name the parameters of which the data say next to nothing, after the end of a search."""
    names = uninformed(rows)
    if not names or run.stop_reason is None or not run.rounds:
        return []
    words = f"The data hardly inform {names}: what is known of it is the prior."
    return [Text(words.replace("of it is", "of them is") if " and " in names else words)]


def _facts(run: Record) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("state", state(run))
    table.add_row("runs", _counts(run))
    coarse = run.coarse_use
    if coarse is not None:
        table.add_row("levels", Text(coarse.sentence))
    kinds = by_kind(run.failures)
    for kind in kinds[:_KINDS]:
        words = f"{len(kind)} {kind[0].status}: {quoted(kind)}"
        table.add_row(Text("failed", style="red"), Text(words))
    if len(kinds) > _KINDS:
        rest = sum(map(len, kinds[_KINDS:]))
        table.add_row(Text("failed", style="red"), f"{rest} in {len(kinds) - _KINDS} other ways")
    if len(run.simulators) > 1:
        told = f"changed on the way: {', '.join(each.words for each in run.simulators)}"
        table.add_row(Text("simulator", style="yellow"), Text(told))
    for name, words in standing(run):
        table.add_row(name, Text(words, style="bold" if name == "objective" else ""))
    table.add_row("minimised", Text(objective_words(run.settings.bound)))
    loss = loss_name(run.settings.loss)
    if loss:
        table.add_row("loss", Text(visible(loss)))
    for words in guarantees(run):
        table.add_row("guaranteed", Text(words))
    bands = words_on_bands(run)
    if bands:
        table.add_row("prediction", Text(bands))
    if run.seconds > 0.0:
        each = duration(run.seconds_a_run)
        table.add_row("simulation", f"{duration(run.seconds)} in all, {each} a run")
    return table


def score_table(run: Record) -> list[RenderableType]:
    """Return a table of scores of the fit, by observed column; empty without an ending or data."""
    if run.ending is None or not run.ending.validated:
        return []
    scores = account_of(run, predictions=()).scores
    if not scores:
        return []
    parts = ["data"] if any(each.held_out for each in scores) else []
    table = plain_table(("fit of", *parts, "measured", *SCORES), left=1 + len(parts))
    for each in scores[:_SCORES]:
        name = f"{each.column} [{each.unit}]" if each.unit else each.column
        part = [each.part] if parts else []
        table.add_row(*map(Text, (visible(name), *part, f"{each.measured}", *score_cells(each))))
    left = len(scores) - _SCORES
    more = [Text(f"{left} more are in `supac report`.", style="dim")] if left > 0 else []
    return [table, *more, Text()]


def guarantees(run: Record) -> list[str]:
    """Return what is guaranteed after the end of a search, a sentence each; or why nothing is."""
    if run.ending is None:
        return []
    made = [each for each in (run.ending.certificate, run.ending.held_out) if each is not None]
    if not made:
        stopped = run.stop_reason in (StopReason.INTERRUPTED, StopReason.USER)
        reason = run.ending.uncertified and (run.never_certified or run.ending.uncertified)
        word = "not yet" if stopped and not run.never_certified else "nothing"
        return [f"{word}: {reason}"] if reason else []
    words = [
        each.statement
        + (f"; {each.weakness}" if each.weakness else "")
        + (f"; {each.in_words}" if each.in_words and not each.weakness else "")
        + (f"; {each.earlier_in_words}" if each.earlier else "")
        for each in made
    ]
    left_out = [f"no more: {run.ending.uncertified}"] if run.ending.uncertified else []
    return [*words, *(f"but {each}" for it in made for each in it.warnings), *left_out]


def words_on_bands(run: Record) -> str:
    """Say how far new measurements lie from their prediction, or why that is not known."""
    bands = run.usual_bands()
    return bands if isinstance(bands, str) else f"{bands.statement}, if {bands.assumption}"


def _counts(run: Record) -> str:
    """Describe the numbers of runs by purpose."""
    # After an increase of the budget, runs that validated the earlier posterior are left over.
    left_over = max(len(run.made) - run.budget, 0)
    validating = sum(each.purpose == "validation" for each in run.made) - left_over
    imported = run.known
    words = f"{len(run.made) - left_over} of {run.budget}"
    if run.coarse_use is not None:
        words = f"{run.coarse_use.spent:.3g} of {run.budget} fine runs' worth: {len(run.made)} fine"
    words += f", {len(run.refused)} refused" if run.refused else ""
    words += f", {validating} of them to validate" if validating > 0 else ""
    words += f", and {left_over} that validated an earlier posterior" if left_over else ""
    return words + (f", and {imported} made elsewhere" if imported else "")


def state(run: Record) -> Text:
    """Describe the state: running, done, or to be resumed."""
    name = "" if run.path is None else f" {short(run.path)}"
    again = f"`supac resume{name}` continues"
    if run.running:
        who, where = run.writer.partition(" on ")[::2]
        return Text(f"running on {where} ({who})" if where else "running", style="green")
    if run.stop_reason is None:
        return Text(f"stopped before its end; {again}", style="yellow")
    if run.stop_reason in (StopReason.INTERRUPTED, StopReason.USER):
        return Text(f"interrupted; {again}", style="yellow")
    if run.stop_reason is StopReason.FAILURES:
        return Text(run.stop_reason.sentence, style="red")
    words = f"done. {run.stop_reason.sentence}"
    if run.stop_reason is StopReason.CONVERGED and name:
        words += f" `supac resume{name} --budget {2 * run.budget}` makes more all the same."
    return Text(words, style="green")


def parameter_table(
    rows: Sequence[ParameterChange],
    truth: FloatArray | None = None,
    width: int = 80,
    ranges: str = NOT_CREDIBLE,
) -> RenderableType:
    """Return median and central 90 % of prior and posterior of each parameter.

    Numbers have three digits, or two if three do not fit the width.
    """
    units = ["unit"] if any(row.unit for row in rows) else []
    headings = ["parameter", *units, "prior", "posterior", "width"]
    headings += [] if truth is None else ["truth"]
    cells = _cells(rows, truth, 3)
    longest = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    fits = sum(longest) + 2 * len(longest) <= width
    if not fits:
        cells = _cells(rows, truth, 2)
    table = plain_table(headings, left=1 + len(units), gap=2 if fits else 1)
    for row in cells:
        table.add_row(*map(Text, row))
    words = (
        "Median (5 % to 95 %) of each parameter. Width: posterior over prior, 1 if nothing was "
        f"learnt. {ranges}"
    )
    return Group(table, Text(words, style="dim"))


def many_parameters_table(
    run: Record, rows: Sequence[ParameterChange], width: int = 80
) -> RenderableType:
    """Return what was learnt of many parameters: directions, fields, the most changed ones."""
    parts: list[RenderableType] = []
    found = run.directions
    if found is not None:
        widths = ", ".join(f"{each:.2f}" for each in found.widths[: min(found.informed, _WIDTHS)])
        words = f"The data inform {found.informed} of {len(found)} directions"
        widths = f", of which this much of the prior's spread is left: {widths}" if widths else ""
        more = ", …" if found.informed > _WIDTHS else ""
        parts += [Text(f"{words}{widths}{more}."), Text()]
    fields = field_changes(rows, run.parameters)
    if fields:
        headings = ("field", "points", "unit", "prior", "posterior", "width")
        table = plain_table(headings, left=3)
        for each in fields:
            before, after, widths_of = each.prior[1], each.posterior[1], each.widths
            table.add_row(
                Text(visible(each.name)),
                "×".join(map(str, each.field.shape)),
                Text(visible(each.unit)),
                f"{np.median(before):.3g}",
                f"{after.min():.3g} to {after.max():.3g}",
                f"{np.median(widths_of):.2f} ({widths_of.min():.2f} to {widths_of.max():.2f})",
            )
        words = "Medians over the grid, and the median width."
        parts += [table, Text(words, style="dim"), Text()]
    chosen = shown(rows, run.parameters, _PARAMETERS)
    left = len(rows) - len(chosen)
    parts += [parameter_table([rows[i] for i in chosen], None, width, words_on_ranges(run))]
    return Group(*parts, Text(f"{left} others changed less: `supac report` has them.", style="dim"))


def _cells(
    rows: Sequence[ParameterChange], truth: FloatArray | None, digits: int
) -> list[list[str]]:
    units = any(row.unit for row in rows)
    return [
        [
            visible(row.name),  # now, so that the columns are as wide as what they show
            *([visible(row.unit)] if units else []),
            _range(row.prior, digits),
            _range(row.posterior, digits),
            f"{row.width:.2f}",
            *([] if truth is None else [f"{truth[i]:.{digits}g}".replace("e-0", "e-")]),
        ]
        for i, row in enumerate(rows)
    ]


def _range(quantiles: tuple[float, float, float], digits: int) -> str:
    """Format quantiles as `median (low to high)`, with a common power of ten if needed."""
    power = common_power(quantiles)
    low, median, high = (_short(value / 10.0**power, digits) for value in quantiles)
    dash = " to " if digits > 2 or quantiles[0] < 0.0 else "–"
    return f"{median} ({low}{dash}{high})" + (f"e{power}" if power else "")


def history_table(history: dict[str, FloatArray], most: int | None = None) -> RenderableType:
    """Return a table of the last `most` batches, which says how many came before."""
    table = plain_table(("runs", *_HISTORY))
    count = len(history["queries"])
    left_out = 0 if most is None else max(count - most, 0)
    for i in range(left_out, count):
        values = [history[name][i] for name in _HISTORY.values()]
        cells = ("" if np.isnan(value) else f"{value:.3g}" for value in values)
        table.add_row(f"{history['queries'][i]:.0f}", *cells)
    words = (
        "Each row is a batch: its posterior, the KL of the step to the next one and the largest "
        "allowed KL, and the number of wrong runs so far: failed ones and outliers."
    )
    if left_out:
        words = f"The last {most} of {count} batches; the report shows all. {words}"
    return Group(table, Text(words, style="dim"))


def plain_table(headings: Sequence[str], *, left: int = 0, gap: int = 2) -> Table:
    """Return a table without lines; columns after the first `left` are aligned right."""
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left else "right", no_wrap=True)
    return table


def short(path: Path) -> str:
    """Return a path as one would type it here, in a shell."""
    here = Path.cwd()
    near = path.is_absolute() and path.is_relative_to(here)
    return shlex.quote(str(path.relative_to(here) if near else path))


def _short(value: float, digits: int) -> str:
    """Format a number with this many digits: 0.012, 400, 3.2e4."""
    text = f"{value:.{digits}g}"
    if "e+" in text and abs(value) < 1e4:
        return f"{float(text):.0f}"
    return re.sub(r"e(-?)\+?0?", r"e\1", text)
