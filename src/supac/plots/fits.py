"""Plots of simulations and data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supac.arrays import FloatArray
from supac.plots.canvas import POSTERIOR, PRIOR, TRUTH, axes_for, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"prior": (PRIOR, 0.35), "posterior": (POSTERIOR, 0.55)}


def fit_bands(
    time: FloatArray,
    observed: FloatArray,
    predicted: Mapping[str, FloatArray],
    *,
    noise: FloatArray | float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Plot one output over time: the data, and bands with 90 % of the simulations of each kind.

    Parameters
    ----------
    time
        (m,).
    observed
        (m,), NaN for missing values.
    predicted
        Simulations (n, m) by kind, "prior" and "posterior"; rows with a NaN, such as those of
        failed runs, are left out.
    noise
        Standard error of an observation, drawn as a bar.
    axes
        Axes to draw on; by default those of a new figure.

    """
    unknown = set(predicted) - set(_COLOURS)
    if unknown:
        raise ValueError(f"predicted has {sorted(unknown)}; its keys must be in {list(_COLOURS)}")
    plain = axes_for(axes)
    for kind, (colour, alpha) in _COLOURS.items():
        draws = np.asarray(predicted.get(kind, np.empty((0, len(time)))))
        draws = draws[~np.isnan(draws).any(axis=1)]
        if not len(draws):
            continue
        low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
        plain.fill_between(time, low, high, color=colour, alpha=alpha, lw=0, label=f"{kind}, 90 %")
        plain.plot(time, middle, color=colour, lw=1)
    if noise is None:
        size = 2.5 if len(time) > 50 else 5.0
        plain.plot(time, observed, ".", color=TRUTH, ms=size, label="observed")
    else:
        plain.errorbar(time, observed, yerr=noise, fmt=".", color=TRUTH, lw=1, label="observed")
    plain.set_xlim(float(np.min(time)), float(np.max(time)))
    plain.legend(frameon=False, fontsize=8)
    return plain


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
    figure = new_figure(12.0, 2.6 * rows, shown=False)
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
