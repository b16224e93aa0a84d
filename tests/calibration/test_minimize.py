from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from supac import marginals
from supac.arrays import FloatArray
from supac.problem.likelihood import NormalLikelihood
from supac.problem.losses import ResidualLoss
from supac.report.standing import standing
from supac.simulators import synthetic
from waves import wave

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
QUICK = supac.SuPAC(supac.Voronoi(draws=1_000), supac.FixedStep(), first=20, batch=10)


def waves(x: FloatArray) -> FloatArray:
    return 0.5 + 0.3 * np.sin(x).mean(axis=1)


def test_one_by_one_and_vectorised_agree_bit_for_bit() -> None:
    single = supac.minimize(wave, PLANE, supac.Catoni(0.05), budget=60, algorithm=QUICK)
    many = supac.minimize(
        waves,
        PLANE,
        supac.Catoni(0.05),
        budget=60,
        algorithm=QUICK,
        execution=supac.Execution(vectorized=True),
    )
    assert single.posterior == many.posterior


def test_same_seed_same_bits_another_seed_another_run() -> None:
    runs = [
        supac.minimize(
            waves,
            PLANE,
            supac.Catoni(0.05),
            budget=60,
            algorithm=QUICK,
            execution=supac.Execution(vectorized=True),
            seed=s,
        )
        for s in (1, 1, 2)
    ]
    assert runs[0].posterior == runs[1].posterior
    assert runs[0].posterior != runs[2].posterior
    np.testing.assert_array_equal(runs[0].evaluations.x, runs[1].evaluations.x)


def test_a_larger_budget_begins_the_same_way() -> None:
    short, long = (
        supac.minimize(
            waves,
            PLANE,
            supac.Catoni(0.05),
            budget=b,
            algorithm=QUICK,
            execution=supac.Execution(vectorized=True),
        )
        for b in (45, 80)
    )
    assert len(short.evaluations) == 40
    assert len(long.evaluations) == 80
    np.testing.assert_array_equal(short.evaluations.x, long.evaluations.x[:40])


def test_a_run_by_hand_is_the_same_run() -> None:
    result = supac.minimize(
        waves,
        PLANE,
        supac.Catoni(0.05),
        budget=40,
        algorithm=QUICK,
        execution=supac.Execution(vectorized=True),
        seed=5,
    )
    problem = supac.Problem.within(PLANE, supac.Catoni(0.05))
    state = QUICK.init(problem, seed=5)
    for _ in range(3):
        batch = QUICK.ask(problem, state)
        x = batch.x
        state, _ = QUICK.tell(problem, state, batch, waves(x))
    assert state.posterior == result.posterior


def test_result_tells_what_was_found() -> None:
    result = supac.minimize(
        waves,
        PLANE,
        supac.Catoni(0.05),
        budget=300,
        algorithm=QUICK,
        execution=supac.Execution(vectorized=True),
    )
    assert result.kl == pytest.approx(result.posterior.kl(PLANE))
    assert result.objective == pytest.approx(result.mean_risk + 0.05 * result.kl)
    fresh = waves(result.posterior.sample(100_000, np.random.default_rng(0)))
    # Reused runs are slightly optimistic: allow five of the estimate's own standard errors.
    assert abs(result.mean_risk - fresh.mean()) < 5.0 * result.mean_risk_error
    assert result.history["queries"].tolist() == list(range(20, 301, 10))
    assert set(result.history) > {"objective", "mean_risk", "kl", "alpha", "step_kl", "r_squared"}
    assert all(len(column) == 29 for column in result.history.values())
    assert str(result).startswith("objective 0.")
    assert result.sample(5, np.random.default_rng(0)).shape == (5, 2)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_runs_end_to_end(name: str) -> None:
    prior = FAMILIES[name][0]
    result = supac.minimize(
        lambda x: 0.5 + 0.4 * np.tanh(x.sum(axis=1) - prior.mean.sum()),
        prior,
        supac.Catoni(0.2),
        budget=6 * prior.family.size + 100,
        algorithm=supac.SuPAC(supac.Voronoi(draws=2_000)),
        execution=supac.Execution(vectorized=True),
    )
    assert result.objective < result.history["mean_risk"][0]


