from __future__ import annotations

import gc
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fmu_files
import supac
from supac.arrays import FloatArray
from supac.simulators.fmi import FMU, FMUError, Variable, read_description
from supac.simulators.fmi.signals import Signals

TIMES = np.array([1.0, 2.5, 4.0, 6.25, 10.0])


@pytest.fixture(scope="module")
def oscillator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fmu_files.van_der_pol(tmp_path_factory.mktemp("oscillator"))


@pytest.fixture(scope="module")
def oscillator_3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fmu_files.van_der_pol_3(tmp_path_factory.mktemp("oscillator"))


@pytest.fixture(scope="module")
def ball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fmu_files.ball(tmp_path_factory.mktemp("ball"))


def van_der_pol(mu: float) -> FloatArray:
    """The outputs x and v at the times, one after the other."""
    solution = solve_ivp(
        lambda t, y: [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]],
        (0.0, 10.0),
        [2.0, 0.0],
        t_eval=TIMES,
        rtol=1e-10,
        atol=1e-10,
    )
    return np.concatenate(solution.y)


def height(time: float, gravity: float, restitution: float) -> float:
    """A ball that falls from 1 m."""
    speed, time = restitution * np.sqrt(2.0 * gravity), time - np.sqrt(2.0 / gravity)
    if time < 0.0:
        return float(1.0 - 0.5 * gravity * (time + np.sqrt(2.0 / gravity)) ** 2)
    while time > 2.0 * speed / gravity:
        speed, time = restitution * speed, time - 2.0 * speed / gravity
    return float(speed * time - 0.5 * gravity * time**2)


def test_co_simulation_of_fmi_2(oscillator: Path) -> None:
    outputs = FMU(oscillator, ["x", "v"], TIMES, names=["mu"])([2.0])
    assert np.allclose(outputs, van_der_pol(2.0), atol=1e-4)  # Runge and Kutta's, steps of 0.05


@pytest.mark.parametrize(
    ("interface", "error"), [("co-simulation", 1e-3), ("model-exchange", 1e-4)]
)
def test_both_interfaces_of_fmi_3(oscillator_3: Path, interface: str, error: float) -> None:
    model = FMU(oscillator_3, ["x", "v"], TIMES, names=["mu"], interface=interface)
    assert np.allclose(model([2.0]), van_der_pol(2.0), atol=error)


def test_the_steps_are_those_of_fmpy(oscillator: Path) -> None:
    import fmpy  # noqa: PLC0415

    theirs = fmpy.simulate_fmu(str(oscillator), start_values={"mu": 2.0})
    ours = FMU(oscillator, ["x"], theirs["time"], names=["mu"])
    assert np.array_equal(ours([2.0]), theirs["x"])
    # As many steps as FMPy makes, and two of them divided: the times between are met exactly.
    between = FMU(oscillator, ["x"], [0.12, 3.0], names=["mu"]).experiment
    assert {0.1, 0.12, 3.0} <= set(between.points.tolist())
    assert len(between.points) == 61


def test_events_and_jumps_of_model_exchange(ball: Path) -> None:
    times = np.linspace(0.0, 2.0, 21)
    signals = {"time": [0.0, 0.5, 0.5, 2.0], "lag.u": [0.0, 0.0, 1.0, 1.0]}
    model = FMU(
        ball,
        ["h", "lag.x", "count"],
        times,
        names=["g", "restitution", "lag.tau"],
        inputs=signals,
    )
    for gravity, restitution, tau in ((9.81, 0.7, 0.5), (1.62, 0.9, 0.2)):
        fall, lag, count = model([gravity, restitution, tau]).reshape(3, -1)
        # The solver's relative tolerance is 1e-8 a step; bounces multiply what it leaves.
        expected = [height(time, gravity, restitution) for time in times]
        assert np.allclose(fall, expected, atol=2e-6)
        since = np.maximum(times - 0.5, 0.0)
        assert np.allclose(lag, 1.0 - np.exp(-since / tau), atol=2e-6)
        assert count.tolist() == [0.0] * 11 + [1.0] * 10  # an event is seen after its time


