"""Figures of a whole run, as the demo saves them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supac.arrays import FloatArray
from supac.plots.canvas import POSTERIOR, PRIOR, TRUTH, axes_for, file_figure
from supac.plots.fits import fit_bands
from supac.plots.search import draw_history
from supac.problem.parameters import names_of
from supac.record.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_posterior(path: Path, result: Result, truth: FloatArray | None = None) -> None:
    """Save the history and an overview of prior and posterior; `truth` in the user's units."""
    rows = len(result.posterior.mean)
    figure = file_figure(11.0, max(4.2, 1.0 + 0.26 * rows))
    left, right = figure.subplots(1, 2)
    draw_history(left, result.history)
    _draw_overview(right, result, truth)
    figure.savefig(path, dpi=150)


def _draw_overview(axes: Axes, result: Result, truth: FloatArray | None) -> None:
    """Plot mean and two standard deviations of each coordinate, of prior and posterior.

    With `Parameters`, in the latent coordinates in which every prior is N(0, 1).
    """
    prior, posterior = result.start, result.posterior
    rows = np.arange(len(posterior.mean))[::-1]
    for each, offset, colour, label in (
        (prior, 0.16, PRIOR, "prior"),
        (posterior, -0.16, POSTERIOR, "posterior"),
    ):
        y, spread = rows + offset, 2.0 * np.sqrt(np.diag(each.covariance))
        axes.errorbar(each.mean, y, xerr=spread, fmt="o", color=colour, label=label, ms=3)
    if result.parameters is not None:
        truth = None if truth is None else result.parameters.to_latent(truth[None])[0]
        axes.set_xlabel("prior standard deviations from the prior median")
    if truth is not None:
        axes.plot(truth, rows - 0.16, "x", color=TRUTH, label="truth", ms=6, mew=2)
    axes.set_yticks(rows, names_of(result.parameters, len(rows)))
    axes.set(title="Mean and two standard deviations", ylim=(-0.7, len(rows) - 0.3))
    axes_for(axes).legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def save_fit(
    path: Path,
    time: FloatArray,
    observed: Mapping[str, FloatArray],
    predicted: Mapping[str, Mapping[str, FloatArray]],
) -> None:
    """Save a plot of each output over time: the data, and 90 % of the draws of prior and posterior.

    `predicted[output]["prior" or "posterior"]` has one row per draw, NaN for a failed run.
    """
    rows = -(-len(observed) // 3)
    figure = file_figure(12.0, 2.6 * rows)
    panels = figure.subplots(rows, 3, squeeze=False, sharex=True)
    for axes, (name, values) in zip(panels.flat, observed.items(), strict=False):
        fit_bands(time, values, predicted[name], axes=axes)
        seen = values[~np.isnan(values)]
        axes.set(title=name, ylim=(0.0, 1.6 * float(seen.max(initial=0.0)) or None))
        if axes is not panels[0, 0]:
            axes.get_legend().remove()
    for axes in panels[-1]:
        axes.set_xlabel("day")
    figure.savefig(path, dpi=130)
