"""docs/fmi.md, done as it says; and an oscillator from `init` to the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fmu_files
import supac
from drivers import COMMAND, Driver
from walks import Walk, follow

PAGE = Path(__file__).parents[2] / "docs" / "fmi.md"
TRUTH = {"C": 1.6, "C_wall": 15.0, "R_in": 0.003, "R_out": 0.008}  # what made the page's data


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    for name, extra in (("fmpy", "pip install 'supac[fmi]'"), ("pythonfmu3", "and no FMU made")):
        pytest.importorskip(name, reason=f"{name} is not installed: {extra}")
    return follow(PAGE, tmp_path_factory.mktemp("empty"))


def test_the_page_calibrates_the_room(walk: Walk) -> None:
    assert list(walk.said) == [
        "supac init --fmu Room.fmu",
        "supac run problem.toml --check",
        "supac run problem.toml",
        "supac report run.supac",
        "supac run tanks.toml --check",
        "supac run tanks.toml",
    ]
    assert "wrote inputs.csv" in walk.said["supac init --fmu Room.fmu"]
    assert "outputs compared  48" in walk.said["supac run problem.toml --check"]
    assert "verdict: trust" in walk.said["supac report run.supac"]
    run = supac.read_store(walk.folder / "run.supac")
    assert not run.failures
    draws = run.sample(4_000, 0)
    scores = (draws.mean(axis=0) - np.array(list(TRUTH.values()))) / draws.std(axis=0)
    assert (np.abs(scores) < 3.0).all()
    # Residuals that are all noise have the expected loss 1 − (1 + 1/9)^(−1/2) = 0.05.
    assert run.estimate.mean_risk < 0.1


def test_the_page_calibrates_elements_of_arrays(walk: Walk) -> None:
    assert "outputs compared  14" in walk.said["supac run tanks.toml --check"]
    run = supac.read_store(walk.folder / "tanks.supac")
    assert run.parameters is not None
    assert run.parameters.names == ("k[1]", "k[2]", "k[3]")
    assert not run.failures
    draws = np.log(run.sample(4_000, 0))
    truth = np.log([0.6, 0.9, 0.4])  # what made the page's data
    assert (np.abs(draws.mean(axis=0) - truth) < 3.0 * draws.std(axis=0)).all()


def command(folder: Path, *words: str) -> str:
    code, said, complained = Driver(COMMAND, *words, cwd=folder).end()
    assert code == 0, f"{said}\n{complained}"
    return said


def test_an_oscillator_from_init_to_the_report(tmp_path: Path) -> None:
    fmu = fmu_files.van_der_pol(tmp_path)
    assert "Put what was measured into data.csv" in command(tmp_path, "init", "--fmu", fmu.name)
    code, _, complained = Driver(COMMAND, "run", "problem.toml", cwd=tmp_path).end()
    assert code == 1
    assert "data.csv has no number in these columns" in complained
    times = np.arange(1.0, 11.0)
    truth = supac.FMU(fmu, ["x", "v"], times, names=["mu"])([1.7]).reshape(2, -1)
    measured = truth + 0.1 * np.random.default_rng(3).normal(size=truth.shape)
    rows = np.column_stack([times, *measured])
    np.savetxt(tmp_path / "data.csv", rows, delimiter=",", header="time,x,v", comments="")
    assert "no mistake found" in command(tmp_path, "run", "problem.toml", "--check")
    command(tmp_path, "run", "problem.toml", "--budget", "30")
    command(
        tmp_path, "run", "problem.toml", "--budget", "30", "--workers", "2", "--store", "2.supac"
    )
    assert "verdict" in command(tmp_path, "report", "run.supac")
    alone, together = (supac.read_store(tmp_path / name) for name in ("run.supac", "2.supac"))
    assert np.array_equal(alone.sample(10, 0), together.sample(10, 0))
    draws = alone.sample(4_000, 0)
    assert abs(draws.mean() - 1.7) < 3.0 * draws.std()
    assert draws.std() < 0.2
