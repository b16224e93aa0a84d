"""KL_inf, Jeffreys' regret and the wealth of mixtures of stakes: the laws of theorems A and M."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.special import betaln, logsumexp, polygamma, xlogy

from supac.arrays import FloatArray
from supac.guarantee.kl_inf import best_stake, growth, kl_inf, kl_inf_inverse, log_regret
from supac.guarantee.stakes import STAKES, held_out_limit, log_wealth, mixture_limit
from supac.problem.bounds import binary_kl, kl_inverse

SAMPLES: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "graded": lambda rng, n: rng.beta(0.4, 2.0, n),
    "near zero": lambda rng, n: 0.01 * rng.random(n),
    "0/1": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "outliers": lambda rng, n: np.where(rng.random(n) < 0.1, 1.0, 0.02 * rng.random(n)),
    "none": lambda rng, n: np.zeros(n),
}
every_sample = pytest.mark.parametrize("name", SAMPLES)


def sampled(name: str, seed: int = 0, n: int = 30) -> tuple[FloatArray, FloatArray]:
    """Draw losses and unequal weights."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, n)
    return SAMPLES[name](rng, n), weights / weights.sum()


@every_sample
def test_kl_inf_is_at_least_the_kl_of_the_means(name: str) -> None:
    losses, weights = sampled(name)
    mean = float(weights @ losses)
    for m in np.linspace(mean, 0.999, 20):
        assert kl_inf(losses, weights, m) >= binary_kl(mean, m) - 1e-12


def test_kl_inf_is_kl_for_losses_of_0_and_1() -> None:
    losses, weights = sampled("0/1")
    mean = float(weights @ losses)
    for m in np.linspace(mean + 1e-3, 0.999, 20):
        assert kl_inf(losses, weights, m) == pytest.approx(binary_kl(mean, m), rel=1e-10)
        assert best_stake(losses, weights, m) == pytest.approx((m - mean) / m, rel=1e-9)


@every_sample
def test_kl_inf_is_0_up_to_the_mean_then_increases(name: str) -> None:
    losses, weights = sampled(name)
    mean = float(weights @ losses)
    assert kl_inf(losses, weights, 0.5 * mean) == 0.0
    assert kl_inf(losses, weights, mean) == pytest.approx(0.0, abs=1e-12)
    values = [kl_inf(losses, weights, m) for m in np.linspace(mean + 0.01, 0.99, 30)]
    assert (np.diff(values) > 0.0).all()


def test_kl_inf_of_losses_that_are_all_0_is_minus_log_1_minus_m() -> None:
    losses, weights = sampled("none")
    assert kl_inf(losses, weights, 0.3) == pytest.approx(-np.log(0.7))


@every_sample
def test_best_stake_is_the_maximum_of_the_growth(name: str) -> None:
    losses, weights = sampled(name)
    for m in (float(weights @ losses) + 0.01, 0.6, 0.95):
        best = kl_inf(losses, weights, m)
        every = [growth(losses, weights, m, stake) for stake in np.linspace(0.0, 1.0, 2_001)]
        assert best >= max(every) - 1e-12
        assert best == pytest.approx(max(every), abs=1e-4)


@every_sample
def test_kl_inf_is_the_least_kl_to_a_distribution_with_that_mean(name: str) -> None:
    """The dual of Honda and Takemura: G = w/(1 − b + b(1 − x)/(1 − m)), and the rest at 1."""
    losses, weights = sampled(name)
    mean = float(weights @ losses) + 0.2
    stake = best_stake(losses, weights, mean)
    share = weights / (1.0 - stake + stake * (1.0 - losses) / (1.0 - mean))
    rest = 1.0 - share.sum()
    assert rest >= -1e-9
    assert share @ losses + rest == pytest.approx(mean, abs=1e-9)
    assert xlogy(weights, weights / share).sum() == pytest.approx(kl_inf(losses, weights, mean))


