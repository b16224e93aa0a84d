from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from optimum import best_gaussian, true_objective
from supac.arrays import FloatArray
from supac.simulators import synthetic

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))


def wave(x: FloatArray) -> FloatArray:
    return 0.5 + 0.3 * np.sin(x).sum(axis=1) / 2.0


def quadratic(dim: int) -> tuple[FloatArray, FloatArray]:
    """A positive definite Hessian and a centre."""
    rng = np.random.default_rng(dim)
    root = rng.standard_normal((dim, dim))
    return root @ root.T / dim + 0.1 * np.eye(dim), rng.standard_normal(dim)


@pytest.mark.parametrize("dim", [1, 3, 8])
@pytest.mark.parametrize(
    "estimator", [supac.Voronoi(draws=4_000), supac.Importance(), supac.FreshDraws()]
)
def test_a_quadratic_risk_is_solved_exactly(dim: int, estimator: supac.Voronoi) -> None:
    """The posterior is N(m, P⁻¹) with P = I + H/λ and Pm = Hc/λ, whatever the weights."""
    hessian, centre = quadratic(dim)
    temperature = 0.2

    def risk(x: FloatArray) -> float:
        return 0.5 * float((x - centre) @ hessian @ (x - centre))

    result = supac.minimize(
        risk,
        supac.gaussian(np.zeros(dim), np.eye(dim)),
        supac.Catoni(temperature),
        budget=3_000,
        algorithm=supac.SuPAC(
            estimator, supac.FixedStep(1.0, 1.0), batch=supac.Gaussian(dim).size + 5
        ),
    )
    precision = np.eye(dim) + hessian / temperature
    assert result.stop_reason is supac.StopReason.CONVERGED
    assert len(result.history["queries"]) < 20
    mean = np.linalg.solve(precision, hessian @ centre / temperature)
    np.testing.assert_allclose(result.posterior.mean, mean, rtol=0, atol=1e-10)
    covariance = np.linalg.inv(precision)
    np.testing.assert_allclose(result.posterior.covariance, covariance, rtol=0, atol=1e-10)


def test_a_quadratic_risk_is_solved_exactly_by_blocks() -> None:
    """A risk without terms between blocks is in the span of the blocks' statistics."""
    hessian, centre = quadratic(4)
    blocks = [[2, 0], [1, 3]]
    apart = ~np.any([np.isin(range(4), b)[:, None] & np.isin(range(4), b) for b in blocks], axis=0)
    hessian[apart] = 0.0
    result = supac.minimize(
        lambda x: 0.5 * np.einsum("ni,ij,nj->n", x - centre, hessian, x - centre),
        supac.gaussian(np.zeros(4), np.eye(4), blocks=blocks),
        supac.Catoni(0.2),
        budget=1_000,
        execution=supac.Execution(vectorized=True),
        algorithm=supac.SuPAC(supac.FreshDraws(), supac.FixedStep(1.0, 1.0), batch=40),
    )
    precision = np.eye(4) + hessian / 0.2
    mean = np.linalg.solve(precision, hessian @ centre / 0.2)
    np.testing.assert_allclose(result.posterior.mean, mean, rtol=0, atol=1e-10)
    covariance = np.linalg.inv(precision)
    np.testing.assert_allclose(result.posterior.covariance, covariance, rtol=0, atol=1e-10)


def test_the_predicted_objective_is_that_of_the_surrogate() -> None:
    """For a quadratic risk the surrogate is the risk, and the prediction the truth."""
    hessian, centre = quadratic(2)
    bound = supac.Catoni(0.2)
    algorithm = supac.SuPAC(supac.FreshDraws(), supac.FixedStep(0.5, 0.1), first=30)
    problem = supac.Problem.within(PLANE, bound)
    state = algorithm.init(problem, 0)
    batch = algorithm.ask(problem, state)
    x = batch.x
    risk = 0.5 * np.einsum("ni,ij,nj->n", x - centre, hessian, x - centre)
    state, info = algorithm.tell(problem, state, batch, risk)
    away = state.posterior.mean - centre
    mean_risk = 0.5 * float(away @ hessian @ away + np.sum(hessian * state.posterior.covariance))
    assert info.predicted == pytest.approx(bound(mean_risk, state.posterior.kl(PLANE)))


