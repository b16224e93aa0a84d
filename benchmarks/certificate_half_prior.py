"""Is a prior learnt on half of the data worth it? Limits beside those of one prior and of hold-out.

The prior is a Gaussian around the fit to every other datum, of three widths; the posterior is
fitted to all data, and certified by bets of form M on the other half. Of the widths and
temperatures the best is taken without paying for the choice, in favour of such priors.

    python benchmarks/certificate_half_prior.py            # a minute; writes the table
    python benchmarks/certificate_half_prior.py 5 1        # data sets; the table is printed
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from certificate_tightness import SETS, SHARE, TIGHT, tight
from pages import fitted
from supac.guarantee.stakes import mixture_limit

RESULTS = Path(__file__).parent / "results" / "half_prior.md"
DATA_SETS = (20, 4)  # at n = 1,000 fewer
WIDTHS = (1.0, 4.0, 16.0)  # of the variances around the first fit, in those of the Laplace fit
TEMPERATURES = (1.0, 4.0, 16.0)


def half_prior(name: str, seed: int) -> tuple[float, float]:
    """Return the limit of the best width and temperature, and the true risk of its sets."""
    law = TIGHT[name]
    y, n = law.exact + law.draw(np.random.default_rng(seed), law.n), law.n
    second = np.arange(n) % 2 == 1
    first_mean, first_information = law.fit(y, np.flatnonzero(~second))
    mean, information = law.fit(y, np.arange(n))
    ridge = np.eye(len(mean)) / law.prior_sd**2
    found = []
    for width in WIDTHS:
        prior = supac.gaussian(first_mean, width * np.linalg.inv(first_information + ridge))
        for temperature in TEMPERATURES:
            inverse = temperature * information + np.linalg.inv(prior.covariance)
            spread = np.linalg.inv(inverse)
            posterior = supac.gaussian(mean, 0.5 * (spread + spread.T))
            x = posterior.sample(SETS, np.random.default_rng([seed, 1]))
            losses = law.loss(y - law.simulate(x, n))[:, second]
            ratio = posterior.log_prob(x) - prior.log_prob(x)
            limit = mixture_limit(losses, np.ones(losses.shape[1]), ratio, SHARE)
            found.append((limit, law.true_risk(x)))
    return min(found)


def row(name: str, count: int) -> list[str]:
    """Return the mean limits of a setting."""
    usual = np.mean([tight(name, seed) for seed in range(count)], axis=0)
    limit, truth = np.mean([half_prior(name, seed) for seed in range(count)], axis=0)
    numbers = usual[3], limit, usual[5], truth
    return [name, str(count), *(f"{each:.3f}" for each in numbers)]


def main() -> None:
    """Write the table, or print it where the numbers of data sets are given."""
    given = tuple(map(int, sys.argv[1:3]))
    many, few = given or DATA_SETS
    names = [name for name in TIGHT if not name.startswith("0/1")]
    rows = [row(name, few if name.endswith("1000") else many) for name in names]
    head = ["setting", "data sets", "M, one prior", "M, prior learnt on half",
            "half held out, betting", "true risk with the learnt prior"]  # fmt: skip
    lines = [
        "Mean certified limits, δ = 0.05. The best of three widths of the learnt prior and three",
        "temperatures is not paid for.",
        "",
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {' | '.join(each)} |" for each in rows),
    ]
    text = fitted("\n".join(lines) + "\n")
    print(text)
    if not given:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