def test_stop_reasons() -> None:
    def run(**options: object) -> supac.Result:
        settings: dict[str, object] = {
            "budget": 60,
            "algorithm": QUICK,
            "execution": supac.Execution(vectorized=True),
            **options,
        }
        return supac.minimize(waves, PLANE, supac.Catoni(0.05), **settings)  # type: ignore[arg-type]

    assert run().stop_reason is supac.StopReason.BUDGET
    with pytest.warns(DeprecationWarning, match="tolerance= is now"):
        assert run(tolerance=1e3).stop_reason is supac.StopReason.CONVERGED
    seen = []

    def callback(iteration: supac.Iteration) -> bool:
        seen.append(
            (iteration.queries, iteration.posterior, iteration.next_posterior, iteration.objective)
        )
        return bool(np.bool_(iteration.queries >= 30))

    stopped = run(callback=callback)
    assert stopped.stop_reason is supac.StopReason.USER
    assert [queries for queries, *_ in seen] == [20, 30]
    assert seen[0][1] == PLANE
    assert seen[1][1] == seen[0][2]
    assert seen[-1][2] == stopped.posterior
    for reason in supac.StopReason:
        assert reason.sentence.endswith(".")


def test_failures_are_raised_dropped_or_penalised() -> None:
    def fragile(x: FloatArray) -> float:
        if x[0] > 1.0:
            raise RuntimeError("no steady state")
        return 0.2

    def run(**options: object) -> supac.Result:
        bound = supac.Catoni(0.05, ceiling=2.0)
        return supac.minimize(fragile, PLANE, bound, budget=100, algorithm=QUICK, **options)  # type: ignore[arg-type]

    with pytest.raises(supac.EvaluationError, match=r"raised RuntimeError.*no steady state.*drop"):
        run()
    dropped, penalised = (
        run(execution=supac.Execution(on_failure="drop")),
        run(execution=supac.Execution(on_failure="penalise")),
    )
    assert dropped.evaluations.failed > 0
    assert "RuntimeError: no steady state" in dropped.notes[-1]
    assert dropped.mean_risk == pytest.approx(0.2)
    assert penalised.posterior.mean[0] < dropped.posterior.mean[0] - 0.2
    assert np.isnan(penalised.evaluations.risk).sum() == penalised.evaluations.failed


def test_penalties_need_a_ceiling() -> None:
    class Free(supac.Bound):
        def __call__(self, mean_risk: float, kl: float) -> float:
            return mean_risk + kl

    with pytest.raises(ValueError, match="has no attribute `ceiling`"):
        supac.minimize(
            wave, PLANE, Free(), budget=40, execution=supac.Execution(on_failure="penalise")
        )


@pytest.mark.parametrize(("share", "stops"), [(0.4, False), (0.6, True)])
def test_more_than_half_failing_is_too_much(share: float, stops: bool) -> None:
    calls = iter(range(1_000))

    def sometimes(x: FloatArray) -> float:
        return np.nan if next(calls) % 10 < 10 * share else wave(x)

    result = supac.minimize(
        sometimes,
        PLANE,
        supac.Catoni(0.05),
        budget=60,
        algorithm=QUICK,
        execution=supac.Execution(on_failure="drop"),
    )
    assert (result.stop_reason is supac.StopReason.FAILURES) is stops


