"""Predictions, sensitivities and candidate measurements as HTML for notebooks."""

from __future__ import annotations

from supac.posterior.next_measurement import NextMeasurements
from supac.posterior.prediction import Prediction
from supac.posterior.sensitivity import ALL, Sensitivity
from supac.report import elements as html
from supac.report.elements import Markup
from supac.report.notebook import as_output
from supac.report.predictions import prediction_part
from supac.report.words import number, percent

_COLUMNS, _PARAMETERS, _CANDIDATES = 8, 20, 15  # at most
_NEGLIGIBLE = 0.01  # share of a combination that is not worth a mention


def html_of_prediction(made: Prediction) -> str:
    """Return the bands of a prediction as pictures, or as a table without times."""
    return as_output([_local(made.local), prediction_part(made, 0)])


def html_of_sensitivity(found: Sensitivity) -> str:
    """Return what the data determine, and the indices of columns, all outputs and the risk."""
    return as_output([_local(found.local), _combinations(found), _indices(found)])


def _local(words: str) -> Markup:
    """Return a warning of local ranges, if there are any."""
    if not words:
        return Markup()
    return html.paragraph(f"{words[:1].upper()}{words[1:]}. This holds near the posterior alone.")


def _combinations(found: Sensitivity) -> Markup:
    if found.directions is None:
        return Markup()
    rows = []
    for one in found.combinations():
        parts = [f"{e['sign']} {e['name']} ({percent(e['share'])})" for e in one["parameters"]]
        parts += ["+ …"] if one["others"] >= _NEGLIGIBLE else []
        rows.append((number(one["width"], 2), " ".join(parts).removeprefix("+ ")))
    count = f"{number(found.directions.degrees, 2)} of {len(found.directions)}"
    return html.table(f"The data determine {count} combinations", ("width", "combination"), rows)


def _indices(found: Sensitivity) -> Markup:
    last = [name for name in found.columns.outputs[-2:] if name not in found.table.columns]
    shown = [*found.columns.outputs[: len(found.columns.outputs) - len(last)][:_COLUMNS], *last]
    order = (-found.columns.row(ALL if ALL in shown else shown[0])["total"]).argsort(kind="stable")
    of = [found.columns.row(name) for name in shown]
    rows = [
        (
            found.parameters[j],
            *(f"{max(each['first'][j], 0.0):.2f} {max(each['total'][j], 0.0):.2f}" for each in of),
        )
        for j in order[:_PARAMETERS].tolist()
    ]
    missed = percent(min(float(found.unexplained.mean()), 1.0))
    caption = (
        f"Shares of the variance over the {found.under}: emulated from {found.runs} runs, which "
        f"leaves {missed} unexplained"
    )
    headings = ["first, total of", *shown]
    return html.table(caption, headings, rows, numbers=range(1, len(headings)))


def html_of_next(found: NextMeasurements) -> str:
    """Return the best candidates with what each would leave."""
    one = len(found.quantities) == 1
    unit = found.units[0] if one and found.units else ""
    now = f", now ± {number(float(found.before[0]))} {unit}".rstrip() if one else ""
    what = found.quantities[0] if one else f"{len(found.quantities)} quantities"
    headings = ["measurement", "variance left", *["standard deviation"] * one, "by"]
    rows = [
        (
            each.candidate.words,
            f"{percent(each.remaining)} ± {max(100.0 * each.error, 1.0):.0f}",
            *([f"{number(each.deviations[0])} {unit}".rstrip()] if one else []),
            each.method,
        )
        for each in found.choices[:_CANDIDATES]
    ]
    caption = f"What would remain of the uncertainty of {what}{now}"
    left = len(found.choices) - len(rows)
    more = html.paragraph(f"{left} more are in choices.") if left > 0 else Markup()
    found_best = html.table(caption, headings, rows, numbers=(1, 2))
    return as_output([_local(found.local), found_best, more])
