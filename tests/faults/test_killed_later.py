"""SIGKILL while a posterior is validated, certified or predicted with: nothing finished is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from drivers import Driver
from toy import Pair, Toy, children_of, name_of, value, wait_until_gone
from toy_search import BOUND, BUDGET, PRIOR, minimize
from waiting import until

KILLS, DRAWS = 7, 60
DRIVER = """
import sys
from pathlib import Path
from typing import Any
import supac
from toy import Pair, Toy
from toy_search import BOUND, PRIOR, minimize
purpose, ledger, store = sys.argv[1:]
toy = Toy(Path(ledger), 0.02)
if purpose == "validation":
    minimize(toy, store=store, validation=40, execution=1)
elif purpose == "certificate":
    posterior = supac.read_store(store).posterior
    supac.certify(posterior, PRIOR, toy, BOUND, n=50, draws=60, store=store, execution=1)
else:
    supac.predict(supac.read_store(store), Pair(toy), 60, execution=1,
                  store=store.replace("run", "predictions"))
print("done", flush=True)
"""


def made(toy: Toy) -> int:
    return sum(map(len, toy.executions().values()))


def wait_for(runs: int, toy: Toy, driver: Driver) -> None:
    until(lambda: made(toy) >= runs or driver.poll() is not None, every=0.005)


def kill_repeatedly(purpose: str, folder: Path, from_run: int) -> int:
    """Number of kills, each after one or two more runs; before the end of all of them."""
    toy, rng, kills = Toy(folder / "ledger"), np.random.default_rng(1), 0
    while kills < KILLS:
        driver = Driver(DRIVER, purpose, toy.ledger, folder / "run.supac")
        enough = max(made(toy) + int(rng.integers(1, 3)), from_run)
        wait_for(enough, toy, driver)
        if driver.poll() is not None:
            break
        children = children_of(driver.pid)
        driver.kill()
        driver.end()
        kills += 1
        wait_until_gone(children)
    return kills


def test_validation(tmp_path: Path) -> None:
    unbroken = minimize(Toy(tmp_path / "unbroken"), validation=40)
    kills = kill_repeatedly("validation", tmp_path, BUDGET - 40 + 1)
    assert kills == KILLS, "the run ended too early for the test to mean what it says"
    toy = Toy(tmp_path / "ledger")
    result = minimize(toy, store=tmp_path / "run.supac", validation=40)
    assert result.posterior == unbroken.posterior
    assert str(result) == str(unbroken)
    # Lost are at most the run in progress and one whose answer was on its way.
    assert made(toy) <= BUDGET + 2 * kills


@pytest.fixture
def ended(tmp_path: Path) -> supac.Result:
    return minimize(Toy(tmp_path / "search"), store=tmp_path / "run.supac")


def test_certification(ended: supac.Result, tmp_path: Path) -> None:
    kills = kill_repeatedly("certificate", tmp_path, 1)
    assert kills == KILLS
    toy = Toy(tmp_path / "ledger", 0.02)
    options: dict[str, Any] = {"n": 50, "draws": DRAWS}
    certificate = supac.certify(
        ended.posterior, PRIOR, toy, BOUND, store=tmp_path / "run.supac", **options
    )
    plain = supac.certify(ended.posterior, PRIOR, Toy(tmp_path / "other"), BOUND, **options)
    assert certificate.value == plain.value
    assert made(toy) <= DRAWS + 2 * kills
    # The search is what it was: its runs, its end, and what it would go on with.
    record = supac.read_store(tmp_path / "run.supac")
    assert record.posterior == ended.posterior
    assert record.queries == BUDGET
    assert sum(run.purpose == "certificate" for run in record.runs) == DRAWS
    longer = minimize(Toy(tmp_path / "more"), store=tmp_path / "run.supac", budget=BUDGET + 20)
    assert str(longer) == str(minimize(Toy(tmp_path / "again"), budget=BUDGET + 20))


def test_prediction(ended: supac.Result, tmp_path: Path) -> None:
    kills = kill_repeatedly("prediction", tmp_path, 1)
    assert kills == KILLS
    toy = Toy(tmp_path / "ledger", 0.02)
    prediction = supac.predict(ended, Pair(toy), DRAWS, store=tmp_path / "predictions.supac")
    assert len(prediction.x) == DRAWS
    assert made(toy) <= DRAWS + 2 * kills
    assert all(name_of(x) in toy.executions() for x in prediction.x)
    np.testing.assert_array_equal(prediction.outputs, [[value(x), x[0]] for x in prediction.x])
