"""ADM1 against published numbers, against itself, and as a problem to calibrate."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import supac
from extras import needs
from supac.arrays import FloatArray
from supac.simulators import adm1
from supac.simulators.adm1 import generate, model
from supac.simulators.adm1.kernel import announced
from supac.simulators.adm1.simulator import kinetics_of

needs("numba")

SHARED = Path(__file__).parents[4] / "shared" / "reference"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the reference data are not here")
UNSEEN = {"time": np.array([1.0]), **{name: np.array([np.nan]) for name in adm1.OUTPUTS}}
PUBLISHED = np.array([list(adm1.BSM2_KINETICS.values())])
TRUTH = np.array([list(generate.true_parameters().values())])


def read(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def constant_feed(
    days: int, values: dict[str, float], rows_a_day: int = 1
) -> dict[str, FloatArray]:
    time = np.arange(0.0, days + 1e-9, 1.0 / rows_a_day)
    return {
        "time": time,
        **{name: np.full_like(time, values.get(name, 0.0)) for name in (*model.LIQUID, "Q")},
    }


@needs_shared
@pytest.mark.parametrize("start", [1.0, 3.0])
def test_the_published_steady_state_is_reached_from_anywhere(start: float) -> None:
    renamed = {"X_xc": "X_c", "S_cat": "S_cation", "S_an": "S_anion"}
    folder = SHARED / "adm1_steady_state"
    influent, published = (
        {renamed.get(r["variable"], r["variable"]): float(r["value"]) for r in read(folder / name)}
        for name in ("influent.csv", "steady_state.csv")
    )
    initial = generate.GUESS | dict.fromkeys(model.BIOMASS, 0.5 * start) | {"S_IC": 0.1 / start}
    digester = adm1.Digester(
        3400.0, 300.0, 308.15, 308.15, constant_feed(2_000, influent), initial, UNSEEN
    )
    end = adm1.Simulator(digester, "dae", adm1.BSM2).trajectories(PUBLISHED, rtol=1e-6)
    for name, value in published.items():
        assert end[name][0, -1] == pytest.approx(value, rel=1e-5), name


@needs_shared
class TestAgainstThePapersCode:
    @pytest.fixture
    def problem(self) -> adm1.Problem:
        with pytest.warns(adm1.UnitsWarning, match=r"taken as the concentration of H⁺.*pH 7.36"):
            return adm1.load(SHARED / "adm1_lf", variant="split")

    @pytest.fixture
    def rows(self) -> list[dict[str, str]]:
        return read(SHARED / "adm1_lf" / "risk_check.csv")

    @pytest.fixture
    def x(self, rows: list[dict[str, str]]) -> FloatArray:
        return np.exp([[float(row[name]) for name in model.CALIBRATED] for row in rows])

    def test_default_steps(
        self, problem: adm1.Problem, rows: list[dict[str, str]], x: FloatArray
    ) -> None:
        risk = problem.risk(x)
        for ours, row in zip(risk, rows, strict=True):
            assert (ours == 3.0) == (float(row["risk"]) == 3.0)
            # Where there is no tight run to compare with, the paper's own tolerance adds 2e-5.
            error = 3e-5 if row["risk_tight"] else 5e-5
            assert ours == pytest.approx(float(row["risk_tight"] or row["risk"]), abs=error)

    def test_tight_tolerance(
        self, problem: adm1.Problem, rows: list[dict[str, str]], x: FloatArray
    ) -> None:
        tight = [k for k, r in enumerate(rows) if r["risk_tight"] and float(r["risk_tight"]) < 3.0]
        tight = tight[::6]  # a few seconds each
        outputs = problem.simulator.outputs(x[tight], rtol=2e-10)
        expected = [float(rows[k]["risk_tight"]) for k in tight]
        risk = problem.loss(outputs.reshape(len(tight), -1))
        np.testing.assert_allclose(risk, expected, rtol=0.0, atol=1e-8)

    def test_splitting_matters_little(self, x: FloatArray, problem: adm1.Problem) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", adm1.UnitsWarning)
            whole = adm1.load(SHARED / "adm1_lf", variant="dae")
        difference = np.abs(whole.risk(x) - problem.risk(x))
        assert 1e-6 < np.median(difference) < 2e-4
        assert difference.max() < 2e-3


def test_mass_is_conserved_over_a_dynamic_run() -> None:
    """COD, carbon and nitrogen: what is there + what left = what was there + what came."""
    digester, fixed = adm1.example().digester, adm1.PAPER
    cod = {n: 1.0 for n in model.LIQUID if n not in ("S_IC", "S_IN", "S_cation", "S_anion")}
    carbon = {n: fixed[c] for n, c in model.CARBON.items()} | {"S_IC": 1.0}
    nitrogen = {n: fixed[c] for n, c in model.NITROGEN.items()} | {"S_IN": 1.0}
    in_gas = {
        "cod": {"S_gas_h2": 1.0, "S_gas_ch4": 1.0},
        "carbon": {"S_gas_ch4": fixed["C_ch4"], "S_gas_co2": 1.0},
        "nitrogen": {},
    }
    contents = {"cod": cod, "carbon": carbon, "nitrogen": nitrogen}
    watch = tuple(
        (
            f"left_{element}",
            "D * (" + " + ".join(f"{c!r} * {n}" for n, c in content.items()) + ")"
            + "".join(f" + q_gas / V_liq * {c!r} * {n}" for n, c in in_gas[element].items()),
        )
        for element, content in contents.items()
    )  # fmt: skip
    simulator = adm1.Simulator(digester, "dae", fixed, watch=watch)
    states = simulator.trajectories(TRUTH)
    duration = np.diff(np.concatenate([[digester.initial["time"]], digester.feed["time"]]))
    ratio = digester.V_gas / digester.V_liq
    for element, content in contents.items():
        inflow = np.sum([c * digester.feed[n] for n, c in content.items()], axis=0)
        came = np.cumsum(duration * digester.feed["Q"] / digester.V_liq * inflow)
        # S_h2 is stationary in this variant: it flows, but none is stored.
        there = np.sum([c * states[n][0] for n, c in content.items() if n != "S_h2"], axis=0)
        for n, c in in_gas[element].items():
            there = there + ratio * c * states[n][0]
        error = there - there[0] + states[f"left_{element}"][0] - (came - came[0])
        assert np.abs(error - error[0]).max() < 1e-9 * came[-1], element


@pytest.mark.parametrize("variant", ["dae", "split"])
def test_trajectories_hold_all_35_states_in_electric_balance(variant: Any) -> None:
    states = adm1.Simulator(adm1.example().digester, variant).trajectories(TRUTH)
    ions = [f"S_{acid}_ion" for acid in ("va", "bu", "pro", "ac", "hco3")] + ["S_nh3"]
    assert len(set(model.LIQUID) | set(model.GAS) | set(ions)) == 35
    assert set(states) > set(model.LIQUID) | set(model.GAS) | set(ions) | {"pH", "q_gas"}
    weights = {"S_va_ion": 208.0, "S_bu_ion": 160.0, "S_pro_ion": 112.0, "S_ac_ion": 64.0}
    charge = states["S_cation"] + states["S_IN"] - states["S_nh3"] + states["S_H"]
    charge = charge - states["S_anion"] - states["S_hco3_ion"] - 2.08e-14 / states["S_H"]
    charge = charge - np.sum([states[ion] / weight for ion, weight in weights.items()], axis=0)
    assert np.abs(charge).max() < 1e-6  # of 0.1 kmol/m³; K_w is rounded here


def test_a_row_does_not_depend_on_its_batch() -> None:
    problem = adm1.example()
    x = problem.parameters.sample(problem.prior, 37, 0)
    x.flags.writeable = False
    together = problem.simulate(x)
    np.testing.assert_array_equal(together[[5, 20, 36]], problem.simulate(x[[5, 20, 36]]))
    np.testing.assert_array_equal(together[::-1], problem.simulate(x[::-1]))
    threaded = adm1.example(threads=2)
    np.testing.assert_array_equal(together, threaded.simulate(x))


def test_fixed_steps_are_accurate_over_the_prior() -> None:
    problem = adm1.example()
    x = problem.parameters.sample(problem.prior, 12, 1)
    tight = problem.simulator.outputs(x, rtol=1e-7).reshape(12, -1)
    # Runs that wash out change fast and score high: their error is relative.
    np.testing.assert_allclose(problem.risk(x), problem.loss(tight), rtol=1e-4, atol=3e-5)


def wide_draws(n: int) -> FloatArray:
    """Parameters four times as spread as the prior: some runs fail, some need care."""
    problem = adm1.example()
    z = 4.0 * np.random.default_rng(0).standard_normal((n, 30))
    return problem.parameters.from_latent(z)


def test_a_row_whose_fixed_steps_go_wrong_is_run_again_with_care() -> None:
    simulator, x = adm1.Simulator(adm1.example().digester, steps_a_day=4), wide_draws(64)
    kinetics = kinetics_of(x)
    plain, _, lowest = simulator._batch(kinetics, 0.0, False)
    doubtful = np.flatnonzero(~(lowest >= 0.0))
    assert 0 < len(doubtful) < 64
    outputs = simulator.outputs(x)
    np.testing.assert_array_equal(outputs[doubtful], simulator.outputs(x[doubtful], rtol=1e-4))
    sound = np.setdiff1d(np.arange(64), doubtful)
    np.testing.assert_array_equal(outputs[sound], plain[sound])


def test_a_run_that_would_take_minutes_fails_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters up to e¹² times their medians: one takes 50 times the steps of ordinary runs.

    The others are as they are with ten times as many allowed.
    """
    problem = adm1.example("split")
    medians = problem.parameters.from_latent(np.zeros((1, 30)))
    x = medians * np.exp(12.0 * np.random.default_rng(1).uniform(-1.0, 1.0, (32, 30)))
    with pytest.warns(adm1.StepLimitWarning, match="took more than 392,250"):
        outputs = problem.simulator.outputs(x)
    with pytest.warns(adm1.StepLimitWarning):
        assert (problem.risk(x)[np.isnan(outputs[:, -1, 0])] == 3.0).all()
    ordinary = problem.parameters.sample(problem.prior, 8, 0)
    before = problem.simulator.outputs(ordinary, rtol=1e-4)
    monkeypatch.setattr("supac.simulators.adm1.simulator._MOST_STEPS", 2500)
    np.testing.assert_array_equal(problem.simulator.outputs(ordinary, rtol=1e-4), before)
    monkeypatch.setattr("supac.simulators.adm1.simulator._MOST_STEPS", 1)
    with pytest.warns(adm1.StepLimitWarning, match="of 8 runs"):
        assert np.isnan(problem.simulator.outputs(ordinary, rtol=1e-4)[:, -1]).all()


