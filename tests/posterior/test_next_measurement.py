"""Which measurement next: against the closed form of linear models, and brute force."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.posterior.candidates import Draws, Measurement, candidates_of
from supac.posterior.next_measurement import (
    Choice,
    NextMeasurements,
    in_time,
    linear_remaining,
    reweighted_remaining,
)
from supac.posterior.outputs import Outputs
from supac.problem_file import ProblemFileError, read_candidates

ROWS = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, 0.5], [0.3, 0.0, 1.0], [1.0, 1.0, 1.0]])
NOISE = np.array([0.3, 0.5, 0.2, 0.4])


@pytest.fixture(scope="module")
def linear() -> supac.Result:
    """A linear simulator of four outputs, of which the first was measured."""
    prior = supac.gaussian(np.zeros(3), np.diag([1.0, 0.5, 2.0]) + 0.1)
    values = np.array([0.4, np.nan, np.nan, np.nan])
    data = supac.Observations(tuple("ABCD"), values, NOISE)
    risk = supac.Composite(lambda x: ROWS @ x, supac.MeanSquare(), data)
    return supac.minimize(risk, prior, supac.Catoni(2.0), budget=40)


def left(covariance: FloatArray, rows: FloatArray, noise: FloatArray, of: FloatArray) -> float:
    """Share of the variance of of·x that Gaussian measurements of rows·x leave, in closed form."""
    inner = rows @ covariance @ rows.T + np.diag(noise**2)
    cross = rows @ covariance @ of
    return float(1.0 - cross @ np.linalg.solve(inner, cross) / (of @ covariance @ of))


@pytest.mark.parametrize("quantity", ["x0", "x2", "D"])
def test_the_closed_form_of_a_linear_simulator(linear: supac.Result, quantity: str) -> None:
    found = linear.next_measurements([supac.Measurement(n, None, s)
                                      for n, s in zip("ABCD", NOISE, strict=True)],
                                     quantity)  # fmt: skip
    of = ROWS[3] if quantity == "D" else np.eye(3)[int(quantity[1])]
    covariance = linear.posterior.covariance
    exact = {
        name: left(covariance, ROWS[i : i + 1], NOISE[i : i + 1], of)
        for i, name in enumerate("ABCD")
    }
    for each in found.choices:
        wanted = exact[each.candidate.words]
        assert abs(each.remaining - wanted) <= 4.0 * each.error + 0.01
        assert abs(each.linear - wanted) <= 4.0 * 2.0 / np.sqrt(found.draws)
        assert each.method == "re-weighted"
        assert each.deviations[0] == pytest.approx(found.before[0] * np.sqrt(each.remaining))
    best = min(exact, key=exact.__getitem__)
    assert found.best.candidate.words == best
    spread = np.sqrt(of @ covariance @ of)
    assert found.before[0] == pytest.approx(spread, rel=4.0 / np.sqrt(2.0 * found.draws))


def test_brute_force(linear: supac.Result) -> None:
    """Make up each measurement, calibrate again in closed form, and look at what is left."""
    rng, covariance, of = np.random.default_rng(1), linear.posterior.covariance, np.eye(3)[2]
    precision = np.linalg.inv(covariance)
    found = {
        each.candidate.words: each.remaining
        for each in linear.next_measurements([("B",), ("C",), ("D",)], "x2").choices
    }
    for i, name in ((1, "B"), (2, "C"), (3, "D")):
        errors = []
        for _ in range(3_000):
            truth = rng.multivariate_normal(linear.posterior.mean, covariance)
            y = ROWS[i] @ truth + NOISE[i] * rng.standard_normal()
            inner = precision + np.outer(ROWS[i], ROWS[i]) / NOISE[i] ** 2
            middle = np.linalg.solve(
                inner, precision @ linear.posterior.mean + ROWS[i] * y / NOISE[i] ** 2
            )
            errors.append((of @ (truth - middle)) ** 2)
        share = np.mean(errors) / covariance[2, 2]
        error = np.std(errors) / np.sqrt(len(errors)) / covariance[2, 2]
        assert abs(found[name] - share) <= 4.0 * np.hypot(error, 0.02)


def test_measurements_that_go_together(linear: supac.Result) -> None:
    both = supac.Candidate((supac.Measurement("B"), supac.Measurement("C")), "both")
    found = linear.next_measurements([both, ("B",), ("C",), ("D",)], together=3)
    shares = {each.candidate.words: each.linear for each in found.choices}
    assert shares["both"] < min(shares["B"], shares["C"])
    covariance = linear.posterior.covariance
    exact = np.mean([left(covariance, ROWS[1:3], NOISE[1:3], of) for of in np.eye(3)])
    assert shares["both"] == pytest.approx(exact, abs=4.0 * 2.0 / np.sqrt(found.draws))
    assert found.together[0].candidate is both
    chain = [each.remaining for each in found.together]
    assert chain == sorted(chain, reverse=True)
    assert len(set(each.candidate.words for each in found.together)) == 3  # noqa: C401
    assert found.quantities == ("x0", "x1", "x2")


def test_measurements_that_leave_no_less_are_not_added(linear: supac.Result) -> None:
    noisy = [supac.Candidate((supac.Measurement(name, noise=1e6),), name) for name in "BCD"]
    found = linear.next_measurements([("B",), *noisy], together=4)
    assert found.together[0].candidate.words == "B"
    chain = [each.remaining for each in found.together]
    assert chain == sorted(set(chain), reverse=True)
    assert len(chain) < 4


def test_what_only_re_weighting_sees() -> None:
    """A quantity that goes with the square of what is measured: no line predicts it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(20_000)
    values, outputs, errors = (x**2)[:, None], x[:, None], np.zeros((len(x), 1))
    noise = np.array([0.5])
    assert linear_remaining(values, outputs, errors, noise)[0] == pytest.approx(1.0, abs=0.01)
    found = reweighted_remaining(values, outputs, errors, noise, rng)
    assert found is not None
    # x given y is normal with variance v = 1/5 and mean 0.8·y: Var x² = 2v² + 4v·mean².
    v, mean_square = 0.2, 0.8**2 * 1.25
    wanted = (2.0 * v**2 + 4.0 * v * mean_square) / 2.0
    assert found[0][0] == pytest.approx(wanted, abs=4.0 * found[1] + 0.02)
    few = slice(0, 100)
    sharp = reweighted_remaining(values[few], outputs[few], errors[few], np.array([0.01]), rng)
    assert sharp is None


