"""A store on a disk that two hosts share, without common locks: one writer, and honest readers."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import supac
from drivers import Driver
from shared_disk import mounted, on_host
from supac.record.store import owner
from toy import Toy
from toy_search import minimize
from waiting import PATIENCE, until

DRIVER = """
import sys
from pathlib import Path
import supac
from toy import Toy
from toy_search import minimize
ledger, store, seconds = sys.argv[1:]
toy = Toy(Path(ledger), float(seconds))
try:
    minimize(toy, store=store)
    print("done")
except supac.StoreError as error:
    print(f"{type(error).__name__}: {error}")
"""
READER = """
import sys
import supac
from supac.report.tables import state
try:
    run = supac.read_store(sys.argv[1])
    list(run.iterate())
    print(f"{len(run.runs)} runs, {state(run)}")
except supac.NotAStoreError as error:
    print("empty")
except (supac.StoreError, OSError) as error:
    print(f"{type(error).__name__}: {error}")
"""


class Disk(NamedTuple):
    """One folder as two hosts see it."""

    here: Path
    there: Path


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    real = tmp_path / "real"
    real.mkdir()
    with mounted(real, tmp_path / "a") as a, mounted(real, tmp_path / "b") as b:
        yield Disk(a, b)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> supac.Result:
    return minimize(Toy(tmp_path_factory.mktemp("unbroken") / "ledger"))


def wait_for_runs(ledger: Path, runs: int, driver: Driver) -> None:
    until(
        lambda: ledger.exists() and len(ledger.read_text().splitlines()) >= runs,
        unless=lambda: driver.poll() is not None,
        every=0.01,
    )


def test_twenty_looks_from_another_host_while_it_is_written(
    disk: Disk, tmp_path: Path, unbroken: supac.Result
) -> None:
    """Readers see a consistent snapshot, would-be writers are refused by name, nothing is hurt."""
    ledger, store = tmp_path / "ledger", "run.supac"
    driver = on_host("n17", DRIVER, ledger, disk.here / store, 0.35)
    rng = np.random.default_rng(0)
    try:
        wait_for_runs(ledger, 2, driver)
        seen, refused = [], []
        for trial in range(20):
            time.sleep(float(rng.uniform(0.0, 0.1)))
            if trial % 4 == 3:
                other = on_host("n18", DRIVER, tmp_path / "other", disk.there / store, 0.0)
                refused.append(other.end()[1])
            else:
                other = on_host("n18", READER, disk.there / store)
                seen.append(other.end()[1].strip())
            assert driver.poll() is None, "it ended too early for the test to mean what it says"
        assert driver.end()[1] == "done\n"
    finally:
        if driver.poll() is None:
            driver.kill()
    assert all("running on n17, since" in each for each in seen), seen
    counts = [int(each.split()[0]) for each in seen]
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]
    for each in refused:
        assert "StoreBusyError" in each
        assert "is being written by process" in each
        assert "on n17, since" in each
        assert "--take-over" in each
    assert not (tmp_path / "other").exists()
    assert sorted(path.name for path in disk.here.iterdir()) == [store]  # no log, no owner
    assert supac.read_store(disk.there / store).result().posterior == unbroken.posterior


def test_a_dead_owner_is_taken_over_and_the_result_is_the_same(
    disk: Disk, tmp_path: Path, unbroken: supac.Result
) -> None:
    """Killed at random moments on one host, gone on with on the other."""
    ledger, store = tmp_path / "ledger", "run.supac"
    rng = np.random.default_rng(1)
    for trial in range(6):
        place, host = (disk.here, "n17") if trial % 2 else (disk.there, "n18")
        driver = on_host(host, DRIVER, ledger, place / store, 0.02)
        made = len(ledger.read_text().splitlines()) if ledger.exists() else 0
        wait_for_runs(ledger, made + int(rng.integers(1, 6)), driver)
        time.sleep(float(rng.uniform(0.0, 0.05)))
        driver.kill()
        driver.end()
        refused = on_host("n19", DRIVER, tmp_path / "other", place / store, 0.0)
        said = refused.end()[1]
        assert f"on {host}, since" in said, said
        assert "If it is dead, the store is free in 1" in said  # so many seconds
        if trial % 3 == 0:
            owner.remove_owner(place / store)  # as by --take-over
        else:
            long_ago = time.time() - owner.SILENT - 5.0
            os.utime(owner.suffixed(place / store), (long_ago, long_ago))
    last = on_host("n20", DRIVER, ledger, disk.here / store, 0.0)
    assert last.end()[1] == "done\n"
    assert supac.read_store(disk.here / store).result().posterior == unbroken.posterior
    assert len(Toy(ledger).executions()) == 70


def test_who_was_taken_over_writes_no_more(disk: Disk, tmp_path: Path) -> None:
    ledger, store = tmp_path / "ledger", "run.supac"
    first = on_host("n17", DRIVER, ledger, disk.here / store, 0.3)
    wait_for_runs(ledger, 3, first)
    owner.remove_owner(disk.there / store)
    second = on_host("n18", DRIVER, tmp_path / "other", disk.there / store, 0.0)
    assert second.end()[1] == "done\n"
    said = first.end()[1]
    assert "StoreBusyError" in said
    assert "was taken over by" in said
    assert len(supac.read_store(disk.here / store).runs) == 70


def test_a_store_of_a_local_disk_may_be_moved_to_a_shared_one_and_back(
    disk: Disk, tmp_path: Path, unbroken: supac.Result
) -> None:
    """Also with the log that a killed process left beside it."""
    ledger, local = tmp_path / "ledger", tmp_path / "run.supac"
    driver = on_host("n17", DRIVER, ledger, local, 0.02)
    wait_for_runs(ledger, 20, driver)
    driver.kill()
    driver.end()
    assert Path(f"{local}-wal").exists()
    for suffix in ("", "-wal"):
        (disk.here / f"run.supac{suffix}").write_bytes(Path(f"{local}{suffix}").read_bytes())
    end = on_host("n17", DRIVER, ledger, disk.here / "run.supac", 0.0)
    assert end.end()[1] == "done\n"
    found = supac.read_store(disk.there / "run.supac").result()
    assert found.posterior == unbroken.posterior
    back = tmp_path / "back.supac"
    back.write_bytes((disk.here / "run.supac").read_bytes())
    assert supac.read_store(back).result().posterior == unbroken.posterior


def test_a_silent_owner_is_waited_for_and_a_living_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a job does that is queued again while the host of the one before is gone."""
    monkeypatch.setenv("SUPAC_SHARED", "1")
    monkeypatch.setattr(owner, "BEAT", 1.5)
    monkeypatch.setattr(owner, "SILENT", 5.0)
    store, said = tmp_path / "run.supac", list[str]()
    mine = owner.claim(store)
    owner.wait_for_dead(store, said.append)
    assert owner.owner_of(store) is not None
    mine.stop()
    start = time.monotonic()
    owner.wait_for_dead(store, said.append)
    assert 2.0 < time.monotonic() - start < PATIENCE
    assert owner.claim(store).holds
    assert len(said) == 2


def test_local_disks_need_no_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not owner.is_shared(tmp_path / "run.supac")
    monkeypatch.setenv("SUPAC_SHARED", "1")
    assert owner.is_shared(tmp_path / "run.supac")
    mine = owner.claim(tmp_path / "run.supac")
    with pytest.raises(FileExistsError):
        owner.claim(tmp_path / "run.supac")
    mine.release()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "lock",
    [lambda file, how: None, lambda file, how: (_ for _ in ()).throw(OSError(37, "no locks"))],
    ids=["keeps nobody out", "does not exist"],
)
def test_locks_of_a_local_disk_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: Any
) -> None:
    """Those of a disk that is mounted without them keep nobody out: it counts as shared."""
    store = tmp_path / "run.supac"
    monkeypatch.setattr(owner, "_kept", {})
    assert not owner.is_shared(store)
    monkeypatch.setattr(owner, "_kept", {})
    monkeypatch.setattr(fcntl, "flock", lock)
    assert owner.is_shared(store)
    assert not list(tmp_path.iterdir())