@pytest.mark.parametrize("variant", ["dae", "split"])
def test_rows_that_fail_do_not_depend_on_their_batch_either(variant: Any) -> None:
    simulator, x = adm1.Simulator(adm1.example().digester, variant), wide_draws(48)
    together, states = simulator.outputs(x), simulator.trajectories(x)["S_ac"]
    failed = np.flatnonzero(np.isnan(together).any(axis=(1, 2)))
    assert len(failed) >= 3
    for k in failed[:6]:
        np.testing.assert_array_equal(together[k], simulator.outputs(x[k : k + 1])[0])
        np.testing.assert_array_equal(states[k], simulator.trajectories(x[k : k + 1])["S_ac"][0])
    assert np.isnan(states[failed, -1]).all()


def test_no_rows_give_no_outputs() -> None:
    assert adm1.example().risk(np.empty((0, 30))).shape == (0,)


def test_a_digester_without_strong_ions_runs() -> None:
    digester = adm1.example().digester
    feed = digester.feed | dict.fromkeys(("S_cation", "S_anion"), 0.0 * digester.feed["Q"])
    without = replace(
        digester, feed=feed, initial=dict(digester.initial) | {"S_cation": 0.0, "S_anion": 0.0}
    )
    assert np.isfinite(adm1.Simulator(without).outputs(TRUTH)).all()


