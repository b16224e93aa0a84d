"""What rules of the screening are worth where many runs end with useless outputs.

    python benchmarks/dead_outputs.py            # goes on where it was; an hour
    python benchmarks/dead_outputs.py --report   # the table, as far as it is

Two models of three parameters: outputs are those of a dead system beyond a plane through the prior,
or outside of a ball. None of the problems of `make bench-ablation` has many such runs. Each search
is kept in dead_outputs.jsonl.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

import supac
from outside.rules import without
from outside.runs import keep, read
from pages import fitted, narrow_table
from supac.arrays import FloatArray
from supac.search.tuning import DEFAULT

RESULTS = Path(__file__).parent / "results"
SEEDS = range(24)
BUDGETS = (40, 80)
MATRIX = np.random.default_rng(3).standard_normal((3, 12)) / 2.0
CENTRE = np.array([0.4, -0.6, 0.5])
PRIOR, LOSS, TEMPERATURE = supac.gaussian(np.zeros(3), np.eye(3)), supac.MeanSquare(), 0.05
OFF = {
    "screening.early": False,
    "screening.passes": 1,
    "screening.two_classes": False,
}
ALL, MODELS, SEEN = "all", ("half", "ball"), ("outputs", "risk alone")
Case = tuple[str, str, int, int]
"""Model, what is seen of it, seed, and runs."""


@dataclass(frozen=True)
class Search:
    """The objective at the end of a search without a rule."""

    rule: str
    model: str
    seen: str
    seed: int
    runs: int
    nats: float
    """Objective over the temperature."""

    @property
    def case(self) -> Case:
        """What it has in common with searches without other rules."""
        return self.model, self.seen, self.seed, self.runs


def outputs(model: str, x: FloatArray) -> FloatArray:
    """Twelve outputs, somewhat bent, that are 4 where the system is dead."""
    bent = (x - CENTRE) @ MATRIX
    bent += 0.15 * bent**2
    beyond_a_plane, far = x @ [0.8, 0.6, 0.0] > 0.2, ((x - CENTRE) ** 2).sum(axis=1) > 2.6
    bent[beyond_a_plane if model == "half" else far] = 4.0
    return np.asarray(bent)


def search(rule: str, case: Case) -> Search:
    """Make one search, and score its posterior with 4,000 draws."""
    model, seen, seed, runs = case
    simulate = partial(outputs, model)

    def risk(x: FloatArray) -> FloatArray:
        return np.asarray(LOSS(simulate(x)))

    tuning = DEFAULT if rule == ALL else without(DEFAULT, f"emulator.{rule}", OFF[rule])
    result = supac.minimize(
        supac.Composite(simulate, LOSS) if seen == "outputs" else risk,
        PRIOR, supac.Catoni(TEMPERATURE), budget=runs, validation=0, seed=seed,
        algorithm=supac.SuPAC(tuning=tuning),
        execution=supac.Execution(vectorized=True, progress=False),
    )  # fmt: skip
    mean = float(risk(result.posterior.sample(4_000, 1)).mean())
    return Search(rule, *case, mean / TEMPERATURE + result.kl)


def table(made: Sequence[Search]) -> str:
    """Return what the objectives without a rule exceed those with all rules by."""
    whole = {each.case: each.nats for each in made if each.rule == ALL}
    rows = []
    for rule in OFF:
        for seen in SEEN:
            changes = np.array(
                [
                    each.nats - whole[each.case]
                    for each in made
                    if (each.rule, each.seen) == (rule, seen) and each.case in whole
                ]
            )
            if not len(changes):
                continue
            worse, better = (changes > 0.1).sum(), (changes < -0.1).sum()
            ends = f"{changes.max():+.1f} | {changes.min():+.1f}".split(" | ")
            means = f"{changes.mean():+.2f} ± {changes.std(ddof=1) / np.sqrt(len(changes)):.2f}"
            counts = [str(len(changes)), f"{worse}, {better}"]
            rows.append([rule, seen, *counts, means, *ends])
    head = ["without", "seen", "searches", "worse, better", "mean", "worst", "best"]
    said = (
        "Objectives without a rule less those with it, in nats, where outputs are dead in half of "
        "the prior or outside of a ball; worse and better by more than 0.1. Command: `python "
        "benchmarks/dead_outputs.py`.\n\n"
    )
    return fitted(said + narrow_table(head, rows) + "\n")


def cases() -> Iterator[Case]:
    """Yield all cases, the first seeds first."""
    for seed in SEEDS:
        for model in MODELS:
            for seen in SEEN:
                for runs in BUDGETS:
                    yield model, seen, seed, runs


def main() -> None:
    """Make the searches that are missing, then the table."""
    path = RESULTS / "dead_outputs.jsonl"
    made = read(path, Search)
    there = {(each.rule, each.case) for each in made}
    for case in () if "--report" in sys.argv else cases():
        for rule in (ALL, *OFF):
            if (rule, case) not in there:
                keep(path, search(rule, case))
    text = table(read(path, Search))
    (RESULTS / "dead_outputs.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
