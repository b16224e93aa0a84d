"""Meta-learning as users see it: priors that help, few queries, the same bits everywhere."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
import supac.meta as pure
from bowls import Bowl, Fails, Residuals, bowls
from supac.arrays import FloatArray
from supac.codec import from_spec, to_spec
from supac.simulators.synthetic import Environment

FIRST = supac.gaussian(np.zeros(2), np.eye(2))
LEARNER = supac.MetaSuPAC(
    (supac.Stage(inner=supac.Reuse(supac.SuPAC(first=10, batch=5), first=30, most=10)),)
)


def tasks_of(n: int, temperature: float = 0.05, seed: int = 0) -> list[supac.Task]:
    return [supac.Task(each, supac.Catoni(temperature)) for each in bowls(n, seed)]


def learn(tasks: list[supac.Task], **options: Any) -> supac.MetaResult:
    settings: dict[str, Any] = {"passes": 3, "learner": LEARNER, "seed": 5}
    return supac.meta_learn(tasks, FIRST, **{**settings, **options})


def same(one: supac.MetaResult, other: supac.MetaResult) -> bool:
    """Bit for bit."""
    return (
        one.priors == other.priors
        and all(
            np.array_equal(one.history[k], other.history[k], equal_nan=True) for k in one.history
        )
        and all(
            a.posterior == b.posterior
            and np.array_equal(a.evaluations.x, b.evaluations.x)
            and np.array_equal(a.evaluations.risk, b.evaluations.risk, equal_nan=True)
            and [run.x.tolist() for run in a.failures] == [run.x.tolist() for run in b.failures]
            for a, b in zip(one.tasks, other.tasks, strict=True)
        )
    )


@pytest.fixture(scope="module")
def learnt() -> supac.MetaResult:
    return learn(tasks_of(6))


def test_the_prior_moves_to_where_tasks_are(learnt: supac.MetaResult) -> None:
    centre = np.mean([(each.a, each.b) for each in bowls(6)], axis=0)
    spread = np.sqrt(np.diag(learnt.prior.covariance))
    assert np.abs(learnt.prior.mean - centre).max() < 0.2
    assert spread[1] < 0.25 < spread[0]
    objective = learnt.history["objective"]
    assert objective[-1] < 0.4 * objective[0]
    assert "passes" in str(learnt)


def test_new_tasks_gain_from_it(learnt: supac.MetaResult) -> None:
    new = tasks_of(6, seed=1)
    scores = supac.evaluate_priors([FIRST, learnt.prior], new, budget=40, draws=2_000)
    assert scores.objective.shape == (2, 6)
    assert (scores.objective[1] < scores.objective[0]).all()
    assert scores.mean[1] < 0.5 * scores.mean[0]
    low, high = scores.quantiles(0.2, 0.8)
    assert (low <= scores.mean).all()
    assert (scores.mean <= high + 0.05).all()
    assert (scores.queries <= 40).all()


def test_runs_are_reused_and_few_are_asked_for(learnt: supac.MetaResult) -> None:
    queries = np.diff(learnt.history["queries"], prepend=0)
    assert queries[0] <= 6 * 30
    assert (queries[1:] <= 6 * 10).all()
    assert learnt.queries == sum(queries)
    longer = learn(tasks_of(6), passes=6)
    assert longer.history["asked"][-1] < 6  # the model of some task is no longer in doubt
    # A larger number of passes begins the same way.
    assert longer.priors[:4] == learnt.priors


def test_nothing_is_asked_for_when_the_prior_no_longer_moves() -> None:
    """A posterior that its runs cover is found on the model alone."""
    environment = pure.Environment(FIRST, tasks_of(1))
    inner = supac.Reuse(supac.SuPAC(first=20, batch=10), first=60, effective_size=10.0)
    learner = supac.MetaSuPAC((supac.Stage(inner=inner),))
    state, bowl = learner.init(environment, 0), bowls(1)[0]
    state = learner.begin(environment, state)
    while asked := learner.ask(state):
        answers = {i: (np.array([bowl(x) for x in each.x]), None) for i, each in asked.items()}
        state = learner.tell(environment, state, answers)
    again = learner.begin(environment, replace(state, active=()))
    assert not learner.ask(again)


def test_the_pure_part_is_pure() -> None:
    environment = pure.Environment(FIRST, tasks_of(2))
    some = bowls(2)
    start = LEARNER.begin(environment, LEARNER.init(environment, 1))
    asked = LEARNER.ask(start)
    assert all(np.array_equal(asked[i].x, LEARNER.ask(start)[i].x) for i in asked)
    answers = {i: (np.array([some[i](row) for row in batch.x]), None) for i, batch in asked.items()}
    one, two = (LEARNER.tell(environment, start, answers) for _ in range(2))
    assert LEARNER.ask(start).keys() == {0, 1}
    for a, b in zip(one.tasks, two.tasks, strict=True):
        assert a is not None
        assert b is not None
        assert a.state.posterior == b.state.posterior
    with pytest.raises(ValueError, match="still wait"):
        LEARNER.finish(environment, start)
    # One task at a time leads to the same state as both at once.
    parts = start
    for i in (1, 0):
        parts = LEARNER.tell(environment, parts, {i: answers[i]})
    assert all(
        a.state.posterior == b.state.posterior
        for a, b in zip(parts.tasks, one.tasks, strict=True)
        if a is not None and b is not None
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_bits_on_any_number_of_processes(learnt: supac.MetaResult, workers: int) -> None:
    assert same(learn(tasks_of(6), execution=workers), learnt)


def test_the_same_bits_on_threads_of_ones_own(learnt: supac.MetaResult) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert same(learn(tasks_of(6), execution=pool), learnt)


def test_the_same_bits_for_a_risk_that_takes_many_points() -> None:
    def many(bowl: Bowl) -> Any:
        return lambda x: np.array([bowl(row) for row in x])

    vectorized = [supac.Task(many(b), supac.Catoni(0.05), vectorized=True) for b in bowls(3)]
    assert same(learn(vectorized), learn(tasks_of(3)))


def test_a_store_goes_on_to_the_same_bits(
    tmp_path: Path, learnt: supac.MetaResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "meta.supac"
    begun = learn(tasks_of(6), store=store, passes=1)
    assert begun.priors == learnt.priors[:2]
    assert same(learn(tasks_of(6), store=store), learnt)
    assert supac.read_store(store).settings.others["passes"] == 3

    def never(self: Bowl, x: FloatArray) -> float:
        raise AssertionError("everything is known")

    monkeypatch.setattr(Bowl, "__call__", never)
    assert same(learn(tasks_of(6), store=store), learnt)
    # What is there is not taken back.
    assert same(learn(tasks_of(6), store=store, passes=1), learnt)
    assert supac.read_store(store).settings.others["passes"] == 3


def test_a_store_knows_its_tasks(tmp_path: Path) -> None:
    store = tmp_path / "meta.supac"
    one, two = tasks_of(2)
    learn([one, two], store=store, passes=1)
    with pytest.raises(supac.StoreMismatchError, match=r"tasks\[0\].*Bowl\(a="):
        learn([two, one], store=store, passes=1)

    # Functions of the same name are told apart by the names of their tasks.
    def named(name: str, bowl: Bowl) -> supac.Task:
        def risk(x: FloatArray) -> float:
            return bowl(x)

        return supac.Task(risk, supac.Catoni(0.05), name=name)

    store = tmp_path / "named.supac"
    some = [named("a", bowls(2)[0]), named("b", bowls(2)[1])]
    learn(some, store=store, passes=1)
    with pytest.raises(supac.StoreMismatchError, match=r"tasks\[0\]: 'a' in the store, 'b' now"):
        learn(some[::-1], store=store, passes=1)
    with pytest.raises(TypeError, match="name must be a text"):
        supac.Task(bowls(1)[0], supac.Catoni(0.05), name=3)  # type: ignore[arg-type]


def test_a_store_of_something_else_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "meta.supac"
    learn(tasks_of(2), store=store, passes=1)
    with pytest.raises(supac.StoreMismatchError, match=r"seed: 5 in the store, 6 now"):
        learn(tasks_of(2), store=store, passes=1, seed=6)
    with pytest.raises(supac.StoreMismatchError, match="bounds"):
        learn(tasks_of(2, temperature=0.1), store=store, passes=1)
    with pytest.raises(supac.StoreMismatchError):
        learn(tasks_of(3), store=store, passes=1)
    with pytest.raises(supac.StoreMismatchError, match="a store of `meta_learn`, not of `minimize"):
        supac.minimize(bowls(1)[0], FIRST, supac.Catoni(0.1), budget=40, store=store)
    with pytest.raises(supac.StoreMismatchError, match="a store of `meta_learn`, not of `minimize"):
        supac.resume(store, bowls(1)[0])
    plain = tmp_path / "run.supac"
    supac.minimize(bowls(1)[0], FIRST, supac.Catoni(0.1), budget=40, store=plain)
    with pytest.raises(supac.StoreMismatchError, match="a store of `minimize`, not of `meta_learn"):
        learn(tasks_of(2), store=plain)


@pytest.mark.slow
def test_failures_are_recorded_and_count_as_the_ceiling(tmp_path: Path) -> None:
    some = [supac.Task(Fails(each), supac.Catoni(0.05)) for each in bowls(3)]
    with pytest.raises(supac.EvaluationError, match="frozen") as caught:
        learn(some)
    assert any("in task" in note for note in caught.value.__notes__)
    store = tmp_path / "meta.supac"
    learn(some, execution=supac.Execution(on_failure="penalise"), store=store, passes=1)
    resumed = learn(some, execution=supac.Execution(on_failure="penalise"), store=store)
    unbroken = learn(some, execution=supac.Execution(2, on_failure="penalise"))
    assert same(resumed, unbroken)
    failures = [run for each in resumed.tasks for run in each.failures]
    assert failures
    assert all("frozen" in run.message for run in failures)
    assert sum(each.evaluations.failed for each in resumed.tasks) == len(failures)


def test_tasks_that_always_fail_do_not_end_the_others(tmp_path: Path) -> None:
    """A mini-batch of which nothing is learnt leaves the prior as it is."""
    inner = supac.Reuse(supac.SuPAC(first=10, batch=5), first=20, most=5)
    learner = supac.MetaSuPAC((supac.Stage(inner=inner, batch=1),))
    bad = supac.Task(frozen_everywhere, supac.Catoni(0.05))
    options: dict[str, Any] = {
        "learner": learner,
        "execution": supac.Execution(on_failure="drop"),
        "passes": 2,
    }
    store = tmp_path / "meta.supac"
    learn([bad, *tasks_of(2)], store=store, **options | {"passes": 1})
    result = learn([bad, *tasks_of(2)], store=store, **options)
    assert same(result, learn([bad, *tasks_of(2)], **options))
    assert result.left_out == (0,)
    assert "nothing was learnt of tasks 0" in str(result)
    lost = result.history["left_out"] == 1
    assert lost.sum() == 2
    assert (result.history["step_kl"][lost] < 1e-30).all()  # a rounding's square
    assert (result.history["step_kl"][~lost] > 0.0).all()
    with pytest.raises(ValueError, match="nothing was learnt of any task"):
        learn([bad, bad], **options)


def test_a_task_whose_last_batch_fails_is_still_known() -> None:
    inner = supac.Reuse(supac.SuPAC(first=10, batch=5), first=15, most=5, effective_size=1e9)
    tasks = [supac.Task(frozen_after(10), supac.Catoni(0.05)), *tasks_of(1)]
    learner = supac.MetaSuPAC((supac.Stage(inner=inner),))
    result = learn(tasks, passes=1, learner=learner, execution=supac.Execution(on_failure="drop"))
    assert result.tasks[0].evaluations.failed == 5
    assert np.isfinite(result.tasks[0].objective)
    assert result.left_out == ()


def test_a_mini_batch_is_visited_at_a_time() -> None:
    inner = supac.Reuse(supac.SuPAC(first=10, batch=5), first=20, most=5)
    learner = supac.MetaSuPAC((supac.Stage(inner=inner, batch=2),))
    result = learn(tasks_of(5), passes=2, learner=learner)
    np.testing.assert_allclose(result.history["passes"], [0.4, 0.8, 1.0, 1.4, 1.8, 2.0])
    assert len(result.priors) == 7
    assert result.pass_priors == (result.priors[0], result.priors[3], result.priors[6])
    assert all(each.queries >= 20 for each in result.tasks)


def test_the_papers_stochastic_gradient_learns_too() -> None:
    """Its schedule in small: mini-batches, steps with and without queries, two stages."""
    first = supac.Plan(supac.Plan.paper(first=True).algorithm, (40, 20, 20))
    later = supac.Plan(supac.Plan.paper(first=False).algorithm, (10, 0, 10, 0))
    learner = supac.MetaSuPAC(
        (
            supac.Stage(supac.GradientStep(20.0, 0.2), first, 2, 1),
            supac.Stage(supac.GradientStep(20.0, 0.2), later, 3),
        )
    )
    result = learn(tasks_of(6), passes=4, learner=learner)
    queries = np.diff(result.history["queries"], prepend=0)
    assert queries.tolist() == [160] * 3 + [60] * 6
    assert (result.history["step_kl"] < 0.2 + 1e-9).all()
    assert result.history["objective"][-2:].mean() < 0.7 * result.history["objective"][0]


def test_a_first_visit_keeps_to_its_queries() -> None:
    learner = supac.MetaSuPAC((supac.Stage(inner=supac.Reuse(first=5, most=0)),))
    assert learn(tasks_of(2), passes=1, learner=learner).queries == 2 * 5


def test_a_plan_knows_where_its_points_come_from() -> None:
    """An emulating SuPAC may ask for more than the posterior covers: those are no draws of it."""
    algorithm = supac.SuPAC(supac.GaussianProcess(widening=(1.5, 1.5)))
    problem = pure.Environment(FIRST, tasks_of(1)).problem(0, FIRST.theta[:, None])
    inner, bowl = supac.Plan(algorithm, (12, 6)), bowls(1)[0]
    task = inner.begin(problem, None, 0)
    for n in (12, 6):
        assert task.asked is not None
        assert len(task.asked) == n
        planned = task.asked
        wide = 1.5**2 * task.state.posterior.covariance
        np.testing.assert_allclose(planned.proposal.covariance, wide, rtol=1e-6)
        task = inner.tell(problem, task, np.array([bowl(row) for row in task.asked.x]))
    assert task.state.evaluations.proposals[-1] == planned.proposal


def test_the_papers_schedule() -> None:
    """λ⁻¹ times 1, 0.5, 0.4, of sums over 10 or 20 tasks divided by all 100."""
    learner = supac.MetaSuPAC.paper(0.1, tasks=100)
    sizes = {p: learner.stage(p).step for p in (0, 1, 19, 20, 49, 50, 149)}
    assert [getattr(step, "size", None) for step in sizes.values()] == pytest.approx(
        [1.0, 2.0, 2.0, 1.0, 1.0, 0.8, 0.8]
    )
    assert [learner.stage(p).batch for p in (0, 1, 80)] == [10, 20, 20]
    first, later = learner.stage(0).inner, learner.stage(1).inner
    assert isinstance(first, supac.Plan)
    assert isinstance(later, supac.Plan)
    assert (len(first.queries), sum(first.queries)) == (15, 1000)
    assert later.queries == (20, 0, 20, 0)


def test_tasks_of_different_bounds_weigh_as_their_slopes_in_kl() -> None:
    """With λ a thousand times as large a task alone says where the prior goes."""
    one, two = Bowl(1.5, 1.5), Bowl(-1.5, -1.5)
    tasks = [supac.Task(one, supac.Catoni(0.01)), supac.Task(two, supac.Catoni(10.0))]
    step = supac.ClosedForm(pseudo_tasks=0.0, iterations=1)
    learner = supac.MetaSuPAC((replace(LEARNER.stages[0], step=step),))
    result = learn(tasks, passes=1, learner=learner)
    shares = np.array([0.01, 10.0]) / 10.01
    means = np.array([each.posterior.mean for each in result.tasks])
    np.testing.assert_allclose(result.prior.mean, shares @ means, rtol=1e-9)


@pytest.mark.slow
def test_bounds_without_a_temperature() -> None:
    seeger = supac.MaurerLangfordSeeger(n=100, delta=0.05)
    result = learn([supac.Task(each, seeger) for each in bowls(3)], passes=2)
    # At KL = 0 a bound of 100 data still is 0.06: what can be gained is the price of KL.
    assert result.history["kl"][-1] < 0.5 * result.history["kl"][0]
    assert result.history["objective"][-1] < result.history["objective"][0] - 0.02


@pytest.mark.slow
def test_composites_in_the_users_units() -> None:
    parameters = supac.Parameters(
        {
            "initial": supac.marginals.Uniform(0.0, 5.0),
            "rate": supac.marginals.LogNormal(median=1.0, log_sd=0.7),
        }
    )
    rates = [0.4, 0.5, 0.6, 0.45]
    tasks = [
        supac.Task(supac.Composite(Residuals(rate), supac.MeanSquare()), supac.Catoni(0.02))
        for rate in rates
    ]
    settings = {"passes": 2, "learner": LEARNER}
    result = supac.meta_learn(tasks, parameters, **settings)  # type: ignore[arg-type]
    assert result.tasks[0].evaluations.outputs is not None
    median = parameters.from_latent(result.prior.mean[None])[0]
    assert abs(median[0] - 2.0) < 0.2
    assert 0.35 < median[1] < 0.65
    on_processes = supac.meta_learn(tasks, parameters, execution=2, **settings)  # type: ignore[arg-type]
    assert same(on_processes, result)
    new = supac.Task(supac.Composite(Residuals(0.55), supac.MeanSquare()), supac.Catoni(0.02))
    found = result.minimize(new, budget=30)
    fresh = supac.minimize(new.risk, parameters, new.bound, budget=30)
    assert found.objective < fresh.objective
    scores = supac.evaluate_priors(
        [parameters.prior, result.prior], [new], budget=30, draws=0, parameters=parameters
    )
    assert scores.objective[1, 0] < scores.objective[0, 0]


@pytest.mark.slow
def test_a_prior_that_depends_on_features() -> None:
    """Minima that move with what is known of a task beforehand."""
    rng = np.random.default_rng(0)
    sizes = rng.uniform(-1.0, 1.0, 8)
    tasks = [supac.Task(Bowl(1.5 * s, 0.5), supac.Catoni(0.05), features=[1.0, s]) for s in sizes]
    result = learn(tasks)
    with pytest.raises(ValueError, match="prior_for"):
        _ = result.prior
    for size in (-0.9, 0.1, 0.8):
        assert abs(result.prior_for([1.0, size]).mean[0] - 1.5 * size) < 0.35
    blind = learn([replace(each, features=None) for each in tasks])
    assert result.history["objective"][-1] < 0.8 * blind.history["objective"][-1]
    new = supac.Task(Bowl(0.9, 0.5), supac.Catoni(0.05), features=[1.0, 0.6])
    assert result.minimize(new, budget=40).objective < 0.2
    scores = supac.evaluate_priors([FIRST, result.prior_of], [new], budget=40, draws=500)
    assert scores.objective[1, 0] < scores.objective[0, 0]
    with pytest.raises(ValueError, match="features"):
        result.prior_for([1.0])


def test_a_callback_sees_each_step_and_may_stop(learnt: supac.MetaResult) -> None:
    seen: list[supac.MetaInfo] = []

    def stop_after_two(info: supac.MetaInfo) -> bool:
        seen.append(info)
        return len(seen) == 2

    result = learn(tasks_of(6), passes=9, callback=stop_after_two)
    assert result.stop_reason is supac.StopReason.USER
    assert [each.passes for each in seen] == [1.0, 2.0]
    assert result.priors == learnt.priors[:3]


def test_ctrl_c_stops_also_where_nothing_is_asked_for(learnt: supac.MetaResult) -> None:
    """Typed between two visits, of which the second needs no run."""
    inner = replace(LEARNER.stages[0].inner, most=0)  # type: ignore[type-var]
    learner = supac.MetaSuPAC((replace(LEARNER.stages[0], inner=inner),))
    seen: list[supac.MetaInfo] = []

    def typed(info: supac.MetaInfo) -> None:
        seen.append(info)
        if len(seen) == 1:
            signal.raise_signal(signal.SIGINT)

    result = learn(tasks_of(6), learner=learner, callback=typed)
    assert result.stop_reason is supac.StopReason.INTERRUPTED
    assert len(seen) == 1
    assert result.priors == learnt.priors[:2]


@pytest.mark.parametrize("when", [15, 60])
def test_ctrl_c_ends_the_judging_of_priors(when: int) -> None:
    """During a search of 40 queries, and among the 200 fresh draws after it."""
    calls: list[FloatArray] = []

    def risk(x: FloatArray) -> float:
        calls.append(x)
        if len(calls) == when:
            signal.raise_signal(signal.SIGINT)
        return bowls(1)[0](x)

    tasks = [supac.Task(risk, supac.Catoni(0.05))] * 2
    with pytest.raises(KeyboardInterrupt):
        supac.evaluate_priors([FIRST], tasks, budget=40, draws=200)
    assert len(calls) == when
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_two_passes_halve_the_bound_on_the_papers_environment() -> None:
    """The experiment in small: 12 training tasks of its 8-dimensional risks, λ = 0.1."""
    rng = np.random.default_rng(3)
    environment, bound = Environment.draw(rng), supac.Catoni(0.1)
    tasks = [supac.Task(environment.draw_task(rng), bound, vectorized=True) for _ in range(14)]
    first = supac.gaussian(np.zeros(8), np.eye(8))
    result = supac.meta_learn(tasks[:12], first, passes=2)
    assert (np.diff(result.history["queries"]) <= 12 * 30).all()
    scores = supac.evaluate_priors([first, result.prior], tasks[12:], budget=100, draws=2_000)
    # On two tasks; with a hundred to learn from and forty new ones it is a quarter.
    assert (scores.objective[1] < 0.5 * scores.objective[0]).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"passes": 0}, ValueError, "passes must be a whole number"),
        ({"learner": supac.SuPAC()}, TypeError, "learner must be one such as MetaSuPAC"),
        ({"execution": True}, TypeError, "execution must be an Execution or its workers"),
        ({"execution": supac.Execution(2, mode="async")}, ValueError, "not for meta_learn"),
        ({"tasks": []}, TypeError, "tasks must be one Task or more"),
        ({"tasks": [bowls(1)[0]]}, TypeError, "tasks must be one Task or more"),
        ({"prior": 3}, TypeError, "prior must be a Distribution"),
        ({"prior": supac.student_t(np.zeros(2), np.eye(2), 5.0)}, TypeError, "exponential family"),
        ({"seed": -1}, ValueError, "seed"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], error: type[Exception], words: str) -> None:
    settings: dict[str, Any] = {"tasks": tasks_of(2), "prior": FIRST} | change
    with pytest.raises(error, match=words):
        supac.meta_learn(settings.pop("tasks"), settings.pop("prior"), **settings)


def test_what_is_wrong_with_an_execution_is_named() -> None:
    with pytest.raises(ValueError, match="on_failure must be"):
        supac.Execution(on_failure="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="retries"):
        supac.Execution(retries=-1)
    for old, words in (({"on_failure": "ignore"}, "on_failure must be"), ({"retries": -1}, "retr")):
        with (
            pytest.warns(DeprecationWarning, match="is now"),
            pytest.raises(ValueError, match=words),
        ):
            supac.meta_learn(tasks_of(2), FIRST, **old)


def test_features_must_fit_together() -> None:
    bound = supac.Catoni(0.1)
    one, two = (supac.Task(each, bound, features=[1.0]) for each in bowls(2))
    with pytest.raises(ValueError, match="as many features"):
        learn([one, replace(two, features=None)])
    with pytest.raises(ValueError, match="constant"):
        learn([replace(one, features=[1.0]), replace(two, features=[2.0])])
    with pytest.raises(TypeError, match="bound must be a bound"):
        supac.Task(bowls(1)[0], 0.1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="risk must be a function"):
        supac.Task(3, bound)  # type: ignore[arg-type]


def test_every_setting_is_stored_as_itself() -> None:
    for learner in (LEARNER, supac.MetaSuPAC(), supac.MetaSuPAC.paper(0.1, tasks=3)):
        assert from_spec(json.loads(json.dumps(to_spec(learner)))) == learner


def test_parts_of_the_wrong_kind_are_named() -> None:
    with pytest.raises(TypeError, match="algorithm must be SuPAC"):
        supac.Reuse(supac.GradientDescent(0.1, 10))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a meta-step, such as ClosedForm"):
        supac.Stage(supac.SuPAC())  # type: ignore[arg-type]
    for step in (supac.TrustRegion(), supac.FixedStep(0.5, 1.0), supac.ClosedForm):
        with pytest.raises(TypeError, match="a meta-step, such as ClosedForm"):
            supac.Stage(step)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an inner solver, such as Reuse"):
        supac.Stage(inner=supac.Reuse)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="one Stage or more"):
        supac.MetaSuPAC(())


@pytest.mark.slow
def test_fresh_draws_that_fail_count_as_the_ceiling() -> None:
    task = supac.Task(Fails(Bowl(-0.6, 0.0)), supac.Catoni(0.05))
    with pytest.raises(supac.EvaluationError):
        supac.evaluate_priors([FIRST], [task], budget=30, draws=200)
    penalised, dropped = (
        supac.evaluate_priors([FIRST], [task], budget=30, draws=200, execution=each)
        for each in (supac.Execution(2, on_failure="penalise"), supac.Execution(on_failure="drop"))
    )
    assert penalised.mean_risk[0, 0] > dropped.mean_risk[0, 0]


def frozen_everywhere(x: FloatArray) -> float:
    raise RuntimeError("it has frozen")


def frozen_after(good: int) -> Callable[[FloatArray], float]:
    """A risk of which so many runs end well."""
    left = iter(range(good))

    def risk(x: FloatArray) -> float:
        return Bowl(0.5, 0.5)(x) if next(left, None) is not None else frozen_everywhere(x)

    return risk


def test_what_fails_too_often_has_no_score() -> None:
    """A search that ends early, fresh draws that all fail; and one task that works."""
    risks: list[Any] = [frozen_everywhere, frozen_after(28), Bowl(0.5, 0.5)]
    tasks = [supac.Task(each, supac.Catoni(0.05)) for each in risks]
    scores = supac.evaluate_priors(
        [FIRST], tasks, budget=30, draws=50, execution=supac.Execution(on_failure="drop")
    )
    assert np.isnan(scores.objective[0]).tolist() == [True, True, False]
    assert [note[:6] for note in scores.notes] == ["task 0", "task 1"]


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(TypeError, match="priors must be one distribution or more"):
        supac.evaluate_priors((), tasks_of(1))
    with pytest.raises(TypeError, match="tasks must be one Task or more"):
        supac.evaluate_priors([FIRST], [])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: supac.ClosedForm(pseudo_tasks=-1.0), "pseudo_tasks"),
        (lambda: supac.ClosedForm(kl_max=0.0), "kl_max"),
        (lambda: supac.ClosedForm(iterations=0), "iterations"),
        (lambda: supac.GradientStep(0.0), "size"),
        (lambda: supac.Reuse(first=2), "first"),
        (lambda: supac.Reuse(most=-1), "most"),
        (lambda: supac.Reuse(error=0.0), "error"),
        (lambda: supac.Plan(supac.SuPAC.paper(), ()), "queries"),
        (lambda: supac.Stage(batch=0), "batch"),
        (lambda: supac.Reuse(supac.SuPAC(supac.FreshDraws())), "FreshDraws"),
    ],
)
def test_settings_that_make_no_sense(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_any_exponential_family() -> None:
    """Shares of a mixture around 0.8, with a Beta prior."""

    def share(best: float) -> Any:
        return lambda x: float((x[0] - best) ** 2)

    tasks = [supac.Task(share(best), supac.Catoni(0.01)) for best in (0.7, 0.75, 0.8, 0.85)]
    first = supac.beta(1.0, 1.0)
    result = supac.meta_learn(tasks, first, passes=3, learner=LEARNER)
    assert result.prior.family == first.family
    assert abs(result.prior.mean[0] - 0.78) < 0.05
    assert result.prior.covariance[0, 0] < 0.3 * first.covariance[0, 0]
    assert result.history["objective"][-1] < 0.6 * result.history["objective"][0]


def test_a_new_task_keeps_the_units_of_its_parameters() -> None:
    parameters = supac.Parameters(
        {
            "a": supac.marginals.LogNormal(median=50.0, log_sd=0.3),
            "b": supac.marginals.Uniform(0.0, 10.0),
        }
    )

    def machine(a: float, b: float) -> supac.Task:
        return supac.Task(
            lambda x: float(np.tanh(((x[0] - a) / 10.0) ** 2 + (x[1] - b) ** 2)), supac.Catoni(0.05)
        )

    tasks = [machine(a, b) for a, b in ((50.0, 6.0), (53.0, 5.5), (54.0, 6.5))]
    learnt = supac.meta_learn(tasks, parameters, passes=1)
    new = machine(52.0, 6.0)
    result = learnt.minimize(new, budget=40)
    np.testing.assert_allclose(np.median(result.sample(1000, 0), axis=0), [52.0, 6.0], rtol=0.05)
    certificate = result.certify(new.risk, n=100, draws=400)
    error = result.mean_risk_error
    assert certificate.mean_risk == pytest.approx(result.mean_risk, abs=5.0 * error)
    assert certificate.kl == result.kl
    assert result.prior == learnt.prior
