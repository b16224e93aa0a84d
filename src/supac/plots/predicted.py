"""Plots of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from supac.plots.canvas import CORRECTED, MOST, POSTERIOR, PRIOR, grid_of
from supac.posterior.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def prediction_bands(
    prediction: Prediction,
    columns: Sequence[str] | None = None,
    *,
    coverage: float | None = None,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Plot the bands of each output over time: of simulations, and of new measurements.

    If a discrepancy of the model was calibrated, also of simulations with it.

    By default of the first twelve outputs, on a new figure; `axes` are one for each.
    """
    table, bands = prediction.columns, prediction.bands(coverage)
    names = list(table.columns[:MOST] if columns is None else columns)
    every = grid_of(len(names), 3, 4.2, 3.0) if axes is None else list(axes)
    share, order = f"{100 * bands.coverage:g} %", np.argsort(table.clock, kind="stable")
    x = table.clock[order]
    for plain, name in zip(every, names, strict=True):
        place = table.places(name)
        lower, median, upper, below, above, least, most = (
            getattr(bands, each)[place][order]
            for each in (
                *("lower", "median", "upper", "measured_lower", "measured_upper"),
                *("corrected_lower", "corrected_upper"),
            )
        )
        if np.isfinite(below).any():
            label = f"{share} of new measurements"
            plain.fill_between(x, below, above, color=PRIOR, alpha=0.35, lw=0, label=label)
        if np.isfinite(least).any():
            label = f"{share} of simulations with the model's discrepancy"
            plain.fill_between(x, least, most, color=CORRECTED, alpha=0.3, lw=0, label=label)
        label = f"{share} of simulations"
        plain.fill_between(x, lower, upper, color=POSTERIOR, alpha=0.45, lw=0, label=label)
        plain.plot(x, median, color=POSTERIOR, lw=1.2, label="median")
        if len(x) == 1:  # a band without width is not seen
            plain.errorbar(x, median, [median - lower, upper - median], fmt="o", color=POSTERIOR)
        words = table.labels[table.columns.index(name)].replace("$", r"\$")
        plain.set(xlabel=table.time_label or "time", ylabel=words)
    every[0].legend(frameon=False, fontsize=8)
    if prediction.title and every[0].figure is not None:
        every[0].figure.suptitle(prediction.title.replace("$", r"\$"), fontsize=11)
    return every
