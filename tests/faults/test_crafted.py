"""Small files that ask for much memory, and files in which rows are missing or pages damaged."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.codec import TooLargeError, from_spec
from supac.families import Gaussian, LowRankGaussian
from supac.families.family import MOST_DIM
from supac.record.record import Record
from supac.record.store import schema
from supac.record.store.file import Database, connect, digest, lock, unlock, with_checksum
from supac.record.store.store import read_config
from waves import wave

TESTS = Path(__file__).parents[1]
OLD = sorted((TESTS / "stores").glob("*.supac"))
QUICK = supac.SuPAC(supac.Voronoi(draws=500), supac.FixedStep(), first=20, batch=10)


def run(**options: Any) -> supac.Result:
    prior, bound = supac.gaussian([0.0, 0.0], np.eye(2)), supac.Catoni(0.05)
    settings = {"risk": wave, "prior": prior, "bound": bound, "budget": 60, "algorithm": QUICK}
    return supac.minimize(**{**settings, **options})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("finished") / "run.supac"
    run(store=path, validation=10)
    return path


@pytest.fixture
def store(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(finished, tmp_path))


def edit(path: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement, values)
    db.commit()
    db.close()


def configure(path: Path, **changes: Any) -> None:
    config = json.dumps({**read_config(path), **changes})
    change = "UPDATE meta SET value = ? WHERE key = ?"
    edit(path, change, values=(config, "config"))
    edit(path, change, values=(digest(config).hex(), "checksum"))


def readers(path: Path) -> list[Callable[[], object]]:
    return [
        lambda: supac.read_store(path),
        lambda: supac.read_store(path).runs,
        lambda: read_config(path),
        lambda: supac.export(path, path.with_name("table.csv"), force=True),
        lambda: supac.resume(path, wave),
    ]


# Small files that declare much.


def member(family: Any, theta: Any = (0.0,)) -> dict[str, Any]:
    return {"class": "Distribution", "family": family, "theta": list(theta)}


def nested(levels: int) -> Any:
    spec: Any = 0.0
    for _ in range(levels):
        spec = [spec]
    return spec


FULL = {"class": "Gaussian", "dim": 100_000, "blocks": None}
MOST = {"class": "Gaussian", "dim": MOST_DIM, "blocks": None}
NORMAL = {"class": "marginals.Normal", "unit": "", "mean": 0.0, "sd": 1.0}
WIDE = {"class": "DiagonalGaussian", "dim": 4_000}
BETA = {"class": "Beta"}
# Each becomes the prior of a store, and the posterior of a result.
SPECS: dict[str, Any] = {
    "a full Gaussian": member(FULL),
    "of as many as may be": member(MOST),
    "of more than memory has": member({**FULL, "dim": 10**12}),
    "of more than a float has": member({**FULL, "dim": 10**400}),
    "in blocks": member({**FULL, "blocks": [[0, 1]]}),
    "a diagonal": member({"class": "DiagonalGaussian", "dim": 100_000}),
    "a diagonal with all of its numbers": member(WIDE, [0] * 4_000 + [-1] * 4_000),
    "a low rank": member({"class": "LowRankGaussian", "dim": 100_000, "rank": 99_999}),
    "a low rank of as many as may be": member(
        {"class": "LowRankGaussian", "dim": MOST_DIM, "rank": MOST_DIM - 1}
    ),
    "a Student-t": member({"class": "StudentT", "dim": 100_000, "freedom": 5.0}),
    "a mixture": member({"class": "Mixture", "base": MOST, "count": 10**9}),
    "factors": member({"class": "Product", "factors": [MOST] * 300, "groups": None}),
    "many small factors": member({"class": "Product", "factors": [BETA] * 1_200, "groups": None}),
    "a family alone": FULL,
    "many families": [MOST] * 300,
    "texts for numbers": member(BETA, ["a" * 9_000, *[0] * 5_000]),
    "texts for a covariance": member(
        {"class": "FixedGaussian", "covariance": [["a" * 9_000], *[[""]] * 2_000]}
    ),
    "a nest": member(BETA, nested(400)),
    "a nest for a covariance": member({"class": "FixedGaussian", "covariance": nested(400)}),
    "a nest of mixtures": [*nested(200), FULL],
    "a long text": {"class": "a" * 20_000},
    "a long name": {
        "class": "Parameters", "marginals": {"items": [["a" * 20_000, NORMAL]]}, "blocks": None
    },
    "many parameters": {
        "class": "Parameters", "blocks": None,
        "marginals": {"items": [[f"k{i}", NORMAL] for i in range(3_000)]},
    },
}  # fmt: skip
LARGE = {
    "a full Gaussian", "of more than memory has", "of more than a float has", "in blocks",
    "a diagonal", "a diagonal with all of its numbers", "a low rank", "a Student-t", "factors",
    "a family alone", "a nest", "a nest for a covariance", "a nest of mixtures",
    "a long name", "many parameters",
}  # fmt: skip

MEASURE = """
import json, resource, sys, time
import supac
from supac.exchange.result_json import ResultFormatError

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0  # MB

