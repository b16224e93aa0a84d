"""The paper's generation-agnostic weights: the mass of each point's Voronoi cell."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.codec import register
from supac.families import Distribution
from supac.problem import Evaluations, Problem
from supac.surrogate.estimator import BatchPlan, Context, Estimator, RiskModel, Surrogate
from supac.surrogate.least_squares import project
from supac.surrogate.nearest import search_all, search_graph
from supac.surrogate.reuse import reused_counts


@register
@dataclass(frozen=True)
class Voronoi(Estimator):
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
        return _plan(problem.start.family.size)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> NearestNeighbours:
        """Return the nearest-neighbour predictor, which does not depend on `current`."""
        runs = evaluations.usable((context or Context()).failure_risk)
        return NearestNeighbours(runs.x, runs.risk, self)


@register(later=("leave_one_out",))
@dataclass(frozen=True)
class ReusedVoronoi(Estimator):
    """Weight as `Voronoi` does, in a fraction of the time in a long search.

    Draws of earlier posteriors count by their importance, each in the metric that it was drawn in
    and compared with new evaluations alone; fresh ones are added until all are worth `draws`, in
    pairs on both sides of the mean, which one product serves. That is for Gaussians; of other
    distributions all draws are fresh, and independent. `leave_one_out=False` leaves the error of
    predicting each run from the others unknown, `Info.loo_error`, for many small searches.
    """

    draws: int = 40_000
    leave_one_out: bool | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        Voronoi(draws=self.draws)  # raises if they are none

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return batches as `Voronoi` wants them."""
        return _plan(problem.start.family.size)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> NearestNeighbours:
        """Return the nearest-neighbour predictor, which does not depend on `current`."""
        runs = evaluations.usable((context or Context()).failure_risk)
        one = all(each is current.family or each == current.family for each in runs.families)
        rule, history = Voronoi(draws=self.draws), runs if one else None
        return NearestNeighbours(runs.x, runs.risk, rule, history, self.leave_one_out is not False)


@dataclass(frozen=True, eq=False)
class NearestNeighbours(RiskModel):
    """Predict the mean risk of the k nearest evaluations, in the metric of any distribution."""

    x: FloatArray
    risk: FloatArray
    rule: Voronoi
    history: Evaluations | None = None
    """The runs with the distributions that they were drawn from, if draws of these are reused."""
    leave_one_out: bool = True

    def weights(self, at: Distribution, rng: np.random.Generator) -> FloatArray:
        """Estimate the mass of each evaluation's cell: (n,), summing to one."""
        whitening = at.whiten()
        if self.history is not None and whitening.normal is not None:
            found, repeated = reused_counts(self.history, self.rule.draws, whitening.normal)
            if not repeated:
                return found / found.sum()
            _, which, copies = distinct(self.x)
            shared = np.bincount(which, found)
            return (shared / shared.sum() / copies)[which]
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
        weights = self.weights(at, rng)
        return project(self.x, self.risk, weights, at, leave_one_out=self.leave_one_out)


@cache
def _plan(size: int) -> BatchPlan:
    return replace(BatchPlan.determining_size(size), uses_known=True)


def _points_of_draws(at: Distribution, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw n points in whitened coordinates, directly if the distribution is a Gaussian."""
    whitening = at.whiten()
    if whitening.normal is not None:
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
