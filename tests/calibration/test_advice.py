"""What a search says that would have saved runs or time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.report.account import account_of
from supac.report.check import Level
from supac.report.verdict import assess

CATONI = supac.Catoni(0.01)


def plane(dim: int) -> supac.Distribution:
    return supac.gaussian(np.zeros(dim), np.eye(dim))


def bowl(x: FloatArray) -> float:
    return float(-np.expm1(-0.1 * ((x - 0.5) ** 2).sum()))


def residuals(x: FloatArray) -> FloatArray:
    return np.sqrt(0.1) * (x - 0.5)


def search(risk: object, dim: int, **options: object) -> supac.Result:
    return supac.minimize(risk, plane(dim), CATONI, **{"budget": 40} | options)  # type: ignore[arg-type]


def test_workers_that_wait_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(30) as pool:
        where = supac.Execution(pool, progress=True)
        result = search(bowl, 2, execution=where)
    (advice,) = result.advice
    assert advice.startswith("27 of 30 workers wait in rounds of 3 runs")
    assert "SuPAC(first=30, batch=30)" in advice
    assert " ".join(capsys.readouterr().err.split()).count(advice) == 1
    assert f"advice: {advice}" in str(result)


def test_batches_for_all_workers_and_no_waiting_need_no_advice() -> None:
    with ThreadPoolExecutor(6) as pool:
        large = search(bowl, 2, execution=pool, algorithm=supac.SuPAC(batch=6))
        waiting = search(bowl, 2, execution=supac.Execution(pool, mode="async"))
    assert not large.advice
    assert not waiting.advice


def test_a_risk_of_many_parameters_is_told_of_composites_early() -> None:
    heard = []

    def stop(event: supac.Iteration) -> bool:
        heard.append(event.queries)
        return len(heard) == 2

    result = search(bowl, 8, callback=stop)
    assert result.stop_reason is supac.StopReason.USER
    assert "Composite(simulate, loss)" in " ".join(result.advice)


@pytest.mark.parametrize(
    ("risk", "options"),
    [
        (supac.Composite(residuals, supac.Welsch(1.0)), {}),
        (bowl, {"proxy": lambda x: 0.1 * (x**2).sum(axis=1)}),
        (bowl, {"algorithm": supac.SuPAC.paper(first=20, batch=10, draws=500)}),
    ],
    ids=["outputs", "proxy", "paper"],
)
def test_what_outputs_would_not_help_is_not_told_of_them(
    risk: object, options: dict[str, object]
) -> None:
    assert not search(risk, 8, **options).advice


def test_few_parameters_are_told_only_if_the_search_is_slow() -> None:
    """A bent valley at a tiny temperature: 60 runs do not suffice."""

    def valley(x: FloatArray) -> float:
        return float(np.tanh(((x[1:] - x[:-1] ** 2) ** 2).sum() + 0.1 * ((1.0 - x) ** 2).sum()))

    slow = supac.minimize(valley, plane(4), supac.Catoni(1e-4), budget=90)
    assert "Composite" in " ".join(slow.advice)
    assert not search(bowl, 2, budget=80).advice


def test_advice_is_kept_and_leaves_the_verdict_alone(tmp_path: Path) -> None:
    result = search(bowl, 8, store=tmp_path / "run.supac")
    (advice,) = result.advice
    assert supac.read_store(tmp_path / "run.supac").advice == (advice,)
    assert supac.Result.from_json(result.to_json()).advice == (advice,)
    verdict = assess(account_of(result))
    (check,) = [each for each in verdict.checks if each.answer == advice]
    assert check.level is Level.TRUST
