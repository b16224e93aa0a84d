from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogue import FAMILIES
from supac.steps import FixedStep


@pytest.mark.parametrize("name", FAMILIES)
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), size=st.floats(-3.0, 6.0), log_kl=st.floats(-6.0, 3.0))
def test_step_is_the_largest_allowed(name: str, seed: int, size: float, log_kl: float) -> None:
    """Any target, near or far, in Θ or not: the step stays in Θ and in the trust region."""
    start = FAMILIES[name][0]
    direction = np.random.default_rng(seed).standard_normal(start.family.size)
    target, kl_max = start.theta + 10.0**size * direction, float(np.exp(log_kl))
    step = FixedStep(0.7, kl_max).move(start, target, anchor=start)
    assert start.family.contains(step.posterior.theta)
    assert step.kl <= kl_max
    assert step.kl == pytest.approx(step.posterior.kl(start), abs=1e-12)
    if step.alpha < 0.7:
        further = start.theta + min(1.01 * step.alpha, 0.7) * (target - start.theta)
        assert not start.family.kl(further, start.theta) <= kl_max


@pytest.mark.parametrize("name", FAMILIES)
def test_without_a_trust_region_the_step_still_stays_in_the_domain(name: str) -> None:
    start, end = FAMILIES[name]
    target = start.theta + 100.0 * (start.theta - end.theta)
    step = FixedStep(1.0, np.inf).move(start, target, anchor=start)
    assert start.family.contains(step.posterior.theta)


def test_an_anchor_elsewhere_keeps_the_trust_region_around_it() -> None:
    anchor, end = FAMILIES["gaussian"]
    rule = FixedStep(0.5, 0.05)
    at = anchor
    for _ in range(5):
        at = rule.move(at, end.theta, anchor=anchor).posterior
        assert at.kl(anchor) <= 0.05
    assert at.kl(anchor) == pytest.approx(0.05, rel=1e-3)


@pytest.mark.parametrize("distance", [1e10, 1e20, 1e50, 1e200])
def test_the_step_is_the_largest_however_far_the_target_is(distance: float) -> None:
    start, end = FAMILIES["gaussian"]
    target = start.theta + distance * (start.theta - end.theta)
    step = FixedStep(1.0, 1.0).move(start, target, anchor=start)
    assert step.kl == pytest.approx(1.0, rel=1e-6)


def test_a_target_that_is_not_a_number_is_not_followed() -> None:
    start = FAMILIES["gaussian"][0]
    step = FixedStep().move(start, np.full(start.family.size, np.nan), anchor=start)
    assert step.posterior == start
    assert step.alpha == 0.0


@pytest.mark.parametrize(
    ("alpha_max", "kl_max", "message"),
    [(0.0, 1.0, "alpha_max"), (1.5, 1.0, "alpha_max"), (0.5, 0.0, "kl_max"), (0.5, -1.0, "kl_max")],
)
def test_bad_steps_are_refused(alpha_max: float, kl_max: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FixedStep(alpha_max, kl_max)