@pytest.mark.parametrize("seed", range(30))
def test_kl_inf_is_jointly_convex(seed: int) -> None:
    """The lemma by which A holds for the pooled losses of several sets."""
    rng = np.random.default_rng(seed)
    first, second = rng.beta(0.5, 1.0, 8), rng.beta(2.0, 1.0, 8)
    means = rng.uniform(first.mean(), 0.99), rng.uniform(second.mean(), 0.99)
    one = np.full(8, 1 / 8)
    pooled = kl_inf(np.append(first, second), np.full(16, 1 / 16), float(np.mean(means)))
    apart = kl_inf(first, one, means[0]) + kl_inf(second, one, means[1])
    assert pooled <= 0.5 * apart + 1e-12


@every_sample
@pytest.mark.parametrize("complexity", [1e-5, 0.01, 0.3, 3.0])
def test_the_inverse_of_kl_inf_is_exact_and_rounded_up(name: str, complexity: float) -> None:
    losses, weights = sampled(name)
    limit = kl_inf_inverse(losses, weights, complexity)
    assert kl_inf(losses, weights, limit) >= complexity
    assert kl_inf(losses, weights, limit - 1e-9) < complexity
    assert limit <= kl_inverse(float(weights @ losses), complexity) + 1e-11


def test_the_inverse_of_kl_inf_at_its_ends() -> None:
    losses, weights = np.array([0.2, 0.4]), np.array([0.5, 0.5])
    assert kl_inf_inverse(losses, weights, 0.0) == pytest.approx(0.3)
    assert kl_inf_inverse(losses, weights, -1.0) == pytest.approx(0.3)
    assert kl_inf_inverse(np.ones(2), weights, 0.1) == 1.0
    assert kl_inf_inverse(losses, weights, 100.0) == 1.0


def log_jeffreys(losses: FloatArray, exponents: FloatArray, mean: float) -> float:
    """Compute the log wealth of Jeffreys' mixture by quadrature: b = sin²(πu/2), u uniform."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    stakes = np.sin(0.25 * np.pi * (nodes + 1.0)) ** 2
    each = [float(np.log1p(stake * (mean - losses) / (1.0 - mean)) @ exponents) for stake in stakes]
    return float(logsumexp(each, b=0.5 * weights))


@every_sample
@pytest.mark.parametrize("n", [1, 4, 30])
def test_jeffreys_mixture_loses_at_most_log_xi(name: str, n: int) -> None:
    """Cover and Ordentlich's theorem, also for exponents that are not whole numbers."""
    losses, weights = sampled(name, n=n)
    total = 1.0 / weights.max()
    for m in np.append(np.linspace(min(float(weights @ losses), 0.9), 0.98, 7), 1.0 - 1e-6):
        best = total * kl_inf(losses, weights, m)
        assert best - log_jeffreys(losses, total * weights, m) <= log_regret(total) + 1e-9


@pytest.mark.parametrize("n", [1, 7, 40])
def test_jeffreys_regret_is_reached_where_all_is_at_stake(n: int) -> None:
    losses, mean = np.zeros(n), 1.0 - 1e-7
    best = n * kl_inf(losses, np.full(n, 1.0 / n), mean)
    lost = best - log_jeffreys(losses, np.ones(n), mean)
    assert lost == pytest.approx(log_regret(n), abs=1e-4)


def test_xi_is_at_most_maurers_2_sqrt_n() -> None:
    numbers = np.append(np.arange(1.0, 50.0, 0.5), [1e3, 1e6])
    regrets = np.array([log_regret(n) for n in numbers])
    assert (regrets <= np.log(2.0 * np.sqrt(numbers)) + 1e-12).all()
    assert regrets[0] == pytest.approx(np.log(2.0))
    assert regrets[-1] == pytest.approx(0.5 * np.log(np.pi * 1e6), abs=1e-6)


