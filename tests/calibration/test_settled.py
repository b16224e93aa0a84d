"""A search that has settled ends, says so, and spends another budget whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.calibration.loop import Loop
from supac.cli import app

TIMES = np.linspace(0.0, 5.0, 12)
DATA = supac.Observations(("y",), 2.0 * np.exp(-0.7 * TIMES), np.full(12, 0.05), times=TIMES)
PRIOR = supac.Parameters(
    {"height": marginals.Uniform(0.0, 5.0), "rate": marginals.LogNormal(1.0, 0.5)}
)
BOUND = supac.MaurerLangfordSeeger(n=12, delta=0.05)
RISK = supac.Composite(lambda x: x[0] * np.exp(-x[1] * TIMES), supac.Welsch(), DATA)


def test_it_ends_after_fifteen_runs_without_change() -> None:
    result = supac.minimize(RISK, PRIOR, BOUND, budget=100)
    assert result.stop_reason is supac.StopReason.CONVERGED
    assert result.queries < 70
    steps, queries = result.history["step_kl"], result.history["queries"]
    quiet = len(steps) - 1 - int(np.flatnonzero(steps >= 0.005)[-1])
    assert quiet >= 3
    assert queries[-1] - queries[-1 - quiet] >= 15 > queries[-2] - queries[-1 - quiet]
    assert not any("falling" in note for note in result.notes)


def test_another_budget_is_spent_whole_also_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "run.supac"
    first = supac.minimize(RISK, PRIOR, BOUND, budget=60, store=store)
    assert first.stop_reason is supac.StopReason.CONVERGED
    same = supac.minimize(RISK, PRIOR, BOUND, budget=60, store=store)  # nothing is bought
    assert same.queries == first.queries
    killed = tmp_path / "killed.supac"
    killed.write_bytes(store.read_bytes())
    whole = supac.resume(store, RISK, budget=64)
    assert whole.stop_reason is supac.StopReason.BUDGET
    assert whole.queries == 64

    class Killed(BaseException):
        pass

    def die(self: Loop, runs: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:  # before the first round of the larger budget is kept
        patch.setattr(Loop, "_tell", die)
        with pytest.raises(Killed):
            supac.resume(killed, RISK, budget=64)
    again = supac.resume(killed, RISK)
    assert again.queries == 64
    assert np.array_equal(again.posterior.theta, whole.posterior.theta)


def test_the_command_line_says_so_and_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    call("init")
    said = call("run", "problem.toml")
    assert "further runs would gain nothing" in said
    assert "`supac resume run.supac --budget 120` makes more all the same" in said
    assert "nothing is left to do" in call("resume", "run.supac")
    assert "64 of 64" in call("resume", "run.supac", "--budget", "64")


def test_outputs_over_decades_are_told_with_what_was_done() -> None:
    def simulate(x: FloatArray) -> FloatArray:
        return np.exp(4.0 * x[0] * np.arange(1.0, 6.0))

    risk = supac.Composite(lambda x: simulate(x) - simulate(np.array([0.3])), supac.Welsch())
    prior = supac.Parameters({"x": marginals.Normal(0.0, 1.0)})
    result = supac.minimize(risk, prior, supac.Catoni(0.01), budget=40)
    (advice,) = [each for each in result.advice if "decades" in each]
    assert "compressed, by asinh" in advice
    assert 'compare = "log"' in advice
    mild = supac.minimize(RISK, PRIOR, BOUND, budget=20)
    assert not any("decades" in each for each in mild.advice)
