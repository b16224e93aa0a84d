"""The limit that is hoped for before and early in a search, beside the one that is reached.

Settings of certificate_tightness.py, searched with 60 runs; what is said before the first run and
after 20 of them, also if half is held out. Rows are kept in tmp-hopes/ as they are made.

    python benchmarks/certificate_hopes.py      # 2 seeds a setting; writes results/hopes.md
    python benchmarks/certificate_hopes.py 1    # seeds; the table is printed, not kept
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from certificate_tightness import TIGHT, WELSCH, Setting
from supac.posterior.attainable import HALF, attainable, attainable_before

RESULTS = Path(__file__).parent / "results" / "hopes.md"
KEPT = Path(__file__).parent / "tmp-hopes"
SEEDS, EARLY, BUDGET = 2, 20, 60
QUICK = supac.Execution(vectorized=True, progress=False)
HEAD = ("setting", "before any run", f"after {EARLY} runs", "reached", "half held out, hoped for",
        "reached")  # fmt: skip


def searched(
    law: Setting, seed: int, loss: supac.ResidualLoss, budget: int, *, half: bool = False
) -> tuple[supac.Composite, supac.MaurerLangfordSeeger, supac.Result]:
    """Search on a data set of this seed; with `half`, every other datum is held out."""
    y = law.exact + law.draw(np.random.default_rng(seed), law.n)
    data, test = supac.Observations(("y",), y, np.ones(law.n)), None
    if half:
        data, test = data.split(np.arange(law.n) % 2 == 1)
    risk = supac.Composite(lambda x: law.simulate(x, law.n), loss, data, test)
    dim = len(law.truth)
    prior = supac.gaussian(np.zeros(dim), law.prior_sd**2 * np.eye(dim))
    bound = supac.MaurerLangfordSeeger(law.n // 2 if test is not None else law.n, 0.05)
    result = supac.minimize(risk, prior, bound, budget=budget, execution=QUICK, seed=seed)
    return risk, bound, result


def limit(made: supac.Certificate | None) -> float:
    """Return the limit of a certificate; NaN if there is none."""
    return np.nan if made is None else made.value


def compared(name: str, seed: int) -> list[float]:
    """Return hopes and limits of one data set, in the order of the table."""
    law = TIGHT[name]
    loss: supac.ResidualLoss = supac.Welsch() if law.loss is WELSCH else supac.CappedSquare()
    risk, bound, begun = searched(law, seed, loss, EARLY)
    before = attainable_before(risk, bound, len(law.truth))
    early = attainable(begun.record)
    assert before is not None
    assert early is not None
    reached = limit(searched(law, seed, loss, BUDGET)[2].certificate)
    half = limit(searched(law, seed, loss, BUDGET, half=True)[2].held_out)
    return [before.limit, early.limit, reached, early.others[HALF], half]


def kept(name: str, seed: int) -> list[float]:
    """Return `compared`, from its file if it is there."""
    KEPT.mkdir(exist_ok=True)
    file = KEPT / f"{name}, {seed}.json"
    if not file.exists():
        file.write_text(json.dumps(compared(name, seed)))
        print(name, seed, file.read_text(), flush=True)
    found: list[float] = json.loads(file.read_text())
    return found


def row(name: str, every: Sequence[Sequence[float]]) -> str:
    """Format the means over seeds."""
    return f"| {name} | {' | '.join(f'{each:.3f}' for each in np.nanmean(every, axis=0))} |"


def main() -> None:
    """Write the table, or print that of fewer seeds."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    names = [each for each in TIGHT if "0/1" not in each and "1000" not in each]
    lines = [
        f"Means over {seeds} data sets. Searches of {BUDGET} runs minimise Seeger's bound; the",
        "certificates are by bets, δ = 0.05, of which held-out data have half.",
        "",
        f"| {' | '.join(HEAD)} |",
        "|" + "---|" * len(HEAD),
        *(row(name, [kept(name, seed) for seed in range(seeds)]) for name in names),
    ]
    text = "\n".join(lines) + "\n"
    if seeds >= SEEDS:
        RESULTS.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
