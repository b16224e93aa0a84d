"""Plots of the search: objective, predictions and weights of the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from supac.arrays import FloatArray
from supac.plots.canvas import POSTERIOR, PRIOR, TRUTH, axes_for
from supac.record.calibrated import Calibrated
from supac.record.result import Result
from supac.surrogate.importance import Importance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RETURNED = "returned, from fresh runs"


def convergence(run: Calibrated, *, axes: Axes | None = None) -> Axes:
    """Plot objective and mean risk of the posterior of each batch against queries.

    The ring is the returned posterior, if it was validated with fresh runs, with two standard
    errors of its mean risk.
    """
    record = run.own_record
    plain, about = draw_history(axes_for(axes), record.history), record.estimate
    if about.validated:
        end = max(float(record.history["queries"][-1]), float(record.queries))
        error = 2.0 * about.mean_risk_error
        ring: dict[str, Any] = {
            "ms": 9,
            "mfc": "white",
            "mec": POSTERIOR,
            "ecolor": POSTERIOR,
            "mew": 2,
        }
        plain.errorbar([end], [about.objective], yerr=[error], fmt="o", label=_RETURNED, **ring)
        plain.legend(frameon=False)
    return plain


def draw_history(axes: Axes, history: dict[str, FloatArray]) -> Axes:
    """Draw the columns of a history."""
    queries = history["queries"]
    axes.plot(queries, history["objective"], "o-", color=POSTERIOR, label="objective", ms=4)
    axes.plot(queries, history["mean_risk"], "s--", color=PRIOR, label="mean risk", ms=4)
    both = history["mean_risk"], history["objective"]
    axes.fill_between(queries, *both, color=POSTERIOR, alpha=0.08, label="cost of KL")
    axes.set(xlabel="runs of the simulator", ylabel="risk", ylim=(0.0, None))
    axes.set_title("Objective against the number of runs, estimated from them")
    axes.legend(frameon=False)
    return axes_for(axes)


def predictions(run: Calibrated, *, axes: Axes | None = None) -> Axes:
    """Plot the objective of each next batch against the model's prediction.

    Points above the line are worse than predicted.
    """
    plain, record = axes_for(axes, 4.6, 4.4), run.own_record
    history, about = record.history, record.estimate
    predicted = history["predicted"][:-1]
    realised, queries = history["objective"][1:], history["queries"][1:]
    known = np.isfinite(predicted) & np.isfinite(realised)
    if not known.any():
        raise ValueError("no step has a prediction: there is nothing to compare")
    both = np.concatenate([predicted[known], realised[known]])
    margin = 0.05 * (both.max() - both.min()) or 0.1 * abs(both.max()) or 0.1
    ends = [both.min() - margin, both.max() + margin]
    plain.plot(ends, ends, color=PRIOR, lw=1, zorder=0)
    dots = plain.scatter(
        predicted[known], realised[known], c=queries[known], cmap="viridis_r", s=36
    )
    plain.figure.colorbar(dots, ax=plain, label="runs of the simulator", shrink=0.72)
    if about.validated and np.isfinite(history["predicted"][-1]):
        last = float(history["predicted"][-1])
        ring: dict[str, Any] = {"ms": 10, "mfc": "none", "mec": TRUTH, "mew": 2}
        plain.plot([last], [about.objective], "o", label=_RETURNED, **ring)
        plain.legend(frameon=False)
        ends = [min(*ends, last, about.objective), max(*ends, last, about.objective)]
    plain.set(xlabel="predicted objective", ylabel="realised objective", xlim=ends, ylim=ends)
    plain.set_title("Predicted against realised")
    plain.set_aspect("equal")
    return plain


def weights(result: Result, *, axes: Axes | None = None) -> Axes:
    """Plot the importance weight of each generation of runs under the returned posterior.

    Bars: the mixture importance weights of all random draws, summed by generation. Dots: the share
    of the runs in that generation.
    """
    plain = axes_for(axes)
    fitted = Importance().fit(result.evaluations, result.posterior)
    runs, weight = fitted.evaluations, fitted.weights(result.posterior)
    count = len(result.evaluations.proposals)
    share = np.bincount(runs.iteration, weights=weight, minlength=count)
    made = np.bincount(runs.iteration, minlength=count) / len(runs)
    generation = np.arange(1, count + 1)
    plain.bar(generation, share, color=POSTERIOR, alpha=0.8, label="weight")
    plain.plot(generation, made, "D", color=TRUTH, ms=5, label="share of the runs")
    size = 1.0 / float(weight @ weight)
    plain.set(xlabel="generation", ylabel="share", ylim=(0.0, None))
    plain.set_title(f"Weights by generation, worth {size:.0f} of {len(runs)} runs")
    plain.locator_params(axis="x", integer=True)
    plain.legend(frameon=False)
    return plain
