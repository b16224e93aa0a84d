"""Sobol indices: the shares of an output's variance that its inputs are responsible for.

The first-order index of an input is the share of the variance that would vanish if it were known,
Var E[f | x_i] / Var f; the total index is the share that would remain if all others were known,
E Var[f | x_others] / Var f. Between independent inputs the total is the larger, by the
interactions; between correlated ones (Kucherenko et al., 2012) an input may tell much by the others
it goes with, and add little to them.

Points come in threes: x, x′ with the same x_i and all others drawn anew given it, and x″ with
the same others and x_i drawn anew given them. Then, with the mean and the variance of all of them,

    first = Cov(f(x), f(x′)) / Var f,    total = ½ E(f(x) − f(x″))² / Var f.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from supac.arrays import FloatArray, IntArray
from supac.families import Distribution, Mixture


@dataclass(frozen=True, eq=False)
class PickFreeze:
    """Points at which indices of groups of inputs are estimated."""

    x: FloatArray
    """(n, dim)."""
    kept: FloatArray
    """(groups, n, dim): a group is as in x, all others are drawn anew."""
    anew: FloatArray
    """(groups, n, dim): a group is drawn anew, all others are as in x."""

    @classmethod
    def draw(
        cls,
        of: Distribution,
        groups: Sequence[IntArray],
        n: int,
        rng: np.random.Generator,
    ) -> PickFreeze:
        """Draw n sets of points; ValueError for a distribution without known conditionals."""
        mixture = of.family.mixture
        if mixture is not None and mixture.base.is_gaussian:
            return cls._of_mixture(of, mixture, groups, n, rng)
        x, other = of.sample(n, rng), of.sample(n, rng)
        kept, anew = np.tile(other, (len(groups), 1, 1)), np.tile(x, (len(groups), 1, 1))
        covariance = _covariance(of)
        precision = None if covariance is None else np.asarray(np.linalg.inv(covariance), float)
        for i, mine in enumerate(groups):
            rest = np.setdiff1d(np.arange(of.dim), mine)
            kept[i][:, mine], anew[i][:, mine] = x[:, mine], other[:, mine]
            if covariance is not None and precision is not None and len(rest):
                # A draw moved by what its condition differs: exact for Gaussians. The group given
                # the rest by the precision, the rest given the group by the covariance.
                step = _solved(precision, mine, rest)
                anew[i][:, mine] -= (x[:, rest] - other[:, rest]) @ step.T
                step = _solved(covariance, mine, rest)
                kept[i][:, rest] += (x[:, mine] - other[:, mine]) @ step
        return cls(x, kept, anew)

    @classmethod
    def _of_mixture(
        cls,
        of: Distribution,
        family: Mixture,
        groups: Sequence[IntArray],
        n: int,
        rng: np.random.Generator,
    ) -> PickFreeze:
        """Draw n sets of points of a mixture: a component given what is kept, then its draws."""
        log_shares, parts = family.split(of.theta)
        members = [Distribution(family.base, theta) for theta in parts]
        x = of.sample(n, rng)
        kept, anew = (np.tile(x, (len(groups), 1, 1)) for _ in range(2))
        for i, mine in enumerate(groups):
            rest = np.setdiff1d(np.arange(of.dim), mine)
            for given, drawn, points in ((mine, rest, kept[i]), (rest, mine, anew[i])):
                if len(drawn):
                    points[:, drawn] = _conditional(members, log_shares, x, given, drawn, rng)
        return cls(x, kept, anew)

    @property
    def points(self) -> FloatArray:
        """All points, one below the other."""
        dim = self.x.shape[1]
        return np.concatenate([self.x, self.kept.reshape(-1, dim), self.anew.reshape(-1, dim)])

    def moments(self, values: FloatArray) -> Moments:
        """Compute the moments, that indices are made of, of values at all points (…, k)."""
        groups, n = self.kept.shape[:2]
        mean = values.mean(axis=0)
        values = values - mean
        base, rest = values[:n], values[n:].reshape(2, groups, n, -1)
        first = np.array([_symmetric(base.T @ each / n) for each in rest[0]])
        steps = [base - each for each in rest[1]]
        total = np.array([0.5 * step.T @ step / n for step in steps])
        return Moments(values.T @ values / len(values), first, total)

    def parts(self, values: FloatArray) -> FloatArray:
        """Compute variance and numerators of each of the values: (…, m) → (1 + 2·groups, m)."""
        groups, n = self.kept.shape[:2]
        values = values - values.mean(axis=0)
        base, rest = values[:n], values[n:].reshape(2, groups, n, -1)
        first = (base * rest[0]).mean(axis=1)
        total = 0.5 * ((base - rest[1]) ** 2).mean(axis=1)
        return np.concatenate([(values**2).mean(axis=0)[None], first, total])


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments of k values that indices are made of."""

    variance: FloatArray
    """(k, k)."""
    first: FloatArray
    """(groups, k, k)."""
    total: FloatArray
    """(groups, k, k)."""

    def along(self, loadings: FloatArray) -> FloatArray:
        """Compute variance and numerators of outputs = loadings @ values: (1 + 2·groups, m)."""
        every = np.concatenate([self.variance[None], self.first, self.total])
        return np.array([np.einsum("ij,ij->i", loadings @ each, loadings) for each in every])


def indices_of(parts: FloatArray) -> FloatArray:
    """Return first-order and total indices from `Moments.along`: (1 + 2g, …) → (2g, …)."""
    return np.asarray(parts[1:] / np.maximum(parts[0], 1e-300))


def _conditional(
    members: Sequence[Distribution],
    log_shares: FloatArray,
    x: FloatArray,
    given: IntArray,
    drawn: IntArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw coordinates of a mixture of Gaussians given others of x: (n, drawn)."""
    logs, values = [], []
    for member, log_share in zip(members, log_shares, strict=True):
        mean, covariance = member.mean, member.covariance
        away, other = x[:, given] - mean[given], member.sample(len(x), rng)
        density = 0.0
        if len(given):
            inner = covariance[np.ix_(given, given)]
            white = np.linalg.solve(np.linalg.cholesky(inner), away.T)
            density = -0.5 * (white**2).sum(axis=0) - 0.5 * np.linalg.slogdet(inner)[1]
        # A draw moved by what its condition differs, as for one Gaussian.
        step = _solved(covariance, given, drawn)
        values.append(other[:, drawn] + (x[:, given] - other[:, given]) @ step)
        logs.append(log_share + density)
    shares = np.cumsum(softmax(np.array(np.broadcast_arrays(*logs)), axis=0), axis=0)
    which = (rng.random(len(x)) > shares[:-1]).sum(axis=0)
    return np.asarray(np.array(values)[which, np.arange(len(x))])


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (matrix + matrix.T))


def _covariance(of: Distribution) -> FloatArray | None:
    """Return the covariance of a Gaussian with correlations; None for independent coordinates."""
    family = of.family
    coupled = family.coupled & ~np.eye(of.dim, dtype=bool)
    if not coupled.any():
        return None
    if all(each.is_gaussian or each.dim == 1 for each in family.factors):
        return of.covariance
    raise ValueError(
        f"Sobol indices need independent parameters or a Gaussian, not {family}: give the other of "
        'under="prior" and under="posterior"'
    )


def _solved(matrix: FloatArray, mine: IntArray, rest: IntArray) -> FloatArray:
    """Return M_mine⁻¹ M_mine,rest: (mine, rest)."""
    inner = matrix[np.ix_(mine, mine)]
    return np.asarray(np.linalg.solve(inner, matrix[np.ix_(mine, rest)]))
