"""The paper's generation-agnostic weights: the mass of each point's Voronoi cell."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from supac.arrays import FloatArray, IntArray
from supac.codec import register
from supac.families import Distribution, NormalWhitening
from supac.problem import Evaluations, Problem
from supac.surrogate.estimator import BatchPlan, Context, Surrogate
from supac.surrogate.least_squares import project

Float32Array = npt.NDArray[np.float32]

_ROWS = 64  # draws at a time: enough for the matrix product, few enough for a core's cache


@register
@dataclass(frozen=True)
class Voronoi:
    """Weight each evaluation by the mass that a distribution gives to its Voronoi cell.

    The mass is estimated from `draws` draws, each shared by its `k` nearest evaluations in the
    distribution's own metric (Mahalanobis' for Gaussians): the distribution is replaced by its mass
    on the points already evaluated. `approximate=True` searches with a graph index of faiss (extra
    `search`); up to some 30,000 evaluations the exhaustive search is faster.
    """

    k: int = 1
    draws: int = 40_000
    approximate: bool = False

    def __post_init__(self) -> None:
        if self.k < 1 or self.draws < 1:
            raise ValueError(f"k and draws must be at least 1, not {self.k!r} and {self.draws!r}")

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return batches that determine the fit; cells need no proposal, so known runs are used."""
        return replace(BatchPlan.determining(problem), uses_known=True)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> NearestNeighbours:
        """Return the nearest-neighbour predictor, which does not depend on `current`."""
        runs = evaluations.usable((context or Context()).failure_risk)
        return NearestNeighbours(runs.x, runs.risk, self)


@dataclass(frozen=True, eq=False)
class NearestNeighbours:
    """Predict the mean risk of the k nearest evaluations, in the metric of any distribution."""

    x: FloatArray
    risk: FloatArray
    rule: Voronoi

    def weights(self, at: Distribution, rng: np.random.Generator) -> FloatArray:
        """Estimate the mass of each evaluation's cell: (n,), summing to one."""
        whitening = at.whiten()
        different, which, copies = distinct(self.x)
        points = whitening.points(different).astype(np.float32)
        draws = _points_of_draws(at, self.rule.draws, rng).astype(np.float32)
        k = min(self.rule.k, len(points))
        search = search_graph if self.rule.approximate else search_all
        nearest = search(points, draws, k)
        counts = np.bincount(nearest[nearest >= 0], minlength=len(points))
        return (counts / counts.sum() / copies)[which]

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Solve weighted least squares with the masses of the cells."""
        return project(self.x, self.risk, self.weights(at, rng), at)


def _points_of_draws(at: Distribution, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw n points in whitened coordinates, directly if the distribution is a Gaussian."""
    whitening = at.whiten()
    if isinstance(whitening, NormalWhitening):
        return rng.standard_normal((n, at.dim))
    return whitening.points(at.sample(n, rng))


def distinct(x: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the distinct points, the index of each row among them, and their multiplicities.

    Repeated points have one cell, which they share. Draws rarely repeat even one coordinate, and
    sorting one is ten times cheaper than sorting rows.
    """
    if len(np.unique(x[:, 0])) == len(x):
        return x, np.arange(len(x)), np.ones(len(x), np.intp)
    return np.unique(x, axis=0, return_inverse=True, return_counts=True)


def search_all(points: Float32Array, draws: Float32Array, k: int) -> IntArray:
    """Find the k points nearest to each draw by exhaustive search: indices (m, k).

    |p − y|² is smallest for the largest y·p − |p|²/2; the second term is one more coordinate of
    the matrix product.
    """
    n, dim = points.shape
    lifted = np.empty((dim + 1, n), np.float32)
    lifted[:-1] = points.T
    lifted[-1] = -0.5 * np.einsum("ij,ij->i", points, points)
    lifted_draws = np.ones((len(draws), dim + 1), np.float32)
    lifted_draws[:, :-1] = draws
    nearest = np.empty((len(draws), k), np.intp)
    buffer = np.empty((_ROWS, n), np.float32)
    for start in range(0, len(draws), _ROWS):
        block = lifted_draws[start : start + _ROWS]
        closeness = np.matmul(block, lifted, out=buffer[: len(block)])
        if k == 1:
            nearest[start : start + _ROWS, 0] = closeness.argmax(axis=1)
        else:
            nearest[start : start + _ROWS] = np.argpartition(closeness, n - k, axis=1)[:, n - k :]
    return nearest


def search_graph(points: Float32Array, draws: Float32Array, k: int) -> IntArray:
    """Find about the k points nearest to each draw with faiss's HNSW graph: indices (m, k).

    −1 marks a neighbour that was not found.
    """
    try:
        import faiss  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "Voronoi(approximate=True) needs faiss: pip install 'supac[search]'"
        ) from error
    index = faiss.IndexHNSWFlat(points.shape[1], 32)
    index.add(points)
    found: IntArray = index.search(draws, k)[1].astype(np.intp)
    return found
