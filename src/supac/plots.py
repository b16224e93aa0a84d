"""Pictures of a run, drawn with matplotlib (extra `plot`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supac.arrays import FloatArray
from supac.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRIOR, POSTERIOR, TRUTH = "#9aa5b1", "#0b6e99", "#c2410c"


def drawing_is_possible() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def _figure(width: float, height: float) -> Figure:
    if not drawing_is_possible():
        raise ImportError("plots need matplotlib: pip install 'supac[plot]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_posterior(path: Path, result: Result, truth: FloatArray | None = None) -> None:
    """The objective as queries were spent, and what was learnt; `truth` in the user's units."""
    rows = len(result.posterior.mean)
    figure = _figure(11.0, max(4.2, 1.0 + 0.26 * rows))
    left, right = figure.subplots(1, 2)
    draw_history(left, result.history)
    draw_marginals(right, result, truth)
    figure.savefig(path, dpi=150)


def draw_history(axes: Axes, history: dict[str, FloatArray]) -> None:
    """Objective and mean risk of the posterior behind each batch, against queries."""
    queries = history["queries"]
    axes.plot(queries, history["objective"], "o-", color=POSTERIOR, label="objective", ms=4)
    axes.plot(queries, history["mean_risk"], "s--", color=PRIOR, label="mean risk", ms=4)
    axes.fill_between(
        queries,
        history["mean_risk"],
        history["objective"],
        color=POSTERIOR,
        alpha=0.08,
        label="the price of leaving the prior",
    )
    axes.set(xlabel="risk queries", ylabel="risk", ylim=(0.0, None))
    axes.set_title("The objective as runs are made, estimated from them")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def draw_marginals(axes: Axes, result: Result, truth: FloatArray | None) -> None:
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
    figure = _figure(12.0, 2.6 * -(-len(observed) // columns))
    panels = figure.subplots(-(-len(observed) // columns), columns, squeeze=False, sharex=True)
    for axes, (name, values) in zip(panels.flat, observed.items(), strict=False):
        for kind, colour, alpha in (("prior", PRIOR, 0.35), ("posterior", POSTERIOR, 0.55)):
            draws = predicted[name][kind]
            draws = draws[~np.isnan(draws).any(axis=1)]
            if not len(draws):
                continue
            low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
            axes.fill_between(
                time, low, high, color=colour, alpha=alpha, lw=0, label=f"{kind}, 90 %"
            )
            axes.plot(time, middle, color=colour, lw=1)
        axes.plot(time, values, ".", color=TRUTH, ms=2.5, label="observed")
        seen = values[~np.isnan(values)]
        axes.set(title=name, ylim=(0.0, 1.6 * float(seen.max(initial=0.0)) or None))
        axes.set_xlim(time[0], time[-1])
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[-1]:
        axes.set_xlabel("day")
    panels[0, 0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)