def test_an_input_between_its_rows_is_linear_for_the_solver(ball: Path) -> None:
    model = FMU(ball, ["lag.x"], [2.0], names=["lag.tau"], inputs={"time": [0, 2], "lag.u": [0, 2]})
    # x' = (t − x)/τ: x = t − τ (1 − exp(−t/τ)).
    assert model([0.5])[0] == pytest.approx(2.0 - 0.5 * (1.0 - np.exp(-4.0)), abs=2e-6)


@pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])
def test_runs_do_not_depend_on_earlier_ones(oscillator_3: Path, interface: str) -> None:
    def fresh(**options: Any) -> FMU:
        return FMU(oscillator_3, ["x"], TIMES, names=["mu"], interface=interface, **options)

    points = [[0.5], [3.0], [0.5]]
    one = fresh()
    once = [one(point) for point in points]
    anew = [fresh()(point) for point in points]
    unset = fresh(reset=False)
    assert np.array_equal(once, anew)
    assert np.array_equal(once, [unset(point) for point in points])
    assert not one.check(np.array([3.0]))


def test_a_failed_run_says_why_and_the_next_one_succeeds(oscillator: Path, ball: Path) -> None:
    model = FMU(oscillator, ["x"], TIMES, names=["mu"])
    before = model([1.0])
    for _ in range(2):
        with pytest.raises(FMUError, match=r"after time 0: fmi2DoStep failed.*too stiff"):
            model([60.0])
        assert np.array_equal(model([1.0]), before)
    model = FMU(ball, ["h"], [1.0], names=["lag.tau"], values={"lag.u": 0.0})
    before = model([1.0])
    with pytest.raises(FMUError, match=r"fmi2GetDerivatives failed.*says: tau is -1"):
        model([-1.0])
    assert np.array_equal(model([1.0]), before)


def test_a_reset_that_leaves_something_behind_is_found(tmp_path: Path) -> None:
    fmu = fmu_files.ball(tmp_path / "forgetful", "-DFORGETFUL")

    def model(**options: Any) -> FMU:
        return FMU(fmu, ["h"], [1.0], names=["g"], values={"lag.u": 0.0}, **options)

    assert "reset = false" in model().check(np.array([9.81]))
    assert not model(reset=False).check(np.array([9.81]))


def test_workers_share_the_extracted_files(oscillator: Path) -> None:
    model = FMU(oscillator, ["x"], TIMES, names=["mu"])
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy([2.0]), model([2.0]))
    folder = copy._extracted()
    assert folder == model._extracted()
    del model
    assert not folder.exists()
    assert copy.named(["mu"]) is copy
    other = pickle.loads(pickle.dumps(copy))  # the files are gone: on another machine, say
    assert np.array_equal(other([2.0]), copy([2.0]))


def test_times_in_any_order_units_and_other_names(ball: Path) -> None:
    values = {"lag.u": 0.0}
    plain = FMU(ball, ["h"], [2.0, 1.0, 1.0], names=["h", "g"], values=values)
    other = FMU(
        ball,
        ["height"],
        [2.0 / 60.0, 1.0 / 60.0, 1.0 / 60.0],
        names=["drop", "gravity"],
        variables={"height": "h", "drop": "h", "gravity": "g"},
        units={"height": "cm", "drop": "cm"},
        values=values,
        time_unit="min",
    )
    expected = plain([1.0, 9.81])
    assert expected[1] == expected[2] != expected[0]
    assert np.allclose(100.0 * expected, other([100.0, 9.81]), rtol=1e-9)
    assert plain([1.0, 9.81])[1] == pytest.approx(height(1.0, 9.81, 0.7), abs=2e-6)


def test_names_are_those_of_the_parameters(oscillator: Path) -> None:
    truth = van_der_pol(1.5)
    data = supac.Observations(("x", "v"), truth, np.full(len(truth), 0.1), times=TIMES)
    model = FMU(oscillator, data.columns, TIMES)
    with pytest.raises(FMUError, match="names="):
        model([1.0])
    parameters = supac.Parameters({"mu": supac.marginals.LogNormal(median=1.0, log_sd=0.5)})
    risk = supac.Composite(model, supac.Welsch(3.0), data)
    result = supac.minimize(risk, parameters, supac.Catoni(0.01), budget=25)
    assert result.sample(1_000, 0).mean() == pytest.approx(1.5, abs=0.2)


