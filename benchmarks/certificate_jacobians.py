"""Do certificates hold as often as they say where the search has learnt from Jacobians?

Data sets of a decay whose true risk is known, searches of 20 runs with the right Jacobian and with
one that misleads, and the limit of each certificate beside the truth.

    make bench-certificates                                # or this file: some minutes
    python benchmarks/certificate_jacobians.py 100         # data sets; the table is printed
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from certificates import SEEGER, VECTORISED, Decay, limit, table
from pages import fitted
from supac.arrays import FloatArray

RESULTS = Path(__file__).parent / "results" / "certificate_jacobians.md"
DATA_SETS = 300
FACTORS = {"the right one": 1.0, "with the wrong sign": -1.0}
"""Factors on the Jacobian of the decay."""
HEAD = ["Jacobian", "data sets", "posteriors given up", "violations", "95 % limit", "true risk",
        "certificate"]  # fmt: skip


def slopes(factor: float, x: FloatArray) -> FloatArray:
    """Return the Jacobians of the decay times a factor: (n, 3) → (n, 20, 3)."""
    rate = np.exp(x[:, 1:2])
    fall = np.exp(-rate * Decay.times)
    parts = [fall, -x[:, :1] * rate * Decay.times * fall, np.ones_like(fall)]
    return factor * np.stack(parts, axis=-1)


def searched(factor: float, seed: int) -> tuple[float, float, bool]:
    """Search with 20 runs, ten of them for validation; return limit, truth, and True if given up.

    The prior is certified in the place of a posterior that was given up.
    """
    model = Decay()
    risk = supac.Composite(
        model,
        supac.CappedSquare(),
        model.observed(np.random.default_rng([seed, 41])),
        jacobian=partial(slopes, factor),
        jacobian_cost=0.0,
    )
    bound = supac.MaurerLangfordSeeger(20, 0.05)
    prior = supac.gaussian(np.zeros(3), np.eye(3))
    found = supac.minimize(
        risk, prior, bound, budget=20, validation=10, execution=VECTORISED, seed=seed
    )
    given = found.certificate
    assert given is not None
    truth = float(model.true_losses(found.ensemble.x).mean())
    return given.bounds[SEEGER], truth, given.delta_pac < 0.5 * given.delta


def row(name: str, count: int) -> list[str]:
    """Return the violations with one kind of Jacobian."""
    found = [searched(FACTORS[name], seed) for seed in range(count)]
    limits, truths, given_up = (np.array(each) for each in zip(*found, strict=True))
    violated = int((limits < truths).sum())
    print(name, violated, "of", count, flush=True)
    numbers = [str(count), str(int(given_up.sum())), str(violated), limit(violated, count)]
    return [name, *numbers, f"{truths.mean():.3f}", f"{limits.mean():.3f}"]


def main() -> None:
    """Write the table, or print it where the number of data sets is given."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DATA_SETS
    rows = [row(name, count) for name in FACTORS]
    lines = [
        "Searches of 20 runs, ten of them for validation, with the Jacobians of the other ten. "
        f"`{SEEGER}`, n = 20, δ = 0.05.",
        "",
        *table(HEAD, rows),
    ]
    text = fitted("\n".join(lines) + "\n")
    print(text)
    if len(sys.argv) < 2:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