def test_failing_is_never_rewarded() -> None:
    """Risks of 3 with a ceiling of 1: a failed run counts as the worst one, not as 1."""
    result = supac.minimize(
        lambda x: np.where(x[:, 0] > 1.0, np.nan, 3.0),
        PLANE,
        supac.Catoni(0.05, ceiling=1.0),
        budget=60,
        algorithm=QUICK,
        execution=supac.Execution(vectorized=True, on_failure="penalise"),
    )
    assert abs(result.posterior.mean[0]) < 0.1
    assert any("leave the range [0, 1]" in note for note in result.notes)


class Largest(ResidualLoss):
    """A loss that is no mean."""

    def __call__(self, residuals: FloatArray) -> FloatArray:
        return np.asarray(np.abs(residuals).max(axis=1))


@pytest.mark.parametrize(
    ("loss", "capped"),
    [
        (supac.MeanSquare(), True),
        (supac.RootMeanSquare(), True),
        (NormalLikelihood(0.0), False),
        (Largest(), False),
    ],
)
def test_the_range_of_risks_is_noted_only_where_there_is_no_certificate(
    loss: ResidualLoss, capped: bool
) -> None:
    """Risks leave the range of the bound: the loss of each datum may be capped, or may not."""
    result = supac.minimize(
        supac.Composite(lambda z: 3.0 * z @ np.ones((2, 5)) + 4.0, loss),
        PLANE,
        supac.MaurerLangfordSeeger(5, 0.05, ceiling=2.0),
        budget=40,
        validation=10,
        algorithm=QUICK,
        execution=supac.Execution(vectorized=True),
    )
    noted = [each for each in result.notes if "leave the range [0, 2]" in each]
    assert (len(noted), result.certificate is not None) == ((0, True) if capped else (1, False))


def test_objective_is_the_bound_at_the_estimate() -> None:
    bound = supac.MaurerLangfordSeeger(n=200, delta=0.05)
    result = supac.minimize(
        waves, PLANE, bound, budget=60, algorithm=QUICK, execution=supac.Execution(vectorized=True)
    )
    assert result.objective == bound(result.mean_risk, result.kl)


def test_notes_of_the_iterations_reach_the_result() -> None:
    few = supac.SuPAC(supac.Voronoi(draws=500), first=4, batch=4)
    result = supac.minimize(
        waves,
        PLANE,
        supac.Catoni(0.05),
        budget=20,
        algorithm=few,
        execution=supac.Execution(vectorized=True),
    )
    assert any(
        "do not determine the surrogate" in n and "first at 4 queries" in n for n in result.notes
    )


def test_risks_beyond_the_ceiling_void_the_bound() -> None:
    bound = supac.McAllester(n=100, delta=0.05)
    for scale, void in ((1.0, False), (100.0, True)):

        def scaled(x: FloatArray, scale: float = scale) -> FloatArray:
            return scale * waves(x)

        result = supac.minimize(
            scaled,
            PLANE,
            bound,
            budget=60,
            algorithm=QUICK,
            execution=supac.Execution(vectorized=True),
        )
        assert any("guarantees nothing" in note for note in result.notes) is void


def test_estimates_worth_few_runs_are_said_so() -> None:
    result = supac.minimize(
        waves,
        PLANE,
        supac.Catoni(0.001),
        budget=20,
        algorithm=QUICK,
        execution=supac.Execution(vectorized=True),
    )
    assert result.effective_size < 20.0
    few = result.effective_size < PLANE.family.size + 1
    assert any("check it with fresh draws" in note for note in result.notes) is few
    assert f"worth {result.effective_size:.0f} runs" in str(result)