def test_the_papers_algorithm_finds_the_gaussian_optimum() -> None:
    """The paper's 8-D risk, λ = 0.1, 500 queries: within 0.002 of the optimum."""
    risk = synthetic.example(0)
    result = supac.minimize(
        risk,
        supac.gaussian(np.zeros(8), np.eye(8)),
        supac.Catoni(0.1),
        budget=500,
        execution=supac.Execution(vectorized=True),
        algorithm=supac.SuPAC.paper(first=100, batch=40, alpha_max=0.7, kl_max=0.5),
    )
    optimum = true_objective(risk, best_gaussian(risk, 0.1), 0.1)
    assert true_objective(risk, result.posterior, 0.1) - optimum < 0.002


def test_paper_is_algorithm_2_with_its_hyperparameters() -> None:
    paper = supac.SuPAC.paper()
    assert paper == supac.SuPAC(
        supac.Voronoi(k=1, draws=40_000), supac.FixedStep(0.5, 1.0), first=160, batch=32
    )


def test_ask_and_tell_are_pure() -> None:
    algorithm = supac.SuPAC(supac.Voronoi(draws=1_000), first=20, batch=10)
    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    state = algorithm.init(problem, seed=3)
    for expected in (20, 10, 10):
        batch = algorithm.ask(problem, state)
        x = batch.x
        assert x.shape == (expected, 2)
        np.testing.assert_array_equal(x, algorithm.ask(problem, state).x)
        x.flags.writeable = False
        first, info = algorithm.tell(problem, state, batch, wave(x))
        second, again = algorithm.tell(problem, state, batch, wave(x))
        assert first.posterior == second.posterior
        assert info == again
        assert len(first.evaluations) == len(state.evaluations) + expected
        assert first.iteration == state.iteration + 1
        state = first


@pytest.mark.parametrize(
    ("estimator", "first", "then"), [(None, 20, 5), (supac.Voronoi(draws=500), 12, 3)]
)
def test_default_batches_are_what_the_estimator_needs(
    estimator: supac.Voronoi | None, first: int, then: int
) -> None:
    algorithm, problem = supac.SuPAC(estimator), supac.Problem.within(PLANE, supac.Catoni(0.1))
    state = algorithm.init(problem, 0)
    batch = algorithm.ask(problem, state)
    x = batch.x
    assert len(x) == first
    state, _ = algorithm.tell(problem, state, batch, wave(x))
    assert len(algorithm.ask(problem, state)) == then


def test_a_deficient_first_batch_is_said_so() -> None:
    algorithm = supac.SuPAC(supac.Voronoi(draws=500), first=4)
    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    state = algorithm.init(problem, 0)
    batch = algorithm.ask(problem, state)
    x = batch.x
    _, info = algorithm.tell(problem, state, batch, wave(x))
    assert "do not determine the surrogate" in info.notes[0]


def test_a_step_may_leave_its_batch_to_be_planned_later() -> None:
    """The batch is then the same as one that is planned with the step, but for its predictions."""
    prior = supac.gaussian(np.zeros(2), np.eye(2))
    problem = supac.Problem.within(prior, supac.Catoni(0.1))
    algorithm = supac.SuPAC(supac.Voronoi(draws=500), batch=7)
    state = algorithm.init(problem, 0)
    batch = algorithm.ask(problem, state)
    x = batch.x
    risk = np.square(x).sum(axis=1)
    planned, _ = algorithm.tell(problem, state, batch, risk)
    later, _ = algorithm.tell(problem, state, batch, risk, plans=False)
    assert later.batch is None
    np.testing.assert_array_equal(later.posterior.theta, planned.posterior.theta)
    np.testing.assert_array_equal(
        algorithm.ask(problem, later).x, algorithm.ask(problem, planned).x
    )


def test_failed_runs_are_left_out_or_counted() -> None:
    algorithm = supac.SuPAC(supac.Voronoi(draws=2_000), first=60)
    dropping = supac.Problem.within(PLANE, supac.Catoni(0.1))
    counting = supac.Problem(PLANE, supac.Catoni(0.1), PLANE, failure_risk=1.0)
    state = algorithm.init(dropping, 0)
    batch = algorithm.ask(dropping, state)
    x = batch.x
    risk = np.where(x[:, 0] > 1.0, np.nan, 0.2)
    ignorant, _ = algorithm.tell(dropping, state, batch, risk)
    warned, _ = algorithm.tell(counting, state, batch, risk)
    assert ignorant.evaluations.failed == np.isnan(risk).sum() > 0
    assert warned.posterior.mean[0] < ignorant.posterior.mean[0] - 0.1
    nothing, info = algorithm.tell(dropping, state, batch, np.full(60, np.nan))
    assert nothing.posterior == state.posterior
    assert "every run of the batch failed" in info.notes[0]


