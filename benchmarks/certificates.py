"""Do certificates hold as often as they say, and how tight are they?

Many data sets from one law, of which the true risk is known: a regression with a capped loss. Each
is calibrated with each bound, certified with fresh draws, and the certificate compared with the
posterior's true risk. Then the same with an assumption broken on purpose: a prior that was learnt
on the same data, and data that were copied and counted as new.

    make bench-certificates                   # 300 data sets a bound, some ten minutes
    make bench-certificates ARGS=20           # data sets
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy import stats

import supac
from supac.arrays import FloatArray

RESULTS = Path(__file__).parent / "results" / "certificates.md"
DELTA, DRAWS, BUDGET = 0.05, 300, 60
TEST = 4_000
"""Data behind each true risk."""


@dataclass(frozen=True)
class Law:
    """y = a·x* + noise, a standard normal of `dim` entries; loss min((y − a·x)²/4, 1)."""

    dim: int = 3
    noise: float = 0.7

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """n data: (n, dim) and (n,)."""
        a = rng.standard_normal((n, self.dim))
        return a, a @ np.full(self.dim, 0.8) + self.noise * rng.standard_normal(n)


@dataclass(frozen=True, eq=False)
class Risk:
    """The mean loss over data."""

    a: FloatArray
    y: FloatArray

    def __call__(self, x: FloatArray) -> FloatArray:
        """(m, dim) → (m,)."""
        return np.minimum((self.y - x @ self.a.T) ** 2 / 4.0, 1.0).mean(axis=1)


BOUNDS: dict[str, Callable[[int], supac.Bound]] = {
    "Catoni, λ = 0.02": lambda n: supac.Catoni(0.02, n, DELTA),
    'Catoni("auto")': lambda n: supac.Catoni("auto", n, DELTA),
    "McAllester": lambda n: supac.McAllester(n, DELTA),
    "MaurerLangfordSeeger": lambda n: supac.MaurerLangfordSeeger(n, DELTA),
    "TolstikhinSeldin": lambda n: supac.TolstikhinSeldin(n, DELTA),
    "Thiemann": lambda n: supac.Thiemann(n, DELTA),
}


def replicate(name: str, case: str, seed: int) -> tuple[float, float, float]:
    """Certificate, its mean risk, and the true risk of the posterior, for one data set."""
    rng = np.random.default_rng([seed, 1])
    law, n = {"learnt prior": (Law(dim=40), 60), "copied data": (Law(dim=10), 30)}.get(
        case, (Law(), 100)
    )
    risk = Risk(*law.draw(n, rng))
    prior = supac.gaussian(np.zeros(law.dim), np.ones(law.dim))
    if case == "copied data":
        n *= 1_000  # their mean loss stays the same
    if case == "learnt prior":
        best = np.linalg.lstsq(risk.a, risk.y, rcond=None)[0]
        prior = supac.gaussian(best, np.full(law.dim, 1e-4))
    bound = BOUNDS[name](n)
    result = supac.minimize(
        risk,
        prior,
        bound,
        budget=BUDGET,
        execution=supac.Execution(vectorized=True),
        validation=0,
        seed=seed,
        progress=False,
    )
    certificate = result.certify(
        risk,
        n=n,
        delta=DELTA,
        draws=DRAWS,
        execution=supac.Execution(vectorized=True),
        seed=seed,
        progress=False,
    )
    truth = Risk(*law.draw(TEST, np.random.default_rng([seed, 2])))
    true_risk = float(truth(result.posterior.sample(400, np.random.default_rng([seed, 3]))).mean())
    return certificate.value, certificate.mean_risk, true_risk


def row(name: str, case: str, count: int, pool: ProcessPoolExecutor) -> str:
    """One line of the table."""
    outcomes = np.array(list(pool.map(partial(replicate, name, case), range(count), chunksize=5)))
    value, mean_risk, true_risk = outcomes.T
    # The true risk itself is known to a standard error of its test data, a third of a per cent.
    violated = int((true_risk > value).sum())
    most = stats.beta(violated + 1, count - violated).ppf(0.95) if violated < count else 1.0
    cells = [
        name,
        f"{violated} of {count} (≤ {100.0 * most:.1f} %)",
        f"{value.mean():.3f}",
        f"{true_risk.mean():.3f}",
        f"{mean_risk.mean():.3f}",
        f"{np.median(value / true_risk):.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """All tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    head = [
        "| bound | violations (95 % limit) | certificate | true risk | mean risk on the data | "
        "certificate / true risk |",
        "|---|---|---|---|---|---|",
    ]
    lines = [
        f"{count} data sets a row, δ = {DELTA}: a fifth for the {DRAWS} fresh draws, the rest for "
        f"the data. 3 parameters, n = 100, {BUDGET} queries each; means over the data sets.",
        "",
        *head,
    ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name in BOUNDS:
            lines.append(row(name, "", count, pool))
            print(lines[-1], flush=True)
        few = max(count // 3, 10)
        for case, words in {
            "learnt prior": "Broken on purpose: the prior is centred on the least-squares fit to "
            "the same 60 data, 40 parameters. `prior_is_independent=False` refuses it.",
            "copied data": "Broken on purpose: each of 30 data is copied 1,000 times, n = 30,000 "
            "is claimed, 10 parameters. Nothing in the software can notice this.",
        }.items():
            lines += ["", words, "", *head]
            for name in ("MaurerLangfordSeeger", "Catoni, λ = 0.02"):
                lines.append(row(name, case, few, pool))
                print(lines[-1], flush=True)
    if count >= 100:
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
