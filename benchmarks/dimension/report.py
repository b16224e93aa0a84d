"""The table and the picture of the outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dimension.answer import EXTRA_RUNS
from dimension.problems import MAKERS, ROLES, Known, known
from pages import fitted
from supac.arrays import FloatArray

FLOOR = 0.01
"""The least per cent of the gap that is drawn; smaller differences do not make a method better."""


@dataclass(frozen=True)
class Row:
    """One method, one problem, one seed."""

    problem: str
    method: str
    objectives: dict[str, float]
    round_seconds: dict[str, float]


class Table:
    """The gaps of all rows, against the best that is known or that any row has found."""

    def __init__(self, rows: Sequence[Row], checkpoints: Sequence[int]):
        self.rows, self.checkpoints = rows, checkpoints
        self.methods = list(dict.fromkeys(row.method for row in rows))
        self.facts: dict[str, Known] = {}
        for name, fact in known().items():
            seen = [v for row in rows if row.problem == name for v in row.objectives.values()]
            if seen and name in MAKERS:
                self.facts[name] = Known(fact.prior, min(fact.best, *seen), fact.kl, fact.how)

    def names(self, role: str) -> list[str]:
        """Return the problems of a role that have rows."""
        return [name for name in MAKERS if ROLES[name] == role and name in self.facts]

    def gaps(self, name: str, method: str) -> FloatArray:
        """Return the per cent left of each seed, NaN where a method has no answer: (s, c)."""
        found = [
            [
                100.0 * self.facts[name].gap_left(row.objectives.get(str(at), np.nan))
                for at in self.checkpoints
            ]
            for row in self.rows
            if (row.problem, row.method) == (name, method)
        ]
        return np.array(found).reshape(-1, len(self.checkpoints))

    def text(self) -> str:
        """Return the table in Markdown: development and judgement apart."""
        lines = [
            "Per cent of the gap between the prior's objective and the best known that is left "
            f"after {', '.join(map(str, self.checkpoints))} runs: median (worst) of the seeds; "
            f"– where a method needs more runs; all may make {EXTRA_RUNS} more. "
            "Processor seconds of a round: median (largest). "
            "Command: `make bench-dimension`.",
        ]
        for role in ("judgement", "development"):
            if not self.names(role):
                continue
            columns = " | ".join(f"at {at}" for at in self.checkpoints)
            lines += ["", f"## Problems for {role}", ""]
            lines.append(f"| problem | method (seeds) | {columns} | s a round |")
            lines.append("|---" * (3 + len(self.checkpoints)) + "|")
            for name in self.names(role):
                lines += self._lines(name)
            lines += self._wins(role)
        lines += ["", "## Objectives of the prior, and the best known", ""]
        lines += ["| problem | prior | best known |", "|---|---|---|"]
        lines += [
            f"| {name} | {fact.prior:.4g} | {fact.best:.5g} |" for name, fact in self.facts.items()
        ]
        return fitted("\n".join(lines) + "\n")

    def _lines(self, name: str) -> list[str]:
        lines: list[str] = []
        for method in self.methods:
            gaps = self.gaps(name, method)
            if not len(gaps):
                continue
            cells = [_cell(each) for each in gaps.T]
            first = "" if lines else name
            seconds = self._seconds(name, method)
            lines.append(f"| {first} | {method} ({len(gaps)}) | {' | '.join(cells)} | {seconds} |")
        return lines

    def _seconds(self, name: str, method: str) -> str:
        found = [
            row.round_seconds
            for row in self.rows
            if (row.problem, row.method) == (name, method) and row.round_seconds
        ]
        if not found:
            return ""
        median = np.median([each["median"] for each in found])
        return f"{median:.2f} ({max(each['largest'] for each in found):.2f})"

    def _wins(self, role: str) -> list[str]:
        """Return on how many problems each method's median is the best, ties counted for all.

        Problems that the default search has not been run on are left out.
        """
        names = [name for name in self.names(role) if len(self.gaps(name, "ours"))]
        if not names:
            return []
        medians = np.array(
            [[_median(self.gaps(name, method)) for method in self.methods] for name in names]
        ).reshape(len(names), len(self.methods), len(self.checkpoints))
        best = np.nanmin(np.where(np.isnan(medians), np.inf, medians), axis=1, keepdims=True)
        wins = (medians <= best + FLOOR).sum(axis=0)
        return [
            f"| **best of {len(names)}** | {method} | {' | '.join(map(str, row))} | |"
            for method, row in zip(self.methods, wins, strict=True)
        ]


def _median(gaps: FloatArray) -> FloatArray:
    return np.median(gaps, axis=0) if len(gaps) else np.full(gaps.shape[1], np.nan)


def _cell(gaps: FloatArray) -> str:
    return "–" if np.isnan(gaps).any() else f"{np.median(gaps):.2f} ({gaps.max():.2f})"


def draw(path: Path, table: Table) -> None:
    """Draw the median gap left against runs, a panel for each problem."""
    import matplotlib as mpl  # noqa: PLC0415 - slow

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    names = table.names("development") + table.names("judgement")
    across = 5
    figure, places = plt.subplots(
        -(-len(names) // across),
        across,
        figsize=(2.4 * across, 2.1 * -(-len(names) // across)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axes in places.ravel()[len(names) :]:
        axes.set_axis_off()
    for name, axes in zip(names, places.ravel(), strict=False):
        for number, method in enumerate(table.methods):
            median = np.maximum(_median(table.gaps(name, method)), FLOOR)
            style = {"linewidth": 2.2, "zorder": 3} if method == "ours" else {"linewidth": 1.0}
            axes.plot(
                table.checkpoints, median, marker=".", color=f"C{number}", label=method, **style
            )
        role = " (development)" if ROLES[name] == "development" else ""
        axes.set_title(f"{name}{role}", fontsize=8)
        axes.set(xscale="log", yscale="log", ylim=(0.8 * FLOOR, 150.0))
        axes.set_xticks(table.checkpoints, [str(at) for at in table.checkpoints], fontsize=7)
        axes.minorticks_off()
    handles, labels = places[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
    figure.supylabel("% of the gap left, against runs", fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)
