"""One call of a simulator, and its answer or what went wrong."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.record.run import Status

_OURS = str(Path(__file__).parents[1])


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of one run."""

    status: Status
    values: FloatArray | None
    """() or (m,); None for a failed run, unless it is the numbers that are wrong."""
    seconds: float = 0.0
    message: str = ""
    attempts: int = 1
    error: BaseException | None = None
    """What was raised, in this process."""
    unloaded: bool = False
    """Whether there was no simulator to make the run."""

    @classmethod
    def not_loaded(cls, error: BaseException) -> Answer:
        """The simulator itself could not be loaded."""
        message = f"the simulator could not be loaded: {type(error).__name__}: {error}"
        return cls(Status.RAISED, None, 0.0, message, unloaded=True)

    def without_error(self) -> Answer:
        """The same for another process, where the exception may mean nothing: its place as text."""
        if self.error is None:
            return self
        frames = traceback.extract_tb(self.error.__traceback__)
        theirs = [frame for frame in frames if not frame.filename.startswith(_OURS)]
        place = f" ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno})" if theirs else ""
        return replace(self, error=None, message=self.message + place)


@dataclass(frozen=True)
class Simulator:
    """A function of a point, and what its answers must look like."""

    function: Callable[[FloatArray], Any]
    name: str
    """What the user calls it: "risk" or "simulate"."""
    ndim: int
    """Of an answer: 0 for a number, 1 for outputs."""
    vectorized: bool = False

    @property
    def wanted(self) -> str:
        """An answer in words."""
        return "one number a point" if self.ndim == 0 else "a 1-D array of numbers a point"

    def set_up(self) -> None:
        """Load what is expensive to load, where the simulator has such."""
        load = getattr(self.function, "set_up", None)
        if load is not None:
            load()

    def answer(self, x: FloatArray) -> Answer:
        """The answer at one point (dim,); whatever goes wrong is part of it."""
        start = time.perf_counter()
        try:
            raw = self.function(_locked(x[None] if self.vectorized else x))
            seconds = time.perf_counter() - start
            values = as_floats(raw)
            if self.vectorized and values is not None and values.ndim and len(values) == 1:
                values = values[0]
            return self.judge(values, raw, seconds)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._raised(error, start)

    def judge(self, values: FloatArray | None, raw: Any, seconds: float) -> Answer:
        """An answer of the right kind, or what is wrong with it."""
        if values is not None and values.size == 1:
            values = values.reshape((1,) * self.ndim)
        if values is None or values.ndim != self.ndim or not values.size:
            message = f"{self.name} must return {self.wanted}, not {describe(raw)}"
            return Answer(Status.INVALID, None, seconds, message)
        if not np.isfinite(values).all():
            what = str(values) if self.ndim == 0 else "NaN or infinity"
            return Answer(Status.INVALID, values, seconds, f"{self.name} returned {what}")
        return Answer(Status.OK, values, seconds)

    def all_at_once(self, x: FloatArray, *, again: bool) -> list[Answer]:
        """The answers at all points (n, dim) from one call; `again` one by one where it raises."""
        start = time.perf_counter()
        try:
            raw = self.function(_locked(x))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if again:
                return [self.answer(point) for point in x]
            return [self._raised(error, start)] * len(x)
        seconds = (time.perf_counter() - start) / len(x)
        values = as_floats(raw)
        if values is None or values.ndim != self.ndim + 1 or len(values) != len(x):
            shape = f"({len(x)},)" if self.ndim == 0 else f"({len(x)}, m)"
            message = (
                f"{self.name}, called with vectorized=True on {len(x)} points, must return an "
                f"array of shape {shape}, not {describe(raw)}"
            )
            return [Answer(Status.INVALID, None, seconds, message)] * len(x)
        return [self.judge(row, raw, seconds) for row in values]

    @staticmethod
    def _raised(error: BaseException, start: float) -> Answer:
        try:
            words = str(error)
        except Exception:
            words = "(without words)"
        message = f"{type(error).__name__}: {words}"
        return Answer(Status.RAISED, None, time.perf_counter() - start, message, error=error)


@dataclass(frozen=True)
class Simulators:
    """Several simulators as one: a point's first coordinate says which of them is meant."""

    each: tuple[Simulator, ...]
    name: str = "a task's risk"

    def set_up(self) -> None:
        """Nothing yet: a worker may never meet some of them."""

    def answer(self, x: FloatArray) -> Answer:
        """The answer of the one that is meant, at the rest of the coordinates."""
        simulator = self.each[int(x[0])]
        try:
            simulator.set_up()
        except Exception as error:
            return Answer.not_loaded(error)
        return simulator.answer(x[1:])


def as_floats(raw: Any) -> FloatArray | None:
    """The answer as an array, None where it is not a number or numbers."""
    if raw is None or isinstance(raw, str | bytes | dict | set) or np.iscomplexobj(raw):
        return None
    try:
        return np.array(raw, dtype=np.float64)
    except Exception:  # whatever a foreign array type may raise
        return None


def _locked(x: FloatArray) -> FloatArray:
    """The same point, which a simulator may not change: here as in other processes."""
    view = x.view()
    view.flags.writeable = False
    return view


def describe(raw: Any) -> str:
    """An answer that was not wanted, in a few words."""
    if isinstance(raw, np.ndarray):
        return f"an array of shape {raw.shape}"
    if isinstance(raw, list | tuple):
        odd = next((each for each in raw if not isinstance(each, int | float)), None)
        of = "" if odd is None or np.ndim(odd) else f" with {odd!r:.40} in it"
        return f"a {type(raw).__name__} of length {len(raw)}{of}"
    text = repr(raw)
    return f"{text if len(text) < 80 else text[:77] + '...'} of type {type(raw).__name__}"
