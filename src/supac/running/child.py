"""A child process that makes runs, and can be killed at any moment without losing anything else.

The simulators travel by cloudpickle, so that functions of a script or a notebook work as well as
those of a module. A child is started with one thread for linear algebra, since there are usually
as many children as cores; set OMP_NUM_THREADS to decide otherwise.

Each message has a number and the process id of the child. A simulator may fork, or write to any
descriptor: only the message with the number of the last one sent, from the child itself and
undamaged, is an answer. On anything else the child is discarded and the run made again.
"""

from __future__ import annotations

import faulthandler
import itertools
import math
import os
import pickle
import signal
import socket
import struct
import sys
import tempfile
import time
import uuid
import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from typing import IO, Any

from supac.record.status import Status
from supac.running.simulator import Answer, Request, SimulatorSet
from supac.simulators import run_clock
from supac.simulators.lost import MemoryWatch, loss_by
from supac.simulators.process_guard import STOP_VARIABLE, ProcessGuard

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_HEADER = struct.Struct("!QQQL")  # number, process id, bytes that follow and their checksum
_LARGEST = 1 << 32  # bytes of a message
_TRACES = 1 << 16  # bytes of what a dying process says
_DYING = 1.0  # seconds in which a process that has hung up must end by itself
_SERVE = "from supac.running.child import serve; serve()"


class _Channel:
    """Messages over a socket between a child and whoever started it."""

    def __init__(self, connection: socket.socket, child: int):
        self.connection, self._child = connection, child
        self._file = os.fstat(connection.fileno())

    def send(self, number: int, message: Any) -> None:
        """Send a message; OSError if the socket is no longer the one that it was."""
        # A simulator that closes all descriptors may have opened a file of its own under this one.
        if not os.path.samestat(self._file, os.fstat(self.connection.fileno())):
            raise ConnectionError("the socket was closed")
        data = pickle.dumps(message)
        header = _HEADER.pack(number, self._child, len(data), zlib.crc32(data))
        self.connection.sendall(header + data)

    def receive(self, number: int, until_ready: Callable[[], None] = lambda: None) -> Any:
        """Receive the message with this number; ConnectionError for anything else."""
        found, process, size, checksum = _HEADER.unpack(self._read(_HEADER.size, until_ready))
        if (found, process) == (number, self._child) and size <= _LARGEST:
            data = self._read(size, until_ready)
            if zlib.crc32(data) == checksum:
                return pickle.loads(data)
        raise ConnectionError("the process sent something that is no answer, and was killed")

    def _read(self, size: int, until_ready: Callable[[], None]) -> bytes:
        data = bytearray()
        while len(data) < size:
            until_ready()
            part = self.connection.recv(min(size - len(data), 1 << 20))
            if not part:
                raise EOFError("the process closed its connection, and was killed")
            data += part
        return bytes(data)


class Child:
    """A process with simulators, one run at a time."""

    def __init__(self, simulators: bytes, stop: str | None = None):
        ours, theirs = socket.socketpair()
        self._watch = MemoryWatch()
        self._traces = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        told = {} if stop is None else {STOP_VARIABLE: stop}
        decided = any(name in os.environ for name in _THREADS)
        with theirs:
            fds = theirs.fileno(), self._traces.fileno()
            self._guard = ProcessGuard(
                [sys.executable, "-c", _SERVE, *map(str, fds)],
                pass_fds=fds,
                env=dict(os.environ) | ({} if decided else dict.fromkeys(_THREADS, "1")) | told,
                stop=stop,
            )
        self._end = weakref.finalize(self, _end, self._guard, ours, self._traces)
        self._channel = _Channel(ours, self._guard.start())
        self._numbers, self._loaded = itertools.count(), set[int]()
        self._channel.send(next(self._numbers), (sys.path, simulators))

    def load(self, task: int) -> Answer | None:
        """Load the simulator of a task; return the answer to all of its runs if that fails."""
        trouble = None if task in self._loaded else self._ask(task, None)
        if trouble is None:
            self._loaded.add(task)
        return trouble

    def run(self, request: Request, timeout: float | None) -> Answer:
        """Make one run; TimeoutError, EOFError or OSError if the child is of no use any more."""
        return self._ask(request, timeout)

    def _ask(self, message: int | Request, timeout: float | None) -> Any:
        left = math.inf if timeout is None else timeout
        deadline = time.monotonic() + left

        def until_ready() -> None:
            known = math.isfinite(deadline)
            left = max(deadline - time.monotonic(), 0.0) if known else None
            ready = wait([self._channel.connection, self._guard.control], left)
            if not ready:
                raise TimeoutError
            if self._channel.connection not in ready:  # others may hold the child's end open
                raise EOFError

        number = next(self._numbers)
        self._channel.connection.settimeout(timeout)
        self._channel.send(number, message)
        reply = self._channel.receive(number, until_ready)
        while isinstance(reply, bool):  # it waits for a step, or goes on: no time of the run
            left = deadline - time.monotonic() if reply else left
            deadline = math.inf if reply else time.monotonic() + left
            reply = self._channel.receive(number, until_ready)
        return reply

    def exit_reason(self, error: BaseException) -> str:
        """Describe how the process died, and where in its code; or why it must be killed."""
        code = self._guard.wait(_DYING)
        if code is None:
            return str(error)
        self._traces.seek(0)
        traces = self._traces.read(_TRACES).decode(errors="replace")
        places = [line.strip() for line in traces.splitlines() if line.strip().startswith("File")]
        where = f", at {places[0]}" if places else ""
        if code >= 0:
            return f"the process exited with code {code}{where}"
        return f"the process was killed by {signal.Signals(-code).name}{where}"

    def loss(self) -> str:
        """Return why the machine took the process, once it has died; "" if it crashed itself."""
        code = self._guard.wait(_DYING)
        return "" if code is None else loss_by(code, self._watch)

    def stop(self) -> None:
        """Kill it and all that it has started, from any thread, without waiting for that."""
        self._guard.stop()

    def close(self) -> None:
        """Kill it and release its resources, which also happens to a child that is forgotten."""
        self._end()