def test_inner_updates_stay_in_one_trust_region() -> None:
    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    moved = []
    for inner in (1, 5):
        algorithm = supac.SuPAC(
            supac.Importance(), supac.FixedStep(0.3, 0.5), first=400, inner=inner
        )
        state = algorithm.init(problem, 0)
        batch = algorithm.ask(problem, state)
        x = batch.x
        state, _ = algorithm.tell(problem, state, batch, wave(x))
        moved.append(state.posterior.kl(PLANE))
    assert moved[0] < moved[1] <= 0.5


def test_a_proxy_saves_queries() -> None:
    """The same few runs with and without a proxy that is right up to a small smooth error."""
    risk = synthetic.example(0)

    def proxy(x: FloatArray) -> FloatArray:
        return risk(x) + 0.02 * np.sin(x[:, 0])

    objectives = []
    for given in (None, proxy):
        result = supac.minimize(
            risk,
            supac.gaussian(np.zeros(8), np.eye(8)),
            supac.Catoni(0.1),
            budget=60,
            execution=supac.Execution(vectorized=True),
            proxy=given,
            algorithm=supac.SuPAC(supac.Voronoi(draws=5_000), first=40, batch=20, inner=3),
        )
        objectives.append(true_objective(risk, result.posterior, 0.1))
    assert objectives[1] < objectives[0] - 0.01


def test_a_prior_outside_the_family_is_reached_from_within() -> None:
    """A correlated prior, a family of independent coordinates: the mean-field optimum."""
    prior = supac.gaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]])
    start = supac.gaussian([0.0, 0.0], [1.0, 1.0])
    hessian, centre, temperature = np.diag([1.0, 2.0]), np.array([1.0, -1.0]), 0.5
    result = supac.minimize(
        lambda x: 0.5 * np.einsum("ni,ij,nj->n", x - centre, hessian, x - centre),
        prior,
        supac.Catoni(temperature),
        start=start,
        budget=2_000,
        execution=supac.Execution(vectorized=True),
        algorithm=supac.SuPAC(supac.FreshDraws(), supac.FixedStep(0.3, 1.0), batch=100),
    )
    precision = np.linalg.inv(prior.covariance) + hessian / temperature
    mean = np.linalg.solve(precision, hessian @ centre / temperature)
    # Monte Carlo projections of the prior: 2,200 draws leave about 1/√2200 of a deviation.
    np.testing.assert_allclose(result.posterior.mean, mean, atol=0.06)
    np.testing.assert_allclose(
        np.diag(result.posterior.covariance), 1.0 / np.diag(precision), rtol=0.1
    )


@pytest.mark.parametrize("prior", [supac.beta(2.0, 2.0), supac.gamma(3.0, 1.0), supac.poisson(3.0)])
def test_other_families_are_optimised_as_well(prior: supac.Distribution) -> None:
    """A risk in the span of the statistics: the closed form is θ_p − η/λ."""
    eta = 0.05 * np.sign(prior.theta)

    def risk(x: FloatArray) -> FloatArray:
        return prior.exponential.statistics(x) @ eta

    result = supac.minimize(
        risk,
        prior,
        supac.Catoni(0.1),
        budget=2_000,
        execution=supac.Execution(vectorized=True),
        algorithm=supac.SuPAC(supac.Importance(), supac.FixedStep(1.0, 1.0), first=100, batch=50),
    )
    assert result.stop_reason is supac.StopReason.CONVERGED
    np.testing.assert_allclose(result.posterior.theta, prior.theta - eta / 0.1, rtol=1e-8)


def test_fresh_draws_cannot_look_ahead() -> None:
    with pytest.raises(ValueError, match="inner > 1 needs an estimator"):
        supac.SuPAC(supac.FreshDraws(), inner=2)
    with pytest.raises(TypeError, match="estimator must be one"):
        supac.SuPAC("voronoi")  # type: ignore[arg-type]