def test_an_error_that_rests_on_less_than_two_runs_is_not_known(tmp_path: Path) -> None:
    """One run that counts shows no spread, and neither do runs that all failed."""

    def ended(risk: Callable[[FloatArray], float], path: Path, **options: Any) -> supac.Result:
        execution = supac.Execution(on_failure="penalise")
        result = supac.minimize(
            risk, PLANE, supac.Catoni(0.05), budget=60, execution=execution, store=path, **options
        )
        assert np.isfinite(result.mean_risk)
        assert np.isnan(result.mean_risk_error)
        assert "±" not in str(result)
        assert np.isnan(supac.Result.from_json(result.to_json()).mean_risk_error)
        again = supac.read_store(path)
        assert again.to_dict()["mean_risk_error"] is None
        assert dict(standing(again))["mean risk"].endswith(", estimated on the way")
        assert "±" not in dict(standing(again))["mean risk"]
        supac.write_report(again, path.with_suffix(".html"))
        return result

    def steep(x: FloatArray) -> float:
        return float(-np.expm1(-50.0 * ((x - 3.0) ** 2).sum()))

    def broken(x: FloatArray) -> float:
        raise RuntimeError("no licence")

    assert ended(broken, tmp_path / "broken.supac").stop_reason is supac.StopReason.FAILURES
    with pytest.MonkeyPatch.context() as patch:  # the one run that is near the posterior
        patch.setattr(
            "supac.surrogate.importance.ImportanceWeighted.weights",
            lambda self, at: np.eye(len(self.evaluations))[0],
        )
        ended(steep, tmp_path / "one.supac", callback=lambda _: True)


def test_too_many_failures_stop_the_run() -> None:
    result = supac.minimize(
        lambda x: np.full(len(x), np.nan),
        PLANE,
        supac.Catoni(0.05),
        budget=100,
        algorithm=QUICK,
        execution=supac.Execution(vectorized=True, on_failure="drop"),
    )
    assert result.stop_reason is supac.StopReason.FAILURES
    assert len(result.evaluations) == result.evaluations.failed == 20  # the first batch
    assert {run.message for run in result.failures} == {"risk returned nan"}
    assert np.isnan(result.objective)
    assert result.posterior == PLANE


def test_parameters_put_the_user_in_their_own_units() -> None:
    parameters = supac.Parameters(
        {"rate": marginals.LogNormal(2.0, 0.5, unit="1/d"), "share": marginals.Uniform(0.0, 1.0)}
    )
    seen = []

    def risk(x: FloatArray) -> float:
        seen.append(x)
        return abs(np.log(x[0] / 3.0)) * 0.3 + (x[1] - 0.8) ** 2

    result = supac.minimize(risk, parameters, supac.Catoni(0.01), budget=200, algorithm=QUICK)
    x = np.array(seen)
    assert (x[:, 0] > 0.0).all()
    assert ((x[:, 1] >= 0.0) & (x[:, 1] <= 1.0)).all()
    np.testing.assert_allclose(result.x, x)
    draws = result.sample(2_000, 0)
    assert np.median(draws[:, 0]) == pytest.approx(3.0, rel=0.15)
    assert np.median(draws[:, 1]) == pytest.approx(0.8, abs=0.1)


def test_parameters_by_hand() -> None:
    parameters = supac.Parameters({"k": marginals.LogNormal(2.0, 0.5)})
    problem = supac.Problem.within(parameters, supac.Catoni(0.1))
    state = QUICK.init(problem, 0)
    batch = QUICK.ask(problem, state)
    u = batch.x
    k = parameters.from_latent(u)[:, 0]
    state, _ = QUICK.tell(problem, state, batch, np.abs(np.log(k)))
    assert state.posterior.mean[0] < -0.1


def test_a_proxy_is_called_in_the_users_units() -> None:
    parameters = supac.Parameters({"share": marginals.Uniform(10.0, 11.0)})

    def proxy(x: FloatArray) -> FloatArray:
        assert ((x >= 10.0) & (x <= 11.0)).all()
        return x[:, 0] - 10.0

    result = supac.minimize(
        lambda x: float(x[0] - 10.0),
        parameters,
        supac.Catoni(0.05),
        budget=40,
        proxy=proxy,
        algorithm=QUICK,
    )
    assert result.sample(200, np.random.default_rng(0)).mean() < 10.3


