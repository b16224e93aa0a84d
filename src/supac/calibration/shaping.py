"""The shape of the posterior that a search returns: its Gaussian, or a mixture that is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from supac.arrays import FloatArray
from supac.families import Distribution, as_distribution
from supac.problem import Problem
from supac.problem.bounds import fixed_temperature
from supac.search.algorithm import Algorithm, State, one_thread
from supac.shape import MOST_PARAMETERS, Particles, choose_shape, sample_around, weigh_draws
from supac.shape.evidence import Evidence, estimate_evidence
from supac.shape.ranges import RangeCheck, check_ranges
from supac.surrogate.estimator import RiskModel

PosteriorShape = Literal["auto", "gaussian"]
"""Any shape, or the family that is searched."""
SHAPE, RANGES, WEIGH = 5, 6, 7  # streams of random numbers
_PARTICLES = 2_000


def checked_shape(shape: str) -> str:
    """Return the shape; ValueError if it is none."""
    if shape not in get_args(PosteriorShape):
        raise ValueError(f'shape must be "auto" or "gaussian", not {shape!r}')
    return shape


@dataclass(frozen=True, eq=False)
class Shaped:
    """A posterior to return, and the model by which its shape was chosen, if there is one."""

    posterior: Distribution
    predicted: float
    """Its bound by the model."""
    particles: Particles | None = None
    risk: Callable[[FloatArray], FloatArray] | None = None

    def evidence(self, problem: Problem, x: FloatArray, measured: FloatArray) -> Evidence | None:
        """Estimate the evidence from fresh runs; None for a bound that has no temperature."""
        if self.particles is None or self.risk is None or fixed_temperature(problem.bound) is None:
            return None
        prior = as_distribution(problem.prior)
        assert prior is not None
        with one_thread():
            return estimate_evidence(self.particles, self.risk, prior, self.posterior, x, measured)


def shaped(
    problem: Problem, algorithm: Algorithm, state: State, predicted: float, shape: str
) -> Shaped:
    """Choose the shape of a state's posterior, whose bound is `predicted`; no run is made.

    A posterior that still moves keeps its family: the minimiser lies where no run was made.
    """
    own = state.posterior
    if shape != "auto" or state.stage.moves or not _may_have_any(problem, own):
        return Shaped(own, predicted)
    model = algorithm.model(problem, state)
    if model is None or model.expected_risk(own.mean[None]) is None:
        return Shaped(own, predicted)
    risk, rng = partial(_expected_risk, model), state.rng(SHAPE)
    prior = as_distribution(problem.prior)
    assert prior is not None
    with one_thread():
        nearly = weigh_draws(risk, prior, problem.bound, own, state.rng(WEIGH))
        if nearly is not None:
            return Shaped(own, predicted, nearly, risk)
        particles = sample_around(risk, prior, problem.bound, own, _PARTICLES, rng)
        chosen = choose_shape(own, particles, risk, prior, problem.bound, rng)
    predicted = chosen.predicted if chosen.gain else predicted
    return Shaped(chosen.posterior, predicted, particles, risk)


def range_check(
    problem: Problem, algorithm: Algorithm, state: State, posterior: Distribution
) -> RangeCheck | None:
    """Compare the posterior to return with what the data leave open; no run is made.

    None without a model that predicts the risk, or where the posterior may not have any shape.
    """
    if not _may_have_any(problem, posterior):
        return None
    model = algorithm.model(problem, state)
    if model is None or model.expected_risk(posterior.mean[None]) is None:
        return None
    prior = as_distribution(problem.prior)
    assert prior is not None
    with one_thread():
        return check_ranges(
            posterior,
            partial(_expected_risk, model),
            prior,
            problem.bound,
            state.rng(RANGES),
            model.doubt,
        )


def _expected_risk(model: RiskModel, x: FloatArray) -> FloatArray:
    found = model.expected_risk(x)
    assert found is not None
    return found


def _may_have_any(problem: Problem, own: Distribution) -> bool:
    """Return True if all parameters may correlate and there are not too many for particles."""
    mixture, prior = own.family.mixture, as_distribution(problem.prior)
    full = own.family.gaussian if mixture is None else mixture.base.gaussian
    gaussian_prior = prior is not None and prior.family.is_gaussian
    free = full is not None and full.blocks is None
    return gaussian_prior and free and own.dim <= MOST_PARAMETERS
