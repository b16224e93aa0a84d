"""What choices around the default search are worth, on the problems from elsewhere.

    make bench-studies ARGS=expressions      # outputs as they are, as logarithms, as asinh
    make bench-studies ARGS=workers          # batches for many workers, and no waiting
    make bench-studies ARGS=noise            # a stochastic simulator: outputs against the risk

Searches are kept one by one in studies.jsonl: one that is there is not made again. The table of a
study is written to NAME.md. Nothing but this package is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

# One thread a process, before NumPy reads it, and this package, wherever the script is started.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import outside.problems as p
import outside.variants as v
import supac
from outside import development, gr4j, life, physics, textbook
from outside.methods import at
from outside.runs import commit
from outside.variants import Variant
from pages import fitted
from supac.arrays import FloatArray

RESULTS = Path(__file__).parents[1] / "results"
_DRAWS = 1024  # behind an objective
_NEAR, _FOUND = 0.05, 0.01  # shares of the gap


@dataclass(frozen=True)
class Study:
    """Variants on problems, and what is told of them."""

    title: str
    variants: dict[str, Variant]
    problems: Callable[[], list[str]]
    table: Callable[[Study, Sequence[Kept]], list[str]]
    seeds: int = 3
    budget: int = 100
    checkpoints: tuple[int, ...] = ()
    """Runs after which posteriors are scored; if there are none, each round until one is found."""


@dataclass(frozen=True)
class Kept:
    """One search: runs, waves and the share of the gap that is left at each scored moment."""

    study: str
    problem: str
    variant: str
    seed: int
    moments: list[tuple[int, float, float]]
    commit: str = ""
    tested: int | None = None
    """Steps that runs have tested, in the whole search."""

    def first(self, gap: float) -> tuple[float, float]:
        """Return the runs and waves after which no more of the gap is left; infinite if never."""
        found = [(runs, waves) for runs, waves, left in self.moments if left <= gap]
        return found[0] if found else (np.inf, np.inf)


def search(name: str, study: Study, problem: str, variant: str, seed: int) -> Kept | None:
    """Make a search and score its posteriors; None if the problem has no such form."""
    given = p.problem(problem)
    how, fact = study.variants[variant], p.known()[problem]
    moments = how.moments(given, seed, study.budget)
    if moments is None:
        return None
    given, rows = replace(given, draws=_DRAWS), []
    runs = study.checkpoints or [each.runs for each in moments]
    for count in runs:
        moment = at(moments, count)
        left = given.gap_left(given.objective(moment.posterior), fact.best, fact.prior)
        rows.append((count, how.waves(moments, moment), left))
        if not study.checkpoints and left <= _FOUND:
            break
    tested = sum(each.tested for each in moments)
    return Kept(name, problem, variant, seed, rows, commit(), tested)


def _development() -> list[str]:
    """Return the problems for development that need no data from elsewhere."""
    own = [*development.PROBLEMS, *textbook.PROBLEMS]
    return [name for name in own if name != "adm1_raw"]


def all_problems() -> list[str]:
    """Return all problems that need no other environment and no data from elsewhere."""
    return [*_development(), *life.PROBLEMS, *physics.PROBLEMS, *gr4j.PROBLEMS]


def _gaps_table(study: Study, kept: Sequence[Kept]) -> list[str]:
    """Tell the per cent of the gap left at each checkpoint, median (worst) of the seeds."""
    head = " | ".join(
        f"{name}: {', '.join(map(str, study.checkpoints))}" for name in study.variants
    )
    lines = [f"| problem | {head} |", "|---" * (1 + len(study.variants)) + "|"]
    medians: dict[str, list[FloatArray]] = {name: [] for name in study.variants}
    for problem in dict.fromkeys(each.problem for each in kept):
        cells = []
        for variant in study.variants:
            gaps = _gaps(kept, problem, variant)
            if not len(gaps):
                cells.append("–")
                continue
            medians[variant].append(np.median(gaps, axis=0))
            middle, worst = np.median(gaps, axis=0), gaps.max(axis=0)
            cells.append(
                ", ".join(f"{a:.2f} ({b:.1f})" for a, b in zip(middle, worst, strict=True))
            )
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    means = [np.mean(medians[name], axis=0) if medians[name] else [] for name in study.variants]
    cells = [", ".join(f"{value:.2f}" for value in each) for each in means]
    return [*lines, f"| **mean of the medians** | {' | '.join(cells)} |"]


def _gaps(kept: Sequence[Kept], problem: str, variant: str) -> FloatArray:
    mine = [each for each in kept if (each.problem, each.variant) == (problem, variant)]
    return 100.0 * np.array([[left for _, _, left in each.moments] for each in mine])


def _runs_table(study: Study, kept: Sequence[Kept]) -> list[str]:
    """Tell the runs to within 5 and 1 % of the gap, medians of the seeds."""
    lines = [
        f"| problem | {' | '.join(f'{name}: 5 %, 1 %' for name in study.variants)} |",
        "|---" * (1 + len(study.variants)) + "|",
    ]
    for problem in dict.fromkeys(each.problem for each in kept):
        cells = []
        for variant in study.variants:
            mine = [each for each in kept if (each.problem, each.variant) == (problem, variant)]
            firsts = [np.median([each.first(gap)[0] for each in mine]) for gap in (_NEAR, _FOUND)]
            cells.append(", ".join(map(_count, firsts)) if mine else "–")
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    return lines


def _waves_table(study: Study, kept: Sequence[Kept]) -> list[str]:
    """Tell the runs and the time to within 1 % of the gap, medians of the seeds."""
    problems = list(dict.fromkeys(each.problem for each in kept))
    lines = [
        f"| workers, batches | {' | '.join(f'{name}: runs, time' for name in problems)} |",
        "|---" * (1 + len(problems)) + "|",
    ]
    for variant in study.variants:
        cells = []
        for problem in problems:
            mine = [each for each in kept if (each.problem, each.variant) == (problem, variant)]
            runs, waves = np.median([each.first(_FOUND) for each in mine], axis=0)
            cells.append(f"{_count(runs)}, {_count(waves)}")
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    seeds, late = len({each.seed for each in kept}), [e for e in kept if "async" in e.variant]
    tested = [each.tested for each in late if each.tested is not None]
    said = f"Seeds: {seeds}."
    if tested:
        said += f" Without waiting runs have tested {min(tested)} to {max(tested)} steps a search."
    return [*lines, "", said]


def _count(value: float) -> str:
    return f"{value:.0f}" if np.isfinite(value) else "more"


_FORMS = {
    "residuals": Variant(),
    "outputs": Variant(risk=v.own_units),
    "logarithms": Variant(risk=v.logarithms),
    "asinh": Variant(risk=v.expressed(np.arcsinh, np.sinh)),
}
_WORKERS = {
    "1, default": Variant(),
    "8, default": Variant(workers=8),
    "8, `batch=8`": Variant({"algorithm": supac.SuPAC(batch=8)}, workers=8),
    '8, `mode="async"`': Variant(workers=8, asynchronous=True),
    "40, `first=40, batch=40`": Variant({"algorithm": supac.SuPAC(first=40, batch=40)}, workers=40),
    '40, `mode="async"`': Variant(workers=40, asynchronous=True),
}
STUDIES = {
    "expressions": Study(
        "Runs to within 5 % and 1 % of the gap where the same risk is computed from residuals, "
        "from outputs in their own units, from their logarithms where all are positive, and from "
        "asinh(output/scale): medians of three seeds",
        _FORMS,
        _development,
        _runs_table,
        budget=90,
    ),
    "workers": Study(
        "Runs to within 1 % of the gap, and the time that they take in units of one run: medians "
        "over the seeds. Without waiting, runs take 0.5 to 1.5 units on a virtual clock, and "
        "learning none",
        _WORKERS,
        lambda: ["fhn", "banana", "chemostat"],
        _waves_table,
        budget=200,
    ),
    "noise": Study(
        "Per cent of the gap left after 60, 100 and 200 runs of stochastic simulators, median "
        "(worst) of five seeds",
        {"outputs": Variant(), "risk alone": Variant(risk=v.scalar)},
        lambda: [name for name in all_problems() if p.problem(name).noisy],
        _gaps_table,
        seeds=5,
        budget=200,
        checkpoints=(60, 100, 200),
    ),
}


def main() -> None:
    """Make the searches of a study that are missing, and write its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--problems", help="a,b,c; those of the study by default")
    parser.add_argument("--seeds", type=int, help="their number")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    options = parser.parse_args()
    study, path = STUDIES[options.study], options.folder / "studies.jsonl"
    names = options.problems.split(",") if options.problems else study.problems()
    kept = _read(path, options.study)
    for seed in range(options.seeds or study.seeds):
        for problem in names:
            for variant in study.variants:
                if any((e.problem, e.variant, e.seed) == (problem, variant, seed) for e in kept):
                    continue
                found = search(options.study, study, problem, variant, seed)
                if found is not None:
                    kept.append(found)
                    with path.open("a") as file:
                        file.write(json.dumps(asdict(found)) + "\n")
    made = (
        f"Command: `make bench-studies ARGS={options.study}`; "
        "studies.jsonl has the version of each search."
    )
    text = "\n".join([f"{study.title}. {made}", "", *study.table(study, kept)]) + "\n"
    (options.folder / f"{options.study}.md").write_text(fitted(text))
    print(text)


def _read(path: Path, study: str) -> list[Kept]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [each for each in (Kept(**json.loads(line)) for line in lines) if each.study == study]


if __name__ == "__main__":
    main()