def test_a_step_rule_of_another_class_is_refused() -> None:
    class Judging:
        def update_radius(self) -> None: ...
        def move(self) -> None: ...

    with pytest.raises(TypeError, match="a subclass of StepRule of your own"):
        supac.SuPAC(step=Judging())  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", [supac.McAllester(50, 0.05), supac.Catoni(0.1)])
def test_a_prior_that_looks_like_no_member_still_pulls(bound: supac.Bound) -> None:
    """Far out, Cauchy's log-density is convex: its projection is no Gaussian."""

    class Cauchy:
        def log_prob(self, x: FloatArray) -> FloatArray:
            return -np.log1p(x**2).sum(axis=1) - x.shape[1] * np.log(np.pi)

    start = supac.gaussian([12.0, 12.0], 0.25 * np.eye(2))
    result = supac.minimize(
        lambda x: np.full(len(x), 0.1) + 1e-3 * x[:, 0],
        Cauchy(),
        bound,
        start=start,
        budget=400,
        execution=supac.Execution(vectorized=True),
        algorithm=supac.SuPAC(supac.Voronoi(draws=2_000), batch=20),
    )
    assert result.stop_reason is supac.StopReason.BUDGET
    assert (result.posterior.mean < 8.0).all()


@pytest.mark.parametrize("name", ["first", "batch", "inner"])
def test_bad_plans_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number, 1 or more"):
        supac.SuPAC(**{name: 0})  # type: ignore[arg-type]


def test_the_default_needs_few_queries_on_a_smooth_risk() -> None:
    """An 8-dimensional risk of the paper: within 2 % of the optimum after 100 queries."""
    risk = synthetic.example(0)
    prior = supac.gaussian(np.zeros(8), np.eye(8))
    result = supac.minimize(
        risk,
        prior,
        supac.Catoni(0.1),
        budget=100,
        validation=0,
        execution=supac.Execution(vectorized=True),
        seed=4,
    )
    best = true_objective(risk, best_gaussian(risk, 0.1), 0.1)
    assert true_objective(risk, result.posterior, 0.1) < 1.02 * best


def test_a_step_that_made_things_worse_is_taken_back() -> None:
    """The risk changes after the first step, so that the step was wrong."""
    problem = supac.Problem.within(PLANE, supac.Catoni(0.05))
    algorithm = supac.SuPAC()
    state = algorithm.init(problem, 0)
    batch = algorithm.ask(problem, state)
    x = batch.x
    moved, first = algorithm.tell(problem, state, batch, wave(x))
    assert moved.posterior != PLANE
    batch = algorithm.ask(problem, moved)
    x = batch.x
    good, _ = algorithm.tell(problem, moved, batch, wave(x))
    bad, info = algorithm.tell(problem, moved, batch, wave(x) + 0.5)
    assert "taken back" in info.notes[-1]
    assert info.radius < first.radius
    assert info.ratio < 0.0
    assert bad.posterior.kl(PLANE) <= info.radius
    assert good.last_step is not None
    assert good.last_step.radius > info.radius


@pytest.mark.slow
def test_many_evaluations_are_regressed_on() -> None:
    problem = supac.Problem.within(PLANE, supac.Catoni(0.05))
    algorithm = supac.SuPAC(first=1_600)
    state = algorithm.init(problem, 0)
    batch = algorithm.ask(problem, state)
    x = batch.x
    state, info = algorithm.tell(problem, state, batch, wave(x))
    assert "from 1,500 evaluations on, regression" in info.notes[0]
    for _ in range(8):
        batch = algorithm.ask(problem, state)
        x = batch.x
        assert len(x) == len(state.evaluations) // 20
        state, _ = algorithm.tell(problem, state, batch, wave(x))
    fresh = supac.SuPAC(supac.FreshDraws(), supac.FixedStep(0.5, 1.0), first=20_000, batch=20_000)
    best = supac.minimize(
        wave,
        PLANE,
        supac.Catoni(0.05),
        budget=160_000,
        execution=supac.Execution(vectorized=True),
        algorithm=fresh,
    ).posterior
    x = np.random.default_rng(7).standard_normal((100_000, 2))
    objectives = [
        wave(q.whiten().spread(x)).mean() + 0.05 * q.kl(PLANE)  # type: ignore[attr-defined]
        for q in (state.posterior, best)
    ]
    assert objectives[0] < objectives[1] + 0.002


