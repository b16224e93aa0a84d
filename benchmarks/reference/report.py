"""The page of `make bench-reference`, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pages import narrow_table, wrapped

DOCS = Path(__file__).parents[2] / "docs"
TITLES = {
    "lotka_volterra": "predators (4)",
    "gaussian_linear": "linear (10)",
    "gaussian_linear_uniform": "linear, box (10)",
    "bernoulli_glm": "spikes (10)",
    "sir": "epidemic (2)",
    "two_moons": "two moons (2)",
    "slcp": "SLCP (5)",
    "banana": "banana (4)",
    "two valleys": "two valleys (3)",
    "elimination": "elimination (4)",
}
"""Targets by the name before the number of the observation."""
SCALAR = ("two_moons", "slcp")
PANELS = ("lotka_volterra", "gaussian_linear_uniform", "banana", "elimination")
COLOURS = {"supac": "#0b6", "PyVBMC": "#c42", "GPry": "#88a", "Laplace": "#aa4"}
Row = dict[str, Any]


def page(rows: Sequence[Row]) -> str:
    """Return the tables: one for each measure."""
    parts = [
        "# Posteriors next to references",
        "`make bench-reference`",
        wrapped(
            "Medians over observations and seeds, and the worst in brackets; n is their number. "
            "C2ST is the share of points that a neural network assigns to the right sample: 0.5 "
            "is best, 1 worst."
        ),
        _table(rows, "c2st", lambda each: f"{each:.2f}"),
        "Error of the log-evidence in nats, without its sign:",
        _table(rows, "log", _nats),
        "Mean total variation between marginals (MMTV), from 0 to 1:",
        _table(rows, "mmtv", lambda each: f"{each:.2f}"),
        "Divergence between the Gaussians with their moments (gsKL), in nats:",
        _table(rows, "gskl", _nats),
    ]
    return "\n\n".join(parts) + "\n"


def _nats(value: float) -> str:
    return f"{value:.2f}" if value < 9.95 else f"{value:.0f}" if value < 1e4 else f"{value:.0e}"


def group(row: Row) -> str:
    """Return the name of a target, without the number of its observation."""
    return str(row["target"]).partition("/")[0]


def _table(rows: Sequence[Row], key: str, words: Callable[[float], str]) -> str:
    budgets = sorted({row["runs"] for row in rows})
    lines = []
    for name, title in TITLES.items():
        for method in COLOURS:
            mine = [row for row in rows if group(row) == name and row["method"] == method]
            cells = [_cell([row for row in mine if row["runs"] == n], key, words) for n in budgets]
            if any(cells):
                most = len({(row["target"], row["seed"]) for row in mine})
                lines.append([title, method, str(most), *cells])
    return narrow_table(["target", "method", "n", *(f"{n} runs" for n in budgets)], lines)


def _cell(rows: Sequence[Row], key: str, words: Callable[[float], str]) -> str:
    found = [abs(row[key]) for row in rows if row[key] is not None]
    if not found:
        return ""
    middle = words(float(np.median(found)))
    return middle if len(found) == 1 else f"{middle} ({words(max(found))})"


def picture(rows: Sequence[Row], path: Path) -> None:
    """Draw C2ST by the number of runs, medians, for four targets."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    there = {group(row) for row in rows}
    names = [each for each in PANELS if each in there] or sorted(there)
    figure = Figure(figsize=(1.0 + 2.4 * len(names), 2.6), layout="constrained")
    axes = figure.subplots(1, len(names), sharex=True, sharey=True, squeeze=False)[0]
    for ax, name in zip(axes, names, strict=True):
        for method, colour in COLOURS.items():
            mine = [row for row in rows if group(row) == name and row["method"] == method]
            runs = sorted({row["runs"] for row in mine})
            found = [np.median([row["c2st"] for row in mine if row["runs"] == n]) for n in runs]
            if runs:
                style: Row = {"color": colour, "markersize": 3.5, "linewidth": 1.4}
                ax.plot(runs, found, "o-", label=method, **style)
        ax.axhline(0.5, color="#999", linewidth=0.8, linestyle=":")
        ax.set(title=TITLES[name], xlabel="runs", ylim=(0.47, 1.03))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("C2ST (0.5 is best)")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def write(rows: Sequence[Row], kept: Path, image: Path = DOCS / "images" / "reference.png") -> None:
    """Write the page beside the rows, and the picture."""
    kept.with_suffix(".md").write_text(page(rows), encoding="utf-8")
    picture(rows, image)
