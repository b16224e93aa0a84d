"""A store in whose place another is made: nothing that was of worth is lost on the way."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.record.store.file import NotAStoreError, StoreBusyError
from supac.record.store.replaced import set_aside, settle
from waves import wave


def fails(x: FloatArray) -> float:
    raise RuntimeError("no licence")


def make(store: Path, risk: object = wave, budget: int = 20, **options: object) -> None:
    algorithm = supac.SuPAC(supac.Voronoi(draws=500), supac.FixedStep(), first=10, batch=10)
    supac.minimize(
        risk,  # type: ignore[arg-type]
        supac.gaussian([0.0, 0.0], np.eye(2)),
        supac.Catoni(0.05),
        budget=budget,
        algorithm=algorithm,
        store=store,
        execution=supac.Execution(on_failure="penalise"),
        **options,  # type: ignore[arg-type]
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_old_one_is_deleted_when_the_new_one_has_a_good_run(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    make(store)
    aside = set_aside(store)
    assert aside is not None
    assert names(tmp_path) == ["run.supac.replaced"]  # as a killed process would leave it
    assert len(supac.read_store(aside).runs) == 20
    make(store, budget=10)
    assert settle(store, aside, ended=False) == aside  # interrupted: either may be wanted
    assert names(tmp_path) == ["run.supac", "run.supac.replaced"]
    assert settle(store, aside, ended=True) is None
    assert names(tmp_path) == ["run.supac"]
    assert len(supac.read_store(store).runs) == 10


@pytest.mark.parametrize("new", ["none", "empty", "failed"])
def test_the_old_one_is_back_when_nothing_came_of_the_new(new: str, tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    make(store)
    before = store.read_bytes()
    aside = set_aside(store)
    assert aside is not None
    if new == "empty":
        store.touch()
    if new == "failed":
        make(store, fails)
        assert len(supac.read_store(store).runs) == 10
    assert settle(store, aside, ended=True) == store
    assert store.read_bytes() == before
    assert names(tmp_path) == ["run.supac"]


def test_both_are_kept_where_the_new_one_cannot_be_read(tmp_path: Path) -> None:
    """Some of it may be saved; so may some of a damaged one that is set aside."""
    store = tmp_path / "run.supac"
    make(store)
    before = store.read_bytes()
    aside = set_aside(store)
    assert aside is not None
    store.write_bytes(before[:5_000])
    assert settle(store, aside, ended=True) == aside
    assert store.read_bytes() == before[:5_000]
    assert set_aside(store) == tmp_path / "run.supac.replaced-2"
    assert aside.read_bytes() == before


def test_the_place_of_a_store_that_another_process_writes_is_not_taken(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    make(store)
    aside = set_aside(store)
    assert aside is not None

    def begun(x: FloatArray) -> float:
        assert settle(store, aside, ended=True) == aside
        return wave(x)

    make(store, begun, budget=10)
    assert len(supac.read_store(store).runs) == 10
    assert len(supac.read_store(aside).runs) == 20


def test_what_a_killed_process_has_left_in_its_log_is_moved_as_well(tmp_path: Path) -> None:
    store, killed = tmp_path / "run.supac", tmp_path / "killed"
    killed.mkdir()

    def copy(iteration: supac.Iteration) -> None:
        for path in tmp_path.glob("run.supac*"):
            shutil.copy(path, killed)

    make(store, callback=copy)
    assert (killed / "run.supac-wal").stat().st_size > 0
    aside = set_aside(killed / "run.supac")
    assert aside is not None
    assert names(killed) == ["run.supac.replaced"]
    assert len(supac.read_store(aside).runs) == 20
    assert settle(killed / "run.supac", aside, ended=False) == killed / "run.supac"
    assert names(killed) == ["run.supac"]
    assert len(supac.read_store(killed / "run.supac").runs) == 20


def test_a_store_of_no_worth_does_not_take_the_place_of_one_that_waits(tmp_path: Path) -> None:
    """Twice in a row, the first time killed before its first good run."""
    store = tmp_path / "run.supac"
    make(store)
    aside = set_aside(store)
    assert aside is not None
    make(store, fails)
    assert set_aside(store) is None
    assert names(tmp_path) == ["run.supac.replaced"]
    assert len(supac.read_store(aside).runs) == 20


def test_one_that_waits_is_not_replaced_by_the_next(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    make(store)
    set_aside(store)
    make(store, budget=10)
    aside = set_aside(store)
    assert aside == tmp_path / "run.supac.replaced-2"
    assert names(tmp_path) == ["run.supac.replaced", "run.supac.replaced-2"]
    assert len(supac.read_store(tmp_path / "run.supac.replaced").runs) == 20
    assert len(supac.read_store(aside).runs) == 10


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    store, real = tmp_path / "run.supac", tmp_path / "disk" / "real.supac"
    make(real)
    store.symlink_to(real)
    aside = set_aside(store)
    assert aside == real.with_name("real.supac.replaced")
    assert settle(store, aside, ended=False) == real
    assert store.is_symlink()
    assert len(supac.read_store(store).runs) == 20


def test_what_is_no_store_or_in_use_stays_where_it_is(tmp_path: Path) -> None:
    other, store = tmp_path / "notes.txt", tmp_path / "run.supac"
    other.write_text("mine")
    with pytest.raises(NotAStoreError):
        set_aside(other)
    assert other.read_text() == "mine"

    def replace(iteration: supac.Iteration) -> None:
        with pytest.raises(StoreBusyError):
            set_aside(store)

    make(store, callback=replace)
    assert len(supac.read_store(store).runs) == 20