def risk(x):
    return 0.5

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
before = peak()
for kind, path in json.load(sys.stdin).items():
    told = []
    ways = [supac.read_result] if path.endswith(".json") else [
        supac.read_store, lambda path: supac.resume(path, risk),
        lambda path: supac.export(path, path + ".csv", force=True),
    ]
    start = time.process_time()
    for way in ways:
        try:
            way(path)
            told.append("read")
        except (supac.StoreError, ResultFormatError, ValueError, TypeError) as error:
            told.append(f"{type(error).__name__}: {error}"[:300])
    print(json.dumps([kind, told, peak() - before, time.process_time() - start]))
"""


def measured(paths: dict[str, Path]) -> Iterator[tuple[str, list[str]]]:
    """What the readers say of each file: one within a second, all of them within 200 MB."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        input=json.dumps({kind: str(path) for kind, path in paths.items()}),
        env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        kind, told, megabytes, seconds = json.loads(line)
        assert megabytes < 200.0, (kind, told, megabytes)
        assert seconds < 3.0, (kind, told, seconds)  # for three readers
        assert not any("MemoryError" in each for each in told), (kind, told)
        yield kind, told


def test_a_small_store_cannot_take_all_memory(finished: Path, tmp_path: Path) -> None:
    paths = {}
    for i, (kind, spec) in enumerate(SPECS.items()):
        paths[kind] = Path(shutil.copy(finished, tmp_path / f"{i}.supac"))
        configure(paths[kind], prior=spec if isinstance(spec, dict) else {"items": [["a", spec]]})
    seen = dict(measured(paths))
    assert list(seen) == list(SPECS)
    for kind, told in seen.items():
        assert told[1] != "read", kind
        if kind in LARGE:
            assert all(each.startswith("StoreDamagedError") for each in told), (kind, told)


def test_a_small_proposal_cannot_take_all_memory(finished: Path, tmp_path: Path) -> None:
    paths = {}
    for i, (kind, spec) in enumerate(SPECS.items()):
        path = paths[kind] = Path(shutil.copy(finished, tmp_path / f"{i}.supac"))
        db = sqlite3.connect(path)
        *row, _ = db.execute("SELECT * FROM rounds WHERE iteration = 1").fetchone()
        db.close()
        family = spec["family"] if isinstance(spec, dict) and "family" in spec else spec
        row[4] = json.dumps({"family": family, "theta": json.loads(row[4])["theta"]})
        edit(
            path, "INSERT OR REPLACE INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?)",
            values=(*row, digest(*row)),
        )  # fmt: skip
    for kind, told in measured(paths):
        assert all(each.startswith("StoreDamagedError") for each in told), (kind, told)


def test_a_small_result_cannot_take_all_memory(tmp_path: Path) -> None:
    text, paths = json.loads(run().to_json()), {}
    crafted = {kind: {"posterior": spec, "prior": spec} for kind, spec in SPECS.items()}
    crafted["a prior only"] = {"prior": SPECS["a full Gaussian"]}
    crafted["a deep certificate"] = {"certificate": nested(900)}
    crafted["deep notes"] = {"notes": nested(900)}
    crafted["a deep history"] = {"history": {"objective": nested(900)}}
    crafted["a huge number"] = {"kl": 10**400}
    for i, (kind, change) in enumerate(crafted.items()):
        paths[kind] = tmp_path / f"{i}.json"
        paths[kind].write_text(json.dumps(text | change))
    for kind, told in measured(paths):
        assert kind == "deep notes" or told[0].startswith("ResultFormatError"), (kind, told)


def test_a_family_makes_its_matrices_when_they_are_needed() -> None:
    for blocks in (None, [], [[0, 2]], [[3, 1], [0, 2, 4]]):
        family = Gaussian(5, blocks)
        labels = np.arange(5)
        for group in [range(5)] if blocks is None else blocks:
            labels[list(group)] = min(group)
        np.testing.assert_array_equal(family.coupled, labels[:, None] == labels)
        assert family.size == 5 + np.triu(family.coupled).sum()
        assert family.chart_size == 5 + family.coupled.sum()
    for rank in (1, 3, 4):
        low = LowRankGaussian(5, rank)
        assert low.size == 10 + len(low._entries[0])
    with pytest.raises(TooLargeError, match="dim = 2001"):
        Gaussian(2_001)
    with pytest.raises(TooLargeError, match="more than 50 levels"):
        from_spec(nested(60))


# Rows that are missing.

DELETIONS = [
    "DELETE FROM runs",
    "DELETE FROM runs WHERE id = 3",
    "DELETE FROM runs WHERE id = (SELECT max(id) FROM runs)",
    "DELETE FROM rounds",
    "DELETE FROM rounds WHERE iteration = 1",
    "DELETE FROM rounds WHERE iteration = (SELECT max(iteration) FROM rounds)",
    "DELETE FROM state",
]


