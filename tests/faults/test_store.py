"""Whatever happens to a store: a named error, or the very same result."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.record.store.file import digest as _digest
from supac.record.store.schema import VERSION
from supac.record.store.store import Store
from waves import wave

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
BOUND = supac.Catoni(0.05)
QUICK = supac.SuPAC(supac.Voronoi(draws=500), supac.FixedStep(), first=20, batch=10)
PAGE = 4096


def waves(x: FloatArray) -> FloatArray:
    return 0.5 + 0.3 * np.sin(x)


def run(**options: Any) -> supac.Result:
    settings = {"risk": wave, "prior": PLANE, "bound": BOUND, "budget": 60, "algorithm": QUICK}
    return supac.minimize(**{**settings, **options})


def assert_same(result: supac.Result, other: supac.Result) -> None:
    assert result.posterior == other.posterior
    assert result.stop_reason == other.stop_reason
    assert str(result) == str(other)
    for name in ("x", "risk", "iteration", "drawn", "ok", "outputs"):
        mine, yours = getattr(result.evaluations, name), getattr(other.evaluations, name)
        np.testing.assert_array_equal(mine, yours)
    for name, column in result.history.items():
        np.testing.assert_array_equal(column, other.history[name])


@dataclass(frozen=True)
class Finished:
    data: bytes
    result: supac.Result


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    path = tmp_path_factory.mktemp("finished") / "run.supac"
    result = run(store=path)
    return Finished(path.read_bytes(), result)


@pytest.fixture
def store(finished: Finished, tmp_path: Path) -> Path:
    """A finished store to be damaged."""
    path = tmp_path / "run.supac"
    path.write_bytes(finished.data)
    return path


def ways_in(path: Path, **options: Any) -> list[Callable[[], object]]:
    return [lambda: run(store=path, **options), lambda: supac.resume(path, wave, **options)]


def all_ways_in(path: Path) -> list[Callable[[], object]]:
    return [*ways_in(path), lambda: supac.export(path, path.with_suffix(".csv"))]


def outcomes(files: dict[Path, bytes], expected: supac.Result) -> list[str]:
    """What becomes of a store by both ways in: the same result, or the name of an error."""
    (path, *_), seen = files, []
    for way in ways_in(path):
        for leftover in path.parent.glob(f"{path.name}*"):
            leftover.unlink()
        for file, data in files.items():
            file.write_bytes(data)
        try:
            result = way()
            assert isinstance(result, supac.Result)
            assert_same(result, expected)
            seen.append("same")
        except supac.StoreError as error:
            seen.append(type(error).__name__ if path.name in str(error) else str(error))
    return seen


# Torn and flipped.


def test_a_truncated_store_is_refused_by_name(store: Path, finished: Finished) -> None:
    size = len(finished.data)
    pages = range(PAGE, size, PAGE)
    edges = [page + shift for page in pages for shift in (-1, 0, 1)]
    for length in [*range(2, 18), 99, 100, 101, 511, 512, *edges, size - 512, size - 1]:
        seen = outcomes({store: finished.data[:length]}, finished.result)
        assert set(seen) <= {"NotAStoreError", "StoreDamagedError"}, length


def test_an_empty_file_is_a_new_store_but_nothing_to_resume(
    store: Path, finished: Finished
) -> None:
    for data in (b"", finished.data[:1]):  # one byte is nothing to SQLite
        assert outcomes({store: data}, finished.result) == ["same", "NotAStoreError"]


def test_flipped_bytes_are_noticed_or_do_not_matter(store: Path, finished: Finished) -> None:
    rng = np.random.default_rng(0)
    used = np.flatnonzero(np.frombuffer(finished.data, dtype=np.uint8))
    anywhere = rng.integers(len(finished.data), size=20)
    positions = [*range(16, 100, 4), *rng.choice(used, size=60, replace=False), *anywhere]
    seen = []
    for position in positions:
        data = bytearray(finished.data)
        data[position] ^= int(rng.integers(1, 256))
        seen += outcomes({store: bytes(data)}, finished.result)
    assert {"same", "StoreDamagedError", "NotAStoreError"} <= set(seen)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The file and its log as a crash after 40 queries would leave them."""
    path = tmp_path_factory.mktemp("crashed") / "run.supac"
    log = path.with_name("run.supac-wal")
    copies: list[tuple[bytes, bytes]] = []

    def copy(iteration: supac.Iteration) -> None:
        if iteration.queries == 40:
            copies.append((path.read_bytes(), log.read_bytes()))

    run(store=path, callback=copy)
    return copies[0]