def shares_left(draws: Draws, output: str) -> tuple[float, float]:
    """Share of the variance of x that a measurement leaves, linearly and by re-weighting."""
    values, wrong, noise = draws.output(supac.Measurement(output))
    given = draws.x, values[:, None], wrong[:, None], np.array([noise])
    weighted = reweighted_remaining(*given, np.random.default_rng(2))
    assert weighted is not None
    return float(linear_remaining(*given)[0]), float(weighted[0][0])


def logarithmic_draws(outputs: FloatArray, errors: FloatArray, x: FloatArray) -> Draws:
    names, noise = ("steep", "flat"), np.array([0.3, 0.3])
    table = supac.Outputs(names, 1, noise=noise, logarithmic=True)
    return Draws(x[:, None], ("x",), ((table, outputs, errors),))


def test_logarithms_of_an_emulator_that_is_below_0_somewhere() -> None:
    """log steep = x and log flat = x/4: the closed forms, also where steep is lost in its error."""
    x = np.random.default_rng(0).standard_normal(4_000)
    outputs = np.exp(np.column_stack([x, 0.25 * x]))
    exact = [0.3**2 / (0.3**2 + slope**2) for slope in (1.0, 0.25)]
    for output, wanted in zip(("steep", "flat"), exact, strict=True):
        found = shares_left(logarithmic_draws(outputs, np.zeros_like(outputs), x), output)
        assert found == pytest.approx((wanted, wanted), abs=0.03)
    # Were the outputs themselves measured with this noise, steep would leave another share.
    raw = reweighted_remaining(
        x[:, None], outputs[:, :1], np.zeros((len(x), 1)), np.array([0.3]), np.random.default_rng(2)
    )
    assert raw is not None
    assert raw[0][0] > exact[0] + 0.05
    errors = np.zeros_like(outputs)
    errors[:, 0] = 0.05
    emulated = outputs - np.where(outputs < 0.1, 1.0, 0.0)[:, [0]] * [0.12, 0.0]
    assert 10 < (emulated[:, 0] <= 0.0).sum() < 100
    draws = logarithmic_draws(emulated, errors, x)
    linear, weighted = shares_left(draws, "steep")
    assert linear == pytest.approx(exact[0], abs=0.04)
    assert weighted == pytest.approx(exact[0], abs=0.04)
    assert max(linear, weighted) < min(shares_left(draws, "flat"))
    with pytest.raises(ValueError, match="flat is compared by its logarithm, and no emulated one"):
        logarithmic_draws(-outputs, errors, x).output(supac.Measurement("flat"))


