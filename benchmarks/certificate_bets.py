"""Do bets on the losses of each datum hold as often as they say, and how tight are they?

Ensembles by form A (all losses pooled) and form M (a mixture of stakes), and held-out data, on laws
whose true risk is known; doors of the gate, opened and closed; and the settings in which the forms
were compared with each other before they were built. Every row is kept as it is made, in
results/bets.jsonl: the same command goes on after an interruption, and makes none twice.

    make bench-certificates                   # this, after the older tables
    python benchmarks/certificate_bets.py 20  # data sets; the tables are printed, not kept
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy import stats

import supac
from certificate_gate_doors import DOORS
from certificate_laws import (
    DELTA,
    Gibbs,
    Noise,
    Regression,
    outlier_noise,
    student_noise,
)
from certificate_tightness import TIGHT, tight
from pages import fitted
from supac.arrays import FloatArray
from supac.guarantee.basis import Bets, basis_of
from supac.guarantee.certificate import Losses
from supac.guarantee.ensemble import ensemble_certificate
from supac.guarantee.held_out import held_out_certificate
from supac.problem import ColumnLoss
from supac.problem.bounds import kl_inverse
from supac.problem.observation import ObservationLoss

RESULTS = Path(__file__).parent / "results"
BOUND = supac.MaurerLangfordSeeger(10, DELTA)
MOST = 300  # draws of an ensemble


@dataclass(frozen=True)
class Drawn:
    """Losses of each datum of sets drawn from a posterior, and their true risks."""

    bets: Bets
    log_ratio: FloatArray
    true_risk: FloatArray
    held_out: tuple[Bets, FloatArray] | None = None
    """Losses on data that the posterior has not seen, and true risks."""


def of_regression(law: Regression, rng: np.random.Generator) -> Drawn:
    """Draw a data set, and sets for it; test the posterior of half of the data on the others."""
    case, test = law.case(rng, MOST), law.held_out(rng)
    assert case.bets is not None
    assert test.bets is not None
    return Drawn(case.bets, case.log_ratio, case.true_risk, (test.bets, test.true_risk))


def of_gibbs(law: Gibbs, rng: np.random.Generator) -> Drawn:
    """Draw predictors that err or not from a Gibbs posterior."""
    case, test = law.case(rng, MOST), law.held_out(rng)
    assert case.bets is not None
    assert test.bets is not None
    return Drawn(case.bets, case.log_ratio, case.true_risk, (test.bets, test.true_risk))


def of_mixture(law: Regression, rng: np.random.Generator) -> Drawn:
    """Draw from a mixture of two Gaussians on either side of the posterior."""
    a, y = law.data(rng)
    posterior, prior = law.posterior(a, y)
    shift = 1.5 * np.sqrt(np.diag(posterior.covariance))
    sides = [supac.gaussian(posterior.mean + s * shift, posterior.covariance) for s in (-1, 1)]
    return _of_points(law, a, y, supac.mixture(sides, [0.3, 0.7]), prior, rng)


def of_chosen_mixture(law: Regression, rng: np.random.Generator) -> Drawn:
    """Draw from the Gaussian or mixture whose bound, predicted from other draws, is the least."""
    a, y = law.data(rng)
    posterior, prior = law.posterior(a, y)
    sd, every = np.sqrt(np.diag(posterior.covariance)), [posterior]
    for shift, narrowed in ((0.5, 1.0), (0.5, 0.5), (1.0, 1.0), (1.0, 0.25)):
        sides = [supac.gaussian(posterior.mean + s * shift * sd, narrowed * posterior.covariance)
                 for s in (-1, 1)]  # fmt: skip
        every.append(supac.mixture(sides, [0.5, 0.5]))
    predicted = [_of_points(law, a, y, each, prior, rng, draws=100) for each in every]
    limits = [
        kl_inverse(float(np.mean(each.bets.losses)), float(each.log_ratio.mean() + 6.0) / law.n)
        for each in predicted
    ]
    return _of_points(law, a, y, every[int(np.argmin(limits))], prior, rng)


def _of_points(
    law: Regression,
    a: FloatArray,
    y: FloatArray,
    posterior: supac.Distribution,
    prior: supac.Distribution,
    rng: np.random.Generator,
    draws: int = MOST,
) -> Drawn:
    x, composite = posterior.sample(draws, rng), law.composite(a, y)
    basis = basis_of(composite, BOUND, n=law.n)
    residuals = composite.residuals(composite.simulate(x))
    bets = basis.bets(composite.loss(residuals), residuals)
    assert bets is not None
    return Drawn(bets, posterior.log_prob(x) - prior.log_prob(x), law.true_risk(x))


def with_scale(rng: np.random.Generator) -> Drawn:
    """Draw vectors of two parameters and a scale that needs no run, the third one."""
    law, n = Regression(n=100, dim=2), 100
    a, y = law.data(rng)
    none, loss_of_each = np.full(n, -1), supac.CappedSquare(law.cap)
    own = ColumnLoss(loss_of_each, np.zeros(n, int), none, none, y, np.ones(n))
    data = supac.Observations(("y",), y, np.ones(n))
    loss = ObservationLoss(own, 1)
    composite = supac.Composite(lambda x: x[:, :2] @ a.T, loss, data, observation=1)
    exact = law.posterior(a, y)[0]
    spread = np.zeros((3, 3))
    spread[:2, :2], spread[2, 2] = exact.covariance, 0.01
    posterior = supac.gaussian(np.append(exact.mean, 1.0), spread)
    x = posterior.sample(MOST, rng)
    rows = np.column_stack([x[:, :2] @ a.T, x[:, 2]])
    residuals = composite.compared(rows)
    bets = basis_of(composite, BOUND, n=n).bets(loss(composite.residuals(rows)), residuals)
    assert bets is not None
    ratio = posterior.log_prob(x) - supac.gaussian(np.zeros(3), np.eye(3)).log_prob(x)
    return Drawn(bets, ratio, law.true_risk(x[:, :2] * x[:, 2:]))


def _blocks_of_different_laws() -> Regression:
    sizes = np.round(40.0 * 0.85 ** np.arange(30)).clip(1).astype(int)
    labels = np.repeat(np.arange(30.0), sizes)
    sds = np.repeat(np.linspace(0.2, 2.0, 30), sizes)

    def draw(n: int, rng: np.random.Generator) -> FloatArray:
        # All of a block errs together, in part.
        common = rng.standard_normal(30)[labels.astype(int)[:n]]
        return sds[:n] * (0.8 * common + 0.6 * rng.standard_normal(n))

    def quantile(p: FloatArray) -> FloatArray:
        grid = np.linspace(-10.0, 10.0, 8_001)
        below = np.mean([stats.norm.cdf(grid / sd) for sd in sds], axis=0)
        return np.interp(p, below, grid)

    return Regression(
        n=len(labels), noise=Noise(draw, quantile), blocks=labels, precision=0.05, cap=1.0
    )


Law = Callable[[np.random.Generator], Drawn]
_NEAR_ZERO = outlier_noise(0.1, 0.03, 20.0)
LAWS: dict[str, Law] = {
    **{
        f"graded losses, n = {n}": partial(of_regression, Regression(n=n))
        for n in (5, 30, 100, 1_000)
    },
    **{f"0/1 losses, n = {n}": partial(of_gibbs, Gibbs(n=n)) for n in (5, 100, 1_000)},
    "near zero with outliers, n = 100": partial(
        of_regression, Regression(noise=_NEAR_ZERO, cap=1.0)
    ),
    "heavy tails (Student-t 1.5), n = 100": partial(
        of_regression, Regression(noise=student_noise(1.5, 0.5))
    ),
    "30 unequal blocks of different laws": partial(of_regression, _blocks_of_different_laws()),
    **{
        f"the luckiest of 2,000 predictors that guess, n = {n}": partial(
            of_gibbs, Gibbs(n=n, inverse=2.0, predictors=2_000, coins=True)
        )
        for n in (10, 30)
    },
    "a mixture of two Gaussians, n = 100": partial(of_mixture, Regression()),
    "the best of four mixtures and a Gaussian, n = 100": partial(
        of_chosen_mixture, Regression(dim=2, truth=0.3)
    ),
    "a scale among the parameters, n = 100": with_scale,
}
SETS = (1, 20, MOST)
KINDS = (*(f"{form}, K = {sets}" for sets in SETS for form in "AM"), "held out, K = 20")


def certified(name: str, seed: int) -> list[tuple[float, float]]:
    """Certify one data set in every form; return limits and true risks, NaN where there is none."""
    drawn = LAWS[name](np.random.default_rng([seed, 7]))
    found = []
    for sets in SETS:
        bets = replace(drawn.bets, losses=drawn.bets.losses[:sets])
        weights = bets.weights
        losses = Losses(bets.losses @ weights, basis_of(None, _bound(bets)), bets=bets)
        for pooled in (True, False):
            made = ensemble_certificate(
                losses, drawn.log_ratio[:sets], BOUND, delta=DELTA, selection=1.0,
                given_by_seeger=pooled,
            )  # fmt: skip
            wanted = "PooledBetting" if pooled else "Betting"
            value = made.value if made.bound == wanted else np.nan
            found.append((value, float(drawn.true_risk[:sets].mean())))
    if drawn.held_out is None:
        return [*found, (np.nan, np.nan)]
    bets, truth = drawn.held_out
    losses = Losses(bets.losses @ bets.weights, basis_of(None, _bound(bets)), bets=bets)
    made = held_out_certificate(losses, delta=DELTA)
    return [*found, (made.value, float(truth.mean()))]


def _bound(bets: Bets) -> supac.MaurerLangfordSeeger:
    return supac.MaurerLangfordSeeger(max(int(bets.exponents.sum()), 1), DELTA)


# Rows that are kept


class Kept:
    """Rows of the tables by name, kept in a file as they are made."""

    def __init__(self, count: int):
        self.path = RESULTS / "bets.jsonl" if count >= MOST else None
        self.rows: dict[str, list[str]] = {}
        if self.path is not None and self.path.exists():
            for line in self.path.read_text().splitlines():
                told = json.loads(line)
                if told["data sets"] == count:
                    self.rows[told["row"]] = told["cells"]
        self.count = count

    def row(self, name: str, make: Callable[[], list[str]]) -> list[str]:
        """Return a row, made now unless it is there."""
        if name not in self.rows:
            begun = time.monotonic()
            self.rows[name] = make()
            print(name, *self.rows[name], f"({time.monotonic() - begun:.0f} s)", flush=True)
            if self.path is not None:
                told = {"row": name, "data sets": self.count, "cells": self.rows[name]}
                with self.path.open("a") as file:
                    file.write(json.dumps(told) + "\n")
        return self.rows[name]


def violations_row(name: str, count: int) -> list[str]:
    """Count violations of each kind, and give mean limits of 20 sets beside the truth."""
    outcomes = np.array([certified(name, seed) for seed in range(count)])
    values, truths = outcomes[..., 0], outcomes[..., 1]
    known = np.isfinite(values[0])
    cells = [str(int((values[:, k] < truths[:, k]).sum())) if known[k] else "–"
             for k in range(len(KINDS))]  # fmt: skip
    numbers = [truths[:, 2], values[:, 2], values[:, 3]]
    return [*cells, *(f"{np.mean(each):.3f}" for each in numbers)]


def door_row(name: str, count: int) -> list[str]:
    """Count violations with a door open, and closed."""
    outcomes = [DOORS[name](seed) for seed in range(count)]
    return [f"{sum(each[k] for each in outcomes):,} of {count}" for k in range(2)]


def tight_row(name: str, count: int) -> list[str]:
    """Return mean limits in one setting."""
    few = max(count // (15 if "1000" in name else 3), 2)
    values = np.array([tight(name, seed) for seed in range(few)])
    violated = int((values[:, 1:] < values[:, :1]).sum())
    return [*(f"{each:.3f}" for each in values.mean(axis=0)), f"{violated} of {few}"]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Format a table in Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def main() -> None:
    """Make what rows are missing, and write the tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else MOST
    kept = Kept(count)
    tightness = [
        [name, *kept.row(f"tightness: {name}", partial(tight_row, name, count))] for name in TIGHT
    ]
    laws = [
        [name, *kept.row(f"laws: {name}", partial(violations_row, name, count))] for name in LAWS
    ]
    doors = [[name, *kept.row(f"doors: {name}", partial(door_row, name, count))] for name in DOORS]
    lines = [
        f"Certificates by bets on the loss of each datum, δ = {DELTA}: at most {100 * DELTA:g} %",
        f"may be violated. {count} data sets in each setting.",
        "",
        "## Violations",
        "",
        *table(["setting", *KINDS, "true risk", "A, K = 20", "M, K = 20"], laws),
        "",
        "A dash: form M is not used for more than 200,000 losses, or there is no held-out part.",
        "",
        "## Doors of the gate",
        "",
        *table(["what is refused", "violated if it were not", "violated where it is"], doors),
        "",
        "## Tightness",
        "",
        "Means over a third of the data sets, a fifteenth for n = 1000. The posterior is the one",
        "of six temperatures that is best for Seeger's bound, or for A. The oracle knows the law",
        "of the losses and pays for what was learnt. Held-out data have all of δ. Violations are",
        "those of all columns together.",
        "",
        *table(["setting", "true risk", "Seeger", "A", "M", "half held out, Chernoff",
                "half held out, betting", "oracle", "violated"], tightness),
    ]  # fmt: skip
    text = "\n".join(lines) + "\n"
    if kept.path is not None:
        (RESULTS / "bets.md").write_text(fitted(text))
    else:
        print(text)


if __name__ == "__main__":
    main()
