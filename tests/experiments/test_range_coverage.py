"""`make bench-coverage` on one data set, and its table on rows that are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import range_coverage  # noqa: PLC0415

    return range_coverage


def row(problem: str, seed: int, held: list[int], level: str, *, sloppy: bool) -> dict[str, Any]:
    """Return a data set whose search covers so, beside a reference that holds all."""
    searched = {"held": held, "width": [1.0, 1.0], "band": [1, 1], "band_width": [3.0, 3.0]}
    report = {"level": level, "local": level != "trust"}
    known = {"held": [1, 1], "width": [2.0, 2.0], "band": [1, 1], "band_width": [2.0, 2.0]}
    found = {"gaussian": {**searched, **report}, "auto": {**known, **report}}
    row = {"problem": problem, "sloppy": sloppy, "seed": seed, "runs": 60}
    return {**row, **found, "laplace": known, "reference": known}


def test_the_table_is_what_the_rows_say(bench: Any) -> None:
    rows = [
        row("ridge", 0, [0, 0], "trust", sloppy=True),
        row("ridge", 1, [1, 1], "look", sloppy=True),
        row("line", 0, [1, 1], "trust", sloppy=False),
        row("line", 1, [1, 1], "trust", sloppy=False),
    ]
    page = bench.table(rows)
    # Coverage 0 and 1: mean .5, standard error 1/2. Half as wide, bands 1.5 times.
    cells = "0.50 ± 0.50 | 1.00 ± 0.00 | 0.50 | 1.50 | 1 of 2 | 1 of 2 | 1 of 2 |"
    assert f"| sloppy | Gaussian | {cells}" in page
    cells = "1.00 ± 0.00 | 1.00 ± 0.00 | 0.50 | 1.50 | 0 of 2 | 2 of 2 | – |"
    assert f"| determined | Gaussian | {cells}" in page
    assert "60 runs: 4 data sets of 2 problems." in " ".join(page.split())
    assert "| ridge | 2 | 0.50 / 1.00 | 1.00 / 1.00 | 1.00 / 1.00 | 1.00 / 1.00 |" in page


def test_ranges_of_draws_hold_what_lies_between_their_quantiles(bench: Any) -> None:
    problem = next(each for each in bench.PROBLEMS if each.name == "decay (3)")
    draws = np.linspace(-1.0, 1.0, 201)[:, None] * np.ones(3)
    found = bench._ranges(problem, np.array([0.0, 0.89, 0.91]), draws)
    assert found["held"] == [1, 1, 0]
    np.testing.assert_allclose(found["width"], 1.8)


def test_problems_are_told_apart_in_turn_and_finite(bench: Any) -> None:
    kinds = [each.sloppy for each in bench.PROBLEMS]
    assert kinds == [True, False] * 6
    for problem in bench.PROBLEMS:
        x = problem.parameters.sample(problem.parameters.prior, 50, np.random.default_rng(0))
        made, other = problem.outputs(x), problem.other(x)
        assert np.isfinite(made).all(), problem.name
        assert np.isfinite(other).all(), problem.name
        # One point at a time gives what many give.
        np.testing.assert_allclose(problem.outputs(x[:1])[0], made[0], err_msg=problem.name)


def test_a_linear_model_has_the_reference_that_is_known(bench: Any) -> None:
    problem = next(each for each in bench.PROBLEMS if each.name.startswith("linear"))
    truth, data = problem.data(0)
    optimum = bench.Optimum.near(problem, data, truth)
    matrix = problem.outputs(np.exp(np.eye(len(problem.prior))))
    precision = matrix @ matrix.T + np.eye(len(matrix))
    known = np.linalg.inv(precision)
    np.testing.assert_allclose(optimum.normal.covariance, known, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(optimum.normal.mean, known @ matrix @ data, rtol=1e-4, atol=1e-5)
    draws = bench._reference(problem, data, optimum, np.random.default_rng(0))
    away = (draws.mean(axis=0) - optimum.normal.mean) / np.sqrt(np.diag(known))
    # Five standard errors of the mean of a fourth of the particles, as moves leave copies alike.
    assert np.abs(away).max() < 5.0 / np.sqrt(len(draws) / 4)


def test_the_benchmark_runs_and_does_not_repeat_itself(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "coverage.jsonl"
    options = ["--runs", "15", "--sets", "1", "--problems", "decay", "--results", str(kept)]
    monkeypatch.setattr("sys.argv", ["range_coverage.py", *options])
    bench.main()
    (made,) = map(json.loads, kept.read_text().splitlines())
    assert made["gaussian"]["level"] in {"trust", "look", "do not trust"}
    assert np.min(made["auto"]["width"]) > 0.0
    assert "| decay (3) | 1 |" in kept.with_suffix(".md").read_text()
    before = kept.read_bytes()
    bench.main()
    assert kept.read_bytes() == before
