"""Bets on data and draws beside Seeger's bound: certificates of the same posteriors.

`python benchmarks/certificate_posterior.py` prints a table within seconds.
"""

from __future__ import annotations

import os
import sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from certificate_laws import DELTA, Gibbs, Regression, outlier_noise
from supac.families import Divergence
from supac.guarantee.certificate import Losses
from supac.guarantee.posterior import posterior_certificate

LAWS: dict[str, Regression | Gibbs] = {
    "capped squares, n = 30": Regression(n=30),
    "capped squares, n = 100": Regression(),
    "near zero with outliers, n = 100": Regression(noise=outlier_noise(0.1, 0.03, 20.0), cap=1.0),
    "0/1 losses, n = 100": Gibbs(n=100),
}
DRAWS = (20, 300)


def limits(law: Regression | Gibbs, seed: int) -> list[float]:
    """Return the limits by bets, by Seeger's bound, for each number of draws; then the truth."""
    case = law.case(np.random.default_rng([seed, 8]), max(DRAWS))
    assert case.bets is not None
    bound, found = supac.MaurerLangfordSeeger(law.n, DELTA), []
    for draws in DRAWS:
        bets = type(case.bets)(case.bets.losses[:draws], case.bets.exponents)
        losses = Losses(case.means[:draws], case.basis, bets=bets)
        found += [
            posterior_certificate(
                losses, Divergence(case.kl), bound, delta=DELTA, given_by_seeger=by_seeger
            ).value
            for by_seeger in (False, True)
        ]
    return [*found, case.mean_true_risk]


def main() -> None:
    """Print a row for each law."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print("law | bets, Seeger by 20 draws | bets, Seeger by 300 draws | truth | violated")
    for name, law in LAWS.items():
        values = np.array([limits(law, seed) for seed in range(count)])
        violated = (values[:, :-1] < values[:, -1:]).sum(axis=0)
        print(name, *np.round(values.mean(axis=0), 3), violated, "of", count)


if __name__ == "__main__":
    main()
