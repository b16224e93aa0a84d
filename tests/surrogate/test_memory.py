from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from supac.surrogate.memory import Memory

MEMORY = Memory(
    {"outputs": np.array([1.0, 2.0]), "rest of a trend": np.array([3.0, 4.0])},
    np.array([True, False]),
    np.array([1.0, 2.5]),
    0.3,
    10,
    12,
)
DEFAULT = {"outputs": np.zeros(2), "rest of a trend": np.zeros(2)}


def test_a_memory_is_kept_bit_for_bit() -> None:
    again = Memory.from_arrays(MEMORY.to_arrays())
    assert again is not None
    assert again.hyperparameters.keys() == MEMORY.hyperparameters.keys()
    for name, own in MEMORY.hyperparameters.items():
        np.testing.assert_array_equal(again.hyperparameters[name], own)
    np.testing.assert_array_equal(again.outliers, MEMORY.outliers)
    assert again.outliers.dtype == bool
    np.testing.assert_array_equal(again.inflation, MEMORY.inflation)
    kept = (again.threshold, again.restarted, again.fitted)
    assert kept == (MEMORY.threshold, MEMORY.restarted, MEMORY.fitted)


def test_a_state_without_an_emulator_has_no_memory() -> None:
    """`phi` is also a name of another part of a state."""
    assert Memory.from_arrays({"phi": np.ones(3), "velocity": np.ones(3)}) is None


def test_hyperparameters_of_earlier_stores_are_divided_among_the_processes() -> None:
    arrays = MEMORY.to_arrays()
    own = [arrays.pop(f"hyperparameters of {name}") for name in DEFAULT]
    arrays["phi"] = np.concatenate(own)
    old = Memory.from_arrays(arrays)
    assert old is not None
    assert old.to_arrays().keys() == arrays.keys()  # written as they were read
    start = old.start(DEFAULT)
    for name, each in zip(DEFAULT, own, strict=True):
        np.testing.assert_array_equal(start[name], each)
    assert old.start({"outputs": np.zeros(3)})["outputs"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        (DEFAULT, [[1.0, 2.0], [3.0, 4.0]]),
        ({"outputs": np.zeros(2)}, [[1.0, 2.0]]),
        ({"outputs": np.zeros(3)}, [[0.0, 0.0, 0.0]]),  # of another size
        ({"risk": np.zeros(2), "outputs": np.zeros(2)}, [[0.0, 0.0], [1.0, 2.0]]),
    ],
)
def test_a_fit_goes_on_from_the_processes_that_it_knows(
    default: dict[str, np.ndarray], expected: list[list[float]]
) -> None:
    found = replace(MEMORY).start(default)
    assert [each.tolist() for each in found.values()] == expected
    assert list(found) == list(default)
