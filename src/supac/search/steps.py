"""Steps: how far they go, and the descent that they make up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Protocol

import numpy as np

from supac.arrays import FloatArray, positive
from supac.codec import register
from supac.families import Distribution, Family
from supac.families.gaussian import Gaussian, GaussianFamily
from supac.problem import Evaluations, Problem
from supac.search.ray import LocalPrior, ray_minimiser, view_prior
from supac.surrogate.estimator import MANY_PARAMETERS, NOISY, RiskModel, Surrogate

INSIDE = 0.97
"""Share of the radius within which a step did not meet the limit of the trust region."""
_SETTLED, _PATIENCE = 0.02, 3  # nats that a few updates must gain to be worth another
_ALPHA_OF_MANY = 0.8  # share of the way to the minimiser of an update of many parameters
_UPDATES = 25  # of observation parameters alone
_LEAP = 2.0  # nats a parameter by which one of these may move them: a projection is local
_FARTHER = 16.0  # times the usual largest radius
_UNLIMITED = 1e3  # nats
_WORTHWHILE = 3.0  # nats that make a run ahead of a step worth its while
_BEYOND = 2.0  # standard deviations: how much farther than usual a draw of the start may be
_SHORTEST = 1e-4  # share of the way to the minimiser that is not worth trying
_MOST_EXCLUDED = 0.3  # share of a batch that may be outliers without the step being to blame


@dataclass(frozen=True)
class Step:
    """Hold the posterior at θ + α(target − θ)."""

    posterior: Distribution
    alpha: float
    kl: float
    """KL(new, anchor)."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Compare a fresh batch with the prediction of the step that it was drawn after."""

    gain: float
    """Predicted decrease of the bound, positive."""
    residual: FloatArray
    """Risk minus prediction of each run that is no outlier."""
    ahead: float = 0.0
    """Realised over predicted decrease of a run beyond the step; 0 if there was none."""

    @classmethod
    def of(
        cls,
        batch: Evaluations,
        expected: FloatArray | None,
        gain: float,
        threshold: float,
        *,
        ahead: bool = False,
    ) -> Trial | None:
        """Return the trial by a batch, or None if nothing was predicted or too few runs are left.

        Runs that failed or exceed their prediction by `threshold` are excluded, unless many do.
        The first run is at the mean; if the batch looked `ahead`, the one that is no draw did so.
        """
        if expected is None or not gain > 0.0:
            return None
        drawn = batch.drawn & np.isfinite(batch.risk)
        residual = (batch.risk - expected)[drawn]
        usual = batch.ok[drawn] & (residual <= threshold)
        if usual.sum() >= (1.0 - _MOST_EXCLUDED) * len(usual):
            residual = residual[usual]
        if not len(residual):
            return None
        return cls(gain, residual, _confirmed_ahead(batch, expected) if ahead else 0.0)

    @property
    def shortfall(self) -> float:
        """Compute the excess of the mean risk over its prediction.

        The prediction is a control variate: its own spread over the batch cancels.
        """
        return float(self.residual.mean())

    @property
    def error(self) -> float:
        """Compute the standard error of the shortfall; of one run, its size: it may be chance."""
        if len(self.residual) == 1:
            return abs(self.shortfall)
        return float(self.residual.std() / np.sqrt(len(self.residual)))

    @property
    def ratio(self) -> float:
        """Compute realised over predicted decrease."""
        return (self.gain - self.shortfall) / self.gain


def _confirmed_ahead(batch: Evaluations, expected: FloatArray) -> float:
    """Compute which share of the decrease predicted beyond the mean the run ahead has shown."""
    rows = np.flatnonzero(~batch.drawn & batch.ok)
    if not len(rows):
        return 0.0
    promised = float(expected[0] - expected[rows[-1]])
    return float(expected[0] - batch.risk[rows[-1]]) / promised if promised > 0.0 else 0.0


@dataclass(frozen=True)
class RadiusUpdate:
    """Limit the next step to a radius, and take the last one back if it is rejected."""

    radius: float
    rejected: bool = False


class StepRule(Protocol):
    """Decide the length of the step from `current` towards `target`.

    Optional: `validation(budget)` returns the queries to keep for checking the last posterior,
    `scaled(dim, simulated)` the rule for `dim` parameters of which as many are simulated.
    """

    def update_radius(self, radius: float | None, trial: Trial | None) -> RadiusUpdate:
        """Return the radius that follows `radius` after a trial; both are None at first."""

    def move(
        self, current: Distribution, target: FloatArray, anchor: Distribution, radius: float
    ) -> Step:
        """Make the step, with KL(new, anchor) ≤ radius."""


