"""Mixtures of a fixed number of members of an exponential family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from supac.arrays import FloatArray, vector, whole
from supac.codec import register
from supac.families.family import (
    Density,
    Distribution,
    Divergence,
    Family,
    ParametricFamily,
    Seed,
    as_distribution,
)

_MOST_ODDS = float(np.log(20.0))
_PACE = 0.1  # largest change of the log-odds of a weight in one step


@register(arguments=("base", "count"))
class Mixture(ParametricFamily):
    """Σ_k w_k π_{θ_k}: θ = (log w_k/w_0 for k ≥ 1, θ_0, θ_1, …).

    With responsibilities r_k(x), the score is r_k − w_k for the weights and
    r_k·(T(x) − ∇g(θ_k)) for the components.
    """

    def __init__(self, base: Family, count: int):
        whole(count, "count, the number of components,", least=1)
        if not isinstance(base, Family):
            raise TypeError(f"the components must be of an exponential family, not {base!r}")
        super().__init__(base.dim, count - 1 + count * base.size, base, count)
        self.base, self.count = base, count

    def __repr__(self) -> str:
        return f"Mixture({self.base}, {self.count})"

    @property
    def mixture(self) -> Mixture:
        return self

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log-weights (count,) and component parameters (count, base.size)."""
        odds = np.concatenate([[0.0], theta[: self.count - 1]])
        return odds - logsumexp(odds), theta[self.count - 1 :].reshape(self.count, self.base.size)

    def join(self, weights: FloatArray, components: FloatArray) -> FloatArray:
        """Return θ from positive weights and component parameters: the inverse of `split`."""
        odds = np.log(weights) - np.log(weights[0])
        return np.concatenate([odds[1:], np.ravel(components)])

    def aim(self, theta: FloatArray, target: FloatArray) -> FloatArray:
        """Limit the change of the weights; none falls below a twentieth of the largest.

        A component with zero weight would never be drawn from again.
        """
        cut = self.count - 1
        now, wanted = (np.concatenate([[0.0], each[:cut]]) for each in (theta, target))
        # Between equal components the odds have no effect and their steps are unbounded.
        step = wanted - now
        now = now + step * min(1.0, _PACE / max(float(np.abs(step).max()), 1e-300))
        now = np.maximum(now, now.max() - _MOST_ODDS)
        return np.concatenate([(now - now[0])[1:], target[cut:]])

    def contains(self, theta: FloatArray) -> bool:
        """Return True if every component is in its family."""
        inside = bool(np.isfinite(theta).all())
        return inside and all(self.base.contains(each) for each in self.split(theta)[1])

    def _log_parts(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """Compute log w_k + log π_{θ_k}(x): (n, count)."""
        log_weights, components = self.split(theta)
        return log_weights + np.stack([self.base.log_prob(each, x) for each in components], axis=1)

    def responsibilities(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """Compute r_k(x), the probability that component k drew x: (n, count)."""
        parts = self._log_parts(theta, x)
        return np.exp(parts - logsumexp(parts, axis=1, keepdims=True))

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        return np.asarray(logsumexp(self._log_parts(theta, x), axis=1))

    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        log_weights, components = self.split(theta)
        share, statistics = self.responsibilities(theta, x), self.base.statistics(x)
        parts = [
            share[:, k : k + 1] * (statistics - self.base.mean_statistics(each))
            for k, each in enumerate(components)
        ]
        return np.hstack([(share - np.exp(log_weights))[:, 1:], *parts])

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        log_weights, components = self.split(theta)
        # Every component draws n points, though not all are used, so that draws with one seed are
        # smooth in θ.
        which = np.searchsorted(np.cumsum(np.exp(log_weights))[:-1], rng.random(n), side="right")
        draws = np.stack([self.base.sample(each, n, rng) for each in components])
        return draws[which, np.arange(n)]

    def marginal(self, theta: FloatArray, i: int) -> tuple[FloatArray, list[Any]]:
        log_weights, components = self.split(theta)
        return np.exp(log_weights), [self.base.marginal(each, i)[1][0] for each in components]

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        log_weights, components = self.split(theta)
        return mixed_moments(np.exp(log_weights), [self.base.moments(each) for each in components])

    def divergence(
        self, theta: FloatArray, prior: Density, seed: Seed = 0, count: int | None = None
    ) -> Divergence:
        """Compute KL(π_θ, prior), up to one bounded term if the components' KL is exact.

        KL = Σ_k w_k KL(π_{θ_k}, prior) − H(w) + π_θ[H(r(x))], with H the entropy of a discrete
        distribution, in [0, log(count)]: only the last term is estimated from draws.
        """
        log_weights, components = self.split(theta)
        known = as_distribution(prior)
        family = None if known is None else known.family
        both_gaussian = family is not None and family.is_gaussian and self.base.is_gaussian
        if not (family == self.base or both_gaussian):
            return super().divergence(theta, prior, seed, count)
        parts = [self.base.divergence(each, prior) for each in components]
        weights, kls = np.exp(log_weights), np.array([each.value for each in parts])
        x = self.draws(theta, seed, count)
        share = self.responsibilities(theta, x)
        doubt = -(share * np.log(np.maximum(share, 1e-300))).sum(axis=1)
        return Divergence(
            float(weights @ kls + weights @ log_weights + doubt.mean()),
            float(doubt.std() / np.sqrt(len(x))),
            float(np.log(self.count)),
            len(x),
        )


def mixed_moments(
    weights: FloatArray, moments: Sequence[tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray]:
    """Compute mean (dim,) and covariance (dim, dim) of a mixture from those of its components."""
    means, covariances = map(np.stack, zip(*moments, strict=True))
    mean = weights @ means
    between = means - mean
    within = np.einsum("k,kij->ij", weights, covariances)
    return mean, within + (weights * between.T) @ between


def mixture(
    components: Sequence[Distribution], weights: Sequence[float] | None = None
) -> Distribution:
    """Return the mixture Σ_k w_k π_k of members of one family; by default with equal weights."""
    parts = list(components)
    if not parts or any(each.family != parts[0].family for each in parts):
        raise ValueError("a mixture needs at least one component, all from one family")
    shares = np.ones(len(parts)) if weights is None else vector(weights, "weights", len(parts))
    if not (shares > 0.0).all():
        raise ValueError(f"weights must be positive, not {shares}")
    family = Mixture(parts[0].exponential, len(parts))
    return Distribution(family, family.join(shares, np.stack([each.theta for each in parts])))


def split_mixture(distribution: Distribution, count: int, seed: int = 0) -> Distribution:
    """Return a mixture of `count` components with about the moments of `distribution`.

    Use it as the start of a search for several modes. The component means lie in pairs on opposite
    sides (one in the centre if `count` is odd), in random directions that are orthogonal as far as
    the dimension allows; they carry half of the covariance, each component has the other half.
    """
    base = distribution.exponential
    mean, covariance = base.moments(distribution.theta)
    if whole(count, "count, the number of components,", least=1) == 1:
        return mixture([distribution])
    pairs = count // 2
    z = np.random.default_rng(seed).standard_normal((pairs, base.dim))
    z[: base.dim] = np.linalg.qr(z[: base.dim].T)[0].T
    # Every `dim` pairs the distance grows, so that no two means coincide.
    shell = 1.0 + np.arange(pairs) // base.dim
    z *= (shell / np.linalg.norm(z, axis=1))[:, None]
    z *= np.sqrt(0.5 * base.dim * count / (2.0 * (z**2).sum()))
    centre = np.zeros((count % 2, base.dim))
    shifts = np.concatenate([centre, z, -z]) @ np.linalg.cholesky(covariance).T
    for share in 0.5 ** np.arange(20.0):  # closer, if the means must be positive, say
        try:
            parts = [base.from_moments(mean + share * each, 0.5 * covariance) for each in shifts]
            return mixture([distribution.at(each) for each in parts])
        except ValueError:
            continue
    raise ValueError(f"{distribution} cannot be split: give the components, mixture([…, …])")
