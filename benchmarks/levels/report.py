"""The table of the benchmark of levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pages import fitted

MARKS = (0.01, 0.001)
"""Shares of the gap that are to be left."""
HALF, MOST = 0.5, 1.1
"""Bars: of the median, and of the worst seed, against the search without a coarse model."""


@dataclass(frozen=True)
class Outcome:
    """A search: what it had spent after each round, and the gap left."""

    problem: str
    method: str
    seed: int
    spent: list[float]
    left: list[float]
    coarse: int
    seconds: float
    """Processor time of the search alone."""


def spent_until(search: Outcome, mark: float) -> float:
    """Return the fine runs, or as much, after which it stays below a share of the gap."""
    above = [i for i, left in enumerate(search.left) if not left < mark]
    first = above[-1] + 1 if above else 0
    return search.spent[first] if first < len(search.spent) else np.inf


def write(path: Path, searches: Iterable[Outcome], roles: Mapping[str, str]) -> None:
    """Write the table."""
    found = {(each.problem, each.method, each.seed): each for each in searches}
    lines = [
        "# A coarse model beside the fine one",
        "",
        "Fine runs, or as much, after which a search stays below 1 % and 0.1 % of the gap: median",
        "over the seeds, and the worst. A dash is more than the budget of 60. The ratio is that of",
        "the medians, and of the worst. Written by `make bench-levels`.",
    ]
    for role in ("development", "judgement"):
        names = [name for name in roles if roles[name] == role]
        rows = [row for name in names if (row := _row(name, found)) is not None]
        if not rows:
            continue
        lines += [
            "",
            f"## For {role}",
            "",
            "| problem | seeds | fine only, 1 % | with coarse, 1 % | ratio | fine only, 0.1 % | "
            "with coarse, 0.1 % | ratio | processor time, fine only; with coarse |",
            "|---|---|---|---|---|---|---|---|---|",
            *rows,
        ]
    path.write_text(fitted("\n".join(lines) + "\n"))


def _row(name: str, found: Mapping[tuple[str, str, int], Outcome]) -> str | None:
    own = name.partition("-")[0]
    seeds = [
        seed for at, method, seed in found
        if at == name and method == "levels" and (own, "fine", seed) in found
    ]  # fmt: skip
    if not seeds:
        return None
    both = [
        [found[own, "fine", each] for each in seeds],
        [found[name, "levels", each] for each in seeds],
    ]
    cells = [name, str(len(seeds))]
    for mark in MARKS:
        spent = [[spent_until(each, mark) for each in searches] for searches in both]
        cells += [_words(each) for each in spent]
        ratios = [_ratio(*(float(f(each)) for each in spent)) for f in (np.median, max)]
        cells.append(f"{ratios[0]} ({ratios[1]})")
    times = [float(np.median([each.seconds for each in searches])) for searches in both]
    cells.append(f"{times[0]:.1f} s; {times[1]:.1f} s")
    return f"| {' | '.join(cells)} |"


def _words(spent: list[float]) -> str:
    middle, worst = float(np.median(spent)), max(spent)
    return f"{_number(middle)} ({_number(worst)})"


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "–"


def _ratio(fine: float, both: float) -> str:
    if np.isfinite(fine) and np.isfinite(both):
        return f"{both / fine:.2f}"
    return "–" if not np.isfinite(both) else "0"
