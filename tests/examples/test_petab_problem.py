"""docs/petab.md, its small problem copied and run as it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac.families import Mixture
from walks import follow

PAGE = Path(__file__).parents[2] / "docs" / "petab.md"
TRUTH = {"k": 0.5, "d": 0.2, "scale": 3.0, "sd": 0.1}


def test_the_problem_to_copy_runs_from_an_empty_folder(tmp_path: Path) -> None:
    pytest.importorskip("roadrunner", reason="pip install 'supac[petab]'")
    walk = follow(PAGE, tmp_path)
    assert "outputs compared  11" in walk.said["supac run problem.yaml --check"]
    said = " ".join(walk.said["supac report problem.yaml"].split())
    assert "verdict: trust" in said
    # Eleven measurements leave more open than a Gaussian has, by importance sampling 1.6 times.
    run = supac.read_store(tmp_path / "problem.supac")
    assert isinstance(run.known_posterior().family, Mixture)
    assert run.parameters is not None
    assert run.parameters.names == ("k", "d", "scale", "sd")
    draws = np.log(run.sample(4_000, 0))
    for mean, deviation, name in zip(
        draws.mean(0), draws.std(0), run.parameters.names, strict=True
    ):
        assert abs(mean - np.log(TRUTH[name])) < 4.0 * deviation
    (report,) = tmp_path.glob("*.html")
    assert "B_seen" in report.read_text()