def test_a_day_of_thin_feed_is_no_failure_but_in_the_papers_sense() -> None:
    digester = adm1.example().digester
    thin = np.where((digester.feed["time"] > 50.0) & (digester.feed["time"] <= 51.0), 0.1, 1.0)
    feed = {n: c * thin if n in model.LIQUID else c for n, c in digester.feed.items()}
    thinned = replace(digester, feed=feed)
    assert np.isfinite(adm1.Simulator(thinned, "dae").outputs(TRUTH)).all()
    assert np.isnan(adm1.Simulator(thinned, "split").outputs(TRUTH)[0, 50:]).all()


def test_days_are_counted_right_in_times_summed_up_from_tenths() -> None:
    values = {name: float(c.mean()) for name, c in adm1.example().digester.feed.items()}
    feed = constant_feed(20, values, rows_a_day=10)
    feed["time"] = np.concatenate([[0.0], np.cumsum(np.full(200, 0.1))])
    initial = dict(adm1.example().digester.initial)
    digester = adm1.Digester(2500.0, 250.0, 308.15, 308.15, feed, initial, UNSEEN)
    outputs = adm1.Simulator(digester).outputs(TRUTH)[0]
    assert outputs.shape == (20, 9)
    np.testing.assert_allclose(outputs[1:, 5], outputs[1, 5], rtol=0.05)  # a day's gas each day


