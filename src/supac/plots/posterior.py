"""Plots of the posterior: marginals, pairs, and its changes; exact curves, no smoothed draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.plots.canvas import (
    MOST,
    POSTERIOR,
    PRIOR,
    TRUTH,
    axes_for,
    grid_of,
    new_figure,
    track_of,
)
from supac.plots.search import draw_history
from supac.problem import Parameters, names_of
from supac.record.calibrated import Calibrated
from supac.record.parameter_change import ParameterChange, parameter_changes, quantiles
from supac.record.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MASS = (0.5, 0.9)  # inside the contours of two parameters


def marginals(
    run: Calibrated,
    *,
    parameters: Sequence[str | int] | None = None,
    truth: FloatArray | None = None,
) -> list[Axes]:
    """Plot prior and posterior density of each parameter, in the user's units.

    Without names, of more than 40 parameters the twelve that changed most.
    """
    track = track_of(run)
    rows = parameter_changes(track.prior, track.posteriors[-1], track.parameters)
    chosen = track.indices(parameters)
    panels = grid_of(len(chosen), 4, 2.6, 2.0)
    for axes, i in zip(panels, chosen, strict=True):
        _draw_marginal(axes, rows[i])
        axes.set_title(track.label(i))
        if truth is not None:
            axes.axvline(truth[i], color=TRUTH, lw=1.5, label="truth")
    _explain(panels[0])
    return panels


def corner(
    run: Calibrated,
    *,
    parameters: Sequence[str | int] | None = None,
    truth: FloatArray | None = None,
) -> npt.NDArray[np.object_]:
    """Plot prior and posterior of each pair of parameters: contours around 50 % and 90 %.

    Without names, at most twelve parameters. Returns the axes as an array (parameters, parameters);
    those above the diagonal are hidden.
    """
    track = track_of(run)
    rows = parameter_changes(track.prior, track.posteriors[-1], track.parameters)
    chosen = track.indices(parameters, MOST)
    size = len(chosen)
    figure = new_figure(1.0 + 1.7 * size, 0.8 + 1.7 * size)
    panels = figure.subplots(size, size, squeeze=False)
    for a, i in enumerate(chosen):
        _draw_marginal(panels[a, a], rows[i])
    limits = [panels[a, a].get_xlim() for a in range(size)]
    for (a, b), axes in np.ndenumerate(panels):
        if b > a:
            axes.set_visible(False)
            continue
        i, j = chosen[a], chosen[b]
        axes_for(axes)
        if a != b:
            for each, colour in ((track.prior, PRIOR), (track.posteriors[-1], POSTERIOR)):
                _draw_pair(axes, each, track.parameters, (j, i), colour)
            axes.set(xlim=limits[b], ylim=limits[a])
        if truth is not None:
            axes.axvline(truth[j], color=TRUTH, lw=1, label="truth")
        if truth is not None and a != b:
            axes.axhline(truth[i], color=TRUTH, lw=1)
        axes.tick_params(labelleft=b == 0 and a > 0, labelbottom=a == size - 1)
        axes.set_xlabel(track.label(j) if a == size - 1 else "")
        axes.set_ylabel(track.label(i) if b == 0 and a > 0 else "")
    _explain(panels[0, 0])
    return np.asarray(panels, dtype=np.object_)


def trace(
    run: Calibrated,
    *,
    parameters: Sequence[str | int] | None = None,
    truth: FloatArray | None = None,
) -> list[Axes]:
    """Plot median, 5 % and 95 % quantile of each parameter against the number of runs."""
    track = track_of(run)
    chosen = track.indices(parameters, MOST)
    ends = [quantiles(each, track.parameters) for each in track.posteriors]
    low, middle, high = np.array(ends).transpose(1, 0, 2)
    panels = grid_of(len(chosen), 3, 3.4, 2.2, sharex=True)
    for axes, i in zip(panels, chosen, strict=True):
        band: dict[str, Any] = {"color": POSTERIOR, "alpha": 0.18, "lw": 0, "label": "5 % to 95 %"}
        axes.fill_between(track.queries, low[:, i], high[:, i], **band)
        axes.plot(track.queries, middle[:, i], "o-", color=POSTERIOR, ms=3, label="median")
        if truth is not None:
            axes.axhline(truth[i], color=TRUTH, lw=1.5, label="truth")
        axes.set(ylabel=track.label(i))
    for axes in panels[-3:]:
        axes.set_xlabel("runs learnt from")
        axes.tick_params(labelbottom=True)
    _explain(panels[0])
    return panels


def trace_2d(
    run: Calibrated,
    x: str | int = 0,
    y: str | int = 1,
    *,
    truth: FloatArray | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Plot the 50 % contour of two parameters for each posterior of the run."""
    track = track_of(run)
    i, j = track.index(x), track.index(y)
    plain = axes_for(axes, 5.6, 4.6)
    from matplotlib import colormaps  # noqa: PLC0415 - checked by axes_for
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415
    from matplotlib.colors import Normalize  # noqa: PLC0415

    colours, most = colormaps["viridis_r"], max(track.queries[-1], 1)
    scale = ScalarMappable(Normalize(0, most), colours)
    for made, each in zip(track.queries, track.posteriors, strict=True):
        width, colour = 2.5 if each is track.posteriors[-1] else 1.2, tuple(colours(made / most))
        _draw_pair(plain, each, track.parameters, (i, j), colour, (0.5,), width)
    if truth is not None:
        plain.plot(truth[i], truth[j], "x", color=TRUTH, ms=9, mew=2.5, label="truth")
        plain.legend(frameon=False)
    plain.set(xlabel=track.label(i), ylabel=track.label(j))
    plain.set_title("From the prior to the posterior of two parameters")
    plain.figure.colorbar(scale, ax=plain, label="runs learnt from")
    return plain