def _end(guard: ProcessGuard, connection: socket.socket, traces: IO[bytes]) -> None:
    guard.close()
    connection.close()
    traces.close()


@dataclass(frozen=True)
class Job:
    """Simulators, and how their runs are made; equal ones of two pools are different jobs."""

    simulators: bytes
    """Pickled."""
    timeout: float | None
    """Seconds after which a run is killed."""
    retries: int
    """Number of further attempts after the process of a run died."""
    stop: str | None = None
    """Signal and seconds until SIGKILL by which a run is ended."""
    in_child: bool = True
    """False if the worker itself makes the runs."""
    driver: str = ""
    """Process that needs no children on a cluster of its own threads."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Identifies the pool: its end must not kill the children of another with equal simulators."""


class ChildSupervisor:
    """Keeps one child alive, and replaces it when a run has killed it."""

    def __init__(self, job: Job):
        self._job = job
        self._child: Child | None = None
        self.closed = False

    def run(self, request: Request) -> Answer:
        """Make one run; after a crash, up to `retries` more times. A timeout is final."""
        attempt, message, start = 0, "", time.perf_counter()
        while attempt <= self._job.retries and not self.closed:
            attempt += 1
            try:
                child = self._child or self._start()
                trouble = child.load(request.task)
                if trouble is not None:
                    self.discard()
                    return replace(trouble, id=request.id)
                start = time.perf_counter()
                return replace(child.run(request, self._job.timeout), attempts=attempt)
            except TimeoutError:
                self.discard()
                seconds, message = (
                    time.perf_counter() - start,
                    f"longer than {self._job.timeout:g} s",
                )
                return Answer(Status.TIMED_OUT, None, seconds, message, attempt, id=request.id)
            except (EOFError, OSError) as error:
                broken = self._child
                message = f"no process: {error}" if broken is None else broken.exit_reason(error)
                loss = "" if broken is None else broken.loss()
                self.discard()
                if loss:
                    seconds = time.perf_counter() - start
                    words = f"{loss} ({socket.gethostname()}, after {seconds:.0f} s)"
                    return Answer(Status.LOST, None, seconds, words, attempt, id=request.id)
        seconds = time.perf_counter() - start
        return Answer(Status.CRASHED, None, seconds, message, attempt, id=request.id)

    def _start(self) -> Child:
        self._child = Child(self._job.simulators, self._job.stop)
        if self.closed:  # while it was being started
            self._child.stop()
        return self._child

    def discard(self) -> None:
        """Kill the child, if any, and release its resources."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def close(self) -> None:
        """Kill the child, from any thread: a run that it is making ends as crashed."""
        self.closed = True
        child = self._child
        if child is not None:
            child.stop()


def serve() -> None:
    """Answer one request after another until the other end is gone."""
    connection, traces = map(int, sys.argv[1:])
    channel = _Channel(socket.socket(fileno=connection), os.getpid())
    channel.connection.set_inheritable(False)  # programs of the simulator need not know it
    faulthandler.enable(traces)
    try:
        sys.path[:], blob = channel.receive(0)
        simulators, current = SimulatorSet(blob), 0
        run_clock.listen(lambda waits: channel.send(current, waits))
        for number in itertools.count(1):
            message = channel.receive(number)
            current = number
            if isinstance(message, Request):
                reply: Answer | None = simulators.answer(message)
            else:
                reply = simulators.load(message)
            channel.send(number, reply and reply.without_error())
    except (EOFError, OSError):
        return