@pytest.mark.parametrize("deletion", DELETIONS)
def test_every_reader_notices_missing_rows(deletion: str, store: Path) -> None:
    assert len(supac.read_store(store).runs) == 60
    edit(store, deletion)
    for way in readers(store):
        with pytest.raises(supac.StoreDamagedError, match=r"are left|is missing"):
            way()


def test_a_run_that_no_round_has_learnt_from_is_missed_as_well(tmp_path: Path) -> None:
    store, calls = tmp_path / "run.supac", 0

    def stopped(x: FloatArray) -> float:
        nonlocal calls
        calls += 1
        if calls == 25:
            os._exit(9)  # in the middle of the second batch
        return wave(x)

    if not (child := os.fork()):
        run(risk=stopped, store=store)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert len(supac.read_store(store).runs) == 24
    edit(store, "DELETE FROM runs WHERE id = 22")
    for way in readers(store):
        with pytest.raises(supac.StoreDamagedError, match="23 of 24 runs are left"):
            way()


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_stores_without_counts_are_read_and_checked(path: Path, tmp_path: Path) -> None:
    store = Path(shutil.copy(path, tmp_path))
    db = connect(store, read_only=True)
    schema.check_counts(db)
    assert not db.execute("SELECT count(*) FROM meta WHERE key = 'counts'").fetchone()[0]
    rounds = db.execute("SELECT count(*) FROM rounds").fetchone()[0]
    db.close()
    assert rounds > 1
    for deletion in (DELETIONS[1], DELETIONS[4], DELETIONS[6]):
        broken = Path(shutil.copy(path, tmp_path / "broken"))
        edit(broken, deletion)
        db = connect(broken, read_only=True)
        with pytest.raises(supac.StoreDamagedError, match="is missing"):
            schema.check_counts(db)
        db.close()


def test_rows_of_an_older_version_are_no_damage(store: Path) -> None:
    """It adds runs to the file, and leaves the counts as they are."""
    db = connect(store)
    db.write_meta("counts", with_checksum('{"runs": 5, "rounds": 1}'))
    db.commit()
    db.close()
    for way in readers(store):
        way()
    edit(store, "UPDATE meta SET value = replace(value, '5', '4') WHERE key = 'counts'")
    for way in readers(store):
        with pytest.raises(supac.StoreDamagedError, match="its counts"):
            way()


def test_what_is_replaced_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "run.supac"
    lock(path)
    db = connect(path)
    schema.create(db, "{}")
    row = (b"", "ok", 0.0, 0.0, "", 1, "", "search", "draw", 0, None, 0, None)

    def kept(*ids: int) -> str:
        for each in ids:
            db.insert("runs", (0, each, *row))
        db.write_counts()
        return str(db.execute("SELECT value FROM meta WHERE key = 'counts'").fetchone()[0])

    assert '"runs": 2' in kept(0, 1)
    assert '"runs": 3' in kept(1, 1, 2)
    db.commit()
    assert '"runs": 5' in kept(3, 4)
    db.rollback()
    assert '"runs": 4' in kept(0, 4)
    db.close()
    unlock(path)


# Damage that only a reader sees.


def told(path: Path) -> tuple[Any, ...]:
    record = supac.read_store(path)
    runs = [(each.id, *each.x.tolist(), each.risk, each.status) for each in record.runs]
    rounds = [(each.ids, each.proposal) for each in record.rounds]
    return runs, rounds, record.posterior, record.estimate.objective, record.budget


def test_flipped_bytes_are_noticed_by_who_only_reads(store: Path) -> None:
    whole, expected, seen = store.read_bytes(), told(store), []
    rng = np.random.default_rng(3)
    used = np.flatnonzero(np.frombuffer(whole, dtype=np.uint8))
    heads = [page + i for page in range(0, len(whole), 4096) for i in range(16)]
    for position in [*heads, *rng.choice(used, size=300)]:
        data = bytearray(whole)
        data[position] ^= int(rng.integers(1, 256))
        store.write_bytes(bytes(data))
        try:
            assert told(store) == expected, position
            seen.append("same")
        except supac.StoreError as error:
            seen.append(type(error).__name__)
    assert {"same", "StoreDamagedError", "NotAStoreError"} <= set(seen)
    for length in [*range(4096, len(whole), 4096), len(whole) - 1]:
        store.write_bytes(whole[:length])
        with suppress(supac.StoreDamagedError):
            assert told(store) == expected, length  # the last page may be one that is free
            seen.append("cut")
    assert seen.count("cut") <= 1


def test_only_a_writer_reads_every_page(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def traced(path: Path, *, read_only: bool = False) -> Database:
        db = connect(path, read_only=read_only)
        db.set_trace_callback(asked.append)
        return db

    monkeypatch.setattr(schema, "connect", traced)
    monkeypatch.setattr("supac.record.store.file.connect", traced)
    assert supac.read_store(store).runs
    assert asked
    assert not any("quick_check" in each for each in asked)
    with Record.of_runs(wave, 2, store):
        assert any("quick_check" in each for each in asked)
