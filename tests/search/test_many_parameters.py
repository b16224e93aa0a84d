"""Searches with more parameters than runs."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.emulator import components
from supac.emulator.units import Units
from supac.search import placement
from supac.search.algorithm import LastStep, State
from supac.search.placement import Site, batch_size, plan_batch
from supac.search.stages import Stage
from supac.surrogate.estimator import BatchPlan, Context, RiskModel, Surrogate
from supac.surrogate.regime import MANY_PARAMETERS


@dataclass(frozen=True)
class Smoothing:
    """Residuals A·x − y of smoothed parameters, whose best Gaussian is known."""

    dim: int
    length: float | None = None
    """Correlation length of the prior; None for independent parameters."""
    temperature: float = 0.01

    @property
    def matrix(self) -> FloatArray:
        at, seen = np.linspace(0.0, 1.0, self.dim), np.linspace(0.0, 1.0, 40)
        kernel = np.exp(-0.5 * ((seen[:, None] - at) / 0.08) ** 2)
        return np.asarray(kernel / np.linalg.norm(kernel, axis=1, keepdims=True))

    @property
    def covariance(self) -> FloatArray:
        at = np.linspace(0.0, 1.0, self.dim)
        if self.length is None:
            return np.eye(self.dim)
        return np.exp(-np.abs(at[:, None] - at) / self.length)

    @property
    def prior(self) -> supac.Distribution:
        return supac.gaussian(np.zeros(self.dim), self.covariance)

    def __call__(self, x: FloatArray) -> FloatArray:
        rng = np.random.default_rng(0)
        truth = np.linalg.cholesky(self.covariance) @ rng.standard_normal(self.dim)
        measured = self.matrix @ truth + 0.05 * rng.standard_normal(40)
        return np.asarray(x @ self.matrix.T - measured)

    def objective(self, q: supac.Distribution) -> float:
        """π[mean r²] + λ·KL(π, prior), exactly."""
        r, spread = self(q.mean[None])[0], self.matrix @ q.covariance @ self.matrix.T
        return float(r @ r + np.trace(spread)) / 40 + self.temperature * q.kl(self.prior)

    @property
    def optimum(self) -> float:
        factor = 2.0 / (40 * self.temperature)
        precision = np.linalg.inv(self.covariance) + factor * self.matrix.T @ self.matrix
        covariance = np.linalg.inv(precision)
        mean = -factor * covariance @ self.matrix.T @ self(np.zeros((1, self.dim)))[0]
        best = supac.gaussian(mean, 0.5 * (covariance + covariance.T))
        return self.objective(best)

    def gap(self, q: supac.Distribution) -> float:
        """Share of the way from the prior to the optimum that is left."""
        least = self.optimum
        return (self.objective(q) - least) / (self.objective(self.prior) - least)

    def search(
        self, budget: int, seed: int, loss: Callable[[FloatArray], FloatArray] | None = None
    ) -> supac.Result:
        return supac.minimize(
            supac.Composite(self, loss or supac.MeanSquare()),
            self.prior,
            supac.Catoni(self.temperature),
            budget=budget,
            validation=0,
            seed=seed,
            execution=supac.Execution(vectorized=True, progress=False),
        )


def test_a_linear_problem_is_solved_by_two_runs_more_than_parameters() -> None:
    """One for each unknown of a linear model, and one that confirms it."""
    problem = Smoothing(64)
    assert problem.gap(problem.search(66, 0).posterior) < 3e-4


def test_a_field_takes_fewer_runs_than_it_has_parameters() -> None:
    problem = Smoothing(200, length=0.2)
    assert problem.gap(problem.search(60, 0).posterior) < 0.01


def test_so_does_a_field_of_thirty_points() -> None:
    """Its first batch has a run for each component that matters, not for each parameter."""
    problem = Smoothing(30, length=0.3)
    assert problem.gap(problem.search(20, 0).posterior) < 0.01


def test_a_loss_without_a_derivative_is_minimised_too() -> None:
    problem = Smoothing(64, length=0.2)
    found = problem.search(80, 0, lambda residuals: np.asarray((residuals**2).mean(axis=1)))
    assert problem.gap(found.posterior) < 0.05


def test_memory_is_that_of_some_square_matrices() -> None:
    """200 parameters have 20,300 statistics, whose own matrix would take 3 GiB."""
    problem = Smoothing(200)
    tracemalloc.start()
    try:
        problem.search(40, 0)
        assert tracemalloc.get_traced_memory()[1] < 150 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("problem", [Smoothing(20, length=0.2), Smoothing(50, length=0.2)])
def test_the_units_of_a_field_are_the_components_of_its_prior(problem: Smoothing) -> None:
    """In these the prior is N(0, I), and the first ones vary most."""
    units = Units.of(problem.prior, Context(prior=problem.prior))
    whitened = units.scale.T @ problem.covariance @ units.scale
    np.testing.assert_allclose(whitened, np.eye(problem.dim), atol=1e-8)
    assert units.spectrum is not None
    assert (np.diff(units.spectrum) <= 0.0).all()
    np.testing.assert_allclose(units.spectrum.sum(), problem.dim)


@pytest.mark.parametrize(
    "problem", [Smoothing(10, length=0.2), Smoothing(30, length=0.02), Smoothing(30), Smoothing(60)]
)
def test_few_or_hardly_correlated_parameters_have_their_own_units(problem: Smoothing) -> None:
    assert Units.of(problem.prior, Context(prior=problem.prior)).spectrum is None


def test_radii_grow_with_the_number_of_parameters() -> None:
    rule = supac.TrustRegion()
    few = rule.scaled(MANY_PARAMETERS, MANY_PARAMETERS)
    assert (few.start, few.least, few.most) == (rule.start, rule.least, rule.most)
    wide = rule.scaled(160, 160)
    assert (wide.start, wide.least, wide.most) == (10.0, 5.0, 80.0)
    own = supac.TrustRegion(start=20.0, least=9.0, most=1e3).scaled(160, 160)
    assert (own.start, own.least, own.most) == (20.0, 9.0, 1e3)


def test_a_low_rank_posterior_of_many_parameters_is_found_without_draws_of_its_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regressions on its score, of 20 draws a parameter of θ and more, would take minutes."""
    problem = Smoothing(60)
    start = supac.low_rank_gaussian(np.zeros(60), np.eye(60), 4)
    most = 0
    score = supac.LowRankGaussian.score

    def counted(self: supac.LowRankGaussian, theta: FloatArray, x: FloatArray) -> FloatArray:
        nonlocal most
        most = max(most, len(x))
        return score(self, theta, x)

    monkeypatch.setattr(supac.LowRankGaussian, "score", counted)
    found = supac.minimize(
        supac.Composite(problem, supac.MeanSquare()), problem.prior, supac.Catoni(0.01),
        start=start, budget=60, validation=0, execution=supac.Execution(vectorized=True),
    )  # fmt: skip
    member = supac.gaussian(found.posterior.mean, found.posterior.covariance)
    assert problem.objective(member) < 0.5 * problem.objective(problem.prior)
    assert most < 20 * start.family.size


