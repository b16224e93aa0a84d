"""Pictures of a whole run, as the demo saves them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supac.arrays import FloatArray
from supac.plots.canvas import POSTERIOR, PRIOR, TRUTH, file_figure
from supac.plots.fits import fit_bands
from supac.plots.search import draw_history
from supac.record.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_posterior(path: Path, result: Result, truth: FloatArray | None = None) -> None:
    """The objective as queries were spent, and what was learnt; `truth` in the user's units."""
    rows = len(result.posterior.mean)
    figure = file_figure(11.0, max(4.2, 1.0 + 0.26 * rows))
    left, right = figure.subplots(1, 2)
    draw_history(left, result.history)
    draw_overview(right, result, truth)
    figure.savefig(path, dpi=150)


def draw_overview(axes: Axes, result: Result, truth: FloatArray | None) -> None:
    """Mean and two standard deviations of each coordinate, before and after.

    With `Parameters`, in the latent coordinates in which every prior is N(0, 1).
    """
    prior, posterior = result.start, result.posterior
    rows = np.arange(len(posterior.mean))[::-1]
    for distribution, offset, colour, label in (
        (prior, 0.16, PRIOR, "prior"),
        (posterior, -0.16, POSTERIOR, "posterior"),
    ):
        spread = 2.0 * np.sqrt(np.diag(distribution.covariance))
        axes.errorbar(
            distribution.mean, rows + offset, xerr=spread, fmt="o", color=colour, label=label, ms=3
        )
    names = [f"x{i}" for i in range(len(rows))]
    if result.parameters is not None:
        names = list(result.parameters.names)
        truth = None if truth is None else result.parameters.to_latent(truth[None])[0]
        axes.set_xlabel("prior standard deviations from the prior median")
    if truth is not None:
        axes.plot(truth, rows - 0.16, "x", color=TRUTH, label="truth", ms=6, mew=2)
    axes.set_yticks(rows, names)
    axes.set(title="What was learnt (mean, two standard deviations)", ylim=(-0.7, len(rows) - 0.3))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def save_fit(
    path: Path,
    time: FloatArray,
    observed: Mapping[str, FloatArray],
    predicted: Mapping[str, Mapping[str, FloatArray]],
) -> None:
    """Each output over time: what was observed, and 90 % of the draws of prior and posterior.

    `predicted[output]["prior" or "posterior"]` has one row a draw, NaN where a run failed.
    """
    columns = 3
    figure = file_figure(12.0, 2.6 * -(-len(observed) // columns))
    panels = figure.subplots(-(-len(observed) // columns), columns, squeeze=False, sharex=True)
    for axes, (name, values) in zip(panels.flat, observed.items(), strict=False):
        fit_bands(time, values, predicted[name], axes=axes)
        seen = values[~np.isnan(values)]
        axes.set(title=name, ylim=(0.0, 1.6 * float(seen.max(initial=0.0)) or None))
        if axes is not panels[0, 0]:
            axes.get_legend().remove()
    for axes in panels[-1]:
        axes.set_xlabel("day")
    figure.savefig(path, dpi=130)
