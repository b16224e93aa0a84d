"""Data sets of which the true risk is known, and posteriors found on them, to be certified.

A certificate holds for any posterior, however it was found. So most of these are cheap: a Gaussian
around a least-squares fit, or a Gibbs posterior over a finite set of predictors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import signal, special, stats

import supac
from supac.arrays import FloatArray
from supac.families import Divergence
from supac.guarantee.basis import Basis, Bets, basis_of
from supac.guarantee.certificate import Losses
from supac.guarantee.ensemble import ensemble_certificate
from supac.guarantee.held_out import held_out_certificate
from supac.guarantee.posterior import posterior_certificate
from supac.guarantee.provenance import Provenance
from supac.problem.losses import ResidualLoss

DELTA = 0.05
BOUNDS = ("Catoni", 'Catoni("auto")', "McAllester", "MaurerLangfordSeeger", "TolstikhinSeldin",
          "Thiemann", "PooledBetting", "Betting", "Chernoff")  # fmt: skip
DRAWS, SETS = 300, 20
"""Fresh draws behind the certificate of a posterior, and of an ensemble."""
TRUTH_DRAWS = 2_000
Values = dict[str, float]
"""Certificate by each bound."""


def fixed_catoni(n: int, ceiling: float = 1.0) -> supac.Catoni:
    """Return Catoni's bound at a temperature that depends on n alone: the best for KL = 5."""
    floor = 5.0 - np.log(DELTA)
    return supac.Catoni(ceiling / float(np.sqrt(8.0 * n * floor)), n, DELTA, ceiling)


@dataclass(frozen=True, eq=False)
class Case:
    """A posterior found on a data set, fresh draws of it, and their true risks."""

    basis: Basis
    means: FloatArray
    """Mean loss of each draw on the data, before a root: (m,)."""
    log_ratio: FloatArray
    """(m,)."""
    true_risk: FloatArray
    """True risk of each draw, a root taken: (m,)."""
    kl: float
    mean_true_risk: float
    """Over the whole posterior."""
    x: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """The draws, where they are vectors: (m, dim)."""
    bets: Bets | None = None
    """Losses of each independent datum, unless only their mean is known."""

    @property
    def bound(self) -> supac.Catoni:
        """Return Catoni's bound for these data; its certificate names the values of all others."""
        return fixed_catoni(self.basis.number(supac.Catoni), self.basis.top)

    def losses(self, draws: int) -> Losses:
        """Return the mean losses of the first draws."""
        return Losses(self.means[:draws], self.basis)

    def bets_of(self, draws: int) -> Losses:
        """Return the losses of each datum of the first draws, where they are known."""
        losses, bets = self.losses(draws), self.bets
        return replace(losses, bets=bets and replace(bets, losses=bets.losses[:draws]))

    def of_ensemble(self, sets: int = SETS, **options: Any) -> tuple[Values, float]:
        """Certify the first draws; return the limits by each bound, and their mean true risk."""
        ratio, truth = self.log_ratio[:sets], float(self.true_risk[:sets].mean())
        losses, bets = self.losses(sets), self.bets_of(sets)
        given = dict(ensemble_certificate(losses, ratio, self.bound, delta=DELTA, **options).bounds)
        for pooled in (True, False) if bets.bets is not None else ():
            made = ensemble_certificate(
                bets, ratio, self.bound, delta=DELTA, given_by_seeger=pooled, **options
            )
            given[made.bound] = made.value
        return given, truth

    def of_posterior(self, draws: int = DRAWS) -> tuple[Values, float]:
        """Certify the mean over the posterior; return the limits, and its mean true risk."""
        made = posterior_certificate(
            self.losses(draws),
            Divergence(self.kl),
            self.bound,
            delta=DELTA,
            share=Provenance().share,
        )
        if self.bets is None:
            return dict(made.bounds), self.mean_true_risk
        bets = posterior_certificate(
            self.bets_of(draws), Divergence(self.kl), self.bound, delta=DELTA,
            share=Provenance().share,
        )  # fmt: skip
        return {**made.bounds, bets.bound: bets.value}, self.mean_true_risk

    def of_held_out(self, delta: float = DELTA) -> tuple[Values, float]:
        """Certify the first draws on data that the posterior does not depend on."""
        made = held_out_certificate(self.bets_of(SETS), delta=delta)
        return dict(made.bounds), float(self.true_risk[:SETS].mean())


