"""Sensitivities and candidate measurements for the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from supac.posterior.emulation import RISK
from supac.posterior.next_measurement import NextMeasurements, in_time
from supac.posterior.sensitivity import ALL, Indices, Sensitivity

_MOST = 8  # directions, and outputs beside all of them, that are shown
_NEGLIGIBLE = 0.01  # share of a combination that is not worth a mention
_EXACT = 0.1  # per cent of the variance below which it does not matter what is missed
_GUESSED = 30.0  # per cent of the variance that is missed, from which on shares are guesses
_GUESS = (
    "So much is unexplained that these shares say little: more runs, by `supac resume --budget`, "
    "would tell."
)
_PARAMETERS = 20
_CANDIDATES = 15
_FIRST, _CELL, _GAP = "first, total of", 9, 2  # heading of the parameters; characters


def sensitivity_tables(found: Sensitivity, width: int = 80) -> RenderableType:
    """Return what the data determine, and the indices of each column that fits the width."""
    parts: list[RenderableType] = []
    if found.directions is not None:
        known = found.directions.degrees
        words = f"The data determine {known:.2g} of {len(found.directions)} combinations"
        parts += [Text(words, style="bold"), _directions(found), Text()]
    wrong = 100.0 * float(found.unexplained.mean())
    title = f"Shares of the variance over the {found.under}"
    about = f"emulated from {found.runs} runs, which leaves {_missed(wrong)} unexplained"
    table = _indices(found, width)
    parts += [Text.assemble((title, "bold"), f": {about}"), table]
    worst = max(found.columns.first_error.max(), found.columns.total_error.max())
    words = (
        "first: what would vanish if the parameter were known; total: what would remain if all "
        f"others were. Standard errors are up to {worst:.2g}; --json and --out have each."
    )
    left = len(found.columns.outputs) - len(table.columns[1:])
    words += f" They also have what does not fit here: {left} of the columns." if left else ""
    parts.append(Text(words))
    if wrong > _GUESSED:
        parts.append(Text(_GUESS, style="yellow"))
    return Group(*parts)


def _missed(percent: float) -> str:
    """Return what is unexplained; an emulator that is worse than the mean explains nothing."""
    if percent >= 100.0:
        return "all of the variance"
    return f"{percent:.2g} %" if percent >= _EXACT else f"less than {_EXACT} %"


def _directions(found: Sensitivity) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("width", justify="right")
    table.add_column("combination", overflow="fold")
    for one in found.combinations(_MOST):
        words = " ".join(
            f"{each['sign']} {each['name']} ({100 * each['share']:.0f} %)"
            for each in one["parameters"]
        )
        words += " + …" if one["others"] >= _NEGLIGIBLE else ""
        table.add_row(f"{one['width']:.2g}", Text(words.removeprefix("+ ")))
    return table


def _indices(found: Sensitivity, width: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(_FIRST, overflow="fold")
    columns = list(found.columns.outputs)
    room = width - max(map(len, (_FIRST, *found.parameters)))
    shown = _that_fit(columns, room, len)
    lines = shown != _that_fit(columns, sys.maxsize, len)  # long names are broken at their spaces
    shown = _that_fit(columns, room, _longest_word) if lines else shown
    for name in shown:
        longest = max(_CELL, _longest_word(name)) if lines else None
        table.add_column(Text(name), justify="right", min_width=_CELL, max_width=longest)
    main = ALL if ALL in columns else columns[0]
    order = (-found.columns.row(main)["total"]).argsort(kind="stable")
    for j in order[:_PARAMETERS].tolist():
        cells = [_cell(found.columns, name, j) for name in shown]
        table.add_row(Text(found.parameters[j]), *cells)
    return table


def _longest_word(name: str) -> int:
    return max(map(len, name.split()))


def _that_fit(columns: list[str], room: int, size: Callable[[str], int]) -> list[str]:
    """Return as many of the first columns as there is room for, and all outputs and the risk."""
    last = [name for name in columns[-2:] if name in (ALL, RISK)]
    shown: list[str] = []
    for name in columns[: len(columns) - len(last)][:_MOST]:
        if sum(_GAP + max(_CELL, size(each)) for each in (*shown, name, *last)) > room:
            break
        shown.append(name)
    return [*shown, *last] or columns[:1]


def _cell(of: Indices, name: str, j: int) -> str:
    row = of.row(name)
    return f"{max(row['first'][j], 0.0):.2f} {max(row['total'][j], 0.0):.2f}"


def next_table(found: NextMeasurements, *, by_time: bool = False) -> RenderableType:
    """Return the best candidates with what each would leave, the best first or in time."""
    one = len(found.quantities) == 1
    unit = found.units[0] if one and found.units else ""
    now = f", now ± {f'{found.before[0]:.3g} {unit}'.strip()}" if one else ""
    what = found.quantities[0] if one else f"{len(found.quantities)} quantities"
    title = f"What would remain of the uncertainty of {what}{now}"
    table = Table(box=None, pad_edge=False)
    table.add_column("measurement", overflow="fold")
    table.add_column("variance left", justify="right")
    if one:
        # Over several lines: names of measurements are long.
        heading = f"standard deviation{f' ({unit})' * bool(unit)}"
        table.add_column(Text(heading), justify="right", max_width=_longest_word(heading))
    table.add_column("by")
    best = found.choices[:_CANDIDATES]
    for each in in_time(best) if by_time else best:
        cells = [f"{100 * each.remaining:.0f} % ± {max(100 * each.error, 1.0):.0f}"]
        cells += [f"{each.deviations[0]:.3g}"] if one else []
        table.add_row(Text(each.candidate.words), *cells, each.method)
    parts: list[RenderableType] = [Text(title, style="bold"), table]
    left = len(found.choices) - _CANDIDATES
    if left > 0:
        parts.append(Text(f"and {left} more; --out writes all of them"))
    if found.left_out:
        names = ", ".join(found.left_out)
        words = f"without {names}, whose noise is not one rule for all rows: a file of candidates"
        parts.append(Text(f"{words} with their noise ranks them too"))
    if found.together:
        steps = "; then ".join(
            f"{each.candidate.words} ({100 * each.remaining:.0f} % left)" for each in found.together
        )
        parts.append(Text(f"together: {steps}"))
    return Group(*parts)
