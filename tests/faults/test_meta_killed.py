"""Meta-learning that is killed: no finished run is lost, and the result is the same."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import supac
from drivers import Driver
from supac.arrays import FloatArray
from toy import children_of, wait_until_gone
from waiting import until

DRIVER = """
import sys
sys.path.insert(0, "faults")
from pathlib import Path
from test_meta_killed import learn
ledger, store, workers = sys.argv[1:]
print(learn(Path(ledger), store=store, execution=int(workers) or None), flush=True)
"""
LEARNER = supac.MetaSuPAC(
    (supac.Stage(inner=supac.Reuse(supac.SuPAC(first=10, batch=5), first=20, most=10)),)
)


@dataclass(frozen=True)
class Slow:
    """A bowl, slowly; one line of the ledger an execution."""

    task: int
    ledger: Path
    seconds: float = 0.01

    def __call__(self, x: FloatArray) -> float:
        with self.ledger.open("a") as file:
            file.write(f"{self.task} {x.tobytes().hex()}\n")
        time.sleep(self.seconds)
        return float(np.tanh(((x - 0.3 * self.task) ** 2).sum()))


def learn(ledger: Path, **options: object) -> supac.MetaResult:
    bound, first = supac.Catoni(0.05), supac.gaussian(np.zeros(2), np.eye(2))
    tasks = [supac.Task(Slow(task, ledger), bound) for task in range(4)]
    return supac.meta_learn(
        tasks,
        first,
        passes=3,
        learner=LEARNER,
        seed=2,
        **options,  # type: ignore[arg-type]
    )


def executions(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


def wait_for(runs: int, ledger: Path, driver: Driver) -> None:
    until(lambda: len(executions(ledger)) >= runs or driver.poll() is not None, every=0.005)


def start_driver(folder: Path, workers: int) -> Driver:
    return Driver(DRIVER, folder / "ledger", folder / "meta.supac", workers)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> supac.MetaResult:
    return learn(tmp_path_factory.mktemp("unbroken") / "ledger")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_driver_that_is_killed_at_any_moment(
    tmp_path: Path, unbroken: supac.MetaResult, workers: int
) -> None:
    """SIGKILL during each pass: the same bits, and at most what was in flight is made again."""
    ledger, kills = tmp_path / "ledger", 0
    for wanted in (40, 100, 125):  # the passes end after 80, 120 and 160 runs
        driver = start_driver(tmp_path, workers)
        wait_for(wanted, ledger, driver)
        if driver.poll() is not None:
            break
        children = children_of(driver.pid)
        driver.kill()
        driver.end()
        kills += 1
        wait_until_gone(children)
    assert kills == 3, "the run ended too early for the test to mean what it says"
    result = learn(ledger, store=tmp_path / "meta.supac")
    assert result.priors == unbroken.priors
    for one, other in zip(result.tasks, unbroken.tasks, strict=True):
        assert one.posterior == other.posterior
        assert np.array_equal(one.evaluations.x, other.evaluations.x)
        assert np.array_equal(one.evaluations.risk, other.evaluations.risk)
    made = executions(ledger)
    assert len(set(made)) == unbroken.queries
    assert len(made) <= unbroken.queries + max(workers, 1) * 2 * kills


def test_a_file_whose_bytes_have_changed(tmp_path: Path) -> None:
    store = tmp_path / "meta.supac"
    learn(tmp_path / "ledger", store=store)
    for damage in (
        "UPDATE runs SET risk = risk + 1 WHERE task = 1 AND id = 3",
        "UPDATE rounds SET ids = zeroblob(8) WHERE task = 0 AND iteration = 0",
        "UPDATE state SET value = replace(value, '1', '2')",
        "UPDATE meta SET value = '{}' WHERE key = 'config'",
    ):
        copy = tmp_path / "copy.supac"
        copy.write_bytes(store.read_bytes())
        with sqlite3.connect(copy) as db:
            assert db.execute(damage).rowcount == 1
        db.close()
        with pytest.raises(supac.StoreDamagedError):
            learn(tmp_path / "ledger", store=copy)


def test_two_writers_are_one_too_many(tmp_path: Path) -> None:
    driver = start_driver(tmp_path, 0)
    try:
        wait_for(5, tmp_path / "ledger", driver)
        assert driver.poll() is None
        with pytest.raises(supac.StoreBusyError, match="is being written by"):
            learn(tmp_path / "other", store=tmp_path / "meta.supac")
    finally:
        driver.kill()
        driver.end()