def test_the_regret_of_counts_that_are_not_whole_is_largest_at_the_ends() -> None:
    """The lemma behind real exponents: ψ′(x + ½) < 1/x, so that the regret is convex in counts."""
    x = np.geomspace(1e-3, 1e4, 200)
    assert (polygamma(1, x + 0.5) < 1.0 / x).all()
    n = 7.3
    counts = np.linspace(0.0, n, 101)
    best = xlogy(counts, counts / n) + xlogy(n - counts, 1.0 - counts / n)
    regret = best - betaln(counts + 0.5, n - counts + 0.5) + betaln(0.5, 0.5)
    assert regret.max() == pytest.approx(log_regret(n))
    assert np.argmax(regret) in (0, 100)


@pytest.mark.parametrize("equal", [True, False])
def test_the_expected_wealth_is_at_most_1_for_data_of_different_laws(equal: bool) -> None:
    """By summing over all outcomes of ten Bernoulli data with means from 0.02 to 0.8."""
    means = np.linspace(0.02, 0.8, 10)
    weights = np.ones(10) if equal else np.linspace(2.0, 0.3, 10)
    weights = weights / weights.sum()
    exponents = weights / weights.max()
    outcomes = np.array(list(product([0.0, 1.0], repeat=10)))
    chance = np.prod(np.where(outcomes == 1.0, means, 1.0 - means), axis=1)
    true = float(weights @ means)
    for mean, holds in ((true, True), (0.5 * true, True), (1.6 * true, False)):
        wealth = np.exp(log_wealth(outcomes, exponents, np.full(len(outcomes), mean))[0])
        assert bool(chance @ wealth <= 1.0 + 1e-12) is holds


@every_sample
def test_the_wealth_is_convex_in_the_mean_and_its_slope_is_the_derivative(name: str) -> None:
    losses, weights = sampled(name)
    exponents = weights / weights.max()
    grid = np.linspace(0.02, 0.98, 193)
    wealth, slope = log_wealth(np.tile(losses, (193, 1)), exponents, grid)
    assert (np.diff(wealth, 2) >= -1e-9).all()
    steps = 1e-6 * np.ones(193)
    above, _ = log_wealth(np.tile(losses, (193, 1)), exponents, grid + steps)
    below, _ = log_wealth(np.tile(losses, (193, 1)), exponents, grid - steps)
    np.testing.assert_allclose(slope, (above - below) / 2e-6, rtol=1e-5, atol=1e-5)


def several(seed: int, sets: int = 6, n: int = 20) -> tuple[FloatArray, FloatArray]:
    """Draw losses (K, n) and log density ratios (K,)."""
    rng = np.random.default_rng(seed)
    return rng.beta(0.4, 2.0, (sets, n)) * rng.uniform(0.5, 1.0, (sets, 1)), rng.normal(
        3, 1.5, sets
    )


@pytest.mark.parametrize("seed", range(4))
def test_form_m_is_the_maximum_of_its_convex_problem(seed: int) -> None:
    """No feasible means exceed the limit, and the best found on a fine grid reach it."""
    losses, ratio = several(seed)
    limit = mixture_limit(losses, np.ones(20), ratio, 0.05)
    grid = np.linspace(1e-3, 1.0 - 1e-3, 4_000)
    costs = [
        0.05 * np.exp(log_wealth(np.tile(each, (4_000, 1)), np.ones(20), grid)[0] - rho)
        for each, rho in zip(losses, ratio, strict=True)
    ]
    best = 0.0
    for multiplier in np.geomspace(1e-4, 1.0, 400):  # of the constraint mean cost ≤ 1
        places = [int(np.argmax(grid - multiplier * cost)) for cost in costs]
        spent = np.mean([cost[i] for cost, i in zip(costs, places, strict=True)])
        if spent <= 1.0:
            best = max(best, float(grid[places].mean()))
    assert best <= limit <= best + 0.01


