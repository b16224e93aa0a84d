"""Posteriors of many numbers in a store: compressed, bit for bit, and as format 3 had them."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

import numpy as np
import pytest

import supac
from old_formats import downgrade
from supac.arrays import FloatArray
from supac.record import encoding
from supac.record.record import read_store

DIM = 45
WEIGHTS = np.random.default_rng(0).standard_normal((DIM, 12)) / np.sqrt(DIM)
PRIOR = supac.gaussian(np.zeros(DIM), np.eye(DIM))
BOUND = supac.Catoni(temperature=0.1)


def simulate(x: FloatArray) -> FloatArray:
    return np.asarray(x @ WEIGHTS - 1.0)


def search(store: Path | None = None, budget: int = 40) -> supac.Result:
    return supac.minimize(
        supac.Composite(simulate, supac.MeanSquare()), PRIOR, BOUND, budget=budget, validation=0,
        store=store, execution=supac.Execution(progress=False),
    )  # fmt: skip


def columns(store: Path) -> list[str | bytes]:
    db = sqlite3.connect(store)
    found = [row[0] for row in db.execute("SELECT proposal FROM rounds ORDER BY iteration")]
    db.close()
    return found


def test_numbers_are_compressed_bit_for_bit() -> None:
    numbers = np.array([0.0, -0.0, 1.0, -1e-300, np.pi, 1e300, np.inf, np.nan])
    data = encoding.compress_numbers(numbers)
    assert encoding.decompress_numbers(data, 8).tobytes() == numbers.tobytes()
    for wrong in (7, 9):
        with pytest.raises(ValueError, match="not"):
            encoding.decompress_numbers(data, wrong)
    with pytest.raises(ValueError, match="cannot be read"):
        encoding.decompress_numbers(b"nonsense", 8)
    for damaged in (data[:-1], data[:-4], data + b"more"):
        with pytest.raises(ValueError, match="not 8 numbers"):
            encoding.decompress_numbers(damaged, 8)
    with pytest.raises(ValueError, match="not 8"):  # and what it claims is not made in memory
        encoding.decompress_numbers(zlib.compress(bytes(10**6)), 8)


def test_a_store_holds_large_posteriors_in_less_space(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    result = search(store)
    again = read_store(store)
    for one, other in zip(result.record.rounds, again.rounds, strict=True):
        assert one.proposal == other.proposal
    size = 8 * PRIOR.family.size
    kept = columns(store)
    assert all(isinstance(each, bytes) for each in kept)
    assert max(map(len, kept)) < size  # which as text was four thirds of it


def test_a_store_of_format_3_is_read_and_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "run.supac"
    with monkeypatch.context() as patched:
        patched.setattr(encoding, "MANY_NUMBERS", 10**9)
        told = str(search(store))
    downgrade(store, 3)
    assert all(isinstance(each, str) for each in columns(store))
    assert str(read_store(store).result()) == told
    longer, whole = search(store, budget=60), search(budget=60)
    np.testing.assert_array_equal(longer.posterior.theta, whole.posterior.theta)
    assert {type(each) for each in columns(store)} == {str, bytes}
    assert str(read_store(store).result()) == str(longer)
