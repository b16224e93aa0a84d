from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from numerics import assert_mean
from supac.arrays import BoolArray, FloatArray
from supac.emulator.gate import (
    Gate,
    _behind,
    _explain,
    _log_spared,
    _log_spared_all,
    _places,
    fit_gate,
)
from supac.emulator.tuning import DEFAULT
from supac.emulator.units import Units

TUNING = DEFAULT.gate
PLACES, WIDTH, CERTAINTY = _places(TUNING), TUNING.width, TUNING.certainty


def fitted(
    x: FloatArray, outlier: BoolArray, *, coupled: bool = False, near: float = 0.0, seed: int = 0
) -> Gate:
    dim = x.shape[1]
    return fit_gate(
        x,
        outlier,
        np.arange(len(x)) // 20,
        Units(np.zeros(dim), np.eye(dim)),
        np.full((dim, dim), coupled),
        near,
        np.random.default_rng(seed),
    )


def small_gate() -> Gate:
    """Three directions, whose chances sum to less than one: no cap."""
    rng = np.random.default_rng(0)
    chances = rng.random((3, len(PLACES)))
    directions = np.array([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8]])
    scale = np.array([[1.2, 0.3], [0.0, 0.8]])
    return Gate(Units(np.array([0.3, -0.4]), scale), directions, 0.9 * chances / chances.sum())


def smooth_probability(gate: Gate, x: FloatArray) -> FloatArray:
    """Σ_kj chances[k, j]·Φ((a_k·u − t_j)/s), by its definition."""
    total = np.zeros(len(x))
    for direction, chances in zip(gate.directions, gate.chances, strict=True):
        along = (x - gate.units.centre) @ gate.units.scale @ direction
        for threshold, chance in zip(PLACES, chances, strict=True):
            total += chance * ndtr((along - threshold) / WIDTH)
    return total


