"""Parameters that enter after the simulator cost no run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.families.gaussian import Gaussian, GaussianFamily
from supac.problem import Batch
from supac.problem.observation import ObservationLoss
from supac.search.algorithm import State
from supac.search.facts import Chosen, Facts
from supac.search.placement import Site, batch_size, plan_batch
from supac.search.stages import Stage, next_stage
from supac.surrogate.estimator import Context

MIX = np.random.default_rng(5).standard_normal((30, 6)) / np.sqrt(6.0)
SCALES, NOISE = np.array([2.0, 0.5]), 0.1
GROUP = np.repeat([0, 1], 15)
TEMPERATURE = 1.0 / 30


def simulate(x: FloatArray) -> FloatArray:
    along = x @ MIX.T
    return np.asarray(np.exp(0.5 * along) + 0.3 * np.tanh(along))


TRUTH = 0.7 * np.random.default_rng(6).standard_normal(6)
DATA = SCALES[GROUP] * simulate(TRUTH)
DATA = DATA + NOISE * np.random.default_rng(7).standard_normal(30)


def likelihood(outputs: FloatArray, z: FloatArray) -> FloatArray:
    """Minus the mean log-likelihood; z holds two scales and the noise, as logarithms."""
    noise = NOISE * np.exp(z[:, 2:])
    residuals = (np.exp(z[:, :2])[:, GROUP] * outputs - DATA) / noise
    return np.asarray((0.5 * residuals**2 + np.log(noise)).mean(axis=1))


PRIOR = supac.gaussian(np.zeros(9), 0.5 * np.eye(9))
KNOWN = np.append(np.log(SCALES), 0.0)
DECLARED = supac.Composite(simulate, likelihood, observation=3)


def objective(q: supac.Distribution, prior: supac.Distribution) -> float:
    x = q.sample(4_000, 1)
    z = x[:, 6:] if q.dim == 9 else np.broadcast_to(KNOWN, (len(x), 3))
    return float(likelihood(simulate(x[:, :6]), z).mean()) + TEMPERATURE * q.kl(prior)


def runs_to_settle(risk: supac.Composite, prior: supac.Distribution) -> int:
    """Number of runs after which the objective is within a quarter of a nat of the last one."""
    seen: list[tuple[int, supac.Distribution]] = []
    supac.minimize(
        risk,
        prior,
        supac.Catoni(TEMPERATURE),
        budget=80,
        validation=0,
        execution=supac.Execution(vectorized=True, progress=False),
        callback=lambda each: seen.append((each.queries, each.next_posterior)),
    )
    values = [objective(q, prior) for _, q in seen]
    return next(
        queries
        for (queries, _), value in zip(seen, values, strict=True)
        if value < values[-1] + 0.25 * TEMPERATURE
    )


def test_they_need_hardly_more_runs_than_if_they_were_known() -> None:
    """And far fewer than if what they do had to be learnt from runs."""

    def known(outputs: FloatArray) -> FloatArray:
        return likelihood(outputs, np.broadcast_to(KNOWN, (len(outputs), 3)))

    fixed = supac.gaussian(np.zeros(6), 0.5 * np.eye(6))
    without = runs_to_settle(supac.Composite(simulate, known), fixed)
    declared = runs_to_settle(DECLARED, PRIOR)
    assert declared <= without + 6  # two small batches

    def simulated(x: FloatArray) -> FloatArray:
        return np.hstack([np.exp(x[:, 6:8])[:, GROUP] * simulate(x[:, :6]), x[:, 8:]])

    def of_outputs(rows: FloatArray) -> FloatArray:
        zeros = np.zeros((len(rows), 2))
        return likelihood(rows[:, :30], np.hstack([zeros, rows[:, 30:]]))

    assert declared < runs_to_settle(supac.Composite(simulated, of_outputs), PRIOR)


def test_the_simulator_sees_the_others_alone() -> None:
    x = PRIOR.sample(5, 0)
    outputs = DECLARED.simulate(x)
    np.testing.assert_array_equal(outputs[:, :30], simulate(x[:, :6]))
    np.testing.assert_array_equal(outputs[:, 30:], x[:, 6:])
    np.testing.assert_array_equal(DECLARED(x), likelihood(simulate(x[:, :6]), x[:, 6:]))
    assert DECLARED(x[0]) == pytest.approx(DECLARED(x)[0])
    assert replace(DECLARED, observation=3)(x[0]) == DECLARED(x[0])


def test_data_are_compared_with_the_simulated_outputs() -> None:
    data = supac.Observations(("y",), DATA, np.full(30, 0.5))
    loss = lambda r, z: (r**2).mean(axis=1) + z[:, 0]  # noqa: E731
    risk = supac.Composite(simulate, loss, data, observation=1)
    x = PRIOR.sample(4, 0)[:, :7]
    expected = (((simulate(x[:, :6]) - DATA) / 0.5) ** 2).mean(axis=1) + x[:, 6]
    np.testing.assert_allclose(risk(x), expected)


def test_latent_points_reach_the_loss_in_their_units() -> None:
    k, s = supac.marginals.Normal(0.0, 1.0), supac.marginals.LogNormal(2.0, 0.5)
    parameters = supac.Parameters({"k": k, "s": s})
    loss = ObservationLoss(lambda outputs, z: z[:, 0], 1).within(parameters)
    latent = parameters.prior.sample(6, 0)
    rows = loss.rows(np.zeros((6, 2)), latent)
    np.testing.assert_allclose(loss(rows), parameters.from_latent(latent)[:, 1])


def test_the_emulated_risk_knows_them_exactly() -> None:
    """At the runs, other values of these change the prediction as they change the loss."""
    x = PRIOR.sample(60, 2)
    rows = DECLARED.simulate(x)
    runs = supac.problem.Evaluations.none(9).append(x, DECLARED.loss(rows), PRIOR, rows)
    context = Context(prior=PRIOR, loss=DECLARED.loss)
    model = supac.OutputEmulator().fit(runs, PRIOR, context)
    moved = x.copy()
    moved[:, 8] += 0.5
    found = model.emulator.predict(moved) - model.emulator.predict(x)
    exact = DECLARED(moved) - DECLARED(x)
    np.testing.assert_allclose(found, exact, atol=0.05 * np.abs(exact).max())


def test_a_search_with_them_looks_ahead_of_its_first_step() -> None:
    """And goes as far at once as the run there confirms."""
    problem = supac.Problem(PRIOR, supac.Catoni(TEMPERATURE), PRIOR, loss=DECLARED.loss)
    algorithm = supac.SuPAC()
    state = algorithm.init(problem, 0)
    radii = []
    for _ in range(2):
        batch = algorithm.ask(problem, state)
        x = batch.x
        rows = DECLARED.simulate(x)
        state, info = algorithm.tell(problem, state, batch, DECLARED.loss(rows), rows)
        radii.append(info.radius)
        assert state.batch is not None
        assert state.batch.drawn.tolist() == [True, False]
    assert radii == [2.0, 8.0]


class WithSlopes:
    """The likelihood, with its derivatives in outputs and z."""

    def __call__(self, outputs: FloatArray, z: FloatArray) -> FloatArray:
        return likelihood(outputs, z)

    def slopes(self, outputs: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        noise, scale = NOISE * np.exp(z[:, 2:]), np.exp(z[:, :2])[:, GROUP]
        residuals = (scale * outputs - DATA) / noise
        by_scale = residuals * scale * outputs / noise / 30
        sums = [by_scale[:, k == GROUP].sum(axis=1) for k in (0, 1)]
        return residuals * scale / noise / 30, np.column_stack([*sums, 1 - (residuals**2).mean(1)])


def test_a_loss_with_derivatives_is_projected_as_one_without() -> None:
    """And from fewer draws, which the search relies on."""
    x = PRIOR.sample(60, 2)
    rows = DECLARED.simulate(x)
    runs = supac.problem.Evaluations.none(9).append(x, DECLARED.loss(rows), PRIOR, rows)
    at = supac.gaussian(0.3 * np.ones(9), 0.01 * np.eye(9))
    found = {}
    for loss in (likelihood, WithSlopes()):
        context = Context(prior=PRIOR, loss=ObservationLoss(loss, 3))
        model = supac.OutputEmulator(draws=4_000).fit(runs, at, context)
        found[loss is likelihood] = model.project(at, np.random.default_rng(0))
    assert found[True].mean == pytest.approx(found[False].mean, rel=0.01)
    scale = np.abs(found[True].eta).max()
    np.testing.assert_allclose(found[True].eta, found[False].eta, atol=0.02 * scale)


def test_slopes_in_latent_points_are_differences() -> None:
    k, s = supac.marginals.Normal(0.0, 1.0), supac.marginals.LogNormal(2.0, 0.5)
    parameters = supac.Parameters({f"k{i}": k for i in range(6)} | {"a": s, "b": s, "c": k})
    loss = ObservationLoss(WithSlopes(), 3).within(parameters)
    x, outputs = parameters.prior.sample(20, 0), simulate(PRIOR.sample(20, 1)[:, :6])
    found = loss.slopes(outputs, x)
    assert found is not None
    for j in range(3):
        step = np.zeros(9)
        step[6 + j] = 1e-6
        up, down = (loss(loss.rows(outputs, each)) for each in (x + step, x - step))
        np.testing.assert_allclose(found[1][:, j], (up - down) / 2e-6, rtol=1e-5, atol=1e-6)
    assert ObservationLoss(likelihood, 3).slopes(outputs, x) is None


def test_a_search_with_them_resumes(tmp_path: Path) -> None:
    def search(budget: int, store: Path | None) -> supac.Result:
        return supac.minimize(
            DECLARED,
            PRIOR,
            supac.Catoni(TEMPERATURE),
            budget=budget,
            seed=3,
            store=store,
            execution=supac.Execution(vectorized=True, progress=False),
        )

    search(25, tmp_path / "run.supac")
    resumed = search(40, tmp_path / "run.supac")
    assert resumed.queries == 40


def test_a_store_with_them_and_data_is_read(tmp_path: Path) -> None:
    data = supac.Observations(("y",), DATA, np.full(30, 0.5))
    supac.minimize(
        supac.Composite(simulate, lambda r, z: (r**2).mean(axis=1) + z[:, 0] ** 2, data, None, 3),
        PRIOR,
        supac.Catoni(TEMPERATURE),
        budget=25,
        store=tmp_path / "run.supac",
        execution=supac.Execution(vectorized=True, progress=False),
    )
    record = supac.read_store(tmp_path / "run.supac")
    assert len(record.evaluations) == 25


def test_one_parameter_at_least_is_simulated() -> None:
    risk = supac.Composite(simulate, likelihood, observation=9)
    with pytest.raises(ValueError, match="observation = 9 leaves none of the 9 parameters"):
        supac.minimize(risk, PRIOR, supac.Catoni(0.1), budget=30)


def test_kl_of_the_first_coordinates_is_that_of_the_marginals() -> None:
    rng = np.random.default_rng(0)
    members = []
    for _ in range(2):
        half = rng.standard_normal((5, 5))
        members.append(supac.gaussian(rng.standard_normal(5), half @ half.T + np.eye(5)))
    first, second = (supac.gaussian(q.mean[:3], q.covariance[:3, :3]) for q in members)
    family = members[0].family
    assert isinstance(family, GaussianFamily)
    found = family.kl_of_first(3, members[0].theta, members[1].theta)
    assert found == pytest.approx(first.kl(second))
    assert family.kl_of_first(3, -members[0].theta, members[1].theta) == np.inf


def test_other_shapes_are_refused() -> None:
    """A transposed answer, or a table, must not be flattened into the wrong order."""
    transposed = supac.Composite(lambda x: simulate(x).T, likelihood, observation=3)
    with pytest.raises(ValueError, match=r"1-D array of numbers a point, not shape \(30, 5\)"):
        transposed.simulate(PRIOR.sample(5, 0))
    table = supac.Composite(lambda x: simulate(x).reshape(15, 2), likelihood, observation=3)
    with pytest.raises(ValueError, match=r"not shape \(15, 2\)"):
        table.simulate(PRIOR.mean)


class Named:
    """A simulator that wants names, and refuses what it does not like."""

    names: tuple[str, ...] = ()

    def named(self, names: tuple[str, ...]) -> Named:
        other = Named()
        other.names = names
        return other

    def refuses(self, x: FloatArray) -> str:
        return "too large" if len(x) == 2 and x[0] > 1.0 else ""

    def __call__(self, x: FloatArray) -> FloatArray:
        return x


def test_the_simulator_keeps_its_names_and_its_constraints() -> None:
    simulator = supac.Composite(Named(), likelihood, observation=1).simulate
    assert simulator.named(("a", "b", "s")).simulate.names == ("a", "b")  # type: ignore[attr-defined]
    assert simulator.refuses(np.array([2.0, 0.0, 0.0])) == "too large"  # type: ignore[attr-defined]
    assert not hasattr(DECLARED.simulate, "refuses")


def test_known_runs_follow_the_data_to_their_places() -> None:
    times = np.arange(30.0)
    data = supac.Observations(("y",), DATA, np.ones(30), times=times)
    turned = supac.Observations(("y",), DATA[::-1], np.ones(30), times=times[::-1])
    x = PRIOR.sample(4, 0)
    rows = DECLARED.simulate(x)
    evaluations = supac.problem.Evaluations.none(9).append(x, DECLARED.loss(rows), PRIOR, rows)
    runs = replace(supac.KnownRuns.of(x, evaluations), data=data).for_data(turned)
    assert runs.outputs is not None
    np.testing.assert_array_equal(runs.outputs, np.hstack([rows[:, 29::-1], rows[:, 30:]]))


def test_data_that_are_missing_need_no_output_and_certificates_are_not_confused() -> None:
    measured = DATA.copy()
    measured[3] = np.nan
    data = supac.Observations(("y",), measured, np.full(30, NOISE))

    def partly(x: FloatArray) -> FloatArray:
        return np.where(np.arange(30) == 3, np.nan, simulate(x))

    def bounded(residuals: FloatArray, z: FloatArray) -> FloatArray:
        return np.asarray(-np.expm1(-0.5 * (np.exp(z) * residuals / 20.0) ** 2).mean(axis=1))

    prior = supac.gaussian(np.zeros(7), 0.5 * np.eye(7))
    bound = supac.MaurerLangfordSeeger(n=29, delta=0.05)
    risk = supac.Composite(partly, bounded, data, observation=1)
    result = supac.minimize(risk, prior, bound, budget=40)
    assert result.failed == 0
    assert "NumPy" not in result.uncertified


def test_tasks_with_them_are_refused() -> None:
    task = supac.Task(DECLARED, supac.Catoni(0.1))
    with pytest.raises(ValueError, match="meta-learning does not know observation parameters"):
        supac.meta_learn([task, task], PRIOR, passes=1)


def test_a_loss_that_does_not_take_them_is_told_so() -> None:
    risk = supac.Composite(simulate, supac.Welsch(1.0), observation=3)
    words = r"residuals \(n, k\) and the 3 observation parameters \(n, 3\)"
    with pytest.raises(RuntimeError, match=words):
        supac.minimize(risk, PRIOR, supac.Catoni(0.1), budget=30)


@pytest.mark.parametrize("blocks", [None, [[0, 3], [1, 2, 4]], []])
def test_a_marginal_and_a_conditional_make_a_member(blocks: list[list[int]] | None) -> None:
    rng, members = np.random.default_rng(1), []
    for _ in range(2):
        half = rng.standard_normal((5, 5))
        covariance = half @ half.T + np.eye(5)
        coupled = supac.gaussian(np.zeros(5), np.eye(5), blocks=blocks).family.coupled
        mean = rng.standard_normal(5)
        members.append(supac.gaussian(mean, np.where(coupled, covariance, 0.0), blocks=blocks))
    first, second = members
    family = first.family
    assert isinstance(family, Gaussian)
    theta = family.with_marginal(3, first.theta, second.theta)
    assert theta is not None
    found = first.at(theta)
    np.testing.assert_allclose(found.mean[:3], second.mean[:3])
    np.testing.assert_allclose(found.covariance[:3, :3], second.covariance[:3, :3])
    given = [_given(each, np.array([0.3, -1.0, 0.5])) for each in (first, found)]
    for one, other in zip(*given, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert family.with_marginal(3, -first.theta, second.theta) is None


def _given(member: supac.Distribution, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the last coordinates, given the first."""
    mean, spread, k = member.mean, member.covariance, len(x)
    slope = np.linalg.solve(spread[:k, :k], spread[:k, k:]).T
    return mean[k:] + slope @ (x - mean[:k]), spread[k:, k:] - slope @ spread[:k, k:]