def test_a_batch_that_was_not_planned_is_learnt_from_without_a_trial() -> None:
    """Runs made elsewhere count as draws of the posterior."""
    problem = supac.Problem.within(PLANE, supac.Catoni(0.05))
    algorithm = supac.SuPAC()
    state = algorithm.init(problem, 0)
    x = PLANE.sample(17, 5)
    state, _ = algorithm.tell(problem, state, state.batch_of(x), wave(x))
    x = state.posterior.sample(9, 6)
    state, info = algorithm.tell(problem, state, state.batch_of(x), wave(x))
    assert len(state.evaluations) == 26
    assert np.isnan(info.ratio)


def test_the_same_bits_with_any_number_of_threads() -> None:
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(
                supac.minimize(
                    synthetic.example(1),
                    supac.gaussian(np.zeros(8), np.eye(8)),
                    supac.Catoni(0.1),
                    budget=60,
                    execution=supac.Execution(vectorized=True),
                )
            )
    assert found[0].posterior == found[1].posterior
    np.testing.assert_array_equal(found[0].evaluations.x, found[1].evaluations.x)


def test_diagnostics_say_how_sure_the_model_is() -> None:
    problem = supac.Problem.within(PLANE, supac.Catoni(0.05))
    algorithm = supac.SuPAC(batch=20)
    state = algorithm.init(problem, 0)
    for _ in range(6):
        batch = algorithm.ask(problem, state)
        x = batch.x
        state, info = algorithm.tell(problem, state, batch, wave(x))
    fresh = wave(state.posterior.sample(50_000, 1))
    kl, error = state.posterior.kl(PLANE), info.loo_error + fresh.std() / np.sqrt(len(fresh))
    assert info.predicted == pytest.approx(fresh.mean() + 0.05 * kl, abs=3.0 * error)
    assert 5.0 < info.effective_size <= len(state.evaluations)
    assert info.k_hat < 0.7
    assert abs(info.shortfall) < 0.05
    assert info.wrong == 0.0
    assert 0.0 <= info.failure_chance < 0.01


def test_another_prior_takes_no_query() -> None:
    """What was learnt of a risk η·T + C gives the exact minimiser θ_p − η/λ for any prior."""
    temperature, rng = 0.3, np.random.default_rng(4)
    first = supac.gaussian([0.0, 0.0], np.eye(2))
    other = supac.gaussian([0.5, -1.0], [[0.5, 0.1], [0.1, 0.4]])
    eta = np.array([0.2, -0.1, 0.3, 0.05, 0.2])
    algorithm = supac.SuPAC(supac.Importance(), supac.FixedStep(1.0, np.inf), first=40, batch=40)
    problem = supac.Problem.within(first, supac.Catoni(temperature))
    state = algorithm.init(problem, 0)
    batch = algorithm.ask(problem, state)
    x = batch.x
    state, _ = algorithm.tell(problem, state, batch, first.exponential.statistics(x) @ eta + 0.7)
    revised, info = algorithm.revise(supac.Problem.within(other, problem.bound), state)
    np.testing.assert_allclose(revised.posterior.theta, other.theta - eta / temperature, rtol=1e-7)
    assert revised.evaluations is state.evaluations
    assert info.predicted == pytest.approx(
        float(eta @ revised.posterior.mean_statistics)
        + 0.7
        + temperature * revised.posterior.kl(other)
    )
    # The next batch is drawn from where that led, and is the same whenever it is asked for.
    again, _ = algorithm.revise(supac.Problem.within(other, problem.bound), state)
    assert np.array_equal(again.posterior.theta, revised.posterior.theta)
    drawn = algorithm.ask(problem, revised)
    assert drawn.proposal == revised.posterior
    few = algorithm.init(problem, 0)
    x = rng.standard_normal((2, 2))
    few = replace(few, evaluations=few.told(few.batch_of(x), np.array([0.1, 0.2])))
    unchanged, info = algorithm.revise(problem, few)
    assert unchanged.posterior is few.posterior
    assert unchanged.evaluations is few.evaluations
    assert "fewer than three" in info.notes[0]
