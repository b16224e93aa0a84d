"""The section of the report with the predictions of other scenarios."""

from __future__ import annotations

import numpy as np

from supac.posterior.predicted_bands import PredictedBands
from supac.posterior.prediction import Prediction
from supac.record.local_ranges import words_on_local_ranges
from supac.report import elements as html
from supac.report.account import Account
from supac.report.elements import Markup
from supac.report.figures import unit_of
from supac.report.svg import Panel, span
from supac.report.words import count_of, number

_MOST_PICTURES = 30
_MOST_ROWS = 40


def what_is_predicted(run: Account) -> Markup:
    """Return the section with the bands of each prediction; "" if there is none."""
    if not run.predictions:
        return Markup()
    parts = [prediction_part(each, i) for i, each in enumerate(run.predictions)]
    local = words_on_local_ranges(run.record)
    if local:
        words = f"{local[:1].upper()}{local[1:]}. So these bands may be too narrow."
        parts.insert(0, html.paragraph(words))
    return html.section("predicted", beside=_beside_new_measurements(run), parts=html.joined(parts))


def _beside_new_measurements(run: Account) -> Markup:
    """Say why bands from the data may be wider than those of a larger share; "" without any."""
    if isinstance(run.bands, str):
        return Markup()
    words = (
        "The bands of $share for new measurements, under "
        '<a href="#fit">How well it fits</a>, may be wider than those of 90 % here. They '
        "are made of the distances between data and simulations, so that they hold whatever is "
        "wrong with the simulator, and the fewer the data, the more they allow for bad luck. "
        "Those here trust the simulator and its noise."
    )
    return Markup(f"<p>{html.fill(words, share=f'{100 * run.bands.coverage:g} %')}</p>")


def prediction_part(made: Prediction, index: int) -> Markup:
    """Return the title, the number of runs and the bands of a prediction."""
    bands, lost = made.bands(), len(made.failures)
    share = f"{100 * bands.coverage:g} %"
    sets = "the certified parameter sets" if made.ensemble else "draws of the posterior"
    words = f"{count_of(len(made.x), 'run', 'runs')} at {sets}"
    if not made.finished:
        words = f"{len(made.x)} of {made.asked} runs at {sets}, not finished"
    words += (
        f"; {count_of(lost, 'more run', 'more runs')} failed and are left out." if lost else "."
    )
    noisy = bool(np.isfinite(bands.measured_lower).any())
    kinds = {"posterior": f"median, and {share} of the simulations"}
    if bands.has_discrepancy:
        kinds["corrected"] = f"{share} of simulations with the discrepancy of the model"
    if noisy:
        what = "these" if bands.has_discrepancy else "simulations"
        kinds["measurement"] = f"{share} of new measurements: {what} plus their noise"
    shown = _pictures(made, bands, index) if made.columns.rows > 1 else _table(made, bands, share)
    return html.joined(
        [
            html.fill("<h3>$title</h3>", title=made.title or "A prediction"),
            html.paragraph(words),
            Markup('<div class="chart">'),
            html.legend(**kinds) if made.columns.rows > 1 else "",
            shown,
            Markup("</div>"),
        ]
    )


def _pictures(made: Prediction, bands: PredictedBands, index: int) -> Markup:
    """Return a chart for each output, with the bands over time."""
    columns = made.columns
    x, label = columns.clock, "row" if columns.times is None else columns.time_label or "time"
    order = np.argsort(x, kind="stable")
    pictures = []
    for i, column in enumerate(columns.columns):
        place = columns.places(column)
        lower, median, upper, below, above, least, most = (
            getattr(bands, name)[place][order]
            for name in (
                *("lower", "median", "upper", "measured_lower", "measured_upper"),
                *("corrected_lower", "corrected_upper"),
            )
        )
        view = span(lower, upper, below, above, least, most)
        panel = Panel(f"predicted-{index}-{i}", span(x, room=0.03), view)
        panel.area(x[order], below, above, "measurement")
        panel.area(x[order], least, most, "corrected")
        panel.area(x[order], lower, upper, "posterior")
        panel.line(x[order], median, "posterior")
        told = (
            f"{column}: {100 * bands.coverage:g} % of the simulations, at the end from "
            f"{number(float(lower[-1]))} to {number(float(upper[-1]))}"
        )
        pictures.append(
            html.fill(
                "<figure><figcaption>$name</figcaption>$picture</figure>",
                name=column,
                picture=panel.draw(told, label, unit_of(columns, i)),
            )
        )
        if len(pictures) == _MOST_PICTURES:
            break
    return Markup(f'<div class="multiples wide">{"".join(pictures)}</div>')


def _table(made: Prediction, bands: PredictedBands, share: str) -> Markup:
    """Return a table of outputs without times."""
    noisy = bool(np.isfinite(bands.measured_lower).any())
    headings = ["output", "median", f"{share} of simulations"]
    smooth = bands.has_discrepancy
    headings += [f"{share} with the discrepancy of the model"] if smooth else []
    headings += [f"{share} of new measurements"] if noisy else []
    rows = []
    for i, label in enumerate(made.columns.labels[:_MOST_ROWS]):
        row: tuple[str, ...] = (
            label,
            number(float(bands.median[i])),
            _ends(bands.lower[i], bands.upper[i]),
        )
        if smooth:
            row = (*row, _ends(bands.corrected_lower[i], bands.corrected_upper[i]))
        measured = _ends(bands.measured_lower[i], bands.measured_upper[i])
        rows.append((*row, measured) if noisy else row)
    return html.table(
        "Predicted outputs", headings, rows, numbers=(1, 2, 3, 4)[: len(headings) - 1]
    )


def _ends(low: float, high: float) -> str:
    known = np.isfinite(low)
    return f"{number(float(low))} to {number(float(high))}" if known else "not known"
