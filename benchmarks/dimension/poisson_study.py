"""The Poisson benchmark from 200 runs, coefficient by coefficient beside a long Markov chain.

Writes the table and the picture of the case study. The chain is read from its file (chain.py).

    make poisson-study
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from dimension.answer import EXTRA_RUNS
from dimension.chain import CHAIN
from dimension.methods import ours
from dimension.optimum import good_gaussian
from dimension.problem import WideProblem
from dimension.problems import known, problem
from outside.problem import Gaussian
from pages import fitted
from supac.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUNS, SEED = 200, 0
TABLE = CHAIN.with_name("poisson.md")
PICTURE = Path(__file__).parents[2] / "docs" / "figures" / "poisson.png"


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation of each log-coefficient, (64,) each."""

    name: str
    mean: FloatArray
    sd: FloatArray

    @classmethod
    def of(cls, name: str, posterior: Gaussian) -> Moments:
        """Return those of a Gaussian."""
        return cls(name, posterior.mean, np.sqrt(np.diag(posterior.covariance)))


def main() -> None:
    """Run the search, and write how it compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    task = problem("poisson-64")
    kept = json.loads(CHAIN.read_text())
    chain = Moments("chain", np.array(kept["mean"]), np.array(kept["sd"]))
    checkpoint = RUNS - EXTRA_RUNS
    found = ours(task, SEED, (checkpoint,)).posteriors[checkpoint]
    optimum = good_gaussian(task)
    search, best = (
        Moments.of(f"{RUNS} runs", found),
        Moments.of("Gaussian found with derivatives", optimum),
    )
    text = "\n".join([*_summary(task, found, chain, search, best), *_rows(task, chain, search)])
    options.table.write_text(fitted(text + "\n"))
    print(text)
    draw(options.picture, task, chain, search)


def _summary(task: WideProblem, found: Gaussian, chain: Moments, *others: Moments) -> list[str]:
    """Return the objective, and how far means and spreads are from the chain's."""
    fact, value = known()[task.name], task.objective(found)
    lines = [
        f"Objective after {RUNS} runs: {value:.4f}; of the best Gaussian {fact.best:.4f}; of the "
        f"prior {fact.prior:.2f}; {100.0 * fact.gap_left(value):.2f} % of the gap are left. "
        "Command: `make poisson-study`.",
        "",
        "| median (range) of the 64 log-coefficients | mean − chain's, in its deviations | "
        "deviation / chain's |",
        "|---|---|---|",
    ]
    for each in others:
        shift = (each.mean - chain.mean) / chain.sd
        cells = " | ".join(map(_range, (shift, each.sd / chain.sd)))
        lines.append(f"| {each.name} | {cells} |")
    return lines


def _range(values: FloatArray) -> str:
    return f"{np.median(values):.2f} ({values.min():.2f} to {values.max():.2f})"


def _rows(task: WideProblem, *columns: Moments) -> list[str]:
    """Return every coefficient in a row, truth first."""
    titles = " | ".join(f"{each.name}: mean | deviation" for each in columns)
    lines = ["", f"| log a | truth | {titles} |", "|---" * (2 + 2 * len(columns)) + "|"]
    for k in range(task.dim):
        cells = " | ".join(f"{each.mean[k]:.3f} | {each.sd[k]:.3f}" for each in columns)
        lines.append(f"| {k} | {task.truth[k] + 0.0:.3f} | {cells} |")
    return lines


def draw(path: Path, task: WideProblem, chain: Moments, search: Moments) -> None:
    """Draw the fields, and each coefficient of the search against the chain's."""
    import matplotlib as mpl  # noqa: PLC0415 - slow

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, places = plt.subplots(2, 4, figsize=(11.0, 5.2), layout="constrained")
    means = {"truth": task.truth, "chain": chain.mean, search.name: search.mean}
    deviations = {"chain": chain.sd, search.name: search.sd}
    _fields(figure, places[0, :3], means, "log a, mean", "RdBu", (-2.5, 2.5))
    _fields(figure, places[1, 1:3], deviations, "log a, deviation", "viridis", (0.0, 2.0))
    places[1, 0].set_axis_off()
    _scatter(places[0, 3], chain.mean, search.mean, "mean")
    _scatter(places[1, 3], chain.sd, search.sd, "deviation")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _fields(
    figure: Figure,
    places: FloatArray,
    fields: dict[str, FloatArray],
    label: str,
    colours: str,
    limits: tuple[float, float],
) -> None:
    shown = None
    for axes, (name, field) in zip(places, fields.items(), strict=True):
        shown = axes.imshow(
            field.reshape(8, 8), origin="lower", cmap=colours, vmin=limits[0], vmax=limits[1]
        )
        axes.set_title(name, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    assert shown is not None
    figure.colorbar(shown, ax=list(places), label=label, shrink=0.8)


def _scatter(axes: Axes, chain: FloatArray, search: FloatArray, what: str) -> None:
    ends = [min(chain.min(), search.min()), max(chain.max(), search.max())]
    axes.plot(ends, ends, color="0.7", linewidth=1.0)
    axes.plot(chain, search, ".", markersize=5)
    axes.set(xlabel=f"{what}, chain", ylabel=f"{what}, search")


if __name__ == "__main__":
    main()
