"""Four rounds of the method on a risk of one parameter: python docs/figures/rounds.py."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import supac
from supac.arrays import FloatArray

RISK, PRIOR, POSTERIOR, SURROGATE = "#3c4650", "#9aa5b1", "#0b6e99", "#c2410c"
ROUNDS, DENSITY = 4, 0.45  # height of a density, in units of the axis


def risk(x: FloatArray) -> FloatArray:
    """A valley with ripples: (n, 1) → (n,)."""
    return np.asarray(np.tanh(0.15 * (x[:, 0] - 1.6) ** 2) + 0.05 * np.sin(6.0 * x[:, 0]) + 0.06)


def draw(figure: Figure) -> None:
    """A panel a round: what is known, the surrogate, and where it leads."""
    prior = supac.gaussian([-0.5], [[1.0]])
    problem = supac.Problem.within(prior, supac.Catoni(temperature=0.03))
    estimator = supac.Importance()
    step = supac.FixedStep(alpha_max=0.5, kl_max=1.0)
    algorithm = supac.SuPAC(estimator, step, first=10, batch=6)
    state = algorithm.init(problem, seed=3)
    grid = np.linspace(-3.6, 4.2, 131)[:, None]
    figure.subplots(ROUNDS // 2, 2, sharex=True, sharey=True)
    for number, axes in enumerate(figure.axes, 1):
        batch, at = algorithm.ask(problem, state), state.posterior
        x = batch.x
        state, _ = algorithm.tell(problem, state, batch, risk(x))
        runs = state.evaluations
        surrogate = estimator.fit(runs, at).project(at, np.random.default_rng(0))
        axes.fill_between(grid[:, 0], density(prior, grid), color=PRIOR, alpha=0.35, label="prior")
        axes.fill_between(
            grid[:, 0], density(at, grid), color=POSTERIOR, alpha=0.35, label="posterior so far"
        )
        axes.plot(grid, density(state.posterior, grid), color=POSTERIOR, label="the next one")
        axes.plot(grid, risk(grid), color=RISK, lw=1, label="risk (not known)")
        axes.plot(grid, surrogate(grid), "--", color=SURROGATE, label="surrogate")
        axes.plot(runs.x, risk(runs.x), "o", color="white", mec=RISK, ms=4, label="runs so far")
        axes.plot(x, risk(x), "o", color=RISK, ms=4, label="of this round")
        axes.set_title(f"round {number}, {len(runs)} runs", fontsize=10, loc="left")
        axes.set_ylim(0.0, 1.1)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in figure.axes[2:]:
        axes.set_xlabel("parameter")
    for axes in figure.axes[::2]:
        axes.set_ylabel("risk")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)


def density(at: supac.Distribution, grid: FloatArray) -> FloatArray:
    """Of a distribution, on the scale of the risk: (n, 1) → (n,)."""
    return np.asarray(DENSITY * np.exp(at.log_prob(grid)))


if __name__ == "__main__":
    # Text stays text, and the same picture is the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "supac", "font.size": 9})
    drawing = Figure(figsize=(9.0, 6.0), layout="constrained", facecolor="white")
    draw(drawing)
    out = Path(__file__).with_suffix(".svg")
    text = StringIO()
    drawing.savefig(text, format="svg", metadata={"Date": None})
    out.write_text(re.sub(r"(\.\d\d)\d+", r"\1", text.getvalue()))  # two decimals will do
    print(out)