def test_their_best_values_are_found_in_the_first_round() -> None:
    """The radius of the others does not limit them: what is left is far less than if they lag.

    A projection of a risk that is steep and wide sends them far out of its reach.
    """
    seen: list[float] = []
    supac.minimize(
        DECLARED,
        PRIOR,
        supac.Catoni(TEMPERATURE),
        budget=40,
        validation=0,
        execution=supac.Execution(vectorized=True, progress=False),
        callback=lambda each: seen.append(objective(each.next_posterior, PRIOR) / TEMPERATURE),
    )
    assert objective(PRIOR, PRIOR) / TEMPERATURE > seen[-1] + 10_000.0
    assert seen[0] < seen[-1] + 60.0
    # The first risks differ so much that their mean is hardly known: no reason to begin again.
    assert max(seen[3:]) < seen[-1] + 1.0


PROBLEM = supac.problem.Problem(PRIOR, supac.Catoni(TEMPERATURE), PRIOR, loss=DECLARED.loss)


@cache
def after_rounds(count: int, seed: int) -> State:
    """State of a search after so many rounds, with a planned batch."""
    algorithm = supac.SuPAC()
    state = algorithm.init(PROBLEM, seed)
    for _ in range(count):
        batch = algorithm.ask(PROBLEM, state)
        x = batch.x
        rows = DECLARED.simulate(x)
        state, _ = algorithm.tell(PROBLEM, state, batch, DECLARED.loss(rows), rows)
    return state