def _after_runs(prior: supac.Distribution, runs: int, nats: float) -> State:
    """Return the state after a first batch of so many runs and a step of so many nats."""
    problem = supac.Problem.within(prior, supac.Catoni(0.01))
    state = supac.SuPAC(first=runs).init(problem, 0)
    x = supac.SuPAC(first=runs).ask(problem, state).x
    told = state.told(state.batch_of(x), np.ones(runs))
    step = LastStep(5.0, prior.theta, 0.01 * nats, nats, 0.0)
    stage = Stage.MOVING if nats > 3.0 else Stage.SETTLED
    return replace(state, evaluations=told, batch=None, last_step=step, stage=stage)


@pytest.mark.parametrize("nats", [10.0, 0.1])  # while the posterior moves, and once it has settled
def test_draws_turn_to_directions_that_no_run_has_taken(nats: float) -> None:
    prior = supac.gaussian(np.ones(60), 4.0 * np.eye(60))
    problem, plan = supac.Problem.within(prior, supac.Catoni(0.01)), BatchPlan(20, 5, latin=True)
    plan = replace(plan, few=3)
    state = _after_runs(prior, 58, nats)
    z = prior.whiten().points(plan_batch(Site(problem, plan, state), 5).x)
    known = prior.whiten().points(state.evaluations.x)
    taken = np.linalg.svd(known - known.mean(axis=0))[2][:57]
    new = z - (z @ taken.T) @ taken
    # Three directions are left of 60: two runs remain draws.
    cosines = new[:3] @ new[:3].T / np.linalg.norm(new[:3], axis=1) ** 2
    np.testing.assert_allclose(cosines, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(z[:3], axis=1), np.sqrt(60))
    assert (np.linalg.norm(new[:3], axis=1) > 0.6 * np.sqrt(60)).all()
    assert (np.linalg.norm(new[3:], axis=1) < 0.6 * np.sqrt(60)).all()