def variable(name: str, **changes: Any) -> Variable:
    given: dict[str, Any] = {
        "reference": 0, "type": "Real", "causality": "input", "variability": "continuous",
        "initial": "exact", "unit": "", "start": "0", "lower": 0.0, "upper": 0.0,
        "description": "", "is_difference": False, **changes,
    }  # fmt: skip
    return Variable(name, **given)


def test_signals_are_linear_held_and_may_jump() -> None:
    signals = Signals(
        (variable("u"), variable("on", type="Boolean", variability="discrete")),
        np.array([0.0, 1.0, 1.0, 2.0]),
        np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0], [4.0, 1.0]]),
    )
    assert signals.at(0.5, after=False) == [1.0, 0.0]
    assert signals.at(1.0, after=False) == [2.0, 0.0]
    assert signals.at(1.0, after=True) == [4.0, 0.0]
    assert signals.at(2.0, after=False) == [4.0, 0.0]
    assert signals.at(2.0, after=True) == signals.at(9.0, after=False) == [4.0, 1.0]
    assert signals.at(-1.0, after=True) == [0.0, 0.0]
    assert signals.jumps() == {1.0, 2.0}
    assert signals.snapped([1.0 + 1e-14]).times[1] == 1.0 + 1e-14


def test_equal_steps_meet_every_time(oscillator: Path, tmp_path: Path) -> None:
    steady = fmu_files.changed(
        oscillator,
        tmp_path / "steady.fmu",
        ('canHandleVariableCommunicationStepSize="true"', ""),
    )
    times = [0.3, 1.0]  # 0.3 is not 6 · 0.05 in binary
    model = FMU(steady, ["x"], times, names=["mu"])
    assert len(model.experiment.points) == 20
    assert np.array_equal(model([2.0]), FMU(oscillator, ["x"], times, names=["mu"])([2.0]))
    with pytest.raises(FMUError, match=r"here 0\.05; the time 0\.32 is no multiple"):
        FMU(steady, ["x"], [0.32], names=["mu"])
    assert len(FMU(steady, ["x"], [0.32], names=["mu"], step=0.04).experiment.points) == 8


def test_the_description_has_what_the_model_declares(ball: Path) -> None:
    model = read_description(ball)
    assert model.version == "2.0"
    assert model.interfaces == ("model-exchange",)
    assert [each.name for each in model.parameters] == ["g", "restitution", "lag.tau"]
    assert (model.variables["g"].unit, model.variables["g"].description) == ("m/s2", "gravity")
    share = model.variables["restitution"]  # its limits are those of its type
    assert (share.lower, share.upper, share.start) == (0.0, 1.0, "0.7")
    assert [each.name for each in model.of("input")] == ["lag.u"]
    assert (model.start, model.stop, model.tolerance) == (0.0, 2.0, 1e-8)


def test_an_instance_is_freed_when_its_simulator_is_gone(
    oscillator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at the end of the process, by the same finalizer."""
    freed: list[object] = []
    kind = pytest.importorskip("fmpy.fmi2").FMU2Slave
    free = kind.freeInstance
    monkeypatch.setattr(kind, "freeInstance", lambda fmu: freed.append(free(fmu)))
    model = FMU(oscillator, ["x"], [0.1], names=["mu"])
    model(np.array([1.0]))
    assert not freed
    del model
    gc.collect()
    assert len(freed) == 1


@pytest.mark.parametrize(("fatal", "calls"), [(False, ["let go", "free"]), (True, ["let go"])])
def test_libraries_of_pythonfmu_let_go_of_python_before_the_process_ends(
    fatal: bool, calls: list[str]
) -> None:
    """Otherwise they do so when their own memory is gone, and some processes abort at their end."""
    done: list[str] = []
    free_instance = pytest.importorskip("supac.simulators.fmi.instance").free_instance
    library = SimpleNamespace(finalizePythonInterpreter=lambda: done.append("let go"))
    free_instance(SimpleNamespace(dll=library, freeInstance=lambda: done.append("free")), fatal)
    assert done == calls