def test_form_m_of_one_set_and_one_stake_is_closed() -> None:
    """With all losses 0 and stake b, (1 + b·m/(1 − m))^n = e^ρ/δ."""
    n, ratio, delta, stake = 12, 1.5, 0.05, 0.6
    limit = mixture_limit(np.zeros((1, n)), np.ones(n), np.array([ratio]), delta, np.array([stake]))
    odds = (np.exp((ratio - np.log(delta)) / n) - 1.0) / stake
    assert limit == pytest.approx(odds / (1.0 + odds), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_form_m_increases_with_every_loss_and_ratio(seed: int) -> None:
    losses, ratio = several(seed)
    limit = mixture_limit(losses, np.ones(20), ratio, 0.05)
    worse = losses.copy()
    worse[0, 0] = 1.0
    assert mixture_limit(worse, np.ones(20), ratio, 0.05) > limit
    assert mixture_limit(losses, np.ones(20), ratio + 0.5, 0.05) > limit
    assert mixture_limit(losses, np.ones(20), ratio, 0.01) > limit
    assert mixture_limit(losses, 0.5 * np.ones(20), ratio, 0.05) > limit


def test_form_m_says_1_where_nothing_can_be_said() -> None:
    assert mixture_limit(np.ones((3, 5)), np.ones(5), np.zeros(3), 0.05) == 1.0
    assert mixture_limit(np.full((3, 5), 0.2), np.ones(5), np.full(3, 900.0), 0.05) == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_theorem_a_is_never_above_seegers_bound(seed: int) -> None:
    losses, ratio = several(seed)
    nats = float(ratio.mean()) + np.log(1.0 / 0.05)
    a = kl_inf_inverse(losses.ravel(), np.full(120, 1 / 120), (nats + log_regret(20)) / 20)
    assert a <= kl_inverse(losses.mean(), (nats + np.log(2.0 * np.sqrt(20))) / 20)


@pytest.mark.parametrize("unequal", [False, True])
def test_the_held_out_limit_fails_at_most_as_often_as_delta(unequal: bool) -> None:
    """By summing over all outcomes of seven data of different laws, at several mean risks."""
    weights = np.linspace(2.0, 0.5, 7) if unequal else np.ones(7)
    weights /= weights.sum()
    outcomes = np.array(list(product([0.0, 1.0], repeat=7)))
    limits = np.array([held_out_limit(each, weights / weights.max(), 0.5) for each in outcomes])
    failing = []
    for largest in (0.05, 0.2, 0.4, 0.7, 1.0):
        means = np.linspace(0.0, largest, 7)
        chance = np.prod(np.where(outcomes == 1.0, means, 1.0 - means), axis=1)
        failing.append(float(chance @ (limits < weights @ means)))
    assert max(failing) <= 0.5
    assert max(failing) > 0.001  # they do fail


@pytest.mark.parametrize(("ones", "n"), [(0, 40), (3, 40), (20, 40), (100, 400)])
def test_the_held_out_limit_is_near_chernoffs_for_losses_of_0_and_1(ones: int, n: int) -> None:
    """Its price is log 1/0.7, for the share of the wealth, and that of one stake for a range."""
    losses = np.repeat([1.0, 0.0], [ones, n - ones])
    limit = held_out_limit(losses, np.ones(n), 0.05)
    assert limit <= kl_inverse(ones / n, np.log(1.0 / (0.05 * 0.6)) / n)
    assert limit >= kl_inverse(ones / n, np.log(1.0 / 0.05) / n)


def test_the_held_out_limit_gains_from_graded_losses() -> None:
    losses = np.random.default_rng(0).beta(1.0, 9.0, 60)
    assert held_out_limit(losses, np.ones(60), 0.05) < 0.8 * kl_inverse(
        losses.mean(), np.log(20.0) / 60
    )


def test_the_stakes_are_shares() -> None:
    assert ((STAKES > 0.0) & (STAKES < 1.0)).all()
