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
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from supac.arrays import BoolArray, FloatArray, as_floats
from supac.jacobian import checked_jacobian, finite_jacobian, split_answer
from supac.record.status import LARGEST_RISK, Status
from supac.record.timeline import Span
from supac.simulators import run_clock
from supac.simulators.jacobian_error import JacobianError, is_wrong
from supac.simulators.lost import RunLostError

_OURS = str(Path(__file__).parents[1])
_HERE = "1"  # the only worker
_OF_RISK = (
    "a Jacobian is of use with the outputs of a simulator alone: give the risk as "
    "Composite(simulate, loss, data), or return the risk without it"
)
_QUICK = 0.25  # share of the time to wait within which another batch is begun


@dataclass(frozen=True, eq=False)
class Request:
    """A run to be made."""

    id: int
    x: FloatArray
    """(dim,), in the user's units."""
    task: int = 0
    """Index of the simulator that makes the run."""
    usual: float = 0.0
    """Seconds that a run takes, as far as known: none begins that cannot end in time."""
    jacobian: bool = False
    """True if the Jacobian is asked for as well, where it is computed apart from the outputs."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The end of one run."""

    status: Status
    values: FloatArray | None
    """() or (m,); None for a failed run, unless it is the numbers that are wrong."""
    seconds: float = 0.0
    message: str = ""
    attempts: int = 1
    """Number of starts; 0 for a run that was lost before it had begun."""
    error: BaseException | None = None
    """The exception that was raised, in this process only."""
    unloaded: bool = False
    """True if there was no simulator to make the run."""
    id: int = -1
    """Of the request that is answered."""
    span: Span | None = None
    """When and where the run was made, if known."""
    late: bool = False
    """True if the time of the worker's job would have ended before the run."""
    jacobian: FloatArray | None = None
    """Derivatives of the outputs in the user's units, (m, dim); None if there are none."""
    wrong_jacobian: str = ""
    """Error in the Jacobian that was returned, raised whatever is done on failures; or ""."""

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
    jacobian: Callable[[FloatArray], Any] | None = None
    """Derivatives of the outputs, if a function of their own computes them: (dim,) → (m, dim)."""
    observed: int = 0
    """Parameters, the last ones, that enter after the simulator: their values end the outputs."""

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
    def answer(self, x: FloatArray, *, jacobian: bool = False) -> Answer:
        """Call the simulator at one point (dim,); whatever goes wrong is part of the answer.

        If `jacobian`, call the function of the Jacobian too, if there is one.
        """
        run_clock.reset()
        start = time.perf_counter()
        try:
            refused = self.refusal(x)
            if refused is not None:
                return refused
            point = _locked(x[None] if self.vectorized else x)
            raw, slopes = split_answer(self.function(point), many=self.vectorized)
            if jacobian and self.jacobian is not None:
                slopes = self._slopes(point)
            seconds = time.perf_counter() - start - run_clock.waited()
            if isinstance(raw, Mapping) and self.flat is not None and not self.vectorized:
                raw = self.flat(raw)
            values = as_floats(raw)
            if self.vectorized and values is not None and values.ndim and len(values) == 1:
                values = values[0]
            if self.vectorized and not (is_wrong(slopes) or isinstance(slopes, Mapping | None)):
                slopes = slopes[0]
            return self._with_jacobian(self.check_answer(values, raw, seconds), slopes, x)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._raised(error, start)

    def _slopes(self, points: FloatArray) -> Any:
        """Call the function of the Jacobian; return an error in its place if it raises one."""
        assert self.jacobian is not None
        try:
            return self.jacobian(points[..., : points.shape[-1] - self.observed])
        except JacobianError as error:
            return error
        except Exception as error:
            return JacobianError(_told(error))

    def _with_jacobian(self, answer: Answer, jacobian: Any, x: FloatArray) -> Answer:
        """Return a good answer with the Jacobian at x (dim,), or with what is wrong with it."""
        if jacobian is None or answer.status is not Status.OK or answer.values is None:
            return answer
        if not self.ndim:
            return replace(answer, wrong_jacobian=_OF_RISK)
        outputs, dim = answer.values.size - self.observed, len(x) - self.observed
        needed = None if self.needed is None else self.needed[:outputs]
        try:
            found = checked_jacobian(jacobian, outputs, dim, self.flat)
            return replace(answer, jacobian=finite_jacobian(found, needed))
        except ValueError as error:
            return replace(answer, wrong_jacobian=str(error))

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
    def all_at_once(self, x: FloatArray, *, again: bool, jacobian: bool = False) -> list[Answer]:
        """Call the simulator once for all points (n, dim); one by one if it raises and `again`."""
        refused = [self.refusal(point) for point in x]
        if any(refused):
            allowed = np.array([each is None for each in refused])
            some = partial(self.all_at_once, again=again, jacobian=jacobian)
            made = iter(some(x[allowed]) if allowed.any() else [])
            return [next(made) if each is None else each for each in refused]
        start = time.perf_counter()
        try:
            raw, slopes = split_answer(self.function(_locked(x)), many=True)
            if jacobian and self.jacobian is not None:
                slopes = self._slopes(_locked(x))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            one_by_one = partial(self.answer, jacobian=jacobian)
            return list(map(one_by_one, x)) if again else [self._raised(error, start)] * len(x)
        seconds = (time.perf_counter() - start) / len(x)
        values = as_floats(raw)
        if values is None or values.ndim != self.ndim + 1 or len(values) != len(x):
            shape = f"({len(x)},)" if self.ndim == 0 else f"({len(x)}, m)"
            message = (
                f"{self.name}, called with vectorized=True on {len(x)} points, must return an "
                f"array of shape {shape}, not {describe(raw)}{self._by_name(raw)}"
            )
            return [Answer(Status.INVALID, None, seconds, message)] * len(x)
        answers = [self.check_answer(row, raw, seconds) for row in values]
        return answers if slopes is None else self._with_jacobians(answers, slopes, x)

    def _with_jacobians(self, answers: list[Answer], jacobians: Any, x: FloatArray) -> list[Answer]:
        """Return answers with the Jacobians at points x (n, dim), one for each of them."""
        words = str(jacobians) if is_wrong(jacobians) else ""
        if not words and (isinstance(jacobians, Mapping) or len(jacobians) != len(x)):
            words = f"with vectorized=True there must be one Jacobian a point, {len(x)} in all"
        if words:
            return [replace(each, wrong_jacobian=words) for each in answers]
        every = zip(answers, jacobians, x, strict=True)
        return [self._with_jacobian(each, slope, point) for each, slope, point in every]

    @staticmethod
    def _raised(error: BaseException, start: float) -> Answer:
        if isinstance(error, RunLostError):
            return Answer(Status.LOST, None, time.perf_counter() - start, str(error))
        try:
            words = str(error)
        except Exception:
            words = "(without words)"
        message = f"{type(error).__name__}: {words}"
        seconds = time.perf_counter() - start - run_clock.waited()
        return Answer(Status.RAISED, None, seconds, message, error=error)


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
        answer = self.load(request.task) or self[request.task].answer(
            request.x, jacobian=request.jacobian
        )
        return replace(answer, id=request.id)


def _told(error: BaseException) -> str:
    """Return what the function of a Jacobian raised, in words."""
    return (
        f"the function of the Jacobian raised {type(error).__name__}: {error}; let it return None "
        "where there is none"
    )


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

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Number of runs that are made at the same time, as it is now: workers come and go."""

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

    capacity, backlog = 1, sys.maxsize  # a vectorized simulator takes them all at once

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
            answer = trouble or simulator.answer(first.x, jacobian=first.jacobian)
            return [replace(answer, id=first.id, span=Span(start, time.time(), _HERE))]

        def with_first(each: Request) -> bool:
            return each.task == first.task and each.jacobian == first.jacobian

        batch = [first, *filter(with_first, self._queue)]
        self._queue = deque(each for each in self._queue if not with_first(each))
        x = np.stack([each.x for each in batch])
        answers = simulator.all_at_once(x, again=self._one_by_one, jacobian=first.jacobian)
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
