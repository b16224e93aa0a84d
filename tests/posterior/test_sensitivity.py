"""Which parameters matter: against closed forms, and against SALib."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.emulator.paths import draw_paths
from supac.emulator.process import Hyperprior, Process
from supac.emulator.tuning import DEFAULT
from supac.families import Distribution
from supac.posterior.emulation import EmulatedOutputs
from supac.posterior.sensitivity import factors_of
from supac.posterior.sobol import PickFreeze, indices_of

A, B = 7.0, 0.1
# Ishigami's function has these indices in closed form.
_V1, _V2, _V13 = 0.5 * (1.0 + B * np.pi**4 / 5.0) ** 2, A**2 / 8.0, B**2 * np.pi**8 * 8.0 / 225.0
FIRST = np.array([_V1, _V2, 0.0]) / (_V1 + _V2 + _V13)
TOTAL = np.array([_V1 + _V13, _V2, _V13]) / (_V1 + _V2 + _V13)
ANGLES = supac.Parameters({f"x{i}": marginals.Uniform(-np.pi, np.pi) for i in (1, 2, 3)})
MATRIX = np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 3.0]])


def ishigami(x: FloatArray) -> FloatArray:
    one, two, three = np.atleast_2d(x).T
    return np.asarray(np.sin(one) + A * np.sin(two) ** 2 + B * three**4 * np.sin(one))


def exact(of: Distribution, function: Any, n: int) -> tuple[FloatArray, FloatArray]:
    """First-order and total indices of a cheap function with one output: (dim,) each."""
    groups = [np.array([i]) for i in range(of.dim)]
    points = PickFreeze.draw(of, groups, n, np.random.default_rng(0))
    found = indices_of(points.moments(function(points.points)[:, None]).along(np.eye(1)))
    first, total = found.reshape(2, -1)
    return first, total


def test_ishigami() -> None:
    n = 40_000
    first, total = exact(ANGLES.prior, lambda u: ishigami(ANGLES.from_latent(u)), n)
    # The standard error of an index is below 2/√n; a function of kurtosis 3.5 has no heavy tails.
    np.testing.assert_allclose(first, FIRST, atol=4.0 * 2.0 / np.sqrt(n))
    np.testing.assert_allclose(total, TOTAL, atol=4.0 * 2.0 / np.sqrt(n))


def test_emulated_outputs_of_boxes_are_linear_on_the_users_scale() -> None:
    """Eight parameters are known after a dozen runs, and so are the functions drawn from them."""
    box = supac.Parameters({f"x{i}": marginals.Uniform(0.0, 5.0) for i in range(8)})
    weights = np.random.default_rng(3).standard_normal((8, 12))
    risk = supac.Composite(lambda x: x @ weights, supac.MeanSquare())
    quiet = supac.Execution(progress=False)
    result = supac.minimize(risk, box, supac.Catoni(1.0), budget=14, validation=0, execution=quiet)
    emulated = EmulatedOutputs.of(result.record, box.prior)
    assert emulated.seen.on_scale.all()
    u = box.prior.sample(200, 7)
    true = box.from_latent(u) @ weights
    np.testing.assert_allclose(emulated.predict(u)[0], true, atol=2e-3 * true.std())
    paths = emulated.paths(5, np.random.default_rng(0))(u)
    for scores in paths:
        np.testing.assert_allclose(emulated.outputs(scores), true, atol=0.05 * true.std())


def test_the_same_as_salib() -> None:
    sample = pytest.importorskip("SALib.sample.sobol")
    analyze = pytest.importorskip("SALib.analyze.sobol")
    problem = {"num_vars": 3, "names": list(ANGLES.names), "bounds": [[-np.pi, np.pi]] * 3}
    points = sample.sample(problem, 4_096, calc_second_order=False, seed=1)
    theirs = analyze.analyze(
        problem, ishigami(points), calc_second_order=False, seed=1, print_to_console=False
    )
    n = 40_000
    first, total = exact(ANGLES.prior, lambda u: ishigami(ANGLES.from_latent(u)), n)
    own = 2.0 / np.sqrt(n)
    # Theirs are half-widths of intervals with 95 %.
    assert (np.abs(first - theirs["S1"]) <= 4.0 * np.hypot(own, theirs["S1_conf"] / 1.96)).all()
    assert (np.abs(total - theirs["ST"]) <= 4.0 * np.hypot(own, theirs["ST_conf"] / 1.96)).all()


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_linear_functions_of_correlated_inputs(correlation: float) -> None:
    """With y = w·x, first = (Σw)ᵢ²/Σᵢᵢ/Var y and total = wᵢ²·Var(xᵢ | others)/Var y."""
    covariance = np.eye(3)
    covariance[0, 1] = covariance[1, 0] = correlation
    weights, n = np.array([1.0, 2.0, -0.5]), 40_000
    prior = supac.gaussian(np.array([1.0, -2.0, 0.0]), covariance)
    first, total = exact(prior, lambda x: x @ weights, n)
    variance = weights @ covariance @ weights
    wanted = (covariance @ weights) ** 2 / np.diag(covariance) / variance
    np.testing.assert_allclose(first, wanted, atol=4.0 * 2.0 / np.sqrt(n))
    left = weights**2 / np.diag(np.linalg.inv(covariance)) / variance
    np.testing.assert_allclose(total, left, atol=4.0 * 2.0 / np.sqrt(n))


def test_paths_have_the_mean_and_the_variance_of_the_process() -> None:
    rng = np.random.default_rng(3)
    u = rng.standard_normal((15, 2))
    y = np.column_stack([np.sin(u[:, 0]) + u[:, 1], u[:, 0] * u[:, 1]])
    prior = Hyperprior.build(
        np.ones((2, 2), dtype=bool), replace(DEFAULT.hyperprior.outputs, noise_floor=1e-3)
    )
    process = Process(prior.centre, prior, u, y, np.ones(15)).fit(20)
    at = rng.standard_normal((6, 2))
    mean, variance = process.predict_with_variance(at)
    count = 4_000
    values = draw_paths(process, count, rng)(at)
    spread = np.sqrt(process.amplitude * variance)
    assert values.shape == (count, 6, 2)
    error = 5.0 * spread[:, None] / np.sqrt(count)
    assert (np.abs(values.mean(axis=0) - mean) <= error).all()
    # All of them share 600 waves, which are nearly, not quite, the kernel.
    np.testing.assert_allclose(values.std(axis=0), np.tile(spread[:, None], 2), rtol=0.15)


def test_paths_of_many_inputs() -> None:
    """Beyond a thousand products of inputs, the quadratic part is made of random ones."""
    rng, dim = np.random.default_rng(4), 60
    u = rng.standard_normal((30, dim))
    y = (u[:, :5].sum(axis=1) + 0.1 * (u[:, :3] ** 2).sum(axis=1))[:, None]
    prior = Hyperprior.build(
        np.ones((dim, dim), dtype=bool), replace(DEFAULT.hyperprior.outputs, noise_floor=1e-3)
    )
    process = Process(prior.centre, prior, u, y, np.ones(30)).fit(10)
    at = rng.standard_normal((4, dim))
    mean, variance = process.predict_with_variance(at)
    values = draw_paths(process, 4_000, rng)(at)[:, :, 0]
    spread = np.sqrt(process.amplitude * variance)
    assert (np.abs(values.mean(axis=0) - mean[:, 0]) <= 5.0 * spread / np.sqrt(4_000)).all()
    np.testing.assert_allclose(values.std(axis=0), spread, rtol=0.15)


@pytest.fixture(scope="module")
def linear() -> supac.Result:
    prior = supac.gaussian(np.zeros(3), np.eye(3))
    data = supac.Observations(("A", "B"), np.array([1.0, -1.0]), np.array([0.5, 2.0]))
    risk = supac.Composite(lambda x: MATRIX @ x, supac.MeanSquare(), data)
    return supac.minimize(risk, prior, supac.Catoni(1.0), budget=40)


@pytest.mark.parametrize("under", ["prior", "posterior"])
def test_a_linear_simulator_without_a_run(linear: supac.Result, under: Any) -> None:
    found = linear.sensitivity(under=under)
    over = linear.prior if under == "prior" else linear.posterior
    covariance = over.covariance
    variance = np.diag(MATRIX @ covariance @ MATRIX.T)[:, None]
    first = (MATRIX @ covariance) ** 2 / np.diag(covariance) / variance
    total = MATRIX**2 / np.diag(np.linalg.inv(covariance)) / variance
    assert found.columns.outputs == ("A", "B", "all outputs", "risk")
    assert (np.abs(found.indices.first - first) <= 4.0 * found.indices.first_error).all()
    assert (np.abs(found.indices.total - total) <= 4.0 * found.indices.total_error + 1e-9).all()
    # All outputs together count in units of their noise: A four times as much as B, squared.
    weight = variance[:, 0] / np.array([0.5, 2.0]) ** 2
    every = weight @ total / weight.sum()
    row = found.columns.row("all outputs")
    assert (np.abs(row["total"] - every) <= 4.0 * row["total_error"]).all()
    assert found.unexplained.max() < 1e-6
    assert found.runs == linear.queries


def test_the_data_determine_combinations(linear: supac.Result) -> None:
    """Two measurements determine two of three directions: those of the weighted matrix."""
    found = linear.sensitivity()
    assert found.directions is not None
    widths = found.directions.widths
    assert widths[2] == pytest.approx(1.0, abs=0.05)
    assert widths[1] < 0.8
    left = np.linalg.svd(MATRIX)[2][2]  # which no output depends on
    last = found.combinations(3)[2]
    shares = {each["name"]: each["share"] for each in last["parameters"]}
    for i, share in enumerate(left**2):
        assert shares.get(f"x{i}", 0.0) == pytest.approx(share, abs=0.05)
    for one in found.combinations(3, parts=1):
        (largest,) = one["parameters"]
        assert one["others"] == pytest.approx(1.0 - largest["share"], abs=1e-6)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["columns"]["A"]["x1"]["total"] == found.columns.row("A")["total"][1]
    table = found.to_table()
    assert len(table["output"]) == 3 * (len(found.columns.outputs) + 2)


def decay(x: FloatArray) -> FloatArray:
    return np.asarray(x[0] * np.exp(-x[1] * np.linspace(0.2, 4.0, 8)))


@pytest.mark.slow
def test_errors_are_those_of_a_non_linear_simulator(tmp_path: Path) -> None:
    """Over the prior and the posterior, against the simulator itself, from a file."""
    prior = supac.Parameters(
        {
            "initial": marginals.Uniform(0.5, 5.0),
            "rate": marginals.LogNormal(median=1.0, log_sd=0.5),
            "unused": marginals.Normal(0.0, 1.0),
        }
    )
    data = supac.Observations(("A",), decay(np.array([2.0, 0.7])), np.full(8, 0.1))
    risk = supac.Composite(decay, supac.Welsch(), data)
    store = tmp_path / "run.supac"
    supac.minimize(risk, prior, supac.Catoni(0.02), budget=45, store=store)
    record = supac.read_store(store)
    for under in ("prior", "posterior"):
        found = record.sensitivity(under=under)
        over = record.prior if under == "prior" else record.known_posterior()
        n = 20_000
        for i, time in enumerate(np.linspace(0.2, 4.0, 8)):

            def output(u: FloatArray, time: float = time) -> FloatArray:
                x = prior.from_latent(u)
                return np.asarray(x[:, 0] * np.exp(-x[:, 1] * time))

            first, total = exact(over, output, n)
            for kind, wanted in (("first", first), ("total", total)):
                error = np.hypot(getattr(found.indices, f"{kind}_error")[i], 2.0 / np.sqrt(n))
                assert (np.abs(getattr(found.indices, kind)[i] - wanted) <= 4.0 * error).all()
        assert found.columns.row("A")["total"][2] < 0.05
    again = record.sensitivity(seed=0)
    np.testing.assert_array_equal(again.indices.total, found.indices.total)


def test_a_field_is_one_parameter_and_a_risk_alone_an_output() -> None:
    grid = supac.Parameters(
        {"k": supac.Field(marginals.Normal(0.0, 1.0), [5], 0.3), "b": marginals.Normal(0.0, 1.0)}
    )
    names, groups = factors_of(grid, 6)
    assert names == ("k", "b")
    assert [each.tolist() for each in groups] == [[0, 1, 2, 3, 4], [5]]
    result = supac.minimize(
        lambda x: float(np.tanh(0.3 * x[:5].mean() ** 2 + 0.1 * x[5] ** 2)),
        grid,
        supac.Catoni(0.5),
        budget=60,
    )
    found = result.sensitivity(under="prior")
    assert found.parameters == ("k", "b")
    assert found.columns.outputs == ("risk",)


def test_what_cannot_be_told(linear: supac.Result) -> None:
    with pytest.raises(ValueError, match='under must be "posterior" or "prior"'):
        linear.sensitivity(under="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no output 'C'; they are A, B"):
        linear.sensitivity().columns.row("C")
    heavy = supac.student_t(np.zeros(2), np.eye(2), 6.0)
    with pytest.raises(ValueError, match="independent parameters or a Gaussian"):
        PickFreeze.draw(heavy, [np.array([0])], 10, np.random.default_rng(0))


def test_an_output_that_never_changes() -> None:
    """Such as that at the beginning: it has no indices, and does not spoil those of the risk."""
    data = supac.Observations(("A", "B"), np.array([1.0, 0.2]), np.full(2, 0.5))
    result = supac.minimize(
        supac.Composite(lambda x: np.array([1.0, x[0]]), supac.MeanSquare(), data),
        supac.gaussian(np.zeros(2), np.eye(2)),
        supac.Catoni(1.0),
        budget=30,
    )
    found = result.sensitivity()
    assert found.indices.outputs == ("B",)
    row = found.columns.row("risk")
    assert abs(row["total"][0] - 1.0) <= 4.0 * row["total_error"][0]
    assert abs(row["total"][1]) <= 4.0 * row["total_error"][1] + 1e-9
    left = {
        each.candidate.words: each.remaining
        for each in result.next_measurements(quantity="x0").choices
    }
    assert left["A"] == pytest.approx(1.0, abs=0.05)
    assert left["B"] < 0.8


def test_a_plot_of_indices(linear: supac.Result) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = linear.sensitivity()
    axes = supac.plots.sobol_indices(found)
    assert axes.get_title() == "all outputs"
    assert supac.plots.sobol_indices(found, "A", axes=axes) is axes
    pyplot.close("all")


def test_small_fields_have_pictures_and_are_quantities(tmp_path: Path) -> None:
    parameters = supac.Parameters({"k": supac.Field(marginals.Normal(0.0, 1.0), [5], 0.3)})
    data = supac.Observations(("y",), np.zeros(5), np.full(5, 0.1))
    risk = supac.Composite(lambda x: x, supac.Welsch(), data)
    result = supac.minimize(risk, parameters, supac.Catoni(0.01), budget=40)
    page = supac.write_report(result, tmp_path / "page.html").read_text()
    assert "<h3>The field k</h3>" in page
    found = result.next_measurements(quantity="k")
    mean = result.sample(20_000, 0).mean(axis=1).std()
    assert found.before[0] == pytest.approx(mean, rel=0.1)
    with pytest.raises(ValueError, match="fields, of which it is the mean, are k"):
        result.next_measurements(quantity="j")