def test_an_interpolated_feed_is_the_limit_of_a_fine_one() -> None:
    """Ramps between rows, against the same ramps held for a quarter of an hour each."""
    base = {"X_ch": 9.0, "X_pr": 14.0, "X_li": 4.0, "S_IC": 0.02, "S_IN": 0.01, "S_cation": 0.03}
    coarse = constant_feed(12, base | {"Q": 100.0})
    coarse["Q"] = 100.0 + 50.0 * np.sin(coarse["time"])
    fine = constant_feed(12, base, rows_a_day=96)
    middle = np.maximum(fine["time"] - 0.5 / 96, 0.0)
    fine["Q"] = np.interp(middle, coarse["time"], coarse["Q"])
    initial = dict(adm1.example().digester.initial)
    ends = []
    for feed, interpolate in ((coarse, True), (fine, False), (coarse, False)):
        digester = adm1.Digester(2500.0, 250.0, 308.15, 308.15, feed, initial, UNSEEN)
        simulator = adm1.Simulator(digester, interpolate=interpolate)
        ends.append(simulator.trajectories(TRUTH, rtol=1e-6)["S_ac"][0, -1])
    fixed_steps = adm1.Simulator(
        adm1.Digester(2500.0, 250.0, 308.15, 308.15, coarse, initial, UNSEEN), interpolate=True
    ).trajectories(TRUTH)["S_ac"][0, -1]
    assert fixed_steps == pytest.approx(ends[0], rel=1e-3)  # without ∂f/∂t it is 0.5 % off
    assert ends[0] == pytest.approx(ends[1], rel=1e-4)
    assert abs(ends[2] / ends[1] - 1.0) > 1e-2  # holding is something else
    with pytest.raises(ValueError, match="holds the feed"):
        adm1.Simulator(digester, "split", interpolate=True)


def test_gas_flow_is_normalised_to_atmospheric_pressure() -> None:
    digester = adm1.example().digester
    raw = adm1.Simulator(digester).trajectories(TRUTH)
    normal = adm1.Simulator(digester, normalised=True).trajectories(TRUTH)
    pressure = raw["q_gas"] / adm1.PAPER["k_p"] + adm1.PAPER["p_atm"]
    np.testing.assert_allclose(
        normal["q_gas"], raw["q_gas"] * pressure / adm1.PAPER["p_atm"], rtol=1e-9
    )


