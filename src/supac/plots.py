"""Pictures of a run, drawn with matplotlib (extra `plot`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.minimize import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRIOR, POSTERIOR, TRUTH = "#9aa5b1", "#0b6e99", "#c2410c"


def drawing_is_possible() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def save_run(
    path: Path, result: Result, prior: Distribution, truth: FloatArray | None = None
) -> None:
    """What happened in a run: the objective as queries were spent, and what was learnt."""
    if not drawing_is_possible():
        raise ImportError("plots need matplotlib: pip install 'supac[plot]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    draw_history(left, result.history)
    names = result.parameters.names if result.parameters else [f"x{i}" for i in range(prior.dim)]
    draw_marginals(right, names, prior, result.posterior, truth)
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
        label="λ·KL, the price of leaving the prior",
    )
    axes.set(xlabel="risk queries", ylabel="risk", ylim=(0.0, None))
    axes.set_title("The objective as runs are made, estimated from them")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def draw_marginals(
    axes: Axes,
    names: Sequence[str],
    prior: Distribution,
    posterior: Distribution,
    truth: FloatArray | None,
) -> None:
    """Mean and two standard deviations of each coordinate, before and after."""
    rows = np.arange(len(names))[::-1]
    for distribution, offset, colour, label in (
        (prior, 0.14, PRIOR, "prior"),
        (posterior, -0.14, POSTERIOR, "posterior"),
    ):
        spread = 2.0 * np.sqrt(np.diag(distribution.covariance))
        axes.errorbar(
            distribution.mean, rows + offset, xerr=spread, fmt="o", color=colour, label=label, ms=4
        )
    if truth is not None:
        axes.plot(truth, rows - 0.14, "x", color=TRUTH, label="minimum of the risk", ms=7, mew=2)
    axes.set_yticks(rows, names)
    axes.set(title="What was learnt (mean, two standard deviations)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)
