"""What does `correlation_time` do to ranges of parameters?

A decay that is observed sixty times, with errors that are independent or AR(1) of a correlation of
0.8 between neighbours. Each data set is fitted by a likelihood of independent errors and by one of
autoregressive errors, noise level and correlation time sought. Counted is how often the central
90 % of the rate hold the true one, and how wide they are beside those of independent errors.

    make bench-correlated            # ten minutes
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.correlated import Autoregressive

RESULTS = Path(__file__).parent / "results" / "correlated.jsonl"
TABLE = RESULTS.with_suffix(".md")
ROWS, RATE, SIZE, NOISE = 60, 0.7, 2.0, 0.1
TIMES = np.linspace(0.1, 6.0, ROWS)
STEP = float(TIMES[1] - TIMES[0])


def errors(correlation: float, seed: int) -> FloatArray:
    """Return AR(1) errors of standard deviation NOISE."""
    new = np.random.default_rng(seed).standard_normal(ROWS)
    made = new.copy()
    for i in range(1, ROWS):
        made[i] = correlation * made[i - 1] + np.sqrt(1.0 - correlation**2) * new[i]
    return NOISE * made


def fit(correlation: float, seed: int, *, memory: bool) -> dict[str, object]:
    """Return the range of the rate, and if it holds the true one."""
    y = SIZE * np.exp(-RATE * TIMES) + errors(correlation, seed)
    zero, none = np.zeros(ROWS, dtype=int), np.full(ROWS, -1)
    priors = {
        "rate": marginals.LogNormal(1.0, 0.7),
        "size": marginals.LogNormal(1.5, 0.5),
        "sigma": marginals.LogNormal(0.1, 1.0),
    }
    own = None
    if memory:
        priors["tau"] = marginals.LogNormal(3.0 * STEP, 1.0)
        own = Autoregressive(series=zero, times=TIMES, memories=zero + 1)
    loss = ColumnLoss(Likelihood(), none, none, zero, y, np.ones(ROWS), errors=own)
    data = supac.Observations(("A",), y, np.ones(ROWS), times=TIMES)
    risk = supac.Composite(
        lambda x: x[1] * np.exp(-x[0] * TIMES), loss, data, observation=1 + memory
    )
    result = supac.minimize(
        risk, supac.Parameters(priors), supac.Catoni(1.0 / ROWS), budget=40, seed=seed,
        execution=supac.Execution(progress=False),
    )  # fmt: skip
    low, high = np.quantile(np.asarray(result.sample(4_000, 1))[:, 0], [0.05, 0.95])
    return {
        "correlation": correlation,
        "memory": memory,
        "seed": seed,
        "held": bool(low < RATE < high),
        "width": float(high - low),
    }


def table(rows: list[dict[str, object]]) -> str:
    """Return coverage and width of the ranges, in Markdown."""
    lines = [
        "| errors | likelihood | data sets | ranges of 90 % that hold | median width |",
        "|---|---|---|---|---|",
    ]
    for correlation, errors_are in ((0.0, "independent"), (0.8, "AR(1), 0.8")):
        for memory, words in ((False, "independent"), (True, "`correlation_time`")):
            mine = [r for r in rows if (r["correlation"], r["memory"]) == (correlation, memory)]
            held = sum(bool(row["held"]) for row in mine)
            width = np.median([float(str(row["width"])) for row in mine]) if mine else np.nan
            lines.append(f"| {errors_are} | {words} | {len(mine)} | {held} | {width:.3f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make the fits that are not there yet, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=30.0)
    given = parser.parse_args()
    made = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = [json.loads(line) for line in made]
    there = {(row["correlation"], row["memory"], row["seed"]) for row in rows}
    begun = time.monotonic()
    for seed in range(given.seeds):
        for correlation in (0.0, 0.8):
            for memory in (False, True):
                late = time.monotonic() - begun > 60.0 * given.minutes
                if (correlation, memory, seed) in there or late:
                    continue
                rows.append(fit(correlation, seed, memory=memory))
                with RESULTS.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    TABLE.write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
