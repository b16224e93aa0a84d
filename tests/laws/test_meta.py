"""Laws of the meta-step, on every family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from numerics import derivative
from supac.arrays import FloatArray
from supac.meta import Lesson, best_prior, meta_gradient, prior_of
from supac.meta.step import limited

every_family = pytest.mark.parametrize("name", FAMILIES)
TEMPERATURES = np.array([0.3, 1.0, 2.0])
FEATURES = np.array([[1.0, -0.4], [1.0, 0.1], [1.0, 0.5]])


def lesson_of(
    name: str, features: FloatArray | None = None, spread: float = 1.0
) -> tuple[FloatArray, Lesson]:
    """A prior and three posteriors between the two members of a family in the table."""
    first, second = FAMILIES[name]
    prior = 0.5 * (first.theta + second.theta)
    shares = 0.5 + spread * np.array([-0.5, -0.1, 0.5])[:, None]
    posteriors = (1.0 - shares) * first.theta + shares * second.theta
    phi = np.ones((3, 1)) if features is None else features
    a = np.zeros((len(prior), phi.shape[1]))
    a[:, 0] = prior
    lesson = Lesson(
        family=first.exponential,
        features=phi,
        posteriors=posteriors,
        priors=np.tile(prior, (3, 1)),
        weights=TEMPERATURES,
        recent=np.ones(3, dtype=bool),
        origin=second.theta,
    )
    return a, lesson


def meta_objective(lesson: Lesson, prior: FloatArray, a: FloatArray) -> float:
    """Mean over tasks of inf_π π[f_i] + λ_i KL(π, Aφ_i), for the risks f_i = η_i·T.

    They are those whose minimisers under `prior` are the lesson's posteriors; the infimum is
    −λ(g(θ_p − η/λ) − g(θ_p)).
    """
    g, total = lesson.family.log_partition, 0.0
    for phi, theta, weight in zip(lesson.features, lesson.posteriors, lesson.weights, strict=True):
        shift = prior_of(prior, phi) - theta  # η/λ
        own = prior_of(a, phi)
        total += weight * (g(own) - g(own - shift))
    return total / len(lesson.weights)


@every_family
@pytest.mark.parametrize("features", [None, FEATURES], ids=["one prior", "conditional"])
def test_the_meta_gradient_is_that_of_the_minimised_bounds(
    name: str, features: FloatArray | None
) -> None:
    a, lesson = lesson_of(name, features)
    lesson = replace(lesson, priors=np.array([prior_of(a, phi) for phi in lesson.features]))
    differences = derivative(
        lambda flat: meta_objective(lesson, a, flat.reshape(a.shape)), a.ravel(), 1e-4
    )
    gradient = meta_gradient(a, lesson).ravel()
    scale = np.abs(gradient).max()
    assert scale > 1e-3  # the prior is not already the best
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-6 * scale)


@every_family
def test_moment_matching_is_the_minimum(name: str) -> None:
    a, lesson = lesson_of(name)
    best = best_prior(a, lesson)
    scale = np.abs(meta_gradient(a, lesson)).max()
    assert np.abs(meta_gradient(best, lesson)).max() < 1e-9 * max(scale, 1.0)
    means = np.array([lesson.family.mean_statistics(theta) for theta in lesson.posteriors])
    matched = TEMPERATURES @ means / TEMPERATURES.sum()
    np.testing.assert_allclose(lesson.family.mean_statistics(best[:, 0]), matched, rtol=1e-8)


@every_family
def test_a_constant_feature_is_no_feature(name: str) -> None:
    """Newton's method on A·2 finds what moment matching has in closed form."""
    a, lesson = lesson_of(name)
    doubled = replace(lesson, features=2.0 * lesson.features)
    found = best_prior(0.5 * a, doubled)
    closed = best_prior(a, lesson)
    np.testing.assert_allclose(
        lesson.family.mean_statistics(2.0 * found[:, 0]),
        lesson.family.mean_statistics(closed[:, 0]),
        rtol=1e-5,
    )