def plane(mean: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Trapezoids on a fine grid: they converge exponentially for what is smooth on its scale."""
    z = np.arange(-8.0, 8.01, 0.1)
    grid = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.exp(-0.5 * (grid**2).sum(axis=1))
    return mean + grid @ np.linalg.cholesky(covariance).T, weights / weights.sum()


def test_the_table_interpolates_the_probability() -> None:
    gate = small_gate()
    x = 3.0 * np.random.default_rng(1).standard_normal((2_000, 2))
    exact = smooth_probability(gate, x)
    assert exact.max() < 1.0
    # Linear interpolation is off by at most h²/8 times the second derivative.
    most = 0.05**2 / 8.0 * np.exp(-0.5) / np.sqrt(2.0 * np.pi) / WIDTH**2 * gate.chances.sum()
    np.testing.assert_allclose(gate.probability(x), exact, atol=most)


@pytest.mark.parametrize("function", ["smooth", "table"])
def test_expectations_under_a_gaussian_are_those_of_quadrature(function: str) -> None:
    """By Stein's identities: E[∇p] = C⁻¹E[(x − c)p], E[∇²p] = C⁻¹E[((x − c)(x − c)ᵀ − C)p]C⁻¹."""
    gate = small_gate()
    mean, covariance = np.array([0.5, 0.2]), np.array([[0.9, 0.3], [0.3, 0.6]])
    x, weights = plane(mean, covariance)
    p = smooth_probability(gate, x) if function == "smooth" else gate.probability(x)
    assert p.max() < 1.0
    inverse = np.linalg.inv(covariance)
    z = (x - mean) @ inverse
    value, slope, curvature = gate.expectation(mean, covariance)
    by_curvature = (z * (weights * p)[:, None]).T @ z - float(weights @ p) * inverse
    tolerance = 1e-9 if function == "smooth" else 1e-5  # most of the table's error averages out
    assert value == pytest.approx(float(weights @ p), abs=tolerance)
    np.testing.assert_allclose(slope, (weights * p) @ z, atol=tolerance)
    np.testing.assert_allclose(curvature, by_curvature, atol=tolerance)


def test_a_probability_is_never_more_than_one() -> None:
    chances = np.zeros((2, len(PLACES)))
    chances[:, 10] = CERTAINTY
    gate = Gate(Units(np.zeros(2), np.eye(2)), np.eye(2), chances)
    p = gate.probability(np.array([[50.0, 50.0], [50.0, -50.0], [-50.0, -50.0]]))
    np.testing.assert_allclose(p, [1.0, CERTAINTY, 0.0], atol=1e-12)


def test_the_good_runs_likelihood_is_the_direct_sum() -> None:
    along = 2.0 * np.random.default_rng(2).standard_normal((60, 4))
    along[0] = [-30.0, 30.0, -3.0, 7.0]  # beyond the grid, on its edges
    direct = np.log1p(-CERTAINTY * ndtr((along[:, :, None] - PLACES) / WIDTH)).sum(axis=0)
    # Interpolated on a grid of a sixteenth of the width: here 1.2e-3 at most, for 60 runs.
    np.testing.assert_allclose(_log_spared_all(along, TUNING), direct, atol=2e-3)


def test_without_failures_the_chances_are_the_posterior_in_closed_form() -> None:
    """Prior × Π_i (1 − g·Φ((a·u_i − t)/s)), direction by direction, against no cliff."""
    x = np.random.default_rng(3).standard_normal((15, 2))
    gate = fitted(x, np.zeros(15, dtype=bool), coupled=True, near=0.3)
    axes = np.vstack([np.eye(2), -np.eye(2)])
    signs = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    assert len(gate.directions) == 8
    np.testing.assert_array_equal(gate.directions[:4], axes)
    np.testing.assert_allclose(gate.directions[4:], signs / np.sqrt(2.0))
    prior = np.where(PLACES < 0.5, 0.3, 1.0)
    prior /= prior.sum()
    for direction, chances, cliff in zip(
        gate.directions, gate.chances, [TUNING.axis] * 4 + [TUNING.pair] * 4, strict=True
    ):
        along = x @ direction
        spared = 1.0 - CERTAINTY * ndtr((along[:, None] - PLACES) / WIDTH)
        joint = cliff * prior * spared.prod(axis=0)
        expected = CERTAINTY * joint / (joint.sum() + 1.0 - cliff)
        np.testing.assert_allclose(chances, expected, rtol=2e-3)  # its sums are interpolated


def test_without_any_run_the_chances_are_the_prior() -> None:
    gate = fitted(np.empty((0, 3)), np.empty(0, dtype=bool))
    np.testing.assert_allclose(gate.chances.sum(axis=1), CERTAINTY * TUNING.axis, rtol=1e-12)


def test_good_runs_beyond_a_threshold_lower_the_insurance() -> None:
    far = np.array([[4.0, 0.0]])
    x = np.random.default_rng(4).standard_normal((20, 2))
    insurance = []
    for runs in (0, 1, 2, 5):
        beyond = np.repeat(far, runs, axis=0)
        gate = fitted(np.vstack([x, beyond]), np.zeros(20 + runs, dtype=bool))
        insurance.append(gate.probability(far)[0])
    # Before anyone has looked: the prior's share of the thresholds between the good runs and there.
    between = (x[:, 0].max() < PLACES) & (PLACES < 4.0)
    share = between.sum() / (PLACES >= 0.5).sum()
    assert insurance[0] == pytest.approx(CERTAINTY * TUNING.axis * share, rel=0.3)
    assert (np.diff(insurance) < 0.0).all()
    assert insurance[-1] < 0.2 * insurance[0]


def test_a_cliff_along_an_axis_is_found() -> None:
    x = np.random.default_rng(5).standard_normal((120, 4))
    outlier = x[:, 1] > 1.0
    assert 5 < outlier.sum() < 40
    gate = fitted(x, outlier)
    inside, beyond = np.zeros((5, 4)), np.zeros((5, 4))
    inside[:, 1] = np.linspace(-1.5, 0.0, 5)
    beyond[:, 1] = np.linspace(2.0, 3.0, 5)
    assert (gate.probability(beyond) > 0.8).all()
    assert (gate.probability(inside) < 0.05).all()
    own = gate.chances[1]  # the direction +x₁
    assert own.sum() > 0.8 * CERTAINTY
    assert abs(own @ PLACES / own.sum() - 1.0) < 0.25
    assert own[np.abs(PLACES - 1.0) < 0.51].sum() > 0.95 * own.sum()


def test_a_cliff_near_the_centre_is_only_seen_where_it_is_allowed() -> None:
    x = np.random.default_rng(6).standard_normal((80, 2))
    outlier = x[:, 0] > 0.0
    allowed = fitted(x, outlier, near=0.5).chances[0]
    assert abs(allowed @ PLACES / allowed.sum()) < 0.25
    one = np.zeros(80, dtype=bool)
    one[np.argmax(x[:, 0] * (x[:, 0] < 0.3))] = True
    refused = fitted(x, one).chances[0]
    assert refused[PLACES < 0.5].sum() < 1e-3


def test_an_oblique_cliff_is_found_through_the_data() -> None:
    """Six parameters matter together; none of them is coupled, and none suffices alone."""
    dim = 6
    direction = np.ones(dim) / np.sqrt(dim)
    x = np.random.default_rng(7).standard_normal((200, dim))
    gate = fitted(x, x @ direction > 1.2)
    assert len(gate.directions) == 2 * dim + 3
    best = int(np.argmax(gate.chances.sum(axis=1)))
    assert best >= 2 * dim
    assert gate.directions[best] @ direction > 0.95
    assert gate.probability(2.5 * direction[None])[0] > 0.8
    assert gate.probability(np.zeros((1, dim)))[0] < 0.05
    assert gate.probability(-2.5 * direction[None])[0] < 0.05


def test_the_gate_is_the_same_in_other_units() -> None:
    """u = (x − centre) @ scale is all that it sees."""
    rng = np.random.default_rng(8)
    u = rng.standard_normal((60, 2))
    outlier = u[:, 0] > 1.0
    units = np.array([[100.0, 3.0], [0.0, 0.01]])
    centre = np.array([5.0, -7.0])
    x = centre + u @ np.linalg.inv(units)
    iteration = np.zeros(60, dtype=np.intp)
    alone = np.zeros((2, 2), dtype=bool)
    plain = fit_gate(
        u, outlier, iteration, Units(np.zeros(2), np.eye(2)), alone, 0.0, np.random.default_rng(0)
    )
    moved = fit_gate(
        x, outlier, iteration, Units(centre, units), alone, 0.0, np.random.default_rng(0)
    )
    np.testing.assert_allclose(moved.probability(x), plain.probability(u), atol=1e-8)


def test_the_same_generator_gives_the_same_gate() -> None:
    x = np.random.default_rng(9).standard_normal((60, 3))
    outlier = x[:, 0] + 0.5 * x[:, 1] > 1.2
    one, again, other = (fitted(x, outlier, coupled=True, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.directions, again.directions)
    np.testing.assert_array_equal(one.chances, again.chances)
    np.testing.assert_array_equal(one.probability(x), again.probability(x))
    assert (one.chances != other.chances).any()


def test_nothing_but_failures_is_no_error() -> None:
    x = np.random.default_rng(10).standard_normal((150, 3))
    gate = fitted(x, np.ones(150, dtype=bool), near=1.0)
    assert np.isfinite(gate.chances).all()
    assert gate.probability(np.array([[3.0, 3.0, 3.0]]))[0] > 0.5


def exact_explanation(odds: FloatArray, spared: FloatArray) -> FloatArray:
    """Marginals of Π_k odds[k, j_k]·Π_i (1 − (1 − ε)Π_k spared[k, j_k, i]), by enumeration."""
    count, states = odds.shape
    marginals, total = np.zeros((count, states)), 0.0
    for j in product(range(states), repeat=count):
        escaped = (1.0 - TUNING.leak) * np.prod([spared[k, j[k]] for k in range(count)], axis=0)
        weight = float(np.prod([odds[k, j[k]] for k in range(count)]) * np.prod(1.0 - escaped))
        total += weight
        for k in range(count):
            marginals[k, j[k]] += weight
    return marginals / total


@pytest.mark.parametrize("case", range(3))
def test_gibbs_sampling_agrees_with_enumeration(case: int) -> None:
    rng = np.random.default_rng(case)
    odds = rng.random((2, 5))
    spared = rng.uniform(0.2, 0.8, (2, 5, 3))
    spared[:, -1] = 1.0  # no cliff spares every run
    odds[:, -1] = 1.0
    seeds = map(np.random.default_rng, range(300))
    sampled = np.array([_explain(odds, spared, rng, TUNING) for rng in seeds])
    np.testing.assert_allclose(sampled.sum(axis=2), 1.0, rtol=1e-12)
    assert_mean(sampled.reshape(300, -1), exact_explanation(odds, spared).ravel())


def test_one_direction_alone_is_explained_exactly() -> None:
    rng = np.random.default_rng(11)
    odds, spared = rng.random((1, 6)), rng.random((1, 6, 4))
    spared[:, -1] = 1.0  # where the chains begin
    sampled = _explain(odds, spared, rng, TUNING)
    np.testing.assert_allclose(sampled, exact_explanation(odds, spared), rtol=1e-10)


def test_the_mean_gate_of_many_parameters_is_that_of_its_directions() -> None:
    """Both ways along an axis are computed at once; the sum over directions has no such thing."""
    dim, rng = 50, np.random.default_rng(1)
    x, outlier = rng.standard_normal((40, dim)), np.arange(40) < 4
    x[outlier, 3] += 2.0
    gate = fitted(x, outlier)
    root = np.eye(dim) + 0.1 * np.tril(rng.standard_normal((dim, dim)), -1)
    mean, covariance = 0.2 * rng.standard_normal(dim), root @ root.T
    value, slope, curvature = gate.expectation(mean, covariance)
    along = gate.directions
    assert len(along) > 2 * dim
    width = np.sqrt(WIDTH**2 + np.einsum("ki,ij,kj->k", along, covariance, along))[:, None]
    excess = ((along @ mean)[:, None] - PLACES) / width
    density = gate.chances * np.exp(-0.5 * excess**2) / (np.sqrt(2.0 * np.pi) * width)
    bends = -(density * excess / width).sum(axis=1)
    assert value == pytest.approx(float((gate.chances * ndtr(excess)).sum()))
    np.testing.assert_allclose(slope, density.sum(axis=1) @ along, atol=1e-12)
    np.testing.assert_allclose(curvature, np.einsum("k,ki,kj->ij", bends, along, along), atol=1e-12)


def test_tables_that_all_gates_share_cannot_be_written_to() -> None:
    for table in (_behind(TUNING), _log_spared(TUNING)):
        assert not table.flags.writeable
