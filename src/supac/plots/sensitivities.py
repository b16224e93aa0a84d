"""Plots of which parameters matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from supac.plots.canvas import MOST, POSTERIOR, PRIOR, axes_for
from supac.posterior.sensitivity import ALL, Sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def sobol_indices(
    found: Sensitivity, output: str | None = None, *, axes: Axes | None = None
) -> Axes:
    """Plot first-order and total Sobol indices of an output, with their errors, as bars.

    By default of all outputs together; `output` may be a column, "risk", or one output such as
    "A at 3". The twelve parameters with the largest totals are shown.
    """
    columns = found.columns
    name = output or (ALL if ALL in columns.outputs else columns.outputs[0])
    row = (columns if name in columns.outputs else found.indices).row(name)
    order = np.argsort(-row["total"], kind="stable")[:MOST]
    plain = axes_for(axes, 6.4, 1.2 + 0.38 * len(order))
    places = np.arange(len(order), dtype=np.float64)
    for kind, shift, colour in (("total", 0.2, PRIOR), ("first", -0.2, POSTERIOR)):
        plain.barh(
            places + shift,
            np.maximum(row[kind][order], 0.0),
            0.38,
            xerr=row[f"{kind}_error"][order],
            color=colour,
            error_kw={"lw": 1.0, "ecolor": "#333333"},
            label={"first": "first order", "total": "total"}[kind],
        )
    names = [found.parameters[i].replace("$", r"\\$") for i in order]
    plain.set_yticks(places, names)
    plain.invert_yaxis()
    plain.set(xlabel=f"share of the variance over the {found.under}", xlim=(0.0, None))
    plain.set_title(name.replace("$", r"\\$"))
    plain.legend(frameon=False, fontsize=8)
    return plain