def test_a_torn_log_loses_nothing_but_its_end(
    crashed: tuple[bytes, bytes], finished: Finished, tmp_path: Path
) -> None:
    path = tmp_path / "run.supac"
    log = path.with_name("run.supac-wal")
    rng = np.random.default_rng(1)
    whole = len(crashed[1])
    for length in [1, 31, 32, 33, *rng.integers(whole, size=10), whole - 1, whole]:
        seen = outcomes({path: crashed[0], log: crashed[1][:length]}, finished.result)
        assert seen[0] == "same"
        assert seen[1] in ("same", "NotAStoreError"), "torn before the store was made"
    for position in rng.integers(whole, size=10):
        torn = bytearray(crashed[1])
        torn[position] ^= 0xFF
        assert outcomes({path: crashed[0], log: bytes(torn)}, finished.result)[0] == "same"


# Something else in its place.


def another_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "other"
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE recipes (name TEXT)")
        db.execute("INSERT INTO recipes VALUES ('soup')")
        db.commit()
        db.close()
        return path.read_bytes()


FOREIGN = {
    "text": b"x,y\n1,2\n",
    "a long text": b"All happy families are alike. " * 1_000,
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(2_000),
    "database": another_database(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_bytes(FOREIGN[kind])
    for way in all_ways_in(path):
        with pytest.raises(supac.NotAStoreError, match=r"notes is .*not a store of supac"):
            way()
    assert path.read_bytes() == FOREIGN[kind]
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(supac.NotAStoreError, match="is a folder: name a file in it"):
        run(store=tmp_path)
    with pytest.raises(supac.NotAStoreError, match="is a folder: name a file in it"):
        supac.resume(tmp_path, wave)
    with pytest.raises(supac.StoreError, match="cannot be written: there is no folder"):
        run(store=tmp_path / "nowhere" / "run.supac")
    with pytest.raises(supac.NotAStoreError, match="null is no file on a disk"):
        run(store="/dev/null")
    for missing in (tmp_path / "nothing", tmp_path / "nowhere" / "run.supac"):
        with pytest.raises(FileNotFoundError, match="there is no store"):
            supac.resume(missing, wave)
    assert list(tmp_path.iterdir()) == []


@contextmanager
def as_anybody() -> Iterator[None]:
    """Without the rights of root, whom no permission stops."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def read_only(finished: Finished) -> Iterator[Path]:
    """A store that nobody may write, in such a folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.supac"
        path.write_bytes(finished.data)
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        yield path
        Path(folder).chmod(0o755)


def test_what_cannot_be_written_can_still_be_read(read_only: Path, tmp_path: Path) -> None:
    with as_anybody():
        for way in (*ways_in(read_only), *ways_in(read_only.with_name("new"))[:1]):
            with pytest.raises(supac.StoreError, match="cannot be written: Permission denied"):
                way()
    assert supac.export(read_only, tmp_path / "table.csv") == 60
    with as_anybody(), pytest.raises(PermissionError):
        supac.export(read_only, read_only.with_name("table.csv"))
    assert list(read_only.parent.iterdir()) == [read_only]


def test_a_later_format_is_refused(store: Path) -> None:
    later = rf"has format {VERSION + 1}, but .* reads up to {VERSION}"
    edit(store, f"PRAGMA user_version = {VERSION + 1}")
    for way in ways_in(store):
        with pytest.raises(supac.StoreTooNewError, match=later):
            way()


def test_reading_leaves_nothing_behind(store: Path, finished: Finished) -> None:
    supac.export(store, store.with_suffix(".csv"))
    assert store.read_bytes() == finished.data
    assert sorted(each.name for each in store.parent.iterdir()) == ["run.csv", "run.supac"]


# Two at a time.

OWNER = """
import sys, time
from faults import test_store

def slow(x):
    if slow.calls == 25:
        print("busy", flush=True)
        time.sleep(600.0)
    slow.calls += 1
    return test_store.wave(x)

slow.calls = 0
test_store.run(risk=slow, store=sys.argv[1])
"""


def test_one_driver_at_a_time_and_none_after_it_was_killed(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for an owner, nor for one that is dead."""
    slept: list[float] = []
    path = tmp_path / "run.supac"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "busy\n"
        monkeypatch.setattr(time, "sleep", slept.append)
        for way in ways_in(path):
            with pytest.raises(supac.StoreBusyError, match=f"written by process {owner.pid} on "):
                way()
        assert supac.export(path, tmp_path / "meanwhile.csv") == 25
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    calls = []

    def counting(x: FloatArray) -> float:
        calls.append(x)
        return wave(x)

    assert_same(supac.resume(path, counting), finished.result)
    assert sum(slept) < 0.5
    assert len(calls) == 60 - 25


def test_a_second_driver_in_one_process_is_refused(store: Path, finished: Finished) -> None:
    def nested(iteration: supac.Iteration) -> None:
        with pytest.raises(supac.StoreBusyError, match="another call in this process"):
            run(store=store)

    assert_same(supac.resume(store, wave, budget=70, callback=nested), run(budget=70))


def test_another_program_that_writes_is_no_damage(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, connect = sqlite3.connect(store), sqlite3.connect
    db.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(  # seconds that are waited for
        "sqlite3.connect", lambda *names, **how: connect(*names, **how | {"timeout": 0.2})
    )
    with pytest.raises(supac.StoreBusyError, match=r"in use by another program: .*locked"):
        run(store=store)
    db.close()
    run(store=store)


# Another run.

CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"prior": supac.gaussian([1.0, 0.0], np.eye(2))}, "prior.theta[0]: 0.0 in the store, 1.0 now"),
    ({"prior": supac.gaussian([0.0, 0.0], [1.0, 1.0])}, ""),
    ({"bound": supac.Catoni(0.1)}, "bound.temperature: 0.05 in the store, 0.1 now"),
    (
        {"bound": supac.McAllester(n=100, delta=0.05)},
        "bound: Catoni in the store, McAllester now",
    ),
    ({"algorithm": replace(QUICK, batch=11)}, "algorithm.batch: 10 in the store, 11 now"),
    (
        {"algorithm": replace(QUICK, step=supac.TrustRegion())},
        "algorithm.step: FixedStep in the store, TrustRegion now",
    ),
    ({"validation": 5}, "validation: None in the store, 5 now"),
    ({"proxy": lambda x: x[:, 0]}, ""),
]


@pytest.mark.parametrize(("change", "line"), CHANGES)
def test_another_run_is_refused_with_what_differs(
    change: dict[str, Any], line: str, store: Path, finished: Finished
) -> None:
    (name,) = change
    for way in ways_in(store, **change):
        assert_refused(way, store, line or name, name)
    assert_same(supac.resume(store, wave), finished.result)


def assert_refused(way: Callable[[], object], store: Path, line: str, name: str) -> None:
    with pytest.raises(supac.StoreMismatchError) as caught:
        way()
    told = str(caught.value).removeprefix(f"{store} holds another search: ")
    assert told.startswith(line)
    assert all(part.startswith(name) for part in told.split("; "))
    assert told.endswith("now. Give it its old settings, or another file")


def test_another_seed_is_refused(store: Path, finished: Finished) -> None:
    line = "seed: 0 in the store, 1 now"
    assert_refused(lambda: run(store=store, seed=1), store, line, "seed")
    with pytest.raises(TypeError, match="unexpected keyword argument 'seed'"):
        supac.resume(store, wave, seed=1)  # type: ignore[call-arg]
    assert_same(supac.resume(store, wave), finished.result)


def test_another_tolerance_is_refused(store: Path, finished: Finished) -> None:
    for way in ways_in(store, tolerance=0.0):
        with pytest.warns(DeprecationWarning, match="tolerance= is now"):
            assert_refused(way, store, "tolerance: 1e-12 in the store, 0.0 now", "tolerance")
    assert_same(supac.resume(store, wave), finished.result)


def test_another_loss_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.supac"
    first = run(risk=supac.Composite(waves, supac.MeanSquare()), store=path)
    for risk, now in ((supac.Composite(waves, supac.RootMeanSquare()), "Root"), (wave, "None")):
        with pytest.raises(supac.StoreMismatchError, match=f"loss: MeanSquare in .*, {now}.* now"):
            supac.resume(path, risk)
    again = supac.resume(path, supac.Composite(waves, supac.MeanSquare()))
    assert_same(again, first)


def test_the_same_settings_may_be_spelt_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "run.supac"
    first = run(bound=supac.Catoni(np.float64(1.0)), seed=np.int64(3), store=path)
    assert_same(run(bound=supac.Catoni(1), seed=3, store=path), first)


@pytest.mark.parametrize(("algorithm", "budgets"), [(QUICK, (40, 60, 80)), (None, (24, 28, 32))])
def test_a_larger_budget_goes_on_as_if_it_had_been_so_from_the_beginning(
    algorithm: supac.SuPAC | None, budgets: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / "run.supac"
    first = run(algorithm=algorithm, budget=budgets[0], store=path)
    assert first.stop_reason is supac.StopReason.BUDGET  # one that has settled would not go on
    for budget in budgets[1:]:
        longer = supac.resume(path, wave, budget=budget)
        assert_same(longer, run(algorithm=algorithm, budget=budget))
    assert_same(supac.resume(path, wave), longer)


def test_a_budget_that_is_spent_already_is_refused(store: Path) -> None:
    with pytest.raises(ValueError, match=r"budget = 30, but .* learnt from .* already; raise it"):
        supac.resume(store, wave, budget=30)


def test_after_a_failure_that_was_an_error_another_policy_may_go_on(tmp_path: Path) -> None:
    def fragile(x: FloatArray) -> float:
        return np.nan if x[0] > 1.0 else wave(x)

    path = tmp_path / "run.supac"
    with pytest.raises(supac.EvaluationError, match="on_failure"):
        run(risk=fragile, store=path)
    result = run(risk=fragile, store=path, execution=supac.Execution(on_failure="penalise"))
    assert_same(result, run(risk=fragile, execution=supac.Execution(on_failure="penalise")))
    with pytest.raises(supac.StoreMismatchError, match="on_failure: 'penalise' in the store"):
        run(risk=fragile, store=path, execution=supac.Execution(on_failure="drop"))


# Made by somebody who means harm.


def edit(path: Path, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        text, values = (statement, ()) if isinstance(statement, str) else statement
        db.execute(text, values)
    db.commit()
    db.close()


def read_row(path: Path, query: str) -> list[Any]:
    db = sqlite3.connect(path)
    row = db.execute(query).fetchone()
    db.close()
    return list(row)


def put_config(path: Path, text: str) -> None:
    change = "UPDATE meta SET value = ? WHERE key = ?"
    edit(path, (change, (text, "config")), (change, (_digest(text).hex(), "checksum")))


def configure(path: Path, **changes: Any) -> None:
    (text,) = read_row(path, "SELECT value FROM meta WHERE key = 'config'")
    put_config(path, json.dumps({**json.loads(text), **changes}))


def put(path: Path, table: str, column: str, value: Any) -> None:
    """Another value in the first row of a table, with a checksum that fits."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    row = dict(db.execute(f"SELECT rowid, * FROM {table}").fetchone())
    number, _ = row.pop("rowid", None) or row["id"], row.pop("checksum")
    assert column in row
    row[column] = value
    changes = ", ".join(f"{name} = ?" for name in row)
    db.execute(
        f"UPDATE {table} SET {changes}, checksum = ? WHERE rowid = ?",
        (*row.values(), _digest(*row.values()), number),
    )
    db.commit()
    db.close()


class Bomb:
    def __init__(self, sign: Path):
        self.sign = sign

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.sign}",)


@contextmanager
def harmless(store: Path) -> Iterator[None]:
    """Nothing appears beside the store, nor where the process is."""

    def files() -> set[Path]:
        sides = {store, store.with_name(f"{store.name}-wal"), store.with_name(f"{store.name}-shm")}
        folders = (store.parent, store.parent.parent, Path.cwd())
        return {each for folder in folders for each in folder.iterdir()} - sides

    before = files()
    yield
    assert files() == before


NESTED = "[" * 400 + "]" * 400
SPECS: dict[str, Any] = {
    "a command": {"class": "os.system", "command": "touch sign"},
    "an import": {"class": "Distribution", "family": {"class": "__import__"}, "theta": [0.0]},
    "a path": {"class": "../../sign"},
    "a method": {"class": "SuPAC.paper"},
    "an attribute": {"class": "Catoni", "__class__": "os.system"},
    "a list for a name": {"class": ["Catoni"]},
    "a wrong value": {
        "class": "Catoni", "temperature": "touch sign", "n": None, "delta": None, "ceiling": 1.0
    },
    "no pairs": {"items": 3},
    "a deep nest": {"items": [["a", json.loads(NESTED)]]},
}  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", ["prior", "bound", "algorithm", "start"])
def test_a_setting_of_the_file_is_never_executed(name: str, spec: str, store: Path) -> None:
    configure(store, **{name: SPECS[spec]})
    with harmless(store):
        if spec == "a deep nest":
            for way in all_ways_in(store):
                with pytest.raises(supac.StoreDamagedError, match="its configuration: TooLarge"):
                    way()
            return
        with pytest.raises((ValueError, TypeError), match=f"has only the name of {name}, "):
            supac.resume(store, wave)
        with pytest.raises(supac.StoreMismatchError, match=f"another search: {name}"):
            run(store=store)
        with suppress(FileExistsError):
            supac.export(store, store.with_suffix(".csv"))
            store.with_suffix(".csv").unlink()


BAD_SETTINGS: list[dict[str, Any]] = [
    {"executor": "tcp://127.0.0.1:9"},
    {"store": "../elsewhere"},
    {"risk": {"class": "os.system"}},
    {"known": None},
    {"prior": "os.system"},
    {"bound": [1.0]},
    {"seed": "0"},
    {"budget": None},
    {"tolerance": [0.0]},
    {"proxy": {"class": "os.system"}},
]


@pytest.mark.parametrize("change", BAD_SETTINGS)
def test_settings_that_are_none_are_damage(change: dict[str, Any], store: Path) -> None:
    configure(store, **change)
    for way in ways_in(store):
        with harmless(store), pytest.raises(supac.StoreDamagedError, match="its configuration"):
            way()


@pytest.mark.parametrize("text", ["", "os.system", "[]", "3", "{}", "[" * 100_000, NESTED])
def test_a_configuration_that_is_none_is_damage(text: str, store: Path) -> None:
    put_config(store, text)
    for way in ways_in(store):
        with pytest.raises(supac.StoreDamagedError, match="its configuration"):
            way()


PLACES = {
    "proposal": ("rounds", "proposal"), "info": ("rounds", "info"), "state": ("state", "value")
}  # fmt: skip
TEXTS = {
    **{name: json.dumps(spec) for name, spec in SPECS.items()},
    "a foreign family": json.dumps({"family": SPECS["a command"], "theta": ["", [0]]}),
    "no family": json.dumps({"family": SPECS["a wrong value"] | {"temperature": 1.0}, "theta": []}),
    "another family": '{"family": {"class": "Beta"}, "theta": ["AAAAAAAA8D8AAAAAAADwPw==", [2]]}',
    "no numbers": json.dumps({"family": None, "theta": ["AAAA", [2]]}),
    "no JSON": "\x80\x04cos\nsystem\n",
    "bombs": '{"mean_risk": "os.system", "kl": 0.0, "objective": 0.0, "notes": []}',
    "a nest": NESTED,
    "a deeper nest": "[" * 100_000,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", TEXTS)
def test_what_a_round_or_a_state_says_is_never_executed(place: str, text: str, store: Path) -> None:
    put(store, *PLACES[place], TEXTS[text])
    for way in ways_in(store):
        with harmless(store), pytest.raises(supac.StoreDamagedError, match=r"round 0|its state"):
            way()


def test_a_plan_must_fit_its_problem(store: Path) -> None:
    (text,) = read_row(store, "SELECT value FROM state")
    state = json.loads(text)
    data, _ = state["batch"]["x"]
    short: list[dict[str, Any]] = [
        {"x": [data, [20, 1]]},
        {"role": ["draw"]},
        {"role": ["of another kind"] * 20},
        {"step": [99] * 20},
        {"expected": state["theta"]},
        {"proposal": {"family": None, "theta": state["batch"]["x"]}},
    ]
    for change in short:
        put(store, "state", "value", json.dumps({**state, "batch": {**state["batch"], **change}}))
        with pytest.raises(supac.StoreDamagedError, match="its state"):
            supac.resume(store, wave)


@pytest.mark.parametrize(("table", "column"), [("runs", "x"), ("rounds", "ids")])
def test_pickles_are_bytes_like_any_others(table: str, column: str, store: Path) -> None:
    sign = store.with_name("sign")
    for padding in range(8):
        put(store, table, column, pickle.dumps(Bomb(sign)) + bytes(padding))
        for way in ways_in(store):
            with harmless(store), pytest.raises(supac.StoreDamagedError):
                way()


def test_pickles_among_outputs_are_bytes_like_any_others(tmp_path: Path) -> None:
    composite, store = supac.Composite(waves, supac.MeanSquare()), tmp_path / "run.supac"
    run(risk=composite, store=store)
    table = tmp_path / "table.csv"
    table.touch()
    ways: list[Callable[[], object]] = [
        lambda: run(risk=composite, store=store),
        lambda: supac.resume(store, composite),
        lambda: supac.export(store, table, force=True),
    ]
    for padding in range(8):
        put(store, "outputs", "numbers", pickle.dumps(Bomb(tmp_path / "sign")) + bytes(padding))
        for way in ways:
            with harmless(store), pytest.raises(supac.StoreDamagedError, match="outputs of run 0"):
                way()


BAD_CELLS = {
    "status": "os.system", "risk": "high", "seconds": "long", "attempts": "often", "x": "text",
    "purpose": "fun", "outputs": "many", "id": "first", "task": "main",
}  # fmt: skip


@pytest.mark.parametrize("column", BAD_CELLS)
def test_a_run_of_wrong_types_is_damage(column: str, store: Path) -> None:
    put(store, "runs", column, BAD_CELLS[column])
    for way in all_ways_in(store):
        with pytest.raises(supac.StoreDamagedError, match="run 0"):
            way()


ENDLESS = "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n) SELECT k, k FROM n"
ADDITIONS: dict[str, tuple[str, ...]] = {
    "a trigger": (
        "CREATE TRIGGER t AFTER UPDATE ON meta BEGIN SELECT load_extension('./sign'); END",
    ),
    "a trigger that forgets": (
        "CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM runs; END",
    ),
    "a view that writes": ("CREATE VIEW v AS SELECT writefile('sign', 'x')",),
    "a view that never ends": (
        "ALTER TABLE meta RENAME TO old",
        f"CREATE VIEW meta (key, value) AS {ENDLESS}",
    ),
    "an index": ("CREATE INDEX i ON runs (status)",),
    "another table": ("CREATE TABLE more (x)",),
    "no rounds": ("DROP TABLE rounds",),
}


@pytest.mark.parametrize("kind", ADDITIONS)
def test_a_store_has_no_tables_but_its_own(kind: str, store: Path) -> None:
    edit(store, *ADDITIONS[kind])
    before = store.read_bytes()
    for way in ways_in(store):
        with harmless(store), pytest.raises(supac.StoreDamagedError, match="its tables"):
            way()
    assert store.read_bytes() == before


# A full disk.


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process can grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("size", [0, 100, PAGE, 3 * PAGE, 33_000, 50_000, 100_000, 250_000])
def test_a_full_disk_costs_no_run_that_was_written(
    size: int, finished: Finished, tmp_path: Path
) -> None:
    path, made = tmp_path / "run.supac", 0

    def counting(x: FloatArray) -> float:
        nonlocal made
        made += 1
        return wave(x)

    with (
        largest_file(size),
        pytest.raises(supac.StoreError, match="What was written before is safe: make room, and"),
    ):
        run(risk=counting, store=path)
    broken, made = made, 0
    assert broken < 60
    assert_same(run(risk=counting, store=path), finished.result)
    assert made == 60 - max(broken - 1, 0)  # the last of them could not be written
    assert_same(supac.resume(path, wave), finished.result)


# Tables.

HOUSE = supac.Parameters(
    {
        "rate µ": marginals.LogNormal(2.0, 0.5, unit="1/d"),
        "seconds": marginals.Normal(0.0, 3.0),
        "output_0": marginals.Uniform(0.0, 1.0),
    }
)


def fragile(x: FloatArray) -> float:
    if x[2] > 0.9:
        raise RuntimeError("broken,\n\"quoted\" 'name' caf\udce9")
    return 0.1 + 0.3 * abs(np.log(x[0])) + 0.01 * x[1] ** 2


def twofold(x: FloatArray) -> FloatArray:
    return np.array([fragile(x), x[0]])


@pytest.mark.parametrize("composite", [False, True])
def test_tables_hold_every_value_exactly(composite: bool, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path, table = tmp_path / "run.supac", tmp_path / "table.csv"
    risk = supac.Composite(twofold, supac.MeanSquare()) if composite else fragile
    result = run(risk=risk, prior=HOUSE, store=path, execution=supac.Execution(on_failure="drop"))
    assert supac.export(path, table) == supac.export(path, table.with_suffix(".parquet")) == 60
    known = supac.read_csv(table, HOUSE)
    np.testing.assert_array_equal(known.x, result.x)
    np.testing.assert_array_equal(known.risk, result.evaluations.risk)
    if composite:
        np.testing.assert_array_equal(known.outputs, result.evaluations.outputs)
    columns = parquet.read_table(table.with_suffix(".parquet")).to_pydict()
    ours = ["id", "rate µ", "seconds_", "output_0_", "risk", "status", "iteration"]
    told = ["seconds", "attempts", "message", "source", "purpose", "role"]
    outputs = ["output_0", "output_1"] if composite else []
    assert list(columns) == [*ours, *told, *outputs, "origin"]
    assert table.read_text().splitlines()[0] == ",".join(columns)
    assert columns["id"] == list(range(60))
    assert set(columns["purpose"]) == {"search"}  # this algorithm validates nothing
    np.testing.assert_array_equal(np.array(columns["seconds_"]), result.x[:, 1])
    risks = [np.nan if each is None else each for each in columns["risk"]]
    np.testing.assert_array_equal(risks, result.evaluations.risk)
    broken = [i for i, status in enumerate(columns["status"]) if status != "ok"]
    assert len(broken) == result.evaluations.failed > 0
    assert columns["message"][broken[0]].endswith("\"quoted\" 'name' caf\\udce9")


def test_a_table_is_not_overwritten_by_mistake(store: Path) -> None:
    table = store.with_suffix(".csv")
    table.write_text("mine")
    with pytest.raises(FileExistsError, match="pass force=True"):
        supac.export(store, table)
    assert table.read_text() == "mine"
    assert supac.export(store, table, force=True) == 60
    with pytest.raises(ValueError, match=r"a \.csv or a \.parquet, not run\.xls"):
        supac.export(store, store.with_suffix(".xls"))


@pytest.fixture
def known(store: Path) -> supac.KnownRuns:
    table = store.with_name("elsewhere.csv")
    supac.export(store, table)
    store.unlink()
    return supac.read_csv(table, ["x0", "x1"])


@pytest.mark.parametrize("algorithm", [QUICK, None])
def test_runs_made_elsewhere_are_learnt_from_before_the_first_query(
    algorithm: supac.SuPAC | None, known: supac.KnownRuns, store: Path, finished: Finished
) -> None:
    events: list[supac.Iteration] = []
    calls = []

    def counting(x: FloatArray) -> float:
        calls.append(x)
        return wave(x)

    result = run(
        risk=counting, algorithm=algorithm, known=known, store=store, callback=events.append
    )
    assert (events[0].queries, events[0].posterior) == (0, PLANE)
    gained = (
        waves(PLANE.sample(2_000, 0)).mean()
        - waves(events[0].next_posterior.sample(2_000, 0)).mean()
    )
    assert gained > 0.1
    assert len(calls) == 60 or result.stop_reason is supac.StopReason.CONVERGED
    assert len(result.evaluations) == 60 + len(calls)
    np.testing.assert_array_equal(result.evaluations.x[:60], finished.result.evaluations.x)
    assert not result.evaluations.drawn[:60].any()
    assert_same(supac.resume(store, wave), result)
    assert_same(supac.resume(store, wave, known=known), result)
    longer = supac.resume(store, wave, budget=80)
    if result.stop_reason is supac.StopReason.CONVERGED:  # it had settled: all of it is spent
        assert longer.queries == 80
    else:
        assert_same(longer, run(algorithm=algorithm, known=known, budget=80))


def test_the_source_of_a_run_is_kept(known: supac.KnownRuns, store: Path) -> None:
    run(known=known, store=store)
    table = store.with_name("all.csv")
    assert supac.export(store, table) == 120
    sources = [line.split(",")[-4] for line in table.read_text().splitlines()]
    assert sources == ["source", *["elsewhere.csv"] * 60, *[""] * 60]


def test_an_import_that_was_killed_is_gone_on_with(known: supac.KnownRuns, store: Path) -> None:
    class Killed(KeyboardInterrupt):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "add_rounds", killed)  # before it had learnt
        with pytest.raises(Killed):
            run(known=known, store=store)
    assert len(supac.read_store(store).runs) == 60
    assert_same(supac.resume(store, wave), run(known=known))


BAD_TABLES = [
    ("x0,risk\n1,2\n", "has no column x1; its columns are x0, risk"),
    ("", "has no column x0, x1"),
    ("x0,x1\n1,2\n", "has no column risk, or output_0"),
    ("x0,x1,risk\n1,2,3\n1,two,3\n", "line 3, column x1: 'two' is no number"),
    ("x0,x1,risk\n1,2,high\n", "line 2, column risk: 'high' is no number"),
    ("x0,x1,risk\n1,2,3\n1,,3\n", "line 3: every parameter needs a finite value"),
    ("x0,x1,risk\n1,2,3\n\n\n1,two,3\n", "line 5, column x1: 'two' is no number"),
    ("x0,x1,risk\n\n1,2,3\n\n1,,3\n", "line 5: every parameter needs a finite value"),
    ("x0,x1,risk\n1,inf,3\n", "line 2: every parameter needs a finite value"),
    ("x0,x1,risk\n1\n", "line 2: every parameter needs a finite value"),
    ("x0,x1,output_rate\n1,2,3\n", "has no column risk, or output_0"),
    ("x0,x1,risk\n" + "1" * 200_000, "not a table of separated values"),
    ("x0,x1,risk\n\udcff,2,3", "line 2, column x0: 'ÿ' is no number"),
]


@pytest.mark.parametrize(("text", "message"), BAD_TABLES)
def test_a_bad_table_is_refused_with_the_place(text: str, message: str, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=message) as caught:
        supac.read_csv(table, ["x0", "x1"])
    assert str(caught.value).startswith(str(table))


def test_tables_of_spreadsheets_are_read(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_bytes('\ufeffµ,comment,risk\r\n0.5,"so, so",0.25\r\n'.encode())
    known = supac.read_csv(table, ["µ"], source="the night shift")
    assert (known.x.tolist(), known.risk.tolist()) == ([[0.5]], [0.25])
    assert known.sources[0] == "the night shift"


def test_outputs_are_for_composites_and_risks_for_the_others(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("x0,x1,output_0,output_1\n0,0,1,2\n1,0,1,2\n")
    with pytest.raises(ValueError, match=r"has outputs, but the risk is not a Composite"):
        run(known=supac.read_csv(table, ["x0", "x1"]))
    table.write_text("x0,x1,risk\n0,0,1\n")
    composite = supac.Composite(waves, supac.MeanSquare())
    with pytest.raises(ValueError, match=r"has no outputs, but the risk is a Composite"):
        run(risk=composite, known=supac.read_csv(table, ["x0", "x1"]))
    with pytest.raises(ValueError, match="known has points of 1 coordinates, not 2"):
        run(known=supac.read_csv(table, ["x0"]))


# Of the user's own making.


class Mine(supac.Bound):
    def __call__(self, mean_risk: float, kl: float) -> float:
        return mean_risk + 0.05 * kl


def test_what_only_the_user_can_make_is_asked_for_by_name(tmp_path: Path) -> None:
    path = tmp_path / "run.supac"
    first = run(bound=Mine(), store=path)
    with pytest.raises(ValueError, match=r"has only the name of bound, .*Mine.*: pass bound= ag"):
        supac.resume(path, wave)
    assert_same(supac.resume(path, wave, bound=Mine()), first)
    with pytest.raises(supac.StoreMismatchError, match=r"bound: .*Mine.* in the store, Catoni now"):
        supac.resume(path, wave, bound=BOUND)


def half(x: FloatArray) -> FloatArray:
    return 0.5 * waves(x).mean(axis=1)


def test_a_proxy_is_asked_for_by_name(tmp_path: Path) -> None:
    path = tmp_path / "run.supac"
    first = run(proxy=half, store=path)
    with pytest.raises(ValueError, match=r"name of proxy, .*half: pass proxy= again"):
        supac.resume(path, wave)
    assert_same(supac.resume(path, wave, proxy=half), first)


def test_a_copy_is_as_good_as_the_store(store: Path, finished: Finished, tmp_path: Path) -> None:
    copy = tmp_path / "a folder with spaces & ?marks#" / "copy % of it"
    copy.parent.mkdir()
    shutil.copy(store, copy)
    assert_same(supac.resume(copy, wave), finished.result)
    assert list(copy.parent.iterdir()) == [copy]


@pytest.mark.parametrize("value", [-0.0, 0.0, 5e-324, 1.0])
def test_every_risk_can_be_read_again(value: float, tmp_path: Path) -> None:
    """SQLite has no −0: a checksum over it would call the file damaged."""
    store = tmp_path / "run.supac"
    prior, bound = supac.gaussian([0.0], [[1.0]]), supac.Catoni(0.1)
    options = {"budget": 20, "algorithm": supac.SuPAC(first=10, batch=10)}
    first = supac.minimize(lambda x: value, prior, bound, store=store, **options)  # type: ignore[arg-type]
    again = supac.resume(store, lambda x: value)
    assert again.objective == first.objective
    assert supac.read_store(store).runs[0].risk == value