def decay(x: FloatArray, times: FloatArray | None = None) -> FloatArray:
    clock = np.linspace(0.2, 2.0, 6) if times is None else times
    return np.asarray(x[0] * np.exp(-x[1] * clock))


def test_outputs_of_a_prediction_and_other_quantities() -> None:
    prior = supac.Parameters(
        {
            "initial": marginals.Uniform(0.5, 5.0),
            "rate": marginals.LogNormal(median=1.0, log_sd=0.5),
        }
    )
    clock = np.linspace(0.2, 2.0, 6)
    data = supac.Observations(("A",), decay(np.array([2.0, 0.7])), np.full(6, 0.1), times=clock)
    risk = supac.Composite(decay, supac.MeanSquare(), data)
    result = supac.minimize(risk, prior, supac.Catoni(2 / 6), budget=50)
    later = np.array([1.0, 3.0, 6.0])
    made = result.predict(lambda x: decay(x, later), 300, outputs="A", times=later)
    found = result.next_measurements(
        [("A", 1.0), ("A", 3.0), ("A", 6.0), ("A", 2.0, 0.01)], "A at 6", prediction=made
    )
    assert found.draws == 300
    few = result.predict(lambda x: decay(x, later), 49, outputs="A", times=later, title="few")
    with pytest.raises(ValueError, match="prediction 'few' has 49 draws, and at least 50 are"):
        result.next_measurements([("A", 1.0)], "rate", prediction=few)
    other = supac.minimize(risk, prior, supac.Catoni(3 / 6), budget=50)
    with pytest.raises(ValueError, match="prediction '' is one of another posterior"):
        other.next_measurements([("A", 1.0)], "rate", prediction=made)
    # The last one has a tenth of the noise, and is emulated beside the prediction.
    assert found.best.candidate.words == "A at 2"
    with pytest.raises(ValueError, match="A at 4 is no output of the runs; there are A at 3 times"):
        result.next_measurements([("A", 4.0, 0.1)], "rate", prediction=made)
    with pytest.raises(ValueError, match=r"'ratte' is neither .* did you mean 'rate'"):
        result.next_measurements(quantity="ratte")
    with pytest.raises(ValueError, match="'weight' is neither a parameter nor an output"):
        result.next_measurements([("A", 1.0)], "weight", prediction=made)
    every = result.next_measurements(quantity=lambda x: 1.0 / x[:, 1])
    assert len(every.choices) == 6
    assert every.quantities == ("quantity 0",)
    again = result.next_measurements(quantity=lambda x: 1.0 / x[:, 1])
    assert [each.remaining for each in again.choices] == [e.remaining for e in every.choices]
    told = json.loads(json.dumps(every.to_dict()))
    assert len(told["candidates"]["candidate"]) == 6
    with pytest.raises(TypeError, match=r'such as \("A", 3.0, 0.1\)'):
        result.next_measurements([3.0])