def _explain(axes: Axes) -> None:
    """Put the legend of one panel below the figure."""
    handles, words = axes.get_legend_handles_labels()
    axes.figure.legend(handles, words, loc="outside lower center", ncols=3, frameon=False)


def _draw_marginal(axes: Axes, row: ParameterChange) -> None:
    """Draw both densities with the same height: a narrow posterior would dwarf the prior."""
    curves = (row.before, PRIOR, "prior"), (row.after, POSTERIOR, "posterior")
    for (x, density), colour, label in curves:
        height = density / (density.max() or 1.0)
        axes.fill_between(x, height, color=colour, alpha=0.25, lw=0)
        axes.plot(x, height, color=colour, lw=1.5, label=label)
    low = min(row.prior[0], row.posterior[0])
    high = max(row.prior[2], row.posterior[2])
    room = 0.15 * (high - low) or 1.0
    axes.set(xlim=(low - room, high + room), ylim=(0.0, 1.08))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _draw_pair(
    axes: Axes,
    distribution: Distribution,
    parameters: Parameters | None,
    pair: tuple[int, int],
    colour: object,
    mass: Sequence[float] = _MASS,
    width: float = 1.5,
) -> None:
    """Draw contours of two coordinates, or points if the family is not Gaussian."""
    if not distribution.family.is_gaussian:
        x = distribution.sample(400, np.random.default_rng(0))
        x = x if parameters is None else parameters.from_latent(x)
        axes.plot(*x[:, pair].T, ".", color=colour, ms=2, alpha=0.5)
        return
    for each in mass:
        axes.plot(*_ellipse(distribution, parameters, pair, each), color=colour, lw=width)


def _ellipse(
    distribution: Distribution, parameters: Parameters | None, pair: tuple[int, int], mass: float
) -> Sequence[FloatArray]:
    """Return the contour around this mass of two coordinates, in the user's units.

    Exact, because each parameter is an increasing function of its own coordinate.
    """
    part = distribution.covariance[np.ix_(pair, pair)]
    angle = np.linspace(0.0, 2.0 * np.pi, 181)
    circle = math.sqrt(-2.0 * math.log1p(-mass)) * np.array([np.cos(angle), np.sin(angle)])
    contour = distribution.mean[[*pair]][:, None] + np.linalg.cholesky(part) @ circle
    if parameters is None:
        return list(contour)
    marginals = [parameters.transforms[parameters.names[k]] for k in pair]
    return [each.from_latent(u) for each, u in zip(marginals, contour, strict=True)]


def save_posterior(path: Path, result: Result, truth: FloatArray | None = None) -> None:
    """Save the history and an overview of prior and posterior; `truth` in the user's units."""
    rows = len(result.posterior.mean)
    figure = new_figure(11.0, max(4.2, 1.0 + 0.26 * rows), shown=False)
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
    drawn = (prior, 0.16, PRIOR, "prior"), (posterior, -0.16, POSTERIOR, "posterior")
    for each, offset, colour, label in drawn:
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
