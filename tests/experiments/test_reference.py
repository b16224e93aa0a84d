"""Metrics, tables and a small run of `make bench-reference`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from reference import check, methods, metrics, own, report, run, target  # noqa: PLC0415

    class Modules:
        def __init__(self) -> None:
            self.check, self.methods, self.metrics = check, methods, metrics
            self.own, self.report, self.run, self.target = own, report, run, target

    return Modules()


def test_the_same_distribution_is_not_told_apart_and_others_are(reference: Any) -> None:
    rng = np.random.default_rng(0)
    one, same = rng.standard_normal((2, 2_000, 2))
    metrics = reference.metrics
    assert metrics.mmtv(one, same) < 0.05
    # Gaussians with moments of 2,000 draws: (d + d(d + 1)/2)/n, and its standard deviation.
    assert metrics.gskl(one, same) < 5.0 / 2_000 + 3.0 * np.sqrt(2 * 5) / 2_000
    assert metrics.mmtv(one, same + 20.0) == pytest.approx(1.0, abs=1e-3)


def test_metrics_are_those_of_known_normals(reference: Any) -> None:
    one = norm.ppf((np.arange(4_000) + 0.5) / 4_000)[:, None]
    away = 1.0
    # Total variation of N(0, 1) and N(1, 1) is 2Φ(1/2) − 1, each KL divergence is 1/2.
    known = 2.0 * norm.cdf(0.5 * away) - 1.0
    assert reference.metrics.mmtv(one, one + away) == pytest.approx(known, abs=0.02)
    assert reference.metrics.gskl(one, one + away) == pytest.approx(0.5, abs=0.01)


def test_the_classifier_is_at_chance_only_where_it_has_to_be(reference: Any) -> None:
    pytest.importorskip("sklearn", reason="only in the environment of `make bench-reference`")
    rng = np.random.default_rng(0)
    one, same = rng.standard_normal((2, 500, 2))
    error = 0.5 / np.sqrt(1_000)
    assert abs(reference.metrics.c2st(one, same) - 0.5) < 3.0 * error
    assert reference.metrics.c2st(one, same + 10.0) > 0.99


def test_the_classifier_sees_scaled_points_in_five_shuffled_folds(
    reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    class Network:
        class MLPClassifier:
            def __init__(self, sizes: tuple[int, ...], **options: Any):
                seen["sizes"] = sizes

    class Selection:
        class KFold:
            def __init__(self, folds: int, **options: Any):
                seen["folds"] = folds

        @staticmethod
        def cross_val_score(told: Any, x: Any, own: Any, cv: Any) -> Any:
            seen["x"], seen["own"] = x, own
            return np.array([0.4, 0.6, 0.7, 0.8, 1.0])

    modules = {"sklearn.neural_network": Network, "sklearn.model_selection": Selection}
    monkeypatch.setattr(reference.metrics, "import_module", modules.__getitem__)
    one = np.random.default_rng(1).normal(5.0, 3.0, (100, 3))
    assert reference.metrics.c2st(one, one + 1.0) == pytest.approx(0.7)
    assert seen["sizes"] == (30, 30)
    assert seen["folds"] == 5
    np.testing.assert_allclose(seen["x"][:100].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(seen["x"][:100].std(axis=0, ddof=1), 1.0)
    assert seen["own"].tolist() == [0.0] * 100 + [1.0] * 100


def row(
    target: str, method: str, runs: int, c2st: float, log: float | None = 0.1
) -> dict[str, Any]:
    """Return a result as the file has it."""
    found = {"c2st": c2st, "mmtv": 0.1, "gskl": 0.2, "log": log, "used": runs, "seconds": 1.0}
    return {"target": target, "method": method, "seed": 0, "runs": runs, **found}


def test_the_table_has_medians_and_the_worst(reference: Any, tmp_path: Path) -> None:
    rows = [
        row("lotka_volterra/1", "supac", 30, 0.6, -0.3),
        row("lotka_volterra/2", "supac", 30, 0.5, 0.1),
        row("lotka_volterra/3", "supac", 30, 0.9, 0.2),
        row("lotka_volterra/1", "PyVBMC", 30, 0.8, None),
        row("banana", "supac", 60, 0.55),
    ]
    page = reference.report.page(rows)
    assert "| predators (4) | supac | 3 | 0.60 (0.90) | |" in page
    assert "| predators (4) | PyVBMC | 1 | 0.80 | |" in page
    assert "| banana (4) | supac | 1 | | 0.55 |" in page
    assert "| predators (4) | supac | 3 | 0.20 (0.30) | |" in page
    assert max(map(len, page.splitlines())) <= 100
    reference.report.write(rows, tmp_path / "rows.jsonl", tmp_path / "rows.png")
    assert (tmp_path / "rows.md").read_text() == page
    assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG")


def test_evidence_and_draws_of_a_linear_target_are_the_known_ones(reference: Any) -> None:
    import supac  # noqa: PLC0415

    parameters = supac.Parameters({"x": supac.marginals.Normal(0.0, 1.0)})
    data, sd = 1.0, 0.5
    target = reference.target.Target(
        "line", parameters, lambda x: (x - data) / sd, supac.MeanSquare(), 2.0
    )
    variance = 1.0 / (1.0 + 1.0 / sd**2)
    draws = target.reference()
    error = np.sqrt(variance / (len(draws) / 4))  # moves leave copies alike
    assert abs(draws.mean() - variance * data / sd**2) < 4.0 * error
    known = reference.check._sampled(target)
    exact = norm.logpdf(data, 0.0, np.hypot(1.0, sd)) - norm.logpdf(0.0, 0.0, sd)
    assert abs(known.log - exact) < 4.0 * known.error
    assert known.effective > 0.5
    assert known.away < 0.1


def test_others_are_told_the_same_posterior(reference: Any) -> None:
    import supac  # noqa: PLC0415

    priors = {
        "box": supac.marginals.Uniform(-1.0, 3.0), "normal": supac.marginals.Normal(2.0, 3.0)
    }  # fmt: skip
    target = reference.target.Target(
        "both", supac.Parameters(priors), lambda x: x, supac.MeanSquare(), 1.0
    )
    told = reference.methods.Coordinates(target)
    assert told.low.tolist() == [-1.0, -4.0]
    assert told.high.tolist() == [3.0, 4.0]
    y = np.array([0.5, 0.7])
    x = np.array([[0.5, 2.0 + 3.0 * 0.7]])
    np.testing.assert_allclose(told.to_user(y[None]), x)
    known = -np.mean(x**2) + np.log(0.25) + norm.logpdf(0.7)
    assert told.log_joint(y) == pytest.approx(known)
    assert told.log_joint(np.array([3.5, 0.0])) == -np.inf


def test_the_benchmark_runs_and_does_not_repeat_itself(
    reference: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, image = tmp_path / "reference.jsonl", tmp_path / "reference.png"
    run = reference.run
    monkeypatch.setattr(run, "targets", lambda: iter([reference.own.two_valleys()]))
    monkeypatch.setattr(run.metrics, "c2st", lambda one, other: 0.75)
    monkeypatch.setattr(reference.check, "KEPT", tmp_path / "evidence.json")
    monkeypatch.setattr(run, "write", lambda rows, path: reference.report.write(rows, path, image))
    options = ["--methods", "supac", "--runs", "15,20", "--results", str(kept)]
    monkeypatch.setattr("sys.argv", ["run.py", *options])
    run.main()
    made = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [each["runs"] for each in made] == [15, 20]
    assert all(0.0 <= each["mmtv"] <= 1.0 for each in made)
    assert np.isfinite(made[-1]["log"])  # of a search on its way none is known
    assert "| two valleys (3) | supac | 1 | 0.75 | 0.75 |" in kept.with_suffix(".md").read_text()
    before = kept.read_bytes()
    run.main()
    assert kept.read_bytes() == before
