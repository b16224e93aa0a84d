"""Which bound gives the lowest certificate?

The same budget for each bound, then each posterior certified by its own bound and by the tightest,
Maurer, Langford and Seeger's: on the 8-D bowl, and on ADM1's embedded data with outputs. What is
compared are bounds, not data: n is what is claimed for the example, and the same for all.

    make bench-bounds
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from supac.simulators import adm1, synthetic

FOLDER = Path(__file__).parent / "results"
DELTA, DRAWS = 0.05, 2_000
COLOURS = {"own": "#9aa5b1", "tightest": "#0b6e99"}


@dataclass(frozen=True)
class Problem:
    """A risk, its prior, and what it is usually minimised with."""

    title: str
    risk: Any
    prior: Any
    n: int
    ceiling: float
    temperature: float
    budget: int
    """Queries of the search."""
    certify: Any = None
    """The risk for fresh draws, where the search has outputs."""


def problems() -> list[Problem]:
    """The bowl of the paper's synthetic tasks, and the digester."""
    digester = adm1.example()
    return [
        Problem(
            "8-D bowl, n = 1,000", synthetic.example(0), supac.gaussian(np.zeros(8), np.eye(8)),
            1_000, 1.0, 0.1, 200,
        ),
        Problem(
            "ADM1, embedded data, n = 1,000", digester.composite, digester.parameters,
            1_000, 3.0, 0.002, 150, digester.risk,
        ),
    ]  # fmt: skip


def main() -> None:
    """The table and the picture."""
    rows = []
    for problem in problems():
        data: tuple[int, float, float] = (problem.n, DELTA, problem.ceiling)
        bounds: dict[str, supac.Bound] = {
            f"Catoni, λ = {problem.temperature:g}": supac.Catoni(problem.temperature, *data),
            'Catoni("auto")': supac.Catoni("auto", *data),
            "McAllester": supac.McAllester(*data),
            "MaurerLangfordSeeger": supac.MaurerLangfordSeeger(*data),
        }
        for name, bound in bounds.items():
            result = supac.minimize(
                problem.risk, problem.prior, bound, budget=problem.budget, validation=0,
                execution=supac.Execution(vectorized=True, on_failure="penalise"), progress=False,
            )  # fmt: skip
            certificate = result.certify(
                problem.certify or problem.risk, n=problem.n, delta=DELTA, draws=DRAWS,
                execution=supac.Execution(vectorized=True), progress=False,
            )  # fmt: skip
            tightest = certificate.bounds["MaurerLangfordSeeger"]
            rows.append(
                (problem.title, name, certificate.value, tightest, certificate.mean_risk, result.kl)
            )
            print(rows[-1], flush=True)
    lines = [
        f"Certificates with δ = {DELTA} from {DRAWS:,} fresh draws, one seed.",
        "",
        "| problem | minimised | certificate by that bound | by MaurerLangfordSeeger | mean risk | "
        "KL |",
        "|---|---|---|---|---|---|",
        *(
            f"| {title} | {name} | {own:.4f} | {tightest:.4f} | {risk:.4f} | {kl:.1f} |"
            for title, name, own, tightest, risk, kl in rows
        ),
    ]
    (FOLDER / "bounds.md").write_text("\n".join(lines) + "\n")
    draw(FOLDER / "bounds.png", rows)


def draw(path: Path, rows: list[tuple[str, str, float, float, float, float]]) -> None:
    """Two bars a bound, one panel a problem."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    titles = list(dict.fromkeys(row[0] for row in rows))
    figure = Figure(figsize=(4.8 * len(titles), 3.4), layout="constrained")
    for axes, title in zip(figure.subplots(1, len(titles), squeeze=False)[0], titles, strict=True):
        mine = [row for row in rows if row[0] == title]
        places = np.arange(len(mine))
        axes.barh(
            places - 0.18, [r[2] for r in mine], 0.34, color=COLOURS["own"], label="its own bound"
        )
        axes.barh(
            places + 0.18, [r[3] for r in mine], 0.34, color=COLOURS["tightest"],
            label="MaurerLangfordSeeger",
        )  # fmt: skip
        axes.plot([r[4] for r in mine], places, "k|", ms=16, label="mean risk")
        axes.set_yticks(places, [r[1] for r in mine])
        axes.invert_yaxis()
        axes.set(title=title, xlabel="certified true risk")
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
