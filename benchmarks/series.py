"""How long does a round of a search take whose likelihood has many data?

A daily rainfall-runoff model of three parameters, whose output is compared with 365 to 3,650
measurements: with independent noise, with `correlation_time`, and with `discrepancy = "auto"`; the
noise level is sought. Counted are processor seconds of what a round computes, runs apart, over a
search of 25 runs.

    make bench-series            # some minutes
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.signal import lfilter

import supac
from pages import fitted
from supac import marginals
from supac.arrays import FloatArray
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.correlated import Autoregressive, CorrelatedErrors, Discrepancy
from supac.search.supac import SuPAC

TABLE = Path(__file__).parent / "results" / "series.md"
PAGE = Path(__file__).parents[1] / "docs" / "wrong-model.md"
BEGIN, END = "<!-- rounds: begin -->", "<!-- rounds: end -->"
KINDS = ("independent", "correlation_time", "discrepancy")


def seconds_of_rounds(days: int, kind: str, seed: int) -> list[float]:
    """Return the processor seconds of each round of a search."""
    rng, times = np.random.default_rng([seed, days]), np.arange(float(days))
    rain = rng.exponential(5.0, days) * (rng.random(days) < 0.3)
    season = np.cos(2.0 * np.pi * times / 365.0)

    def runoff(x: FloatArray) -> FloatArray:
        rate, catch, dry = x
        return np.asarray(lfilter([rate], [1.0, rate - 1.0], catch * rain * (1.0 - dry * season)))

    slow = 1.0 + 0.1 * np.sin(2.0 * np.pi * times / 600.0)  # what the model lacks
    y = runoff(np.array([0.08, 0.7, 0.3])) * slow + 0.1 * rng.standard_normal(days)
    zero, none, one = np.zeros(days, dtype=int), np.full(days, -1), np.ones(days)
    priors = {
        "rate": marginals.LogNormal(0.1, 0.5),
        "catch": marginals.LogNormal(1.0, 0.5),
        "dry": marginals.Uniform(0.0, 0.9),
        "sigma": marginals.LogNormal(0.2, 1.0),
    }
    own: CorrelatedErrors | None = None
    if kind == "correlation_time":
        priors["tau"] = marginals.LogNormal(5.0, 1.0)
        own = Autoregressive(series=zero, times=times, memories=zero + 1)
    elif kind == "discrepancy":
        priors["amplitude"] = marginals.LogNormal(0.1 * float(y.std()), 1.5)
        priors["length"] = marginals.LogNormal(float(np.ptp(times)) / 5.0, 0.8)
        own = Discrepancy(series=zero, times=times, amplitudes=zero + 1, lengths=zero + 2)
    loss = ColumnLoss(Likelihood(), none, none, zero, y, one, errors=own)
    data = supac.Observations(("Q",), y, one, times=times)
    risk = supac.Composite(runoff, loss, data, observation=len(priors) - 3)
    seconds: list[float] = []
    tell = SuPAC.tell

    def timed(*args: Any, **others: Any) -> Any:
        begun = time.process_time()
        found = tell(*args, **others)
        seconds.append(time.process_time() - begun)
        return found

    with patch.object(SuPAC, "tell", timed):
        supac.minimize(
            risk, supac.Parameters(priors), supac.Catoni(1.0 / days), budget=25, seed=seed,
            execution=supac.Execution(progress=False),
        )  # fmt: skip
    return seconds


def write(lines: list[str]) -> None:
    """Write the table, and the page with it."""
    text = [
        "`make bench-series`: processor seconds of a round, runs apart, in searches of 25 runs; a "
        "daily model of three parameters, whose noise level is sought.",
        "",
        "| data | errors | rounds | first round | median | longest |",
        "|---" * 6 + "|",
        *lines,
        "",
    ]
    inner = fitted("\n".join(text))
    TABLE.write_text("# Rounds of long series\n\n" + inner, encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{inner}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Make the searches, and write the table after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, nargs="*", default=[365, 1_000, 3_650])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    lines: list[str] = []
    for days in given.days:
        for kind in KINDS:
            found = seconds_of_rounds(days, kind, given.seed)
            later = found[1:] or found
            words = "independent" if kind == KINDS[0] else f"`{kind}`"
            numbers = f"{found[0]:.2f} s | {np.median(later):.2f} s | {max(later):.2f} s"
            lines.append(f"| {days:,} | {words} | {len(found)} | {numbers} |")
            print(lines[-1], flush=True)
            write(lines)


if __name__ == "__main__":
    main()
