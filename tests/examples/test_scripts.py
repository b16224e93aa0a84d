"""Every script in examples/ is short, listed in the docs, and does what it says."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))

Names = dict[str, Any]


def function(names: Names) -> None:
    parameters, risk = names["parameters"], names["risk"]
    prior = parameters.sample(parameters.prior, 500, 0)
    assert names["result"].mean_risk < 0.1 * np.mean([risk(x) for x in prior])


def outputs(names: Names) -> None:
    draws = np.log(names["result"].sample(4_000, 0))
    scores = (draws.mean(axis=0) - np.log(names["TRUTH"])) / draws.std(axis=0)
    assert (np.abs(scores) < 3.0).all()


def program(names: Names) -> None:
    assert Path("fall.supac").is_file()
    assert names["result"].evaluations.failed == 0
    # Two measurements, two parameters: the outputs at the posterior's draws are within the noise.
    assert names["result"].mean_risk < 0.1


def cluster(names: Names) -> None:
    result = names["result"]
    assert len(result.evaluations) == 80 or result.stop_reason is supac.StopReason.CONVERGED
    assert names["result"].objective < 0.5 * at_prior(names)


def mixture(names: Names) -> None:
    assert names["both"].objective < names["one"].objective
    centres = sorted(names["family"].base.moments(part)[0][0] for part in names["parts"])
    assert centres == pytest.approx([-2.0, 2.0], abs=0.1)  # a posterior standard deviation


def meta_learning(names: Names) -> None:
    assert names["means"]["learnt"] < 0.7 * names["means"]["textbook's"]


def by_hand(names: Names) -> None:
    before = names["laboratory"](names["prior"].sample(1_000, 0)).mean()
    assert names["bound"](names["fresh"].mean(), names["kl"]) < 0.5 * before


def at_prior(names: Names) -> float:
    risk = names["risk"]
    x = names["prior"].sample(200, 0)
    residuals = np.array([risk.simulate(point) for point in x])
    return float(risk.loss(residuals).mean())


CHECKS: dict[str, Callable[[Names], None]] = {
    check.__name__: check
    for check in (function, outputs, program, cluster, mixture, meta_learning, by_hand)
}


def test_every_script_is_checked() -> None:
    assert {path.stem for path in SCRIPTS} == set(CHECKS)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_scripts_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    CHECKS[path.stem](runpy.run_path(str(path), run_name="__main__"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_scripts_are_short_and_listed(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60
    assert f"](../examples/{path.name})" in (ROOT / "docs" / "examples.md").read_text()