@pytest.mark.parametrize("runs", [0, 61])
def test_draws_remain_where_nothing_or_everything_was_taken(
    runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior = supac.gaussian(np.zeros(60), np.eye(60))
    problem, plan = supac.Problem.within(prior, supac.Catoni(0.01)), BatchPlan(20, 5, latin=True)
    state = supac.SuPAC().init(problem, 0) if not runs else _after_runs(prior, runs, 0.1)
    found = plan_batch(Site(problem, plan, state), 5).x
    monkeypatch.setattr(placement, "_towards_new_directions", lambda z, *_: z)
    np.testing.assert_array_equal(found, plan_batch(Site(problem, plan, state), 5).x)


def _left_of_bent(seed: int, budget: int) -> float:
    """Search where outputs bend; return the objective of the posterior."""
    problem = Smoothing(64)

    def bent(x: FloatArray) -> FloatArray:
        seen = x @ problem.matrix.T
        return problem(x) + 0.15 * np.sin(2.0 * seen)

    found = supac.minimize(
        supac.Composite(bent, supac.MeanSquare()), problem.prior, supac.Catoni(0.01),
        budget=budget, validation=0, seed=seed, execution=supac.Execution(vectorized=True),
    ).posterior  # fmt: skip
    x = found.sample(2_000, np.random.default_rng(1))
    return float((bent(x) ** 2).mean()) + 0.01 * found.kl(problem.prior)


def test_new_directions_help_with_about_a_run_a_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bends of the outputs look like noise, which short ways into a direction are lost in."""
    turned = [_left_of_bent(seed, 75) for seed in range(2)]
    monkeypatch.setattr(placement, "_towards_new_directions", lambda z, *_: z)
    plain = [_left_of_bent(seed, 75) for seed in range(2)]
    assert max(turned) < min(plain)


def test_bent_outputs_are_learnt_from_runs_near_the_posterior(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What curvature adds to the first runs, far away, does not count as noise of all."""
    near = _left_of_bent(0, 180)
    monkeypatch.setattr(components, "nearness", lambda at, x, tuning: np.ones(len(x)))
    assert near < _left_of_bent(0, 180)


@pytest.mark.parametrize(
    ("runs", "size"), [(50, 5), (54, 5), (55, 7), (58, 4), (61, 1), (62, 5), (80, 5)]
)
def test_a_batch_ends_where_runs_confirm_a_linear_model(runs: int, size: int) -> None:
    state = _after_runs(supac.gaussian(np.zeros(60), np.eye(60)), runs, 0.1)
    plan = BatchPlan(20, 5, latin=True, few=3)
    problem = supac.Problem.within(state.posterior, supac.Catoni(0.1))
    assert batch_size(Site(problem, plan, state)) == size
    assert batch_size(Site(problem, plan, state), 9) == 9
    few = _after_runs(supac.gaussian(np.zeros(30), np.eye(30)), 31, 0.1)
    assert batch_size(Site(problem, plan, few)) == 5


@dataclass(frozen=True)
class Prober(RiskModel):
    """A model that looks far away, of runs that have gone wrong or not."""

    costs: float

    @property
    def severity(self) -> float:
        return self.costs

    def failure_chance(self, at: supac.Distribution) -> float:
        return 0.1

    def probes(self, n: int, at: supac.Distribution, rng: np.random.Generator) -> FloatArray:
        return np.full((n, at.dim), 100.0)

    def project(self, at: supac.Distribution, rng: np.random.Generator) -> Surrogate:
        raise AssertionError


@pytest.mark.parametrize(
    ("runs", "severity", "probes"),
    [
        (40, 0.0, 0),  # directions that no run has taken tell more than tails
        (62, 0.0, 2),
        (40, 1.0, 2),  # some went wrong: where will others?
    ],
)
def test_tails_are_looked_into_once_all_directions_are_taken(
    runs: int, severity: float, probes: int
) -> None:
    prior = supac.gaussian(np.zeros(60), np.eye(60))
    problem = supac.Problem.within(prior, supac.Catoni(0.01))
    plan = BatchPlan(20, 5, latin=True, few=3, probes=0.35)
    state = _after_runs(prior, runs, 0.1)
    batch = plan_batch(Site(problem, plan, state, Prober(severity), inside=True), 5)
    assert int((batch.x > 50.0).all(axis=1).sum()) == probes
