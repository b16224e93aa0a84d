"""The section of a report on what was learnt about many parameters."""

from __future__ import annotations

import numpy as np

from supac.record.many_parameters import INFORMED, Directions, FieldChange, shown
from supac.record.parameter_change import ParameterChange
from supac.report import elements as html
from supac.report import field_figures, figures
from supac.report.account import Account
from supac.report.bayes import words_on_ranges
from supac.report.elements import Markup
from supac.report.words import count_of, number, with_range

_ROWS = 12  # single parameters in the table
_PICTURES = 12  # their densities
_DIRECTIONS = 8  # rows of their table
_PATTERNS = 4  # of these, drawn over fields
_VISIBLE = 0.25  # largest loading on a field below which it is not drawn
_LOADINGS = 4  # parameters that are named for a direction
_FOLDED = 1_000  # rows of the table of all parameters; beyond, only files have them
HEADINGS = ("parameter", "unit", "prior", "posterior", "width", "KL", "in a word")
_PICTURE = "<figure><figcaption>$name</figcaption>$picture</figure>"


def what_was_learnt(run: Account) -> Markup:
    """Return the section: directions, fields, and the parameters that changed most."""
    rows = run.learnt
    chosen = [rows[i] for i in shown(rows, run.record.parameters, _ROWS)]
    caption = f"The {len(chosen)} parameters that changed most, outside fields first"
    pictures = [
        html.fill(_PICTURE, name=row.name, picture=figures.marginal(row, i))
        for i, row in enumerate(chosen[:_PICTURES])
    ]
    return html.section(
        "learnt of many",
        directions=_directions(run),
        fields=html.joined(map(field_pictures, run.fields)),
        groups=_groups(run),
        ranges=words_on_ranges(run.record),
        table=html.table(caption, HEADINGS, map(cells, chosen), numbers=(2, 3, 5), stacked=True),
        legend=html.legend(prior="prior", posterior="posterior"),
        pictures=html.joined(pictures),
        all=_folded(rows),
    )


def cells(row: ParameterChange) -> tuple[object, ...]:
    """Return the cells of one parameter in a table with these `HEADINGS`."""
    kl = "–" if np.isnan(row.kl) else f"{row.kl:.2f}"
    ranges = with_range(row.prior), with_range(row.posterior)
    return row.name, row.unit, *ranges, bar(row.width), kl, row.words


def bar(width: float) -> Markup:
    """Return a width as a number behind a bar."""
    inner = f'<span style="width:{100 * min(max(width, 0.0), 1.0):.0f}%"></span>'
    return Markup(f'<span class="bar" aria-hidden="true">{inner}</span>{width:.2f}')


def _directions(run: Account) -> Markup:
    """Say how many combinations of parameters the data determine, and show the best known."""
    found = run.directions
    if found is None:
        return Markup()
    known, dim = found.informed, len(found)
    combinations = count_of(known, "combination", "combinations")
    words = (
        f"The data inform {known} of {dim} directions: in {combinations} of parameters, which are "
        f"independent of each other, less than {INFORMED:g} of the prior’s standard deviation is "
        f"left. In all directions it is {number(found.degrees)} degrees of freedom."
    )
    count = min(max(known, 1), _DIRECTIONS)
    rows = [
        (f"{i + 1}", bar(found[i].width), f"{number(found[i].shift, 2)}", _loadings(run, i))
        for i in range(count)
    ]
    headings = ("direction", "width", "shift", "largest loadings")
    table = html.table("The best known directions", headings, rows, numbers=(2,))
    small = html.fill(
        '<p class="small">$words</p>',
        words="Width: posterior over prior standard deviation. Shift: of the mean, in prior "
        "standard deviations. A loading is the prior correlation of a parameter with the "
        "direction; in the pictures blue is positive, orange negative.",
    )
    return html.joined([html.paragraph(words), table, small, _patterns(run, found, count)])


def _patterns(run: Account, found: Directions, count: int) -> Markup:
    """Draw the first directions over the fields that they are correlated with."""
    maps = []
    for each in run.fields:
        for i in range(min(count, _PATTERNS) if field_figures.drawable(each.field) else 0):
            loadings = found[i].loadings[run.columns(each.name)]
            if np.abs(loadings).max() > _VISIBLE:
                picture = field_figures.pattern(each.name, each.field, loadings, i + 1)
                name = f"direction {i + 1} on {each.name}"
                maps.append(html.fill(_PICTURE, name=name, picture=picture))
    return Markup(f'<div class="multiples">{html.joined(maps)}</div>' if maps else "")


def _loadings(run: Account, i: int) -> str:
    assert run.directions is not None
    largest = run.directions[i].largest(run.names, _LOADINGS)
    return ", ".join(f"{name} {number(round(load, 2), 2)}" for name, load in largest)


def field_pictures(change: FieldChange) -> Markup:
    """Return the pictures of one field."""
    if not field_figures.drawable(change.field):
        return Markup()
    unit = f", {change.unit}" if change.unit else ""
    parts = [
        html.fill(
            _PICTURE, name=f"{change.name}{unit}: median", picture=field_figures.medians(change)
        ),
        html.fill(
            _PICTURE,
            name=f"{change.name}: width, posterior over prior",
            picture=field_figures.widths(change),
        ),
    ]
    heading = html.fill("<h3>The field $name</h3>", name=change.name)
    return html.joined([heading, Markup('<div class="multiples wide">'), *parts, Markup("</div>")])


def _groups(run: Account) -> Markup:
    """Return the table of fields, one a row."""
    headings = (
        "field",
        "points",
        "unit",
        "prior median",
        "posterior median",
        "median width",
        "informed",
    )
    rows = []
    for each in run.fields:
        median, widths = each.posterior[1], each.widths
        informed = int((widths < INFORMED).sum())
        rows.append(
            (
                each.name,
                " × ".join(map(str, each.field.shape)),
                each.unit,
                number(float(np.median(each.prior[1]))),
                f"{number(float(median.min()))} to {number(float(median.max()))}",
                bar(float(np.median(widths))),
                f"{informed} of {widths.size} points",
            )
        )
    return html.table("Fields", headings, rows, numbers=(3, 4)) if rows else Markup()


def _folded(rows: list[ParameterChange]) -> Markup:
    """Return the table of all parameters, folded."""
    words = f"All {count_of(len(rows), 'parameter', 'parameters')}"
    if len(rows) > _FOLDED:
        return html.paragraph(f"{words} are in the tables that `supac export` writes.")
    caption = "Median (5 % to 95 %) of each parameter, before the data and after"
    table = html.table(caption, HEADINGS, map(cells, rows), numbers=(2, 3, 5))
    return html.fill("<details><summary>$words</summary>$table</details>", words=words, table=table)