def capped_square(mean: FloatArray, sd: FloatArray, cap: float = 1.0) -> FloatArray:
    """Compute E min(r²/cap², 1) of r ~ N(mean, sd²), exactly."""
    low, high = (-cap - mean) / sd, (cap - mean) / sd
    inside = special.ndtr(high) - special.ndtr(low)
    below, above = stats.norm.pdf(low), stats.norm.pdf(high)
    square = mean**2 * inside + 2.0 * mean * sd * (below - above)
    square += sd**2 * (inside + low * below - high * above)
    return np.asarray(square / cap**2 + 1.0 - inside)


@dataclass(frozen=True)
class Noise:
    """Noise of a series of data, and quantiles of the distribution of each."""

    draw: Callable[[int, np.random.Generator], FloatArray]
    quantile: Callable[[FloatArray], FloatArray]

    @cached_property
    def quantiles(self) -> FloatArray:
        """Return 4,000 numbers that stand for the distribution."""
        return self.quantile((np.arange(4_000) + 0.5) / 4_000)


def gaussian_noise(sd: float = 0.7) -> Noise:
    """Return independent Gaussian noise."""
    return Noise(lambda n, rng: sd * rng.standard_normal(n), lambda p: sd * special.ndtri(p))


def student_noise(df: float, scale: float) -> Noise:
    """Return independent noise with heavy tails."""
    return Noise(lambda n, rng: scale * rng.standard_t(df, n), lambda p: scale * stats.t.ppf(p, df))


def block_noise(labels: FloatArray, sd: float = 0.7, shared: float = 0.9) -> Noise:
    """Return Gaussian noise of which a share of the variance is common to a block of data."""
    _, block = np.unique(labels, return_inverse=True)

    def draw(n: int, rng: np.random.Generator) -> FloatArray:
        common = rng.standard_normal(block.max() + 1)[block]
        own = rng.standard_normal(n)
        return sd * (np.sqrt(shared) * common + np.sqrt(1.0 - shared) * own)

    return Noise(draw, lambda p: sd * special.ndtri(p))


def autoregressive_noise(rho: float, sd: float = 0.7) -> Noise:
    """Return stationary AR(1) noise."""

    def draw(n: int, rng: np.random.Generator) -> FloatArray:
        steps = np.sqrt(1.0 - rho**2) * rng.standard_normal(n)
        steps[0] /= np.sqrt(1.0 - rho**2)
        return sd * np.asarray(signal.lfilter([1.0], [1.0, -rho], steps))

    return Noise(draw, lambda p: sd * special.ndtri(p))


def outlier_noise(sd: float, share: float, outlier_sd: float) -> Noise:
    """Return Gaussian noise of which a share is far more spread out."""

    def draw(n: int, rng: np.random.Generator) -> FloatArray:
        return np.where(rng.random(n) < share, outlier_sd, sd) * rng.standard_normal(n)

    def quantile(p: FloatArray) -> FloatArray:
        grid = np.concatenate(
            [sd * np.linspace(-5, 5, 4_001), outlier_sd * np.linspace(-5, 5, 4_001)]
        )
        grid.sort()
        below = (1.0 - share) * special.ndtr(grid / sd) + share * special.ndtr(grid / outlier_sd)
        return np.asarray(np.interp(p, below, grid))

    return Noise(draw, quantile)


@cache
def _true_losses(noise: Noise, cap: float) -> tuple[FloatArray, FloatArray]:
    """Return distances of x from x*, on which alone it depends, and the true mean loss there."""
    distance = np.concatenate([[1e-6], np.geomspace(1e-3, 30.0, 300)])
    losses = [capped_square(noise.quantiles, np.array(each), cap).mean() for each in distance]
    return distance, np.array(losses)


