"""Mixtures of a fixed number of members of one exponential family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from supac.arrays import FloatArray, vector, whole
from supac.codec import register
from supac.families.divergence import Density, Divergence, Seed
from supac.families.family import Distribution, Family, ParametricFamily

_MOST_ODDS = float(np.log(20.0))
_PACE = 0.1  # nats by which the odds of a weight may change at a time


@register(arguments=("base", "count"))
class Mixture(ParametricFamily):
    """Σ_k w_k π_{θ_k}: θ = (log w_k/w_0 for k ≥ 1, θ_0, θ_1, …).

    With r_k(x) the probability that component k drew x, the score is r_k − w_k for the weights and
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

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log-weights (count,) and the components' own parameters (count, base.size)."""
        odds = np.concatenate([[0.0], theta[: self.count - 1]])
        return odds - logsumexp(odds), theta[self.count - 1 :].reshape(self.count, self.base.size)

    def join(self, weights: FloatArray, components: FloatArray) -> FloatArray:
        """θ of positive weights and the components' parameters: the inverse of `split`."""
        odds = np.log(weights) - np.log(weights[0])
        return np.concatenate([odds[1:], np.ravel(components)])

    def aim(self, theta: FloatArray, target: FloatArray) -> FloatArray:
        """With weights that change slowly, none to less than a twentieth of the largest.

        A component whose weight has vanished is never drawn from again, and so never found useful;
        one that is kept for long enough moves to where it is.
        """
        cut = self.count - 1
        now, wanted = (np.concatenate([[0.0], each[:cut]]) for each in (theta, target))
        # Odds that nothing depends on, between equal components, have steps without bounds.
        step = wanted - now
        now = now + step * min(1.0, _PACE / max(float(np.abs(step).max()), 1e-300))
        now = np.maximum(now, now.max() - _MOST_ODDS)
        return np.concatenate([(now - now[0])[1:], target[cut:]])

    def contains(self, theta: FloatArray) -> bool:
        """Whether every component is in its family."""
        inside = bool(np.isfinite(theta).all())
        return inside and all(self.base.contains(each) for each in self.split(theta)[1])

    def _log_parts(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """log w_k + log π_{θ_k}(x): (n, count)."""
        log_weights, components = self.split(theta)
        return log_weights + np.stack([self.base.log_prob(each, x) for each in components], axis=1)

    def responsibilities(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """r_k(x), the probability that component k drew x: (n, count)."""
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
        # Every component draws n points, of which some are used: then the draws of one generator
        # are smooth in θ, which is worth more than the time.
        which = np.searchsorted(np.cumsum(np.exp(log_weights))[:-1], rng.random(n), side="right")
        draws = np.stack([self.base.sample(each, n, rng) for each in components])
        return draws[which, np.arange(n)]

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        log_weights, components = self.split(theta)
        weights = np.exp(log_weights)
        means, covariances = zip(*(self.base.moments(each) for each in components), strict=True)
        mean = weights @ np.stack(means)
        between = np.stack(means) - mean
        within = np.einsum("k,kij->ij", weights, np.stack(covariances))
        return mean, within + (weights * between.T) @ between

    def _knows(self, prior: Distribution) -> bool:
        """Whether the components' own KL to the prior is exact."""
        return prior.family == self.base or (self.base.is_gaussian and prior.family.is_gaussian)

    def divergence(
        self, theta: FloatArray, prior: Density, seed: Seed = 0, count: int | None = None
    ) -> Divergence:
        """KL(π_θ, prior), exact but for a bounded mean where the components' own KL is exact.

        KL = Σ_k w_k KL(π_{θ_k}, prior) − H(w) + π_θ[H(r(x))], where H is the entropy of a
        discrete law, between 0 and log(count): the last term is all that draws are needed for.
        """
        log_weights, components = self.split(theta)
        if not (isinstance(prior, Distribution) and self._knows(prior)):
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


def mixture(
    components: Sequence[Distribution], weights: Sequence[float] | None = None
) -> Distribution:
    """Σ_k w_k π_k of members of one exponential family; by default with equal weights."""
    parts = list(components)
    if not parts or any(each.family != parts[0].family for each in parts):
        raise ValueError("the components of a mixture must be of one family, and at least one")
    shares = np.ones(len(parts)) if weights is None else vector(weights, "weights", len(parts))
    if not (shares > 0.0).all():
        raise ValueError(f"weights must be positive, not {shares}")
    family = Mixture(parts[0].exponential, len(parts))
    return Distribution(family, family.join(shares, np.stack([each.theta for each in parts])))


def split_mixture(distribution: Distribution, count: int, seed: int = 0) -> Distribution:
    """A mixture of `count` components that together have about the moments of `distribution`.

    One is in the centre if they are odd in number, the others lie in pairs on opposite sides, in
    random directions that are orthogonal as far as there are enough, with half of the covariance;
    each component has the other half. Where a search begins that is to find several modes.
    """
    base = distribution.exponential
    mean, covariance = base.moments(distribution.theta)
    if whole(count, "count, the number of components,", least=1) == 1:
        return mixture([distribution])
    pairs = count // 2
    z = np.random.default_rng(seed).standard_normal((pairs, base.dim))
    z[: base.dim] = np.linalg.qr(z[: base.dim].T)[0].T
    # Each round through the directions is further out than the last, so that no two coincide.
    shell = 1.0 + np.arange(pairs) // base.dim
    z *= (shell / np.linalg.norm(z, axis=1))[:, None]
    z *= np.sqrt(0.5 * base.dim * count / (2.0 * (z**2).sum()))
    centre = np.zeros((count % 2, base.dim))
    shifts = np.concatenate([centre, z, -z]) @ np.linalg.cholesky(covariance).T
    for share in 0.5 ** np.arange(20.0):  # where a mean must be positive, say, nearer together
        try:
            parts = [base.from_moments(mean + share * each, 0.5 * covariance) for each in shifts]
            return mixture([distribution.at(each) for each in parts])
        except ValueError:
            continue
    raise ValueError(f"{distribution} cannot be split: give the components, mixture([…, …])")
