"""Placement of the next runs: one class for each way to place some, and tables of what is due when.

A batch is planned by its stage (`stages.py`): `SIZES` has the number of its runs, `PLACEMENTS` who
places them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution, NormalWhitening, gaussian
from supac.families.gaussian import Gaussian, latin_hypercube
from supac.problem import Batch, Problem, Role
from supac.search.algorithm import DRAW, State
from supac.search.stages import Stage
from supac.search.tuning import PlacementTuning
from supac.surrogate.estimator import NOISY, BatchPlan, RiskModel
from supac.surrogate.regime import Regime

_SAME_DIRECTION = 1e-8  # share of the largest square below which runs differ by rounding


def _nowhere() -> None:
    """Return no minimum beyond the trust region."""


@dataclass(frozen=True, eq=False)
class Site:
    """Hold what the next runs are placed by."""

    problem: Problem
    plan: BatchPlan
    state: State
    model: RiskModel | None = None
    """Model of the risk that the last step was made on."""
    inside: bool = False
    """That step did not meet the limit of the trust region."""
    minimum: Callable[[], FloatArray | None] = _nowhere
    """Compute the minimum that the model sees beyond it, if a run is to test that."""

    @property
    def posterior(self) -> Distribution:
        """Return the posterior that runs are placed around."""
        return self.state.posterior

    @property
    def tuning(self) -> PlacementTuning:
        """Return the numbers of placements."""
        return self.state.tuning.placement

    @cached_property
    def many(self) -> bool:
        """Return True if there are more directions than runs."""
        return Regime.of(self.posterior.dim).is_many

    @cached_property
    def whitening(self) -> NormalWhitening:
        """Return the standard coordinates of the posterior."""
        found = self.posterior.whiten()
        assert isinstance(found, NormalWhitening)
        return found

    @property
    def shift(self) -> float:
        """Return how far the mean has just moved, in standard deviations."""
        return 0.0 if self.state.last_step is None else self.state.last_step.shift

    @cached_property
    def ahead(self) -> FloatArray | None:
        """Return the minimum beyond the trust region, if there is one."""
        return self.minimum()

    @property
    def left_to_linear(self) -> int:
        """Return the number of runs until they determine a linear model and one confirms it."""
        return self.posterior.dim - self.plan.observed + 2 - int(self.state.evaluations.ok.sum())

    @cached_property
    def chooses(self) -> bool:
        """Return True if the model knows enough of the runs to choose points that tell most.

        A noisy simulator is better run where the posterior is: all runs say little, and of the
        noise. Once runs have gone wrong, probes say where others will.
        """
        model = self.model
        if model is None or self.many or not model.explained > self.tuning.explained:
            return False
        return not (model.noise > NOISY or model.severity > 0.0)

    @cached_property
    def probes(self) -> bool:
        """Return True if runs look into the tails.

        Of many parameters they may once all directions are taken, or if runs have gone wrong.
        """
        model = self.model
        if model is None or not self.inside or np.isnan(model.failure_chance(self.posterior)):
            return False
        return not self.many or model.severity > 0.0 or self.left_to_linear <= 0

    def chosen(self, n: int) -> int:
        """Return the number of runs, of a batch of n, that tell most or look into tails."""
        some = n >= self.tuning.chosen_from and (self.chooses or self.probes)
        return max(round(self.plan.probes * n), 1) if some else 0

    @property
    def role_of_draws(self) -> Role:
        """Return the role of draws: those of the start open a beginning."""
        begins = self.state.last_step is None
        at_start = np.array_equal(self.posterior.theta, self.problem.start.theta)
        return Role.OPENING if begins and at_start else Role.DRAW

    def informative(
        self, n: int, given: FloatArray, rng: np.random.Generator, wide: float | None = None
    ) -> FloatArray:
        """Choose n points that tell most about the posterior, beside those given: (n, dim)."""
        assert self.model is not None
        width, size = self.tuning.pool_width if wide is None else wide, self.tuning.pool
        about, pool = (
            self.whitening.spread(factor * latin_hypercube(points, self.posterior.dim, rng))
            for factor, points in ((1.0, size), (width, max(size, 4 * n)))
        )
        return self.model.informative(n, pool, about, given)


@dataclass(frozen=True, eq=False)
class Places:
    """Hold places of runs, their roles, and what they were drawn from if they were."""

    x: FloatArray
    role: Role | Sequence[Role]
    proposal: Distribution | None = None


class Placement(ABC):
    """Place some runs of a batch."""

    def count(self, site: Site, n: int) -> int:
        """Return the number of runs, of a batch of n, that it takes before others."""
        return n

    @abstractmethod
    def place(self, site: Site, n: int, given: FloatArray, rng: np.random.Generator) -> Places:
        """Return n places; the batch has runs at the points that are given as well."""


class Draws(Placement):
    """Draw independent points of the posterior."""

    def place(self, site: Site, n: int, given: FloatArray, rng: np.random.Generator) -> Places:
        """Return the draws."""
        return Places(site.state.draw(n), site.role_of_draws, site.posterior)


class Spread(Placement):
    """Spread points evenly over a posterior that is somewhat widened."""

    def place(self, site: Site, n: int, given: FloatArray, rng: np.random.Generator) -> Places:
        """Return the points, of many parameters turned to new directions."""
        z, width = latin_hypercube(n, site.posterior.dim, rng), site.plan.width
        if site.many:
            z = _towards_new_directions(z, site)
        x = site.whitening.spread(width * z)
        return Places(x, site.role_of_draws, widened(site.posterior, width))


class Narrow(Placement):
    """Begin near the centre, along orthogonal directions of the simulated parameters.

    They are as far away as draws of that width usually are, but no draws. Both ways along each
    direction at most: further points fill a wide Latin hypercube.
    """

    def count(self, site: Site, n: int) -> int:
        """Return all runs of a search that begins narrowly."""
        return n if site.plan.opening else 0

    def place(self, site: Site, n: int, given: FloatArray, rng: np.random.Generator) -> Places:
        """Return the points along directions, then others."""
        plan, dim = site.plan, site.posterior.dim
        simulated = dim - plan.observed
        basis = np.linalg.qr(rng.standard_normal((simulated, simulated)))[0]
        directions = np.concatenate([basis, -basis])[:n]
        z = plan.widest * latin_hypercube(n, dim, rng)
        z[: len(directions)] = 0.0
        z[: len(directions), :simulated] = plan.opening * np.sqrt(simulated) * directions
        narrow = widened(site.posterior, plan.opening)
        return Places(site.whitening.spread(z), Role.NARROW, narrow)


class Around(Placement):
    """Place the mean, and points about as far from it as it has just moved.

    The last `observed` parameters need no run: they have their means, given the others. On the way
    posteriors with them are wide, so that draws say little of the end: where a model can choose,
    those that tell most are taken.
    """

    def place(self, site: Site, n: int, given: FloatArray, rng: np.random.Generator) -> Places:
        """Return the mean first. A run ahead takes the place of the last point, drawn or not."""
        tuning, whitening = site.tuning, site.whitening
        dim, all_of_them = site.posterior.dim, n + Ahead().count(site, n + 1)
        simulated, others = dim - site.plan.observed, all_of_them - 1
        away = tuning.of_shift * site.shift / np.sqrt(simulated)
        middle = np.clip(away, tuning.narrowest, tuning.widest)
        widths = middle * np.resize((tuning.near_side, tuning.far_side), others)
        z = np.zeros((all_of_them, dim))
        z[1:] = widths[:, None] * latin_hypercube(others, dim, rng)
        usual = float(np.sqrt(np.mean(widths**2))) if others else 1.0
        x = whitening.spread(z)
        if site.plan.observed:
            if site.chooses and others:
                x[1:] = site.informative(others, x[:1], site.state.rng(DRAW), usual)
            known, rest = np.split(whitening.covariance[:simulated], [simulated], axis=1)
            moved = x[:, :simulated] - whitening.mean[:simulated]
            x[:, simulated:] = whitening.mean[simulated:] + moved @ np.linalg.solve(known, rest)
        roles = (Role.MEAN, *(Role.BESIDE,) * others)
        return Places(x[:n], roles[:n], widened(site.posterior, usual))


class Ahead(Placement):
    """Run the minimum that the model sees beyond the trust region."""

    def count(self, site: Site, n: int) -> int:
        """Return one, if there is such a minimum."""
        return int(n >= site.tuning.ahead_from and site.ahead is not None)

    def place(self, site: Site, n: int, given: FloatArray, rng: np.random.Generator) -> Places:
        """Return the minimum."""
        assert site.ahead is not None
        return Places(site.ahead[None], Role.AHEAD)


class Directions(Placement):
    """Draw independent points of a posterior of many parameters, about as wide as it has moved.

    A run says something of its own direction alone, and there are more directions than runs: the
    mean would say nothing new, and points of a small Latin hypercube are each other's opposites.
    """

    def place(self, site: Site, n: int, given: FloatArray, rng: np.random.Generator) -> Places:
        """Return the draws."""
        tuning, dim = site.tuning, site.posterior.dim
        width = float(np.clip(tuning.of_shift * site.shift / np.sqrt(dim), 1.0, tuning.widest))
        z = _towards_new_directions(rng.standard_normal((n, dim)), site)
        x = site.whitening.spread(width * z)
        return Places(x, Role.DIRECTION, widened(site.posterior, width))


class Tells(Placement):
    """Run where it tells most about the risk of the posterior."""

    def count(self, site: Site, n: int) -> int:
        """Return the share of a batch, or half of it where others look into tails.

        A cliff that no run has met is only found by looking for it. Of an odd number one more tells
        or looks, by turns.
        """
        chosen, turn = site.chosen(n) if site.chooses else 0, site.state.iteration % 2
        return (chosen + turn) // 2 if site.probes else chosen

    def place(self, site: Site, n: int, given: FloatArray, rng: np.random.Generator) -> Places:
        """Return the points."""
        return Places(site.informative(n, given, rng), Role.TELLS)


class Probes(Placement):
    """Look into the tails, where a run is most likely to fail."""

    def count(self, site: Site, n: int) -> int:
        """Return what is left of the share of a batch."""
        return site.chosen(n) - Tells().count(site, n) if site.probes else 0

    def place(self, site: Site, n: int, given: FloatArray, rng: np.random.Generator) -> Places:
        """Return the points."""
        assert site.model is not None
        return Places(site.model.probes(n, site.posterior, rng), Role.PROBE)


Row = tuple[Placement, ...]
_ROUND_THE_MEAN: Row = (Ahead(), Around())
_ALL_OVER: Row = (Tells(), Probes(), Spread())

PLACEMENTS: dict[Stage, Row] = {
    Stage.OPENING: (Narrow(), Spread()),
    Stage.KNOWN: _ALL_OVER,
    Stage.BEGUN: _ALL_OVER,
    Stage.MOVING: _ROUND_THE_MEAN,
    Stage.SETTLED: _ALL_OVER,
    Stage.RESUMED: _ROUND_THE_MEAN,
    Stage.AGAIN: _ALL_OVER,
    Stage.AFRESH: _ALL_OVER,
}
"""Rows of placements: each takes its count of a batch, and the last, whose runs come first, the
rest."""
PLACEMENTS_OF_MANY = PLACEMENTS | dict.fromkeys((Stage.MOVING, Stage.RESUMED), (Directions(),))
"""Rows for many parameters."""
PLACEMENTS_OF_DRAWS: dict[Stage, Row] = dict.fromkeys(Stage, (Draws(),))
"""Rows for estimators that weigh draws, and for posteriors that are no Gaussians."""


def plan_batch(site: Site, n: int) -> Batch:
    """Place the n runs of the next batch."""
    *others, rest = _row(site)
    state, rng = site.state, site.state.rng(DRAW)
    counts = [each.count(site, n) for each in others]
    made: list[Places] = []
    for placement, count in zip((rest, *others), (n - sum(counts), *counts), strict=True):
        if count:
            given = np.concatenate([each.x for each in made]) if made else np.empty((0, 0))
            made.append(placement.place(site, count, given, rng))
    roles = [np.broadcast_to(np.asarray(each.role, dtype=np.intp), len(each.x)) for each in made]
    proposal = next((each.proposal for each in made if each.proposal is not None), site.posterior)
    x = np.concatenate([each.x for each in made])
    return Batch.of(x, proposal, np.concatenate(roles), state.iteration)


def _row(site: Site) -> Row:
    if not (site.plan.latin and isinstance(site.posterior.whiten(), NormalWhitening)):
        return PLACEMENTS_OF_DRAWS[site.state.stage]
    return (PLACEMENTS_OF_MANY if site.many else PLACEMENTS)[site.state.stage]


def _first(site: Site, batch: int | None) -> int:
    return site.plan.first


def _usual(site: Site, batch: int | None) -> int:
    return batch or _to_linear(site, site.plan.batch)


def _small(site: Site, batch: int | None) -> int:
    return batch or _to_linear(site, site.plan.few)


def _to_linear(site: Site, size: int) -> int:
    """Return the size, of many parameters up to where runs confirm a linear model if that is near.

    There a batch ends.
    """
    ends = site.many and site.plan.few and 0 < site.left_to_linear < site.tuning.stretch * size
    return site.left_to_linear if ends else size


SIZES: dict[Stage, Callable[[Site, int | None], int]] = {
    Stage.OPENING: _first,
    Stage.KNOWN: _usual,
    Stage.BEGUN: _usual,
    Stage.MOVING: _small,
    Stage.SETTLED: _usual,
    Stage.RESUMED: _small,
    Stage.AGAIN: _usual,
    Stage.AFRESH: _first,
}
"""Number of runs of a batch, where the user may have chosen one."""


def batch_size(site: Site, batch: int | None = None) -> int:
    """Return the size of the next batch; `batch` is that of later ones, if it was chosen."""
    return SIZES[site.state.stage](site, batch)


def _towards_new_directions(z: FloatArray, site: Site) -> FloatArray:
    """Turn draws z (n, dim) of many parameters towards directions that no run has taken yet.

    With k directions taken, dim/(dim + k) of each, by its square, lies in a new direction, at right
    angles to those of the others; its length is the usual one of a draw. The more directions are
    known, the shorter is what independent draws have in the others, so that the last ones would
    hardly be seen in twice as many runs as parameters. The points count as drawn: the trial of a
    step needs them.
    """
    (n, dim), runs = z.shape, site.state.evaluations
    known = site.whitening.points(runs.x[runs.ok])
    if not site.tuning.new_directions or not 1 < len(known) <= dim:
        return z
    known = known - known.mean(axis=0)
    squares, vectors = np.linalg.eigh(known @ known.T)
    kept = squares > _SAME_DIRECTION * squares[-1]
    taken = (known.T @ vectors[:, kept]) / np.sqrt(squares[kept])
    new = min(n, dim - taken.shape[1])
    along = (z[:new] @ taken) @ taken.T
    across, triangle = np.linalg.qr((z[:new] - along).T)
    across *= np.sign(np.diagonal(triangle))  # as the draws have them
    turned = along + np.sqrt(dim) * across.T
    turned *= np.sqrt(dim) / np.linalg.norm(turned, axis=1, keepdims=True)
    return np.concatenate([turned, z[new:]])


def widened(posterior: Distribution, factor: float) -> Distribution:
    """Return a Gaussian with a wider covariance, of the same family if that contains it."""
    if factor == 1.0:
        return posterior
    if isinstance(posterior.family, Gaussian):
        return posterior.at(posterior.theta / factor**2)  # which is Pμ and P, but for signs
    mean, covariance = posterior.family.moments(posterior.theta)
    wide = posterior.at(posterior.exponential.from_moments(mean, factor**2 * covariance))
    if np.allclose(wide.covariance, factor**2 * covariance, rtol=1e-9, atol=0.0):
        return wide
    return gaussian(mean, factor**2 * covariance)
