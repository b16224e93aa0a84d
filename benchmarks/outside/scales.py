"""What is it worth to emulate parameters with bounds on the user's scale, where that is likelier?

The same searches with and without the rule, on the problems with uniform and log-uniform priors.
Searches are kept one by one in scales.jsonl: one that is there is not made again.

    make bench-scales                                        # goes on where it was
    make bench-scales ARGS="--problems chemostat_box --seeds 0:2"
    make bench-scales ARGS=--report                          # the table, as far as it is
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

# One thread a process, before NumPy reads it, and this package, wherever the script is started.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import outside.problems as p
import supac
from outside.boxes import DEVELOPMENT, JUDGEMENT
from outside.methods import trace
from outside.rules import without
from outside.runs import keep, read
from pages import fitted, narrow_table
from supac.arrays import FloatArray
from supac.search.tuning import DEFAULT

RESULTS = Path(__file__).parents[1] / "results"
CHECKPOINTS = (15, 20, 30, 45, 60)
WITHIN = 0.01
"""Share of the gap below which a posterior counts as found."""
_FLOOR = 1e-3  # gaps below which nothing is told apart
_DRAWS = 1024
_WITH, _WITHOUT = "with", "without"


@dataclass(frozen=True)
class Search:
    """One search: the objective after each round."""

    variant: str
    problem: str
    seed: int
    runs: list[int]
    objectives: list[float]
    seconds: float
    """Of the search, without its scores."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What is not to be made again."""
        return self.variant, self.problem, self.seed

    def at(self, runs: int) -> float:
        """Return the objective of the last posterior with no more runs."""
        return [v for n, v in zip(self.runs, self.objectives, strict=True) if n <= runs][-1]

    def reached(self, level: float) -> float:
        """Return the runs from which on the objective stays below a level, infinite if none."""
        above = [n for n, v in zip(self.runs, self.objectives, strict=True) if v > level]
        later = [n for n in self.runs if not above or n > above[-1]]
        return float(later[0]) if later else np.inf


def search(variant: str, name: str, seed: int) -> Search:
    """Search with or without the rule, and score every posterior."""
    problem = replace(p.problem(name), draws=_DRAWS)
    tuning = DEFAULT if variant == _WITH else without(DEFAULT, "emulator.units.user_scale", False)
    moments = trace(problem, seed, max(CHECKPOINTS), algorithm=supac.SuPAC(tuning=tuning))
    scores = [problem.objective(each.posterior) for each in moments]
    took = moments[-1].seconds
    return Search(variant, name, seed, [each.runs for each in moments], scores, round(took, 2))


def table(made: Sequence[Search], names: Sequence[str]) -> str:
    """Return one row for each problem: objectives, and runs to 1 % of the gap."""
    rows, logs = [], []
    by_key = {each.key: each for each in made}
    for name in names:
        seeds = sorted({s for v, n, s in by_key if (v, n) == (_WITH, name)})
        seeds = [seed for seed in seeds if (_WITHOUT, name, seed) in by_key]
        if not seeds:
            continue
        found = {v: [by_key[v, name, seed] for seed in seeds] for v in (_WITHOUT, _WITH)}
        seen = [v for some in found.values() for each in some for v in each.objectives]
        fact, prior = p.known().get(name), found[_WITH][0].objectives[0]
        best = min(*seen, fact.best) if fact else min(seen)
        level = best + WITHIN * (prior - best)
        runs = {v: [each.reached(level) for each in some] for v, some in found.items()}
        reached = [_runs(np.median(runs[v])) for v in (_WITHOUT, _WITH)]
        rows.append([f"{name} ({len(seeds)})", *_objectives(found), " → ".join(reached)])
        logs.append(_log_ratios(found, best, prior))
    columns = [f"{at} runs" for at in CHECKPOINTS]
    ratios = ", ".join(map(_short, np.exp(np.mean(logs, axis=0)))) if logs else "none"
    return (
        narrow_table(["problem (seeds)", *columns, "runs to 1 %"], rows)
        + "\n\nGap left with the rule by that without, geometric means over the problems after "
        + f"{', '.join(map(str, CHECKPOINTS))} runs: {ratios}."
    )


def _log_ratios(found: dict[str, list[Search]], best: float, prior: float) -> FloatArray:
    """Return mean logarithms of the gap with the rule by that without, at each checkpoint."""
    gaps = {
        v: np.array([[(each.at(n) - best) / (prior - best) for n in CHECKPOINTS] for each in some])
        for v, some in found.items()
    }
    logs = {v: np.log(np.maximum(each, _FLOOR)) for v, each in gaps.items()}
    return np.asarray((logs[_WITH] - logs[_WITHOUT]).mean(axis=0))


def _objectives(found: dict[str, list[Search]]) -> list[str]:
    """Return the median objectives at each checkpoint, without the rule and with it."""
    return [
        " → ".join(
            _short(float(np.median([each.at(runs) for each in found[v]])))
            for v in (_WITHOUT, _WITH)
        )
        for runs in CHECKPOINTS
    ]


def _short(value: float) -> str:
    return f"{value:.3g}"


def _runs(value: float | np.floating) -> str:
    return f"{float(value):.0f}" if np.isfinite(value) else f"> {max(CHECKPOINTS)}"


def page(made: Sequence[Search]) -> str:
    """Return the tables of both roles."""
    ratio = [
        np.log(each.seconds / other.seconds)
        for each in made
        for other in made
        if (each.variant, other.variant) == (_WITH, _WITHOUT)
        and (each.problem, each.seed) == (other.problem, other.seed)
    ]
    head = (
        "Objectives with latent inputs → with the likelier scale, medians of the seeds; and the "
        "runs from which on 1 % of the gap or less is left, to the best objective known or found. "
        "Time of a search with the rule in that of one without: "
        f"{np.exp(np.median(ratio)) if ratio else np.nan:.2f}, median of {len(ratio)} pairs. "
        "Command: `make bench-scales`."
    )
    parts = [head]
    for role, names in (("judgement", JUDGEMENT), ("development", DEVELOPMENT)):
        parts += [f"## Problems for {role}", table(made, list(names))]
    return fitted("\n\n".join(parts) + "\n")


def main() -> None:
    """Make the searches that are missing, then the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problems", help="a,b,c; all by default")
    parser.add_argument("--seeds", default="0:5", help="first:end")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no search after these")
    parser.add_argument("--report", action="store_true", help="make no searches")
    options = parser.parse_args()
    path = RESULTS / "scales.jsonl"
    names = options.problems.split(",") if options.problems else [*DEVELOPMENT, *JUDGEMENT]
    first, _, end = options.seeds.partition(":")
    made, began = read(path, Search), time.perf_counter()
    there = {each.key for each in made}
    jobs = [
        (variant, name, seed)
        for seed in range(int(first), int(end))
        for name in names
        for variant in (_WITHOUT, _WITH)
    ]
    for job in [] if options.report else jobs:
        if job in there or time.perf_counter() - began > 60.0 * options.minutes:
            continue
        made.append(search(*job))
        keep(path, made[-1])
        scores = ", ".join(_short(made[-1].at(runs)) for runs in CHECKPOINTS)
        print(*job, scores, f"({made[-1].seconds:.1f} s)", flush=True)
    text = page(made)
    (RESULTS / "scales.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
