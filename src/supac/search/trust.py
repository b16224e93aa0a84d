"""Trust: how far a step goes, and what its runs say of it afterwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np

from supac.arrays import FloatArray, positive
from supac.codec import register
from supac.families import Distribution
from supac.families.gaussian import GaussianFamily
from supac.problem import Batch, Evaluations, Role
from supac.search.algorithm import LastStep
from supac.search.tuning import DEFAULT, TrustTuning
from supac.surrogate.regime import Regime


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
        runs: Evaluations,
        gain: float,
        threshold: float,
        tuning: TrustTuning = DEFAULT.trust,
    ) -> Trial | None:
        """Return the trial by the runs of a step; None if nothing was predicted or few are left.

        Runs that failed or exceed their prediction by `threshold` are excluded, unless many do.
        """
        if not np.isfinite(runs.expected).all() or not gain > 0.0:
            return None
        drawn = runs.drawn & np.isfinite(runs.risk)
        residual = (runs.risk - runs.expected)[drawn]
        usual = runs.ok[drawn] & (residual <= threshold)
        if usual.sum() >= (1.0 - tuning.excluded) * len(usual):
            residual = residual[usual]
        if not len(residual):
            return None
        return cls(gain, residual, _confirmed_ahead(runs))

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


def _confirmed_ahead(runs: Evaluations) -> float:
    """Compute which share of the decrease predicted beyond the mean the run ahead has shown."""
    ahead = runs.select((runs.role == Role.AHEAD) & runs.ok)
    here = runs.expected[runs.role == Role.MEAN]
    if not len(ahead) or not len(here):
        return 0.0
    promised = float(here[0] - ahead.expected[0])
    return float(here[0] - ahead.risk[0]) / promised if promised > 0.0 else 0.0


@dataclass(frozen=True)
class RadiusUpdate:
    """Limit the next step to a radius, and take the last one back if it is rejected."""

    radius: float
    rejected: bool = False


@dataclass(frozen=True, eq=False)
class Judgement:
    """Hold what the runs so far say of the steps that they test."""

    update: RadiusUpdate
    trial: Trial | None = None
    """That of the latest step judged, or of the one that is taken back."""
    untested: tuple[LastStep, ...] = ()
    """Steps whose runs have not come back."""
    back: FloatArray | None = None
    """θ to begin from again, if a step is taken back."""

    @classmethod
    def of(
        cls,
        rule: StepRule,
        steps: Sequence[LastStep],
        trials: Mapping[int, Trial | None],
        radius: float | None,
    ) -> Judgement:
        """Judge steps by their trials, by number, in the order in which they were made.

        Those before a judged one are forgotten, and those after one that is taken back go with it.
        """
        found = cls(rule.update_radius(radius, None), None, tuple(steps))
        for i, step in enumerate(steps):
            if step.number in trials:
                trial = trials[step.number]
                update = rule.update_radius(found.update.radius, trial)
                if update.rejected:
                    return cls(update, trial, (), step.previous)
                found = cls(update, trial, tuple(steps[i + 1 :]))
        return found


def trials_of(
    steps: Sequence[LastStep],
    batch: Batch,
    runs: Evaluations,
    threshold: float,
    failure_risk: float | None,
    tuning: TrustTuning = DEFAULT.trust,
) -> dict[int, Trial | None]:
    """Return the trials of the steps of which most runs are back, some of them with this batch."""
    trials = {}
    for step in steps:
        own = runs.select(runs.step == step.number)
        if step.number in batch.step and len(own) >= tuning.back * step.size:
            known = own if failure_risk is None else own.usable(failure_risk)
            trials[step.number] = Trial.of(known, step.gain, threshold, tuning)
    return trials


class StepRule(ABC):
    """Decide the length of the step from `current` towards `target`."""

    simulated: int | None = None
    """Number of parameters, the first ones, whose KL the radius limits; None for all."""

    @abstractmethod
    def update_radius(self, radius: float | None, trial: Trial | None) -> RadiusUpdate:
        """Return the radius that follows `radius` after a trial; both are None at first."""

    @abstractmethod
    def move(
        self, current: Distribution, target: FloatArray, anchor: Distribution, radius: float
    ) -> Step:
        """Make the step, with KL(new, anchor) ≤ radius."""

    def scaled(self, dim: int, simulated: int, tuning: TrustTuning = DEFAULT.trust) -> StepRule:
        """Return the rule for `dim` parameters, of which as many are `simulated`."""
        return self

    def validation(self, budget: int) -> int:
        """Return the number of queries to keep for checking the last posterior."""
        return 0


@register
@dataclass(frozen=True)
class FixedStep(StepRule):
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


@register(later=("far", "simulated", "tuning"))
@dataclass(frozen=True)
class TrustRegion(StepRule):
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
    tuning: TrustTuning | None = field(default=None, repr=False)
    """Numbers of its rules; None for those of the search."""

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

    def scaled(self, dim: int, simulated: int, tuning: TrustTuning = DEFAULT.trust) -> TrustRegion:
        """Return the rule for `dim` parameters, of which as many are `simulated`.

        Nothing limits how far the others may move: what they do is known. KL adds up over many
        directions. A projection of many parameters takes longer, so each goes a larger share of
        the way.
        """
        numbers, own = self.tuning or tuning, self.simulated if simulated == dim else simulated
        rule = replace(self, simulated=own, tuning=numbers)
        if not Regime.of(dim).is_many:
            return rule
        return replace(
            rule,
            alpha=max(self.alpha, numbers.alpha_of_many),
            start=max(self.start, dim * numbers.start_of_many),
            least=max(self.least, dim * numbers.least_of_many),
            most=max(self.most, dim * numbers.most_of_many),
            far=max(self.far or 0.0, self.most, dim * numbers.most_of_many),
        )

    def validation(self, budget: int) -> int:
        """Return the number of queries to keep for checking the last posterior."""
        numbers = self.tuning or DEFAULT.trust
        few = min(int(budget * numbers.fresh_of_few), numbers.fresh_usual)
        return min(max(int(budget * numbers.fresh), few), numbers.fresh_most)

    def update_radius(self, radius: float | None, trial: Trial | None) -> RadiusUpdate:
        """Increase, halve or keep the radius; take back a step that made things worse."""
        radius, numbers = self.start if radius is None else radius, self.tuning or DEFAULT.trust
        if trial is None:
            return RadiusUpdate(radius)
        shortfall, error = trial.shortfall, trial.error
        confirmed = abs(1.0 - trial.ratio) < 1.0 - self.enough
        usual = min(radius, self.most)
        if confirmed and radius >= self.most:
            radius = min(
                numbers.grow * radius, numbers.farther * self.most if self.far is None else self.far
            )
        elif trial.ratio > self.enough:
            radius = min(numbers.grow * usual, self.most)
        elif trial.ratio < self.too_little and shortfall > error:
            radius = max(numbers.shrink * usual, self.least)
        else:
            radius = usual
        rise = shortfall - trial.gain
        rejected = rise > numbers.rise * error and shortfall > numbers.lack * error
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
        many = Regime.of(current.dim).is_many
        exact = current.family.exponential is not None and not many
        precision = 1e-15 if exact else 1e-3
        # KL grows like α²; a root that is nearly straight takes fewer steps.
        power = 0.5 if many else 1.0
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
