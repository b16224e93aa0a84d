"""The table and the picture of the outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from outside.problems import MAKERS, ROLES, Known, known, problem
from pages import fitted

Row = tuple[str, str, int, dict[str, float]]
"""Problem, method, seed, and the objective at each checkpoint."""
WITHIN = 0.01
"""Share of the gap below which a posterior counts as found."""


def table(rows: Sequence[Row], checkpoints: Sequence[int]) -> str:
    """Return the gaps that are left, in Markdown: development and judgement apart."""
    lines = [
        "Per cent of the gap between the prior's objective and the best known that is left after "
        f"{', '.join(map(str, checkpoints))} runs: median (worst) of the seeds. "
        "Where the prior's objective is orders of magnitude too large (log), gaps are those of "
        "logarithms. Rows **of n** have the median over n problems of the medians (of the worst "
        "seeds; the worst seed of all). Command: `make bench-outside`.",
    ]
    facts = facts_of(rows)
    for role in ("judgement", "development"):
        lines += ["", f"## Problems for {role}", ""]
        columns = " | ".join(f"at {at}" for at in checkpoints)
        lines.append(f"| problem | method (seeds) | {columns} |")
        lines.append("|---" * (2 + len(checkpoints)) + "|")
        names = [name for name in MAKERS if ROLES[name] == role and name in facts]
        for name in names:
            lines += _lines(name, facts[name], rows, checkpoints)
        lines += _summary(names, facts, rows, checkpoints)
    names = [name for name in facts if problem(name).logarithmic]
    lines += _objectives(names, rows, checkpoints) if names else []
    lines += ["", "## Objectives of the prior, and the best known", ""]
    lines += ["| problem | prior | best known |", "|---|---|---|"]
    lines += [f"| {name} | {fact.prior:.4g} | {fact.best:.5g} |" for name, fact in facts.items()]
    return fitted("\n".join(lines) + "\n")


def _lines(name: str, fact: Known, rows: Sequence[Row], checkpoints: Sequence[int]) -> list[str]:
    """Return the lines of one problem, one for each method."""
    lines: list[str] = []
    logarithmic = " (log)" if problem(name).logarithmic else ""
    for method in _methods(rows):
        gaps = _gaps(name, method, fact, rows, checkpoints)
        if not len(gaps):
            continue
        cells = [f"{np.median(each):.2f} ({each.max():.2f})" for each in 100.0 * gaps.T]
        first = "" if lines else f"{name}{logarithmic}"
        lines.append(f"| {first} | {method} ({len(gaps)}) | {' | '.join(cells)} |")
    return lines


def _objectives(names: Sequence[str], rows: Sequence[Row], checkpoints: Sequence[int]) -> list[str]:
    """Return the objectives themselves, of problems whose gaps are of logarithms."""
    columns = " | ".join(f"at {at}" for at in checkpoints)
    lines = ["", "## Objectives of the problems with gaps of logarithms", ""]
    lines += [f"| problem | method (seeds) | {columns} |", "|---" * (2 + len(checkpoints)) + "|"]
    for name in names:
        for method in _methods(rows):
            values = np.array(
                [
                    [row[3][str(at)] for at in checkpoints]
                    for row in rows
                    if row[:2] == (name, method)
                ]
            )
            if len(values):
                cells = [f"{np.median(each):.4g} ({each.max():.4g})" for each in values.T]
                lines.append(f"| {name} | {method} ({len(values)}) | {' | '.join(cells)} |")
    return lines


def _summary(
    names: Sequence[str], facts: dict[str, Known], rows: Sequence[Row], checkpoints: Sequence[int]
) -> list[str]:
    """Return medians over the problems of each method's median and worst gaps, and the worst."""
    lines = []
    for method in _methods(rows):
        found = [_gaps(name, method, facts[name], rows, checkpoints) for name in names]
        found = [100.0 * gaps for gaps in found if len(gaps)]
        if not found:
            continue
        medians = np.median([np.median(gaps, axis=0) for gaps in found], axis=0)
        worst = np.median([gaps.max(axis=0) for gaps in found], axis=0)
        largest = np.max([gaps.max(axis=0) for gaps in found], axis=0)
        cells = [
            f"{a:.2f} ({b:.2f}; {c:.1f})" for a, b, c in zip(medians, worst, largest, strict=True)
        ]
        lines.append(f"| **of {len(found)}** | {method} | {' | '.join(cells)} |")
    return lines


def draw(path: Path, rows: Sequence[Row], checkpoints: Sequence[int]) -> None:
    """Draw the share of problems and seeds within 1 % of the best known against runs."""
    import matplotlib as mpl  # noqa: PLC0415 - slow

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    facts = facts_of(rows)
    figure, places = plt.subplots(1, 2, figsize=(9.0, 3.6), sharey=True, layout="constrained")
    for axes, role in zip(places, ("judgement", "development"), strict=True):
        names = [name for name in facts if ROLES[name] == role]
        axes.plot([], [], " ", label="method (problems × seeds)")
        for method in _methods(rows):
            found = [_gaps(name, method, facts[name], rows, checkpoints) for name in names]
            gaps = np.concatenate([np.empty((0, len(checkpoints))), *found])
            if len(gaps):
                share = (gaps <= WITHIN).mean(axis=0)
                axes.plot(checkpoints, share, marker="o", label=f"{method} ({len(gaps)})")
        axes.set(title=f"problems for {role}", xlabel="runs", ylim=(-0.02, 1.02))
        axes.set_xticks(checkpoints)
        axes.legend(fontsize=7)
    places[0].set_ylabel("share within 1 % of the gap")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def facts_of(rows: Sequence[Row]) -> dict[str, Known]:
    """Return what is known of the problems here; the best is the lowest that any row has found."""
    facts = {}
    for name, fact in known().items():
        seen = [v for row in rows if row[0] == name for v in row[3].values()]
        if seen and name in MAKERS and _is_here(name):
            facts[name] = Known(fact.prior, min(fact.best, *seen), fact.how)
    return facts


def _is_here(name: str) -> bool:
    try:
        problem(name)
    except (ImportError, OSError):
        return False
    return True


def _methods(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row[1] for row in rows))


def _gaps(
    name: str, method: str, fact: Known, rows: Sequence[Row], checkpoints: Sequence[int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the gaps of all seeds: (seeds, checkpoints)."""
    gap = problem(name).gap_left
    return np.array(
        [
            [gap(objectives[str(at)], fact.best, fact.prior) for at in checkpoints]
            for each, its_method, _, objectives in rows
            if (each, its_method) == (name, method)
        ]
    ).reshape(-1, len(checkpoints))