def test_files_of_candidates(tmp_path: Path) -> None:
    path = tmp_path / "candidates.toml"
    path.write_text(
        'quantity = "k1"\nprediction = "scenario.toml"\n'
        '[[candidate]]\noutput = ["A", "B"]\ntime = 3.0\nnoise = 0.1\nname = "noon"\n'
        '[[candidate]]\noutput = "A"\ntimes = { start = 1, stop = 3, step = 1 }\n'
    )
    found = read_candidates(path)
    assert (found.quantity, found.prediction) == (("k1",), "scenario.toml")
    assert [each.words for each in found.candidates] == ["noon", "A at 1", "A at 2", "A at 3"]
    assert [each.noise for each in found.candidates[0].measurements] == [0.1, 0.1]
    table = tmp_path / "candidates.csv"
    table.write_text("output,time,noise,name\nA,3,0.1,noon\nB,3,0.1,noon\nA,1,,\n")
    assert read_candidates(table).candidates[0] == found.candidates[0]
    assert read_candidates(table).candidates[1].words == "A at 1"
    for text, message in (
        ("[[candidate]]\ntime = 3.0\n", "line 1, candidate\\[0\\]: output is missing"),
        ('[[candidate]]\noutput = "A"\nnoise = 0.0\n', "line 3, candidate\\[0\\].noise: must be"),
        ("quantiy = 3\n", 'quantiy: is not known .* did you mean "quantity"'),
        ("[candidate]\noutput = 'A'\n", "write a table \\[\\[candidate\\]\\] for each"),
        ("[[candidate]]\noutput = 'A'\ntime = 1\ntimes = [2]\n", "goes without time"),
    ):
        path.write_text(text)
        with pytest.raises(ProblemFileError, match=message):
            read_candidates(path)
    table.write_text("output,time\nA,3\nB,soon\n")
    with pytest.raises(ProblemFileError, match="line 3: needs an output"):
        read_candidates(table)
    table.write_text("what,time\nA,3\n")
    with pytest.raises(ProblemFileError, match="needs a header with output"):
        read_candidates(table)


def test_a_plot_of_candidates(linear: supac.Result) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = supac.plots.next_measurements(linear.next_measurements(quantity="x2"))
    assert [each.get_text() for each in axes.get_yticklabels()][0] in "ABCD"  # noqa: RUF015
    pyplot.close("all")


def test_candidates_in_the_order_of_time() -> None:
    def choice(remaining: float, *parts: tuple[str, float | None]) -> Choice:
        candidate = supac.Candidate(tuple(supac.Measurement(*each) for each in parts))
        return Choice(candidate, remaining, 0.01, remaining, np.nan, (1.0,))

    ranked = (
        choice(0.2, ("A", 10.0)),
        choice(0.3, ("B", 2.0)),
        choice(0.4, ("A", 2.0)),
        choice(0.5, ("A", 2.0), ("B", 3.0)),
        choice(0.6, ("B", None)),
    )
    found = NextMeasurements(ranked, ("k",), np.ones(1), 100)
    assert [each.remaining for each in in_time(ranked)] == [0.4, 0.5, 0.2, 0.6, 0.3]
    table = found.to_table(by_time=True)
    assert table["time"] == [2.0, None, 10.0, None, 2.0]
    assert table["output"] == ["A", "A and B", "A", "B", "B"]
    assert found.to_table()["time"] == [10.0, 2.0, 2.0, None, None]
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = supac.plots.next_measurements(found, 3, by_time=True)  # the best three
    assert [each.get_text() for each in axes.get_yticklabels()] == ["A at 2", "A at 10", "B at 2"]
    pyplot.close("all")


def test_an_output_of_several_experiments_is_asked_for_by_name() -> None:
    """Each experiment has its own values, and without a name none of them is taken."""
    x = np.random.default_rng(0).standard_normal((60, 1))
    table = Outputs(
        ("A",), 2, np.array([5.0, 5.0]), noise=np.array([0.1]), experiments=("cold", "warm")
    )
    values = np.hstack([x, 3.0 * x])
    draws = Draws(x, ("k",), ((table, values, np.zeros_like(values)),))
    for place, name in enumerate(("cold", "warm")):
        found, _, noise = draws.output(Measurement("A", 5.0, experiment=name))
        np.testing.assert_array_equal(found, values[:, place])
        assert noise == 0.1
        np.testing.assert_array_equal(draws.quantity(f"A at 5 in {name}"), values[:, place])
    words = [each.words for each in candidates_of(None, draws)]
    assert words == ["A at 5 in cold", "A at 5 in warm"]
    with pytest.raises(ValueError, match="several experiments, cold, warm: say in which one"):
        draws.quantity("A at 5")
    with pytest.raises(ValueError, match="with its time and experiment, 'A at 5 in warm'"):
        draws.quantity("E3")
    draws.quantity("A at 5 in warm")
    table = replace(table, times=np.array([5.0, 6.0]), noise=None)
    values[:, 1] = np.nan  # an experiment without this column
    with pytest.raises(ValueError, match="'A at 5 in cold'"):
        Draws(x, ("k",), ((table, values, np.zeros_like(values)),)).quantity("E3")