@register
@dataclass(frozen=True)
class FixedStep:
    """Make the largest step α ≤ alpha_max with KL(θ + αδ, anchor) ≤ kl_max, δ = target − θ.

    This is the paper's rule, with θ as anchor; KL then grows along the way. Around another anchor
    the α found is allowed, but a larger one may be as well.
    """

    alpha_max: float = 0.5
    kl_max: float = 1.0

    def __post_init__(self) -> None:
        _check_alpha(self.alpha_max, "alpha_max")
        if self.kl_max != np.inf:
            positive(self.kl_max, "kl_max")

    def update_radius(self, radius: float | None, trial: Trial | None) -> RadiusUpdate:
        """Return `kl_max`, whatever the last step gained."""
        return RadiusUpdate(self.kl_max)

    def move(
        self,
        current: Distribution,
        target: FloatArray,
        anchor: Distribution,
        radius: float | None = None,
    ) -> Step:
        """Make the step, which stays in Θ: outside, KL is infinite."""
        kl_max = self.kl_max if radius is None else radius
        return _largest_step(current, target, anchor, self.alpha_max, kl_max)


@register(later=("far", "simulated"))
@dataclass(frozen=True)
class TrustRegion:
    """Adapt a radius in KL to the accuracy of the surrogate's predictions.

    After each step a fresh batch is drawn from the new posterior anyway, and shows how far the
    surrogate is valid. If its risks confirm more than `enough` of the predicted decrease the radius
    doubles, up to `most`, and up to `far` as long as the decrease is as predicted, no more either:
    on long ways a narrow posterior moves by few of its own standard deviations a nat. It is `most`
    at once if a run ahead, where the surrogate sees the minimum, confirms it. If they confirm less
    than `too_little`, and not by chance, it halves. A step is taken back if the bound
    rose by more than its standard error and the risks exceed their predictions by more than two.
    """

    alpha: float = 0.5
    start: float = 2.0
    least: float = 0.25
    most: float = 8.0
    too_little: float = 0.3
    enough: float = 0.7
    far: float | None = field(default=None, repr=False)
    """Largest radius after steps that gained what was predicted; None for 16 times `most`."""
    simulated: int | None = field(default=None, repr=False)
    """Number of parameters, the first ones, whose KL the radius limits; None for all."""

    def __post_init__(self) -> None:
        _check_alpha(self.alpha, "alpha")
        far = self.most if self.far is None else self.far
        if not 0.0 < self.least <= self.start <= self.most <= far < np.inf:
            raise ValueError(
                "least, start, most and far must be positive and in this order, not "
                f"{self.least!r}, {self.start!r}, {self.most!r}, {self.far!r}"
            )
        if not 0.0 <= self.too_little < self.enough <= 1.0:
            raise ValueError(
                "too_little and enough must be shares of the predicted decrease, the first the "
                f"smaller, not {self.too_little!r} and {self.enough!r}"
            )

    def scaled(self, dim: int, simulated: int) -> TrustRegion:
        """Return the rule for `dim` parameters, of which as many are `simulated`.

        Nothing limits how far the others may move: what they do is known. KL adds up over many
        directions. A projection of many parameters takes longer, so each goes a larger share of
        the way.
        """
        rule = self if simulated == dim else replace(self, simulated=simulated)
        if dim <= MANY_PARAMETERS:
            return rule
        return replace(
            rule,
            alpha=max(self.alpha, _ALPHA_OF_MANY),
            start=max(self.start, dim / 16.0),
            least=max(self.least, dim / 32.0),
            most=max(self.most, dim / 2.0),
            far=max(self.far or 0.0, self.most, dim / 2.0),
        )

    def validation(self, budget: int) -> int:
        """Return the number of queries to keep for checking the last posterior."""
        return min(max(budget // 5, min(budget // 4, 20)), 60)

    def update_radius(self, radius: float | None, trial: Trial | None) -> RadiusUpdate:
        """Increase, halve or keep the radius; take back a step that made things worse."""
        radius = self.start if radius is None else radius
        if trial is None:
            return RadiusUpdate(radius)
        shortfall, error = trial.shortfall, trial.error
        confirmed = abs(1.0 - trial.ratio) < 1.0 - self.enough
        usual = min(radius, self.most)
        if confirmed and radius >= self.most:
            radius = min(2.0 * radius, _FARTHER * self.most if self.far is None else self.far)
        elif trial.ratio > self.enough:
            radius = min(2.0 * usual, self.most)
        elif trial.ratio < self.too_little and shortfall > error:
            radius = max(0.5 * usual, self.least)
        else:
            radius = usual
        rise = shortfall - trial.gain
        rejected = rise > error and shortfall > 2.0 * error
        if trial.ahead > self.enough and not rejected:
            radius = max(radius, self.most)
        return RadiusUpdate(radius, rejected)

    def move(
        self, current: Distribution, target: FloatArray, anchor: Distribution, radius: float
    ) -> Step:
        """Go at most the share `alpha` of the way, within the radius around the anchor."""
        return _largest_step(current, target, anchor, self.alpha, radius, self.simulated)


def _check_alpha(alpha: float, name: str) -> None:
    if not 0.0 < alpha <= 1.0:
        raise ValueError(f"{name} must be in (0, 1], not {alpha!r}")


def _largest_step(
    current: Distribution,
    target: FloatArray,
    anchor: Distribution,
    alpha_max: float,
    kl_max: float,
    first: int | None = None,
) -> Step:
    """Make the largest step with KL(new, anchor) ≤ kl_max, of the `first` parameters if given."""
    theta, delta = current.theta, target - current.theta
    family = current.family
    divergence: Callable[[FloatArray, FloatArray], float] = family.kl
    if first is not None and isinstance(family, GaussianFamily):
        divergence = partial(family.kl_of_first, first)

    if not np.isfinite(delta).all():
        return Step(current, 0.0, divergence(theta, anchor.theta))

    @cache
    def kl(alpha: float) -> float:
        with np.errstate(all="ignore"):  # far outside Θ numbers overflow, and that is an answer
            value = divergence(theta + alpha * delta, anchor.theta)
        return value if value >= 0.0 else np.inf

    limit = min(kl_max, np.finfo(float).max)
    alpha = alpha_max
    if not kl(alpha) <= limit:
        # α ↦ KL(θ + αδ, θ) is increasing; x/(x + limit) keeps it so, and finite outside Θ. The
        # halving finds the scale, however far the target is.
        while alpha > 0.0 and not kl(alpha) <= limit:
            alpha *= 0.5
        from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

        # To the last digit where KL is exact, roughly where it is estimated or takes long.
        exact = isinstance(current.family, Family) and current.dim <= MANY_PARAMETERS
        precision = 1e-15 if exact else 1e-3
        # KL grows like α²; a root that is nearly straight takes fewer steps.
        power = 1.0 if current.dim <= MANY_PARAMETERS else 0.5
        root = brentq(
            lambda a: _share(kl(a) ** power, limit**power) - 0.5,
            alpha,
            2.0 * alpha,
            xtol=1e-300,
            rtol=max(precision, 4.0 * np.finfo(float).eps),
        )
        slack = precision
        while not kl(root) <= limit and root > alpha:  # the root is only known to rounding
            root, slack = root * (1.0 - slack), 2.0 * slack
        alpha = max(float(root), alpha)
    return Step(current.at(theta + alpha * delta), alpha, kl(alpha))


def _share(kl: float, limit: float) -> float:
    return kl / (kl + limit) if np.isfinite(kl) else 1.0


@dataclass(frozen=True, eq=False)
class Visit:
    """Hold the surrogate at a posterior, and the minimiser of the bound on it."""

    posterior: Distribution
    kl_from_start: float
    surrogate: Surrogate
    prior: LocalPrior
    target: FloatArray
    kl: float
    objective: float


@dataclass(frozen=True, eq=False)
class SurrogateBound:
    """Bound the modelled risk at any posterior."""

    problem: Problem
    model: RiskModel
    rng: np.random.Generator
    common: int
    """Seed of draws that all visits share, so that their differences have no noise."""

    def at(self, posterior: Distribution, kl_from_start: float) -> Visit:
        """Approximate the risk by its projection, then solve for the minimiser (Algorithm 1)."""
        surrogate = self.model.project(posterior, self.rng)
        prior = view_prior(self.problem.prior, posterior, self.common)
        minimiser = ray_minimiser(self.problem.bound, surrogate, prior)
        target = posterior.family.aim(posterior.theta, minimiser)
        kl = prior.kl(posterior.theta)
        objective = self.problem.bound(surrogate.mean, kl)
        return Visit(posterior, kl_from_start, surrogate, prior, target, kl, objective)

    def settle(self, here: Visit, simulated: int | None, little: float) -> Visit:
        """Improve the observation parameters given the others, whose marginal stays as it is.

        What they do is known, so that nothing limits them but the reach of one projection, and no
        run tests what they gain. Stop where a few updates gain less than `little`.
        """
        family, share, gains = here.posterior.family, 1.0, [np.inf] * _PATIENCE
        if simulated is None or not isinstance(family, Gaussian):
            return here
        leap = _LEAP * (family.dim - simulated)
        for _ in range(_UPDATES):
            if share < _SHORTEST or sum(gains[-_PATIENCE:]) < little:
                break
            theta = here.posterior.theta
            aim = theta + share * (here.target - theta)
            with np.errstate(all="ignore"):  # far away numbers overflow, and that is an answer
                new = family.with_marginal(simulated, aim, theta)
                there = here
                if new is not None and family.kl(new, theta) < leap:
                    there = self.at(here.posterior.at(new), here.kl_from_start)
            if not here.objective - there.objective > 0.0:
                share *= 0.25
                continue
            gains.append(here.objective - there.objective)
            here, share = there, min(2.0 * share, 1.0)
        return here


@dataclass(frozen=True, eq=False)
class Descent:
    """Hold the ends of the updates of one round."""

    first: Visit
    last: Visit
    alpha: float
    """Share of the way to the minimiser of the last update."""
    settled: Visit | None = None
    """The first, with the best observation parameters: that these gain needs no trial."""

    @property
    def gain(self) -> float:
        """Return the predicted decrease of the bound that runs are to confirm."""
        return (self.settled or self.first).objective - self.last.objective


def descend(
    bound: SurrogateBound,
    step_rule: StepRule,
    start: Distribution,
    radius: float,
    inner: int,
    resolution: float,
) -> Descent:
    """Make up to `inner` updates on the model's projections, within the radius around `start`."""
    here = bound.at(start, 0.0)
    if inner == 1:
        step = step_rule.move(start, here.target, start, radius)
        theta = step.posterior.theta
        predicted = bound.problem.bound(here.surrogate.mean_under(theta), here.prior.kl(theta))
        # The paper's single update: the surrogate of the start predicts its end.
        there = replace(here, posterior=step.posterior, kl_from_start=step.kl, objective=predicted)
        return Descent(here, there, step.alpha)
    first, share, alpha = here, 1.0, 0.0
    gains: list[float] = []
    little = _SETTLED * max(1.0, start.dim / MANY_PARAMETERS) * resolution
    simulated = getattr(step_rule, "simulated", None)
    here = settled = bound.settle(here, simulated, little)
    for _ in range(inner):
        theta = here.posterior.theta
        target = theta + share * (here.target - theta)
        step = step_rule.move(here.posterior, target, start, radius)
        there = bound.at(step.posterior, step.kl)
        gain = here.objective - there.objective
        if not gain > 0.0:
            # Too far: the projection is only valid around where it was made.
            share *= 0.5 * step.alpha
            if share < _SHORTEST:
                break
            continue
        gains.append(gain)
        here, alpha, share = there, step.alpha * share, min(2.0 * share, 1.0)
        # Short steps gain little wherever they are: only half of the way or more tells the end.
        if share == 1.0 and sum(gains[-_PATIENCE:]) < little and len(gains) >= _PATIENCE:
            break
        if step.kl > INSIDE * radius:
            break
    return Descent(first, bound.settle(here, simulated, little), alpha, settled)


def minimum_ahead(
    bound: SurrogateBound, step_rule: StepRule, end: Distribution, inner: int, resolution: float
) -> FloatArray | None:
    """Return the mean where the model sees the minimum beyond the trust region: (dim,).

    None if nothing is to be gained there, if that is farther away than draws of the start ever are,
    or if one run would not tell: of a noisy simulator, or of the risk alone.
    """
    noisy = getattr(bound.model, "noise", 0.0) > NOISY
    if noisy or end.dim > MANY_PARAMETERS or bound.problem.loss is None:
        return None
    with np.errstate(all="ignore"):  # far away numbers overflow, and nothing is gained there
        descent = descend(bound, step_rule, end, _UNLIMITED, inner, resolution)
    mean = descent.last.posterior.mean
    distance = float(np.linalg.norm(bound.problem.start.whiten().points(mean[None])))
    near = distance < np.sqrt(end.dim) + _BEYOND
    return mean if near and descent.gain > _WORTHWHILE * resolution else None