def test_the_risk_cannot_write_into_what_it_is_given() -> None:
    def vandal(x: FloatArray) -> float:
        x[0] = 0.0
        return 0.0

    with pytest.raises(supac.EvaluationError, match="read-only"):
        supac.minimize(vandal, PLANE, supac.Catoni(0.1), budget=40, algorithm=QUICK)


class NotAPrior:
    pass


MANY = supac.Execution(vectorized=True)


BAD_CALLS: list[tuple[dict[str, object], type[Exception], str]] = [
    ({"budget": 10}, ValueError, "budget = 10 is smaller than the first batch of 20 runs"),
    ({"prior": NotAPrior()}, TypeError, "prior must be a Distribution"),
    ({"prior": {"k": 1.0}}, TypeError, "prior must be Parameters, not a dict"),
    ({"bound": 0.1}, TypeError, "bound must be a bound such as Catoni"),
    ({"seed": -1}, ValueError, "seed must be a whole number, 0 or more, not -1"),
    (
        {"risk": lambda x: [0.1, 0.2]},
        supac.EvaluationError,
        r"a list of length 2; pass Execution\(vectorized=True\)",
    ),
    ({"risk": lambda x: np.eye(2)}, supac.EvaluationError, r"an array of shape \(2, 2\)"),
    ({"risk": lambda x: np.nan}, supac.EvaluationError, "risk returned nan at x = .*on_failure"),
    ({"risk": lambda x: np.inf}, supac.EvaluationError, "risk returned inf at x"),
    ({"budget": 40.5}, ValueError, "budget must be a whole number, 1 or more, not 40.5"),
    ({"risk": 3}, TypeError, "risk must be a function of x, not 3"),
    ({"algorithm": supac.SuPAC}, TypeError, r"algorithm must be one such as SuPAC\(\)"),
    ({"start": np.zeros(2)}, TypeError, "start must be a Distribution"),
    (
        {"start": supac.gaussian([0.0], [[1.0]])},
        ValueError,
        "start has 1 coordinates, but the prior has 2",
    ),
    ({"proxy": lambda x: 0.1}, ValueError, r"proxy must take .*returned an array of shape \(\)"),
    ({"proxy": lambda x: x[5]}, ValueError, "proxy must take .*raised IndexError"),
    (
        {"risk": lambda x: x.sum(axis=1)[0]},
        supac.EvaluationError,
        r"AxisError.*Execution\(vectorized=True\)",
    ),
    (
        {"risk": float, "execution": MANY},
        supac.EvaluationError,
        "raised TypeError.*leave out vectorized=True",
    ),
    ({"risk": lambda x: None}, supac.EvaluationError, "not None of type NoneType"),
    ({"risk": lambda x: "0.3 a"}, supac.EvaluationError, "'0.3 a' of type str"),
    (
        {"risk": lambda x: 0.1, "execution": MANY},
        supac.EvaluationError,
        r"must return an array of shape \(20,\), not 0.1",
    ),
    (
        {"risk": lambda x: np.zeros((20, 1)), "execution": MANY},
        supac.EvaluationError,
        r"not an array of shape \(20, 1\)",
    ),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD_CALLS)
def test_bad_calls_are_refused(
    options: dict[str, object], kind: type[Exception], message: str
) -> None:
    call: dict[str, object] = {
        "risk": wave,
        "prior": PLANE,
        "bound": supac.Catoni(0.1),
        "budget": 40,
        "algorithm": QUICK,
    }
    with pytest.raises(kind, match=message):
        supac.minimize(**{**call, **options})  # type: ignore[arg-type]


def test_a_negative_tolerance_is_refused() -> None:
    with (
        pytest.warns(DeprecationWarning, match="tolerance= is now"),
        pytest.raises(ValueError, match="tolerance must not be negative"),
    ):
        supac.minimize(wave, PLANE, supac.Catoni(0.1), budget=40, tolerance=-1.0)


