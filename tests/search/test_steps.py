from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supac
from catalogue import FAMILIES
from supac.problem import Batch, Role
from supac.search.trust import FixedStep, Trial, TrustRegion


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


def trial(gain: float, shortfall: float, error: float, n: int = 9) -> Trial:
    """A batch whose residuals have this mean and standard error."""
    spread = np.tile([-1.0, 0.0, 1.0], n // 3)
    return Trial(gain, shortfall + spread * error * np.sqrt(n) / spread.std())


def test_a_trial_compares_what_came_with_what_was_predicted() -> None:
    seen = trial(gain=0.2, shortfall=0.05, error=0.01)
    assert seen.shortfall == pytest.approx(0.05)
    assert seen.error == pytest.approx(0.01)
    assert seen.ratio == pytest.approx(0.75)


@pytest.mark.parametrize(("shortfall", "radius"), [(0.02, 4.0), (0.18, 2.0), (0.90, 2.0)])
def test_one_run_may_confirm_a_step_but_takes_none_back(shortfall: float, radius: float) -> None:
    """How much of what it lacks is chance, one run does not say."""
    update = TrustRegion().update_radius(2.0, Trial(0.2, np.array([shortfall])))
    assert (update.radius, update.rejected) == (radius, False)


@pytest.mark.parametrize(
    ("shortfall", "error", "radius", "rejected"),
    [
        (0.02, 0.01, 4.0, False),  # nearly all of the gain came
        (-0.20, 0.01, 4.0, False),  # twice as much
        (0.10, 0.01, 2.0, False),  # half of it
        (0.18, 0.01, 1.0, False),  # a tenth, and not by chance
        (0.18, 0.20, 2.0, False),  # a tenth, but that may be chance
        (0.40, 0.05, 1.0, True),  # the bound rose
        (0.40, 0.25, 1.0, False),  # it may have risen
        (0.60, 0.35, 1.0, False),  # it has by more than an error, and the runs lack less than two
        (0.60, 0.28, 1.0, True),
    ],
)
def test_the_radius_follows_the_realised_gain(
    shortfall: float, error: float, radius: float, rejected: bool
) -> None:
    verdict = TrustRegion().update_radius(2.0, trial(0.2, shortfall, error))
    assert verdict.radius == radius
    assert verdict.rejected is rejected


@pytest.mark.parametrize(
    ("shortfall", "ahead", "radius"),
    [(0.02, 0.9, 8.0), (0.18, 0.9, 8.0), (0.02, 0.5, 4.0), (0.40, 0.9, 1.0)],
)
def test_a_run_ahead_that_confirms_the_model_frees_the_next_step(
    shortfall: float, ahead: float, radius: float
) -> None:
    """Unless the step itself is taken back."""
    seen = replace(trial(0.2, shortfall, 0.01), ahead=ahead)
    assert TrustRegion().update_radius(2.0, seen).radius == radius


def test_a_run_ahead_is_judged_by_the_decrease_beyond_the_mean() -> None:
    at, roles = supac.gaussian(np.zeros(2), np.eye(2)), [Role.MEAN, Role.BESIDE, Role.AHEAD]
    risk = np.array([0.9, 1.1, 0.4])

    def seen(expected: list[float], roles: list[Role], rows: list[int]) -> Trial:
        batch = Batch.of(np.zeros((3, 2)), at, roles, 0, np.array(expected))
        found = Trial.of(
            supac.Evaluations.none(2).told(batch, risk).select(np.array(rows)), 0.5, np.inf
        )
        assert found is not None
        return found

    for rows in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):  # in whatever order they come
        found = seen([1.0, 1.2, 0.2], roles, rows)
        assert found.ahead == pytest.approx(0.75)  # from 1 to 0.4 instead of 0.2
        np.testing.assert_allclose(found.residual, [-0.1, -0.1])  # of draws alone
    probed = [Role.MEAN, Role.BESIDE, Role.PROBE]
    assert seen([1.0, 1.2, 0.2], probed, [0, 1, 2]).ahead == 0.0
    assert seen([0.1, 1.2, 0.2], roles, [0, 1, 2]).ahead == 0.0  # none was promised


def test_the_radius_has_limits() -> None:
    rule = TrustRegion(start=1.0, least=0.5, most=1.5, far=5.0)
    assert rule.update_radius(None, None).radius == 1.0
    assert rule.update_radius(1.0, trial(1.0, -1.0, 0.1)).radius == 1.5
    assert rule.update_radius(0.5, trial(1.0, 3.0, 0.1)).radius == 0.5
    assert rule.update_radius(1.0, trial(1.0, 0.0, 0.1)).radius == 1.5
    # Beyond that only as long as steps gain what they promise, neither less nor more.
    assert rule.update_radius(1.5, trial(1.0, 0.0, 0.1)).radius == 3.0
    assert rule.update_radius(3.0, trial(1.0, 0.2, 0.1)).radius == 5.0
    assert rule.update_radius(5.0, trial(1.0, 0.5, 0.1)).radius == 1.5
    assert rule.update_radius(5.0, trial(1.0, -1.0, 0.1)).radius == 1.5
    assert rule.update_radius(5.0, trial(1.0, 0.9, 0.1)).radius == 0.75


def test_a_trust_region_moves_within_its_radius() -> None:
    start, end = FAMILIES["gaussian"]
    step = TrustRegion(alpha=1.0).move(start, end.theta, start, 0.01)
    assert step.kl == pytest.approx(0.01, rel=1e-6)
    free = TrustRegion(alpha=0.5).move(start, end.theta, start, 1e6)
    np.testing.assert_allclose(free.posterior.theta, 0.5 * (start.theta + end.theta))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha must be in"),
        ({"start": 10.0}, "least, start, most and far"),
        ({"least": 0.0}, "least, start, most and far"),
        ({"too_little": 0.8}, "too_little and enough"),
    ],
)
def test_a_trust_region_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrustRegion(**options)
