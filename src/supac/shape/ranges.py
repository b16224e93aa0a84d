"""Check whether a posterior covers what the data leave open, by the model of the risk, at no run.

A Gaussian that has to stay on a curved ridge is short: its ranges are local. The data leave open
what the minimiser over all distributions covers, and where its Laplace approximation, from the
curvature of the modelled risk at the posterior's mean, is no wider than the posterior, no particles
of it are needed to see that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from supac.arrays import FloatArray
from supac.families import Distribution, gaussian
from supac.problem import Function
from supac.problem.bounds import Bound, trade_off
from supac.shape.particles import sample_around

CLEARLY = 1.33
"""Times that a standard deviation must be larger to be told."""
_LAPLACE = 1.2  # times that the Laplace approximation must be wider to look closer
_STEP = 0.3  # of its differences, in standard deviations of the posterior
_PARTICLES, _DRAWS = 500, 200
_FLAT = 1e-6  # variance in those of the posterior below which particles are all in a plane
_UNKNOWN = 0.5  # nats of doubt at the most doubtful twentieth: the runs do not reach so far
_WIDEST = 1e3  # times that a combination is said to be wider at most
_PARTS = 3  # parameters that are named in a combination
_SHARE = 0.05  # of a combination, from which on a parameter is named


@dataclass(frozen=True, eq=False)
class RangeCheck:
    """Hold by how much the data leave more open than a posterior covers, as the model has it.

    Standard deviations are compared, in latent coordinates.
    """

    wider: FloatArray
    """Times that each parameter's should be wider: (dim,)."""
    factors: FloatArray
    """Factors of the combinations that are clearly too narrow, the worst first: (k,)."""
    combinations: FloatArray
    """Their coefficients, in prior standard deviations; squares sum to 1: (k, dim)."""
    unknown: bool = False
    """True if runs do not reach as far: the model guesses, and more may be open."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeCheck):
            return NotImplemented
        arrays = ("wider", "factors", "combinations")
        alike = all(np.array_equal(getattr(self, each), getattr(other, each)) for each in arrays)
        return alike and self.unknown == other.unknown

    def __hash__(self) -> int:
        return hash((self.wider.tobytes(), self.unknown))

    @property
    def local(self) -> bool:
        """True if ranges hold near the posterior alone."""
        return bool(len(self.factors))

    def words(self, names: Sequence[str], most: int = 2) -> str:
        """Name the combinations that are too narrow, with their factors."""
        told = [
            f"{_combination(each, names)} (about {factor:.2g} times as wide)"
            for each, factor in zip(self.combinations[:most], self.factors[:most], strict=True)
        ]
        left = len(self.factors) - most
        return " and ".join([*told, *([f"{left} more"] if left > 0 else [])])


def _combination(coefficients: FloatArray, names: Sequence[str]) -> str:
    """Return the largest parts of a combination, such as `a − b`, the first with a plus."""
    largest = np.argsort(-np.abs(coefficients), kind="stable")[:_PARTS]
    first, *others = largest.tolist()
    named = [first, *(i for i in others if coefficients[i] ** 2 >= _SHARE)]
    alike = coefficients * coefficients[first] > 0.0
    words = "".join(f" {'+' if alike[i] else '−'} {names[i]}" for i in named)
    return words.removeprefix(" + ")


def check_ranges(
    posterior: Distribution,
    risk: Function,
    prior: Distribution,
    bound: Bound,
    rng: np.random.Generator,
    doubt: Callable[[FloatArray], FloatArray | None] = lambda x: None,
) -> RangeCheck:
    """Compare a posterior with the minimiser of the bound under a modelled risk.

    `doubt` is the part of the risk
    that is not what the runs say but what they do not: where it ends the particles, they are drawn
    without it.
    """
    dim, root = posterior.dim, np.asarray(np.linalg.cholesky(posterior.covariance), np.float64)
    passed = RangeCheck(np.ones(dim), np.empty(0), np.empty((0, dim)))
    if posterior.family.mixture is None:
        mean_risk = float(np.median(risk(posterior.sample(_DRAWS, rng))))
        beta = trade_off(bound, mean_risk, max(posterior.divergence(prior, 0).value, 0.0))
        curvature = beta * _hessian(risk, posterior.mean, root)
        curvature += root.T @ np.linalg.inv(prior.covariance) @ root
        if np.linalg.eigvalsh(curvature)[0] > _LAPLACE**-2.0:
            return passed
    first = sample_around(risk, prior, bound, posterior, _PARTICLES, rng)
    x, blind = first.x, doubt(first.x)
    unknown = blind is not None and bool(first.beta * np.quantile(blind, 0.95) > _UNKNOWN)
    if unknown:

        def bare(x: FloatArray) -> FloatArray:
            blind = doubt(x)
            return risk(x) if blind is None else risk(x) - blind

        about = gaussian(x.mean(axis=0), _spread(x, posterior.covariance))
        x = sample_around(bare, prior, bound, about, _PARTICLES, rng).x
    return _compared(posterior, root, x, prior, unknown=unknown)


def _spread(x: FloatArray, own: FloatArray) -> FloatArray:
    """Return the covariance of particles, with some of the posterior's where few are different."""
    found = np.atleast_2d(np.cov(x.T))
    scale = np.sqrt(np.diag(own))
    flat = np.linalg.eigvalsh(found / scale / scale[:, None])[0] < _FLAT
    return found + _FLAT * own if flat else found


def _compared(
    posterior: Distribution,
    root: FloatArray,
    x: FloatArray,
    prior: Distribution,
    *,
    unknown: bool,
) -> RangeCheck:
    """Compare the spread of particles x with that of a posterior, of covariance root·rootᵀ."""
    white = solve_triangular(root, (x - x.mean(axis=0)).T, lower=True)
    squares, vectors = np.linalg.eigh(white @ white.T / (len(x) - 1))
    factors = np.minimum(np.sqrt(np.maximum(squares[::-1], 0.0)), _WIDEST)
    clear = factors >= CLEARLY
    along = (root @ vectors[:, ::-1][:, clear]).T / np.sqrt(np.diag(prior.covariance))
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    own = np.sqrt(np.diag(posterior.covariance))
    wider = np.clip(x.std(axis=0, ddof=1) / own, 1.0, _WIDEST)
    return RangeCheck(wider if clear.any() else np.ones(len(own)), factors[clear], along, unknown)


def _hessian(risk: Function, centre: FloatArray, root: FloatArray) -> FloatArray:
    """Compute ∂²risk/∂z² at z = 0 of x = centre + root·z, by central differences: (dim, dim)."""
    dim = len(centre)
    rows, columns = np.tril_indices(dim)
    first, second = _STEP * np.eye(dim)[rows], _STEP * np.eye(dim)[columns]
    points = [first + second, first - second, second - first, -first - second]
    values = risk(centre + np.concatenate(points) @ root.T).reshape(4, -1)
    mixed = (values[0] - values[1] - values[2] + values[3]) / (4.0 * _STEP**2)
    hessian = np.zeros((dim, dim))
    hessian[rows, columns] = hessian[columns, rows] = mixed
    return hessian