def test_tell_refuses_wrong_shapes_and_infinities() -> None:
    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    state = QUICK.init(problem, 0)
    batch = QUICK.ask(problem, state)
    x = batch.x
    with pytest.raises(ValueError, match=r"risk must hold one number a point, shape \(20,\)"):
        QUICK.tell(problem, state, batch, np.zeros(19))
    with pytest.raises(ValueError, match=r"shape \(n, 2\)"):
        QUICK.tell(problem, state, state.batch_of(x[:, :1]), np.zeros(20))
    with pytest.raises(ValueError, match="risk contains NaN or infinity"):
        QUICK.tell(problem, state, batch, np.full(20, np.inf))


def test_progress_is_silent_unless_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    supac.minimize(wave, PLANE, supac.Catoni(0.05), budget=40, algorithm=QUICK)
    assert capfd.readouterr().err == ""
    always = supac.Execution(progress=True)
    supac.minimize(wave, PLANE, supac.Catoni(0.05), budget=40, algorithm=QUICK, execution=always)
    shown = capfd.readouterr().err
    assert "40/40" in shown
    assert "objective" in shown


def residuals(x: FloatArray) -> FloatArray:
    rates = np.linspace(0.2, 1.5, 6)
    return np.exp(-0.3 * x[..., :1] * rates) + 0.2 * x[..., 1:] * rates - 1.1


def test_a_composite_risk_is_emulated_by_its_outputs() -> None:
    composite = supac.Composite(residuals, supac.RootMeanSquare())
    bound = supac.Catoni(0.02)
    one = supac.minimize(composite, PLANE, bound, budget=60, seed=3)
    many = supac.minimize(
        composite, PLANE, bound, budget=60, seed=3, execution=supac.Execution(vectorized=True)
    )
    outputs = many.evaluations.outputs
    assert outputs is not None
    assert one.evaluations.outputs is not None
    np.testing.assert_allclose(one.evaluations.outputs, outputs, atol=1e-12)
    assert one.posterior.mean == pytest.approx(many.posterior.mean, abs=1e-6)
    np.testing.assert_array_equal(outputs, residuals(many.evaluations.x))
    np.testing.assert_array_equal(supac.RootMeanSquare()(outputs), many.evaluations.risk)


def test_a_composite_run_by_hand_is_the_same_run() -> None:
    loss = supac.RootMeanSquare()
    composite = supac.Composite(residuals, loss)
    bound = supac.Catoni(0.02)
    result = supac.minimize(
        composite, PLANE, bound, budget=30, validation=0, execution=supac.Execution(vectorized=True)
    )
    problem = supac.Problem(PLANE, bound, PLANE, loss=loss)
    algorithm = supac.SuPAC()
    state = algorithm.init(problem, 0)
    while len(state.evaluations) < len(result.evaluations):
        batch = algorithm.ask(problem, state)
        outputs = residuals(batch.x)
        state, _ = algorithm.tell(problem, state, batch, loss(outputs), outputs)
    assert state.posterior == result.posterior


def test_a_composite_whose_runs_all_fail_for_a_while_goes_on() -> None:
    calls = 0

    def simulate(x: FloatArray) -> FloatArray:
        nonlocal calls
        calls += 1
        if 20 < calls <= 30:
            raise RuntimeError("no licence")
        return residuals(x)

    result = supac.minimize(
        supac.Composite(simulate, supac.MeanSquare()),
        PLANE,
        supac.Catoni(0.1),
        budget=60,
        execution=supac.Execution(on_failure="drop"),
    )
    assert result.evaluations.failed == 10
    assert len(result.evaluations) > 40
    assert any("no licence" in note for note in result.notes)


