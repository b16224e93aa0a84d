"""The picture of docs/faq.md: draws of a posterior of forty runs on Bayes' posterior on a grid.

python benchmarks/reference/bayesian.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import supac
from supac.arrays import FloatArray

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "bayesian.png"
TIMES = np.linspace(0.0, 1.0, 20)
NOISE = np.concatenate([np.full(20, 2.0), np.full(20, 0.3)])
SD = 1.5  # of both priors
GRID = np.linspace(-3.0, 3.0, 241), np.linspace(-1.5, 6.0, 241)


def simulate(x: FloatArray) -> FloatArray:
    """Return a line, and a parabola in the first parameter: the example of docs/shape.md."""
    return np.concatenate([x[0] * TIMES, (x[1] - x[0] ** 2) * (1.0 - TIMES)])


def main() -> None:
    """Search, and draw."""
    normal = supac.marginals.Normal(0.0, SD)
    measured = simulate(np.array([0.3, 0.2])) + NOISE * np.random.default_rng(0).standard_normal(40)
    risk = supac.Composite(
        simulate, supac.MeanSquare(), supac.Observations(("slow", "fast"), measured, NOISE)
    )
    result = supac.minimize(
        risk, supac.Parameters({"a": normal, "b": normal}), supac.Catoni(2 / 40), budget=40,
        shape="auto", execution=supac.Execution(progress=False),
    )  # fmt: skip
    draws = np.asarray(result.sample(1_000))
    runs = SD * np.array([run.x for run in result.record.runs])
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    ax = figure.subplots()
    a, b = np.meshgrid(*GRID)
    rows = np.array([simulate(each) for each in np.column_stack([a.ravel(), b.ravel()])])
    log = -0.5 * (((rows - measured) / NOISE) ** 2).sum(axis=1)
    log = log.reshape(a.shape) - 0.5 * (a**2 + b**2) / SD**2
    density = np.exp(log - log.max())
    ordered = np.sort(density.ravel())[::-1]
    held = np.cumsum(ordered) / ordered.sum()
    levels = [ordered[np.searchsorted(held, share)] for share in (0.95, 0.5)]
    ax.contour(a, b, density, levels=levels, colors="#c42", linewidths=1.4, zorder=3)
    ax.plot(*draws.T, ".", color="#0b6", markersize=2.5, alpha=0.5)
    ax.plot(*runs.T, "k+", markersize=5)
    ax.plot([], [], color="#c42", label="Bayes' posterior: 50 and 95 %")
    ax.plot([], [], ".", color="#0b6", label="draws after 40 runs")
    ax.plot([], [], "k+", label="runs")
    ax.set(xlabel="a", ylabel="b", xlim=(-3.0, 3.0), ylim=(-1.5, 6.0))
    ax.legend(frameon=False, fontsize=8, loc="upper center")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