class TestRisk:
    problem = adm1.example()

    def test_a_perfect_fit_has_no_risk(self) -> None:
        observed = self.problem.digester.observed.reshape(1, -1)
        assert self.problem.loss(np.nan_to_num(observed, nan=1.0))[0] == pytest.approx(
            0.0, abs=1e-9
        )

    def test_missing_observations_are_skipped(self) -> None:
        observed = self.problem.digester.observed.reshape(1, -1)
        off = np.where(np.isnan(observed), 1e6, observed * np.exp(0.1))
        assert np.isnan(observed).any()
        assert self.problem.loss(off)[0] == pytest.approx(0.1, rel=0.01)

    def test_negative_predictions_are_no_fit(self) -> None:
        """Surrogates of the outputs may predict them."""
        assert self.problem.loss(-self.problem.simulate(TRUTH))[0] > 2.9
        assert self.problem.loss(np.full((1, 1764), 1e30))[0] <= 3.0

    def test_shapes_are_checked(self) -> None:
        with pytest.raises(ValueError, match="a row of 1764 numbers a run"):
            self.problem.loss(self.problem.simulator.outputs(TRUTH))

    def test_missing_predictions_are_a_failure(self) -> None:
        outputs = self.problem.simulate(TRUTH)
        assert self.problem.loss(outputs)[0] < 0.1
        outputs[0, 700] = np.nan
        assert self.problem.loss(outputs)[0] == 3.0

    def test_residuals_are_capped_softly(self) -> None:
        from supac.problem.log_observations import soft_cap  # noqa: PLC0415

        residual = np.linspace(0.0, 50.0, 500)
        capped = soft_cap(residual)
        assert (np.diff(capped) >= 0.0).all()
        assert soft_cap(np.array([0.01]))[0] == pytest.approx(0.01, rel=0.01)
        assert capped[-1] == pytest.approx(3.0, rel=0.01)
        np.testing.assert_allclose(soft_cap(-residual), capped)


class TestExample:
    def test_the_truth_fits(self) -> None:
        problem = adm1.example()
        x = problem.parameters.sample(problem.prior, 64, 2)
        assert problem.risk(TRUTH)[0] < 0.08  # noise of 4 to 8 %
        assert problem.risk(TRUTH)[0] < problem.risk(x).min()

    def test_the_shipped_data_are_those_of_the_generator(self) -> None:
        made, shipped = generate.make_digester(), adm1.example().digester
        for name, column in shipped.feed.items():
            np.testing.assert_allclose(made.feed[name], column, rtol=1e-5)
        np.testing.assert_allclose(made.observed, shipped.observed, rtol=1e-3)
        for name, value in shipped.initial.items():
            assert made.initial[name] == pytest.approx(value, rel=1e-4, abs=1e-12)

    def test_it_is_a_problem_for_minimize(self) -> None:
        problem = adm1.example()
        result = supac.minimize(
            problem.risk,
            problem.parameters,
            supac.Catoni(0.002, ceiling=3.0),
            budget=224,
            execution=supac.Execution(vectorized=True),
            algorithm=supac.SuPAC.paper(draws=4_000),
        )
        fresh = problem.risk(result.sample(100, 0)).mean()
        assert fresh + 0.002 * result.kl < 0.8 * result.history["objective"][0]

    def test_bad_parameters_are_refused(self) -> None:
        with pytest.raises(ValueError, match="a row of 30 parameters"):
            adm1.example().risk(np.ones((2, 29)))
        with pytest.raises(
            ValueError, match=r"must be positive and finite, but k_dis = -1\.0 in row 0"
        ):
            adm1.example().risk(-np.ones((2, 30)))
        for fixed, message in (
            (adm1.BSM2 | {"k_La": 1.0}, r"unknown \['k_La'\]"),
            (adm1.BSM2 | {"k_m_ac": 8.0}, "k_m_ac, which are calibrated"),
            ({"Y_su": 0.1}, "missing"),
            (adm1.BSM2 | {"Y_su": -0.1}, "must be positive, but these are not: Y_su"),
        ):
            with pytest.raises(ValueError, match=message):
                adm1.Simulator(adm1.example().digester, fixed=fixed)
        with pytest.raises(ValueError, match="threads must be a whole number"):
            adm1.example(threads=0)
        assert len(repr(adm1.example())) < 100
        with pytest.raises(ValueError, match='variant must be "dae" or "split"'):
            adm1.example(variant="DAE")  # type: ignore[arg-type]