@dataclass(frozen=True, eq=False)
class Regression:
    """y = a·x* + noise, a standard normal, x* = (0.8, …); a capped loss of y − a·x.

    The posterior is Gaussian, that of a linear model with Gaussian noise of variance 1/precision.
    """

    n: int = 100
    dim: int = 3
    noise: Noise = field(default_factory=gaussian_noise)
    cap: float = 2.0
    root: bool = False
    """Whether the risk is the root of the mean square of residuals capped at `cap`."""
    blocks: FloatArray | None = None
    sequential: bool = False
    precision: float = 0.3
    truth: float = 0.8
    prior_sd: float = 1.0

    @property
    def loss(self) -> ResidualLoss:
        """Return the loss of residuals."""
        return supac.RootMeanSquare() if self.root else supac.CappedSquare(self.cap)

    def true_risk(self, x: FloatArray) -> FloatArray:
        """Compute the risk on new data: (m, dim) → (m,)."""
        mean = np.interp(
            np.linalg.norm(x - self.truth, axis=1), *_true_losses(self.noise, self.cap)
        )
        return np.asarray(self.cap * np.sqrt(mean) if self.root else mean)

    def data(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw a data set: (n, dim) and (n,)."""
        a = rng.standard_normal((self.n, self.dim))
        return a, a @ np.full(self.dim, self.truth) + self.noise.draw(self.n, rng)

    def composite(self, a: FloatArray, y: FloatArray) -> supac.Composite:
        """Return the risk on a data set."""
        data = supac.Observations(
            ("y",), y, np.ones(len(y)), blocks=self.blocks, sequential=self.sequential or None
        )
        return supac.Composite(lambda x: x @ a.T, self.loss, data)

    def posterior(
        self, a: FloatArray, y: FloatArray, centre: FloatArray | None = None
    ) -> tuple[supac.Distribution, supac.Distribution]:
        """Return posterior and prior; the prior's mean is 0 unless another is given."""
        middle = np.zeros(self.dim) if centre is None else centre
        inverse = np.eye(self.dim) / self.prior_sd**2 + self.precision * a.T @ a
        covariance = np.linalg.inv(inverse)
        mean = middle + covariance @ (self.precision * a.T @ (y - a @ middle))
        prior = supac.gaussian(middle, self.prior_sd**2 * np.eye(self.dim))
        return supac.gaussian(mean, 0.5 * (covariance + covariance.T)), prior

    def case(self, rng: np.random.Generator, draws: int = DRAWS) -> Case:
        """Draw a data set, find a posterior and draw from it."""
        a, y = self.data(rng)
        return self.case_of(a, y, *self.posterior(a, y), rng, draws)

    def held_out(self, rng: np.random.Generator) -> Case:
        """Find a posterior on every other datum, or block, and draw the case of the others."""
        a, y = self.data(rng)
        test = (np.arange(self.n) if self.blocks is None else self.blocks) % 2 == 1
        posterior, prior = self.posterior(a[~test], y[~test])
        blocks = None if self.blocks is None else self.blocks[test]
        part = replace(self, n=int(test.sum()), blocks=blocks)
        return part.case_of(a[test], y[test], posterior, prior, rng, SETS)

    def case_of(
        self,
        a: FloatArray,
        y: FloatArray,
        posterior: supac.Distribution,
        prior: supac.Distribution,
        rng: np.random.Generator,
        draws: int = DRAWS,
    ) -> Case:
        """Draw from a posterior and compute what its certificates need."""
        composite = self.composite(a, y)
        basis = basis_of(composite, supac.Catoni(1.0, ceiling=self.cap if self.root else 1.0))
        x = posterior.sample(draws, rng)
        residuals = composite.residuals(composite.simulate(x))
        return Case(
            basis,
            basis.means(composite.loss(residuals), residuals),
            posterior.log_prob(x) - prior.log_prob(x),
            self.true_risk(x),
            float(posterior.kl(prior)),
            float(self.true_risk(posterior.sample(TRUTH_DRAWS, rng)).mean()),
            x,
            basis.bets(composite.loss(residuals), residuals),
        )


@dataclass(frozen=True)
class Gibbs:
    """Predictors that err on each datum or not, and the posterior ∝ exp(−inverse·n·risk).

    `coins`: each guesses, and has a true risk of ½. Otherwise thresholds t on a grid, which predict
    whether u > ½, with labels of which a fifth is wrong: true risk 0.2 + 0.6·|t − ½|.
    """

    n: int = 100
    inverse: float = 1.0
    predictors: int = 200
    coins: bool = False

    def _losses(self, rng: np.random.Generator) -> FloatArray:
        """Draw a data set: the errors of each predictor, (predictors, n)."""
        if self.coins:
            return (rng.random((self.predictors, self.n)) < 0.5).astype(float)
        u = rng.random(self.n)
        label = (u > 0.5) ^ (rng.random(self.n) < 0.2)
        return ((u > self._grid[:, None]) != label).astype(float)

    @property
    def _grid(self) -> FloatArray:
        return (np.arange(self.predictors) + 0.5) / self.predictors

    def case(self, rng: np.random.Generator, draws: int = DRAWS) -> Case:
        """Draw a data set, and draw from the posterior."""
        losses = self._losses(rng)
        return self._case(losses, losses, rng, draws)

    def held_out(self, rng: np.random.Generator) -> Case:
        """Find a posterior on every other datum, and draw the case of the others."""
        losses = self._losses(rng)
        return self._case(losses[:, ::2], losses[:, 1::2], rng, SETS)

    def _case(
        self, train: FloatArray, test: FloatArray, rng: np.random.Generator, draws: int
    ) -> Case:
        true = np.full(self.predictors, 0.5)
        if not self.coins:
            true = 0.2 + 0.6 * np.abs(self._grid - 0.5)
        log_share = -self.inverse * train.sum(axis=1)
        log_share -= special.logsumexp(log_share)
        share, ratio = np.exp(log_share), log_share + np.log(self.predictors)
        drawn = rng.choice(self.predictors, draws, p=share / share.sum())
        n = test.shape[1]
        return Case(
            Basis(1.0, np.full(n, 1.0 / n)), test[drawn].mean(axis=1), ratio[drawn], true[drawn],
            float(share @ ratio), float(share @ true),
            bets=Bets(test[drawn], np.ones(n)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Series:
    """A regression with AR(1) noise, counted by rows as a sequence.

    The true risk is the mean of the conditional expectations, each given the past.
    """

    rho: float = 0.9
    sd: float = 0.7
    law: Regression = field(
        default_factory=lambda: Regression(noise=autoregressive_noise(0.9), sequential=True)
    )

    def case(self, rng: np.random.Generator) -> Case:
        """Draw a series, find a posterior and draw from it."""
        a, y = self.law.data(rng)
        posterior, prior = self.law.posterior(a, y)
        noise = y - a @ np.full(self.law.dim, self.law.truth)
        case = self.law.case_of(a, y, posterior, prior, rng)
        return replace(
            case,
            true_risk=self._conditional(noise, case.x),
            mean_true_risk=float(self._conditional(noise, posterior.sample(500, rng)).mean()),
        )

    def _conditional(self, noise: FloatArray, x: FloatArray) -> FloatArray:
        """Compute the mean conditional risk of each x: (m, dim) → (m,)."""
        expected = np.concatenate([[0.0], self.rho * noise[:-1]])
        fresh = np.full(len(noise), self.sd**2 * (1.0 - self.rho**2))
        fresh[0] = self.sd**2
        distance = np.sum((x - self.law.truth) ** 2, axis=1, keepdims=True)
        return capped_square(expected, np.sqrt(fresh + distance), self.law.cap).mean(axis=1)


_SIZES = np.round(40.0 * 0.85 ** np.arange(30)).clip(1).astype(int)
_UNEQUAL = np.repeat(np.arange(30.0), _SIZES)
_LONG = np.repeat(np.arange(20.0), 200)
SETTINGS: dict[str, Regression | Gibbs | Series] = {
    "Bernoulli losses, n = 100": Gibbs(),
    "capped squares, n = 10": Regression(n=10),
    "capped squares, n = 30": Regression(n=30),
    "capped squares, n = 100": Regression(),
    "heavy tails (Student-t 1.5), n = 100": Regression(noise=student_noise(1.5, 0.5)),
    f"30 blocks of 40 to 1 data, {len(_UNEQUAL)} in all": Regression(
        n=len(_UNEQUAL), noise=block_noise(_UNEQUAL), blocks=_UNEQUAL
    ),
    "AR(1), ρ = 0.95, 20 blocks of 200 rows": Regression(
        n=len(_LONG), noise=autoregressive_noise(0.95), blocks=_LONG, precision=0.02
    ),
    "AR(1), ρ = 0.9, a sequence of 100 rows": Series(),
    "root mean square, capped at 2, n = 100": Regression(root=True),
}
COIN_TEMPERATURES = (0.5, 1.0, 2.0, 8.0)
