"""Simulators, requests and answers, and the pool that makes runs in this process."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from supac.arrays import BoolArray, FloatArray, as_floats
from supac.record.status import LARGEST_RISK, Status
from supac.record.timeline import Span

_OURS = str(Path(__file__).parents[1])
_HERE = "1"  # the only worker
_QUICK = 0.25  # share of the time to wait within which another batch is begun


@dataclass(frozen=True, eq=False)
class Request:
    """A run to be made."""

    id: int
    x: FloatArray
    """(dim,), in the user's units."""
    task: int = 0
    """Index of the simulator that makes the run."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The end of one run."""

    status: Status
    values: FloatArray | None
    """() or (m,); None for a failed run, unless it is the numbers that are wrong."""
    seconds: float = 0.0
    message: str = ""
    attempts: int = 1
    error: BaseException | None = None
    """The exception that was raised, in this process only."""
    unloaded: bool = False
    """True if there was no simulator to make the run."""
    id: int = -1
    """Of the request that is answered."""
    span: Span | None = None
    """When and where the run was made, if known."""

    def without_error(self) -> Answer:
        """Replace the exception by its place as text, for another process."""
        if self.error is None:
            return self
        frames = traceback.extract_tb(self.error.__traceback__)
        theirs = [frame for frame in frames if not frame.filename.startswith(_OURS)]
        place = f" ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno})" if theirs else ""
        return replace(self, error=None, message=self.message + place)


@contextmanager
def _ending_copies() -> Iterator[None]:
    """End a copy of this process that a simulator has forked, before it returns to its caller.

    The copy would otherwise go on as if it were this process: answer runs, or search by itself.
    """
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(1)


@dataclass(frozen=True)
class Simulator:
    """A function of a point, and the form that its answers must have."""

    function: Callable[[FloatArray], Any]
    name: str
    """In the user's words: "risk" or "simulate"."""
    ndim: int
    """Of an answer: 0 for a number, 1 for outputs."""
    vectorized: bool = False
    needed: BoolArray | None = None
    """Outputs that must be finite, (m,), by default all: nothing may be measured at the others."""
    flat: Callable[[Any], FloatArray] | None = None
    """Converts outputs by name to a vector, in the order of the data; None without such data."""

    def set_up(self) -> None:
        """Load what is expensive to load, if the simulator has such."""
        load = getattr(self.function, "set_up", None)
        if load is not None:
            load()

    def refusal(self, x: FloatArray) -> Answer | None:
        """Return an answer for a point (dim,) that the simulator refuses, if it does."""
        refuses = getattr(self.function, "refuses", None)
        reason = "" if refuses is None else refuses(_locked(x))
        return Answer(Status.REFUSED, None, 0.0, reason) if reason else None

    @_ending_copies()
    def answer(self, x: FloatArray) -> Answer:
        """Call the simulator at one point (dim,); whatever goes wrong is part of the answer."""
        start = time.perf_counter()
        try:
            refused = self.refusal(x)
            if refused is not None:
                return refused
            raw = self.function(_locked(x[None] if self.vectorized else x))
            seconds = time.perf_counter() - start
            if isinstance(raw, Mapping) and self.flat is not None and not self.vectorized:
                raw = self.flat(raw)
            values = as_floats(raw)
            if self.vectorized and values is not None and values.ndim and len(values) == 1:
                values = values[0]
            return self.check_answer(values, raw, seconds)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._raised(error, start)

    def check_answer(self, values: FloatArray | None, raw: Any, seconds: float) -> Answer:
        """Return an answer of the right form, or what is wrong with it."""
        if values is not None and values.size == 1:
            values = values.reshape((1,) * self.ndim)
        if values is None or values.ndim != self.ndim or not values.size:
            wanted = "a 1-D array of numbers a point" if self.ndim else "one number a point"
            message = f"{self.name} must return {wanted}, not {describe(raw)}{self._by_name(raw)}"
            return Answer(Status.INVALID, None, seconds, message)
        all_needed = self.needed is None or len(self.needed) != values.size
        if not self.ndim and not np.abs(values) < LARGEST_RISK:
            return Answer(Status.INVALID, values, seconds, f"{self.name} returned {values}")
        if not np.isfinite(values if all_needed else values[self.needed]).all():
            message = f"{self.name} returned NaN or infinity"
            return Answer(Status.INVALID, values, seconds, message)
        return Answer(Status.OK, values, seconds)

    def _by_name(self, raw: Any) -> str:
        """Say what to do with outputs that come by name; "" for others."""
        if not isinstance(raw, Mapping) or not self.ndim:
            return ""
        if self.vectorized:
            return ": with vectorized=True return an array, (n, m), in the order of the data"
        return (
            ": outputs by name need data that name their columns, such as Composite(simulate, "
            "loss, Observations(columns, values, noise)); or return one array"
        )

    @_ending_copies()
    def all_at_once(self, x: FloatArray, *, again: bool) -> list[Answer]:
        """Call the simulator once for all points (n, dim); one by one if it raises and `again`."""
        refused = [self.refusal(point) for point in x]
        if any(refused):
            allowed = np.array([each is None for each in refused])
            made = iter(self.all_at_once(x[allowed], again=again) if allowed.any() else [])
            return [next(made) if each is None else each for each in refused]
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
                f"array of shape {shape}, not {describe(raw)}{self._by_name(raw)}"
            )
            return [Answer(Status.INVALID, None, seconds, message)] * len(x)
        return [self.check_answer(row, raw, seconds) for row in values]

    @staticmethod
    def _raised(error: BaseException, start: float) -> Answer:
        try:
            words = str(error)
        except Exception:
            words = "(without words)"
        message = f"{type(error).__name__}: {words}"
        return Answer(Status.RAISED, None, time.perf_counter() - start, message, error=error)


