"""A child process that makes runs, and can be killed at any moment without losing anything else.

The simulator travels by cloudpickle, so that functions of a script or a notebook work as well as
those of a module. A child is started with one thread for linear algebra, since there are usually
as many children as cores; set OMP_NUM_THREADS to decide otherwise.
"""

from __future__ import annotations

import faulthandler
import math
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import IO, Any

import cloudpickle

from supac.arrays import FloatArray
from supac.record.run import Status
from supac.running.answer import Answer, Simulator
from supac.simulators.lifeline import die_with

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_GLANCE = 0.5  # seconds between looks at whether a silent child is alive
_SERVE = "from supac.running.child import serve; serve()"


class Child:
    """A process with a simulator loaded, one run at a time."""

    def __init__(self, simulator: bytes):
        ours, theirs = socket.socketpair()
        self._traces = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        decided = any(name in os.environ for name in _THREADS)
        environment = dict(os.environ) | ({} if decided else dict.fromkeys(_THREADS, "1"))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(theirs.fileno()), str(self._traces.fileno())],
            pass_fds=[theirs.fileno(), self._traces.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # a Ctrl-C is the driver's to answer
        )
        theirs.close()
        self._connection = Connection(ours.detach())
        self._end = weakref.finalize(self, _end, self._process, self._connection, self._traces)
        self._connection.send((os.getpid(), sys.path))
        self._connection.send_bytes(simulator)

    def wait_until_ready(self) -> Answer | None:
        """Until the simulator is loaded; the answer to all runs where it cannot be."""
        return self._receive(None)

    def run(self, x: FloatArray, timeout: float | None) -> Answer:
        """One run; TimeoutError or EOFError where it has cost the child its life."""
        self._connection.send(x)
        return self._receive(timeout)

    def _receive(self, timeout: float | None) -> Any:
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        while not self._connection.poll(min(_GLANCE, max(deadline - time.monotonic(), 0.0))):
            if time.monotonic() >= deadline:
                self.kill()
                raise TimeoutError
            # What it had started itself may hold its end of the line open.
            if self._process.poll() is not None and not self._connection.poll():
                raise EOFError
        return self._connection.recv()

    def obituary(self) -> str:
        """How it died, and where in its code."""
        code = self._process.wait()
        self._traces.seek(0)
        traces = self._traces.read().decode(errors="replace")
        places = [line.strip() for line in traces.splitlines() if line.strip().startswith("File")]
        where = f", at {places[0]}" if places else ""
        if code >= 0:
            return f"the process exited with code {code}{where}"
        return f"the process was killed by {signal.Signals(-code).name}{where}"

    def kill(self) -> None:
        """At once, with whatever it has started."""
        _kill(self._process)

    def close(self) -> None:
        """Kill it and give back what it held; so it happens also to a child that is forgotten."""
        self._end()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end(process: subprocess.Popen[bytes], connection: Connection, traces: IO[bytes]) -> None:
    _kill(process)
    connection.close()
    traces.close()


class Nest:
    """Keeps one child alive, and replaces it when a run has killed it."""

    def __init__(self, simulator: bytes, timeout: float | None, retries: int):
        self._simulator, self._timeout, self._retries = simulator, timeout, retries
        self._child: Child | None = None
        self.closed = False

    def run(self, x: FloatArray) -> Answer:
        """One run; after a crash, up to `retries` more times. A timeout is final."""
        attempt, message, start = 0, "", time.perf_counter()
        while attempt <= self._retries and not self.closed:
            attempt += 1
            child = self._child
            try:
                if child is None:
                    child = self._hatch()
                    trouble = child.wait_until_ready()
                    if trouble is not None:
                        self.bury()
                        return trouble
                start = time.perf_counter()
                return replace(child.run(x, self._timeout), attempts=attempt)
            except TimeoutError:
                self.bury()
                seconds, message = time.perf_counter() - start, f"longer than {self._timeout:g} s"
                return Answer(Status.TIMED_OUT, None, seconds, message, attempt)
            except (EOFError, OSError) as error:
                message = f"no process: {error}" if child is None else child.obituary()
                self.bury()
        return Answer(Status.CRASHED, None, time.perf_counter() - start, message, attempt)

    def _hatch(self) -> Child:
        child = self._child = Child(self._simulator)
        if self.closed:  # while it was being started
            child.kill()
        return child

    def bury(self) -> None:
        """Kill the child, if any, and give back what it held."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def close(self) -> None:
        """Kill the child, from any thread: a run that it is making ends as crashed."""
        self.closed = True
        if self._child is not None:
            self._child.kill()


def serve() -> None:
    """Answer one point after another until the other end is gone."""
    connection, traces = Connection(int(sys.argv[1])), int(sys.argv[2])
    faulthandler.enable(traces)
    parent, path = connection.recv()
    die_with(parent)()
    sys.path[:] = path
    try:
        simulator: Simulator = cloudpickle.loads(connection.recv_bytes())
        simulator.set_up()
    except (Exception, SystemExit) as error:
        connection.send(Answer.not_loaded(error))
        return
    connection.send(None)
    while True:
        try:
            x = connection.recv()
        except EOFError:
            return
        answer = simulator.answer(x).without_error()
        try:
            connection.send_bytes(pickle.dumps(answer))
        except BrokenPipeError:
            return