class TestDigester:
    def test_round_trip(self, tmp_path: Path) -> None:
        digester = adm1.example().digester
        digester.write(tmp_path)
        again = adm1.Digester.read(tmp_path)
        np.testing.assert_array_equal(again.observed, digester.observed)
        for name, column in digester.feed.items():
            np.testing.assert_array_equal(again.feed[name], column)
        assert dict(again.initial) == dict(digester.initial)
        assert (again.V_liq, again.T_op) == (digester.V_liq, digester.T_op)

    @pytest.mark.parametrize(
        ("file", "change", "message"),
        [
            ("dig_info.json", {"V_liq": None}, "lacks V_liq"),
            ("dig_info.json", {"V_gas": -1.0}, "V_gas must be a positive volume"),
            ("dig_info.json", {"T_ad": 35.0}, "35 is no temperature in kelvin; 35 °C is 308.15 K"),
            ("train_data/init_state.json", {"X_ac": None}, "lacks X_ac"),
            ("train_data/feed.csv", ("Q", None), "lacks Q"),
            ("train_data/feed.csv", ("X_ch", "-1"), "X_ch is negative in row 3"),
            ("train_data/feed.csv", ("X_ch", ""), "X_ch is missing in row 3"),
            ("train_data/feed.csv", ("X_ch", "much"), "X_ch in row 3 is not a number: 'much'"),
            (
                "train_data/init_state.json",
                {"S_ac": -1.0},
                "S_ac = -1.0 must be a number, 0 or more",
            ),
            ("train_data/init_state.json", {"pH": 14.5}, "pH = 14.5 is above 14"),
            ("train_data/init_state.json", {"time": -5.0}, "must be a number, 0 or more"),
            ("train_data/init_state.json", {"S_ac": "0,07"}, "S_ac is not a number: '0,07'"),
            ("train_data/obs.csv", ("time", "3.5"), "time 3.5 is no whole day"),
            ("train_data/obs.csv", ("time", "2"), "a day occurs twice"),
            ("train_data/obs.csv", ("S_va", "0"), "S_va is not positive in row 3"),
            ("train_data/obs.csv", ("time", None), "lacks time"),
            ("train_data/feed.csv", ("Q", "1,5"), "row 3 has 29 cells, the header 28"),
            ("train_data/feed.csv", ("time", "gap"), "a gap of 2.25 days ends at day 2.5"),
            ("train_data/feed.csv", ("time", "0.25"), "time does not increase at row 3"),
            ("train_data/obs.csv", None, "obs.csv is missing"),
        ],
    )
    def test_bad_data_are_refused(
        self, tmp_path: Path, file: str, change: object, message: str
    ) -> None:
        adm1.example().digester.write(tmp_path)
        path = tmp_path / file
        if change is None:
            path.unlink()
        elif isinstance(change, dict):
            values = json.loads(path.read_text()) | change
            path.write_text(json.dumps({k: v for k, v in values.items() if v is not None}))
        else:
            assert isinstance(change, tuple)
            name, value = change
            rows = read(path)
            if value == "gap":
                del rows[2:10]
            elif value is None:
                rows = [{k: v for k, v in row.items() if k != name} for row in rows]
            else:
                rows[2][name] = value
            lines = [",".join(row) for row in (rows[0], *(row.values() for row in rows))]
            path.write_text("\n".join(lines) + "\n")
        with pytest.raises(adm1.DigesterError, match=message):
            adm1.Digester.read(tmp_path)

    def test_outputs_that_were_never_measured_need_no_column(self, tmp_path: Path) -> None:
        adm1.example().digester.write(tmp_path)
        path = tmp_path / "train_data" / "obs.csv"
        rows = [{"time": row["time"], "q_gas": row["q_gas"]} for row in read(path)]
        text = "\ufefftime, q_gas\n" + "".join(f"{r['time']},{r['q_gas']}\n" for r in rows)
        path.write_text(text, encoding="utf-8")
        problem = adm1.load(tmp_path)
        assert np.isnan(problem.digester.observed).all(axis=0).tolist() == [
            name != "q_gas" for name in adm1.OUTPUTS
        ]
        assert 0.0 < problem.risk(TRUTH)[0] < 0.1

    def test_observations_beyond_the_feed_are_ignored_aloud(self) -> None:
        digester = adm1.example().digester
        short = {name: column[:121] for name, column in digester.feed.items()}
        with pytest.warns(UserWarning, match="166 days of observations are outside"):
            cut = replace(digester, feed=short)
        assert cut.observed.shape == (30, 9)

    def test_nothing_observed_is_refused(self) -> None:
        digester = replace(adm1.example().digester, observations=UNSEEN)
        problem = adm1.Problem(digester, adm1.Simulator(digester))
        with pytest.raises(adm1.DigesterError, match="there is no observation in the days"):
            problem.risk(TRUTH)

    def test_a_concentration_in_the_field_of_the_ph_is_noticed(self, tmp_path: Path) -> None:
        adm1.example().digester.write(tmp_path)
        path = tmp_path / "train_data" / "init_state.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"pH": 4e-8}))
        with pytest.warns(adm1.UnitsWarning, match="pH = 4e-08 cannot be a pH"):
            digester = adm1.Digester.read(tmp_path)
        assert digester.S_H == 4e-8