@every_family
def test_with_features_the_gradient_vanishes_at_the_best_prior(name: str) -> None:
    a, lesson = lesson_of(name, FEATURES)
    best = best_prior(a, lesson)
    before = np.abs(meta_gradient(a, lesson)).max()
    assert np.abs(meta_gradient(best, lesson)).max() < 1e-5 * before
    assert all(lesson.family.contains(prior_of(best, phi)) for phi in FEATURES)


@every_family
def test_following_the_surrogates_lowers_the_objective_each_time(name: str) -> None:
    """Alternation on the surrogates is coordinate descent on the minimised bounds themselves."""
    a, lesson = lesson_of(name, spread=0.1)  # linear risks have a minimum for nearby priors only
    objectives = [meta_objective(lesson, a, a)]
    for iterations in (1, 2, 4, 8):
        step = supac.ClosedForm(pseudo_tasks=0.0, iterations=iterations, kl_max=1e6)
        moved = step.move(a, lesson)
        objectives.append(meta_objective(lesson, a, moved))
    assert np.isfinite(objectives).all()
    assert (np.diff(objectives) <= 1e-12).all()
    assert objectives[-1] < objectives[1] < objectives[0]


@every_family
def test_posteriors_on_their_surrogates_move_no_further_than_allowed(name: str) -> None:
    a, lesson = lesson_of(name)
    free = supac.ClosedForm(pseudo_tasks=0.0, kl_max=1e6).move(a, lesson)
    alone = best_prior(a, lesson)
    near = supac.ClosedForm(pseudo_tasks=0.0, kl_max=1e-9).move(a, lesson)
    assert np.array_equal(near, alone)  # the first is always made
    assert lesson.kl_to(lesson.followed(near)) <= lesson.kl_to(lesson.followed(free)) + 1e-12


@every_family
@pytest.mark.parametrize("kl_max", [1e-4, 0.1])
def test_a_gradient_step_goes_down_and_no_further_than_allowed(name: str, kl_max: float) -> None:
    a, lesson = lesson_of(name)
    moved = supac.GradientStep(1e3, kl_max).move(a, lesson)
    assert lesson.family.kl(moved[:, 0], a[:, 0]) == pytest.approx(kl_max, rel=1e-3)
    small = supac.GradientStep(1e3, 1e-6).move(a, lesson)
    assert meta_objective(lesson, a, small) < meta_objective(lesson, a, a)


@every_family
def test_a_step_towards_nowhere_stays_inside(name: str) -> None:
    a, lesson = lesson_of(name)
    moved = limited(a, a * -1e6 - 1e6, lesson, kl_max=2.0)
    assert lesson.family.contains(moved[:, 0])
    assert lesson.family.kl(moved[:, 0], a[:, 0]) <= 2.0


def test_pseudo_tasks_keep_their_share_of_the_first_covariance() -> None:
    first = supac.gaussian(np.zeros(3), np.eye(3))
    narrow = [supac.gaussian([k, 0.0, 0.0], 1e-8 * np.eye(3)) for k in (-1.0, 1.0)]
    lesson = Lesson(
        family=first.exponential,
        features=np.ones((2, 1)),
        posteriors=np.array([each.theta for each in narrow]),
        priors=np.tile(first.theta, (2, 1)),
        weights=np.array([0.1, 0.1]),
        recent=np.ones(2, dtype=bool),
        origin=first.theta,
    )
    kept = best_prior(first.theta[:, None], lesson.with_pseudo_tasks(0.5))
    smallest = np.linalg.eigvalsh(first.at(kept[:, 0]).covariance)[0]
    assert smallest == pytest.approx(0.5 / 2.5, rel=1e-6)
    collapsed = best_prior(first.theta[:, None], lesson)
    assert np.linalg.eigvalsh(first.at(collapsed[:, 0]).covariance)[0] < 1e-7


def test_a_mini_batch_speaks_for_itself_in_a_gradient_step() -> None:
    a, lesson = lesson_of("gaussian")
    some = replace(lesson, recent=np.array([True, False, False]))
    one = some.latest
    assert len(one.weights) == 1
    step = supac.GradientStep(0.01)
    assert np.array_equal(step.move(a, some), step.move(a, one))
    assert not np.array_equal(step.move(a, some), step.move(a, lesson))
