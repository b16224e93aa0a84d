"""Pictures of searches with a coarse model, for docs/levels.md: the rod of that page, and a field.

make bench-levels-study      # a minute; writes docs/cases/levels-*.png, and the table below
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from matplotlib.axes import Axes

import supac
from cases.page import Page, figure_of, save, table
from levels import problems
from levels.run import best
from outside.problem import Gaussian
from pages import fitted
from supac.arrays import FloatArray
from supac.families import Distribution
from supac.plots.canvas import POSTERIOR, PRIOR, TRUTH
from supac.search.levels import is_on_coarse

RESULTS = Path(__file__).parents[1] / "results" / "levels-study.md"
COARSE = "#7c3aed"
SEED, ROD, FIELD = 0, 20, 32


@dataclass
class Way:
    """What a search had spent after each round, and where it was."""

    risk: Any
    fine: list[int]
    coarse: list[int]
    posteriors: list[Distribution]
    alone: list[bool]
    """True while only the coarse model was searched."""

    @classmethod
    def of(cls, risk: Any, prior: Any, bound: Any, budget: int, **options: Any) -> Way:
        """Search, and look at it after each round."""
        way = cls(risk, [], [], [], [])

        def look(event: supac.Iteration) -> None:
            way.posteriors.append(event.next_posterior)
            way.alone.append(is_on_coarse(event.info))

        result = supac.minimize(
            risk, prior, bound, budget=budget, validation=0, seed=SEED, callback=look, **options
        )
        made = [result.record.runs[i].level for each in result.record.rounds for i in each.ids]
        ends = np.cumsum([len(each.ids) for each in result.record.rounds])
        way.coarse = [int(sum(made[:end])) for end in ends]
        way.fine = [int(end - sum(made[:end])) for end in ends]
        return way

    @property
    def cost(self) -> float:
        """Cost of a coarse run."""
        return 0.0 if self.risk.coarse is None else float(self.risk.coarse.cost)

    @property
    def spent(self) -> FloatArray:
        """Cost of all runs after each round, in fine ones."""
        return np.array(self.fine) + self.cost * np.array(self.coarse)

    @property
    def of_coarse(self) -> Distribution:
        """Posterior that the search of the coarse model ended with."""
        return self.posteriors[max(i for i, alone in enumerate(self.alone) if alone)]


def draw_spent(axes: Axes, way: Way) -> None:
    """Draw what fine and coarse runs had cost after each round."""
    rounds = np.arange(1, len(way.fine) + 1)
    axes.bar(rounds, way.fine, color=POSTERIOR, label="fine runs")
    axes.bar(
        rounds, way.cost * np.array(way.coarse), bottom=way.fine, color=COARSE, label="coarse runs"
    )
    axes.set_xlabel("round")
    axes.set_ylabel("fine runs, or their worth")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def rod() -> list[str]:
    """Draw the rod of the page: two parameters, and what was spent."""
    with tempfile.TemporaryDirectory() as folder:
        session = Page("levels").run(Path(folder))
    way = Way.of(session["risk"], session["parameters"], supac.Catoni(temperature=0.11), ROD)
    parameters: supac.Parameters = session["parameters"]
    draws = {
        "prior": parameters.sample(parameters.prior, 4_000, 1),
        "coarse": parameters.sample(way.of_coarse, 4_000, 1),
        "fine": parameters.sample(way.posteriors[-1], 4_000, 1),
    }
    figure, axes = figure_of(3)
    for i, name in enumerate(parameters.names[:2]):
        both = np.concatenate([draws["coarse"][:, i], draws["fine"][:, i]])
        low, high = np.quantile(both, [0.001, 0.999])
        edges = np.linspace(low - 0.3 * (high - low), high + 0.3 * (high - low), 60).tolist()
        for kind, colour in (("prior", PRIOR), ("coarse", COARSE), ("fine", POSTERIOR)):
            axes[i].hist(
                draws[kind][:, i], edges, density=True, color=colour, histtype="step", lw=2,
                label=f"{kind} posterior" if kind != "prior" else kind,
            )  # fmt: skip
        axes[i].axvline((0.7, 1.4)[i], color=TRUTH, label="truth")
        axes[i].set_xlabel(name)
        axes[i].set_yticks([])
        axes[i].spines[["top", "right", "left"]].set_visible(False)
    axes[1].legend(frameon=False, loc="upper right", fontsize=8)
    draw_spent(axes[2], way)
    save(figure, "levels-rod")
    return []


def field() -> list[str]:
    """Draw a field of 25 components by its mean, and return rows of what is left of the gap."""
    own = problems.problem("darcy")
    prior = supac.gaussian(np.zeros(own.fine.dim), own.fine.covariance)
    where = supac.Execution(vectorized=True, on_failure="drop", progress=False)
    alone = supac.Composite(own.fine.residuals, supac.MeanSquare())
    both = supac.Composite(
        own.fine.residuals, supac.MeanSquare(), coarse=supac.Coarse(own.coarse, own.cost)
    )
    ways = [Way.of(each, prior, own.fine.bound, FIELD, execution=where) for each in (alone, both)]
    modes, size = problems._modes(24), 24
    means = [
        own.fine.truth,
        _mean(ways[1].of_coarse),
        _mean(ways[1].posteriors[-1]),
    ]
    figure, axes = figure_of(4)
    limit = float(np.abs(modes @ own.fine.truth).max())
    titles = ("truth", "coarse posterior", "fine posterior")
    for each, mean, title in zip(axes, means, titles, strict=False):
        image = (modes @ mean).reshape(size, size)
        each.imshow(image, origin="lower", vmin=-limit, vmax=limit, cmap="RdBu_r")
        each.set_title(title, fontsize=10)
        each.set_xticks([])
        each.set_yticks([])
    draw_spent(axes[3], ways[1])
    save(figure, "levels-field")
    marks = (8, 12, 20, 32)
    return [
        table(
            ("fine runs, or their worth", *map(str, marks)),
            [
                ("fine model alone", *_left(ways[0], marks)),
                ("with the coarse one", *_left(ways[1], marks)),
            ],
        )
    ]


def _mean(posterior: Distribution) -> FloatArray:
    return np.asarray(posterior.family.moments(posterior.theta)[0])


def _left(way: Way, marks: Sequence[int]) -> list[str]:
    """Return the share of the gap left when so much was spent."""
    fine, (prior, least) = problems.problem("darcy").fine, best("darcy")
    cells = []
    for mark in marks:
        known = np.flatnonzero(way.spent <= mark + 1e-9)
        if not len(known):
            cells.append("–")
            continue
        posterior = way.posteriors[known[-1]]
        found = fine.objective(Gaussian(*posterior.family.moments(posterior.theta)))
        cells.append(f"{100.0 * (found - least) / (prior - least):.2g} %")
    return cells


def main() -> None:
    """Draw the pictures, and write the table."""
    lines = [
        "# A field behind a coarse and a fine mesh",
        "",
        "Share of the gap left, seed 0. Written by `python benchmarks/levels/study.py`.",
        "",
        *rod(),
        *field(),
    ]
    RESULTS.write_text(fitted("\n".join(lines) + "\n"))
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