def test_compilation_is_kept_for_other_processes() -> None:
    code = (
        "import numpy as np; from supac.simulators import adm1; p = adm1.example('split'); "
        "print(p.risk(np.array([list(adm1.PAPER_KINETICS.values())]))[0])"
    )
    (risk,) = adm1.example("split").risk(np.array([list(adm1.PAPER_KINETICS.values())]))
    later = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert later.stderr == ""  # nothing is announced, no cache is missed
    assert later.stdout == f"{risk}\n"


def test_compilation_is_announced_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("adm1_split_0")
    module.__file__ = str(tmp_path / "adm1_split_0.py")
    with announced(module, "split"):
        (tmp_path / "__pycache__").mkdir()
        (tmp_path / "__pycache__" / "adm1_split_0.simulate-1.py311.1.nbc").touch()
    said = capsys.readouterr().err
    assert "compiling ADM1 (split) once" in said
    assert "compiled in" in said
    with announced(module, "split"):
        pass
    assert capsys.readouterr().err == ""


def test_without_numba_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['numba'] = None; import numpy as np; "
        "from supac.simulators import adm1; adm1.example().risk(np.ones((1, 30)))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "pip install 'supac[adm1]'" in outcome.stderr


def test_the_composite_is_the_same_risk_in_two_parts() -> None:
    problem = adm1.example()
    x = problem.parameters.from_latent(2.5 * np.random.default_rng(8).standard_normal((60, 30)))
    residuals = problem.composite.residuals(problem.composite.simulate(x))
    failed = np.isnan(problem.simulate(x)).any(axis=1)
    assert failed.any()
    np.testing.assert_array_equal(np.isnan(residuals).all(axis=1), failed)
    assert np.isfinite(residuals[~failed]).all()
    np.testing.assert_allclose(problem.composite(x), problem.risk(x), rtol=1e-12)
    assert (problem.composite(x)[failed] == 3.0).all()


def test_a_digester_is_calibrated_in_a_hundred_runs() -> None:
    problem = adm1.example()
    result = supac.minimize(
        problem.composite,
        problem.parameters,
        supac.Catoni(temperature=0.002, ceiling=3.0),
        budget=100,
        execution=supac.Execution(vectorized=True),
    )
    at_truth = float(problem.risk(TRUTH)[0])
    fresh = problem.risk(result.sample(300, 1))
    assert at_truth < fresh.mean() < 1.3 * at_truth
    assert abs(result.mean_risk - fresh.mean()) < 4.0 * np.hypot(
        result.mean_risk_error, fresh.std() / np.sqrt(300)
    )
