"""A simulator that is loaded once in each process, and never travels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from supac import PerWorker


def test_it_is_loaded_once_and_not_before_it_is_needed() -> None:
    loaded: list[int] = []

    def load() -> Callable[[float], float]:
        loaded.append(1)
        return lambda x: 2.0 * x

    simulator = PerWorker(load)
    assert not loaded
    assert [simulator(x) for x in (1.0, 2.0)] == [2.0, 4.0]
    assert len(loaded) == 1


def test_what_was_loaded_stays_behind() -> None:
    def load() -> Callable[[float], float]:
        lock = threading.Lock()  # which cannot be pickled

        def run(x: float) -> float:
            with lock:
                return x + 1.0

        return run

    simulator = PerWorker(load)
    assert simulator(1.0) == 2.0
    assert cloudpickle.loads(cloudpickle.dumps(simulator))(1.0) == 2.0


@pytest.mark.parametrize(("load", "words"), [(3, "load must be a function"), (int, "must return")])
def test_what_is_no_function_is_named(load: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        PerWorker(load)(1.0)