class SimulatorSet:
    """The simulators of all tasks, or their pickle; each is loaded when it is first needed."""

    def __init__(self, simulators: Sequence[Simulator] | bytes):
        self._simulators = simulators
        self._loaded: set[int] = set()
        self._lock = threading.Lock()

    def __getitem__(self, task: int) -> Simulator:
        """Return the simulator of a task that is loaded."""
        assert not isinstance(self._simulators, bytes)
        return self._simulators[task]

    @_ending_copies()
    def load(self, task: int) -> Answer | None:
        """Load the simulator of a task, once; return an answer for all its runs if that fails."""
        with self._lock:
            try:
                if isinstance(self._simulators, bytes):
                    self._simulators = cloudpickle.loads(self._simulators)
                if task not in self._loaded:
                    self[task].set_up()
                    self._loaded.add(task)
            except (Exception, SystemExit) as error:
                message = f"the simulator could not be loaded: {type(error).__name__}: {error}"
                return Answer(Status.RAISED, None, 0.0, message, error=error, unloaded=True)
            return None

    def answer(self, request: Request) -> Answer:
        """Make one run."""
        answer = self.load(request.task) or self[request.task].answer(request.x)
        return replace(answer, id=request.id)


def _locked(x: FloatArray) -> FloatArray:
    """Return a read-only view: a simulator may not change its point, here or elsewhere."""
    view = x.view()
    view.flags.writeable = False
    return view


def describe(raw: Any) -> str:
    """Describe an answer that was not wanted in a few words."""
    if isinstance(raw, np.ndarray):
        return f"an array of shape {raw.shape}"
    if isinstance(raw, list | tuple):
        odd = next((each for each in raw if not isinstance(each, int | float)), None)
        of = "" if odd is None or np.ndim(odd) else f" with {odd!r:.40} in it"
        return f"a {type(raw).__name__} of length {len(raw)}{of}"
    text = repr(raw)
    return f"{text if len(text) < 80 else text[:77] + '...'} of type {type(raw).__name__}"


class WorkerPool(ABC):
    """Makes runs. Every answer carries the id of the request that it answers."""

    capacity: int
    """Number of runs that are made at the same time."""

    @property
    def backlog(self) -> int:
        """Number of runs that may be submitted before one is collected."""
        return 2 * self.capacity

    @property
    @abstractmethod
    def begun(self) -> dict[int, Span]:
        """When and where the runs in progress began, by id of the request."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of requests submitted and neither collected nor cancelled."""

    @abstractmethod
    def submit(self, request: Request) -> None:
        """Start a run, or queue it if all workers are busy."""

    @abstractmethod
    def collect(self, timeout: float) -> list[Answer]:
        """Return the runs that have ended, by id; wait at most `timeout` seconds for the first."""

    @abstractmethod
    def cancel(self) -> None:
        """Take back the runs that have not begun; those that have go on."""

    @abstractmethod
    def close(self) -> None:
        """Kill what still runs, where it can be killed, and release the workers."""


class InProcessPool(WorkerPool):
    """Makes runs in this process, when they are collected.

    A vectorized simulator is called for all queued points of a task at once; if that raises and
    `one_by_one` is set, it is called again for each of them.
    """

    capacity = 1
    backlog = sys.maxsize  # a vectorized simulator takes them all at once

    def __init__(self, simulators: Sequence[Simulator], *, one_by_one: bool = False):
        self._simulators, self._one_by_one = SimulatorSet(simulators), one_by_one
        self._queue: deque[Request] = deque()
        self._error: BaseException | None = None
        """Raised by a batch that followed others, which were returned first."""

    def __len__(self) -> int:
        return len(self._queue) + (self._error is not None)

    @property
    def begun(self) -> dict[int, Span]:
        """The run that `collect` would make now."""
        return {each.id: Span(time.time(), worker=_HERE) for each in list(self._queue)[:1]}

    def submit(self, request: Request) -> None:
        """Queue a run."""
        self._queue.append(request)

    def collect(self, timeout: float) -> list[Answer]:
        """Make the next run, or all queued runs of its task if the simulator is vectorized.

        After a batch without a failure those of further tasks follow while they are quick: what is
        returned together is recorded together, and a commit waits for the disk.
        """
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        start, answers = time.monotonic(), self._next()
        while (
            self._queue
            and self._error is None
            and self._simulators[self._queue[0].task].vectorized
            and time.monotonic() - start < _QUICK * timeout
            and all(each.status is Status.OK for each in answers)
        ):
            try:
                answers += self._next()
            except BaseException as error:  # raised by the next call: these are to be recorded
                self._error = error
        return answers

    def _next(self) -> list[Answer]:
        if not self._queue:
            return []
        first = self._queue.popleft()
        trouble = self._simulators.load(first.task)
        simulator, start = self._simulators[first.task], time.time()
        if trouble is not None or not simulator.vectorized:
            answer = trouble or simulator.answer(first.x)
            return [replace(answer, id=first.id, span=Span(start, time.time(), _HERE))]
        batch = [first, *(each for each in self._queue if each.task == first.task)]
        self._queue = deque(each for each in self._queue if each.task != first.task)
        x = np.stack([each.x for each in batch])
        answers = simulator.all_at_once(x, again=self._one_by_one)
        times = np.linspace(start, time.time(), len(batch) + 1).tolist()  # shared equally
        spans = [Span(*ends, _HERE) for ends in pairwise(times)]
        told = zip(batch, answers, spans, strict=True)
        return [replace(answer, id=each.id, span=span) for each, answer, span in told]

    def cancel(self) -> None:
        """Empty the queue."""
        self._queue.clear()

    def close(self) -> None:
        """Empty the queue."""
        self._queue.clear()