def test_the_posterior_is_validated_with_fresh_runs() -> None:
    settings = {"budget": 100, "execution": supac.Execution(vectorized=True), "seed": 1}
    result = supac.minimize(waves, PLANE, supac.Catoni(0.05), **settings)  # type: ignore[arg-type]
    assert len(result.evaluations) == 100 or result.stop_reason is supac.StopReason.CONVERGED
    assert result.validated in (10, 20)
    assert result.start == PLANE
    last = result.evaluations.select(result.evaluations.iteration >= len(result.history["kl"]))
    assert len(last) == 20
    assert last.drawn.all()
    truth = waves(result.posterior.sample(200_000, 0)).mean()
    assert abs(result.mean_risk - truth) < 4.0 * result.mean_risk_error
    assert "fresh runs" in str(result)
    none = supac.minimize(
        waves,
        PLANE,
        supac.Catoni(0.05),
        validation=0,
        **settings,  # type: ignore[arg-type]
    )
    assert none.validated == 0


def test_a_disappointing_validation_is_learnt_from() -> None:
    """The risk of a region that no batch has met rises just before the end."""
    calls = 0

    def treacherous(x: FloatArray) -> FloatArray:
        nonlocal calls
        calls += len(x)
        return waves(x) + (0.3 * (x[:, 0] < -0.5) if calls > 20 else 0.0)

    result = supac.minimize(
        treacherous,
        PLANE,
        supac.Catoni(0.05),
        budget=60,
        validation=40,
        execution=supac.Execution(vectorized=True),
    )
    assert result.validated == 20
    assert any("was predicted; after learning from them" in note for note in result.notes)


def test_validation_must_fit_into_the_budget() -> None:
    with pytest.raises(ValueError, match="validation = 95 leaves too little of the budget"):
        supac.minimize(waves, PLANE, supac.Catoni(0.05), budget=100, validation=95)


def test_a_larger_budget_begins_the_same_way_by_default() -> None:
    short, long = (
        supac.minimize(
            waves, PLANE, supac.Catoni(0.05), budget=b, execution=supac.Execution(vectorized=True)
        )
        for b in (50, 80)
    )
    np.testing.assert_array_equal(short.evaluations.x[:35], long.evaluations.x[:35])


@pytest.mark.slow
def test_another_temperature_needs_a_tenth_of_the_queries() -> None:
    """What was learnt of the risk does not depend on the bound: 300 runs, then 30 more."""
    risk = synthetic.example(0)
    prior = supac.gaussian(np.zeros(8), np.eye(8))
    normal = np.random.default_rng(0).standard_normal((2**15, 8))

    def true_objective(posterior: supac.Distribution) -> float:
        x = posterior.mean + normal @ np.linalg.cholesky(posterior.covariance).T
        return float(risk(x).mean()) + 0.05 * posterior.kl(prior)

    many = supac.Execution(vectorized=True)
    first = supac.minimize(risk, prior, supac.Catoni(0.1), budget=300, execution=many)
    fresh = supac.minimize(risk, prior, supac.Catoni(0.05), budget=300, execution=many, seed=1)
    again = supac.reoptimize(first, risk, bound=supac.Catoni(0.05), budget=30, execution=many)
    assert len(again.evaluations) <= len(first.evaluations) + 30
    best = true_objective(fresh.posterior)
    assert true_objective(again.posterior) < 1.02 * best < true_objective(first.posterior)


def test_another_prior_reuses_the_runs() -> None:
    first = supac.minimize(
        waves, PLANE, supac.Catoni(0.05), budget=100, execution=supac.Execution(vectorized=True)
    )
    other = supac.gaussian([1.0, 0.0], np.eye(2))
    again = supac.reoptimize(
        first, waves, prior=other, budget=30, execution=supac.Execution(vectorized=True)
    )
    fresh = supac.minimize(
        waves, other, supac.Catoni(0.05), budget=100, execution=supac.Execution(vectorized=True)
    )
    assert again.prior == other
    # Both estimates of the same minimum, from few fresh runs each.
    error = np.hypot(again.mean_risk_error, fresh.mean_risk_error)
    assert again.objective == pytest.approx(fresh.objective, abs=4.0 * error)