def test_small_batches_have_their_means_given_the_others() -> None:
    state = after_rounds(1, 0)
    assert state.batch is not None
    assert len(state.batch.x) == 2
    for each in state.batch.x[state.batch.drawn]:  # the one ahead has those of the end
        np.testing.assert_allclose(each[6:], _given(state.posterior, each[:6])[0])


def test_small_batches_tell_more_of_the_posterior_than_draws() -> None:
    state = after_rounds(2, 0)
    context = Context(prior=PRIOR, loss=DECLARED.loss)
    model = supac.OutputEmulator().fit(state.evaluations, state.posterior, context)
    plan = supac.OutputEmulator().plan(PROBLEM, len(state.evaluations))
    chosen = plan_batch(Site(PROBLEM, plan, state, model), 3)
    drawn = plan_batch(Site(PROBLEM, plan, state), 3)
    inputs, process = model.emulator.inputs, model.emulator.process
    about = inputs(state.posterior.sample(300, 1))

    def left(batch: Batch) -> float:
        """Mean variance over the posterior once a batch of three is run."""
        points = inputs(batch.x)
        own = process.covariance(points, points) + process.noise * np.eye(3)
        cross = process.covariance(points, about)
        known = np.einsum("ij,ij->j", cross, np.linalg.solve(own, cross))
        return float((np.diag(process.covariance(about, about)) - known).mean())

    assert left(chosen) < 0.97 * left(drawn)


def test_batches_stay_small_until_a_step_gains_little() -> None:
    """Steps gain less than without observation parameters long before their end."""
    estimator, small = supac.OutputEmulator(), set()
    for stage in (Stage.BEGUN, Stage.SETTLED):
        state = replace(after_rounds(1, 0), stage=stage)
        chosen = Chosen(estimator, estimator.plan(PROBLEM, len(state.evaluations)))
        facts = Facts.of(PROBLEM, state, state, None, chosen, supac.TrustRegion())
        for nats in (0.05, 0.2, 2.0, 4.0):
            after = replace(state, stage=next_stage(stage, facts.outcome(nats)))
            if batch_size(Site(PROBLEM, chosen.plan, after)) == 2:
                small.add((stage, nats))
    assert small == {(Stage.BEGUN, nats) for nats in (0.2, 2.0, 4.0)}
