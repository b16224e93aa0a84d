"""Whatever a simulator does to its process: no answer belongs to another run, and nothing stays."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from drivers import Driver
from supac.arrays import FloatArray
from supac.record.run import Status
from supac.running import Answer, Request, Simulator, WorkerPool, open_pool
from supac.running.child import _Channel
from toy import wait_until_gone
from waiting import PATIENCE, until

POINTS = np.linspace(-1.0, 1.0, 12)[:, None]


def answers(pool: WorkerPool, points: FloatArray = POINTS) -> dict[int, Answer]:
    """The answer to each of the points, by its row."""
    try:
        for row, x in enumerate(points):
            pool.submit(Request(row, x))
        found: dict[int, Answer] = {}
        while len(pool):
            for answer in pool.collect(1.0):
                assert answer.id not in found
                found[answer.id] = answer
    finally:
        pool.close()
    assert sorted(found) == list(range(len(points)))
    return found


def opened(function: Callable[[FloatArray], Any], **options: Any) -> WorkerPool:
    settings: dict[str, Any] = {"workers": 1, "timeout": PATIENCE, "retries": 0, **options}
    return open_pool(supac.Execution(**settings), [Simulator(function, "risk", 0)])


def test_a_child_imports_no_more_than_it_needs() -> None:
    """Not SciPy, the search or the public names, which take most of the time of its start."""

    def heavy(x: FloatArray) -> float:
        return float(sum(name in sys.modules for name in ("scipy", "supac.public", "supac.search")))

    assert [answer.values for answer in answers(opened(heavy), POINTS[:1]).values()] == [0.0]


FORKING = """
import json, os, sys, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
sys.path.insert(0, "running")
import numpy as np
import supac
from supac.running import Simulator, open_pool
from test_child import POINTS, answers

def forks(x, end=sys.argv[2], ledger=sys.argv[3]):
    with open(ledger, "a") as file:
        file.write(f"{os.getpid()} ")
    if x[0] > 0.0 and os.fork() == 0:
        if end == "return":
            return 99.0
        raise {"raise": ValueError, "exit": SystemExit, "interrupt": KeyboardInterrupt}[end]
    return x[0]

if __name__ == "__main__":
    workers = {
        "here": lambda: None,
        "children": lambda: 2,
        "threads": lambda: ThreadPoolExecutor(2),
        "processes": lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn")),
    }[sys.argv[1]]()
    pool = open_pool(supac.Execution(workers, retries=0), [Simulator(forks, "risk", 0)])
    found = answers(pool)
    print(json.dumps([float(found[row].values) for row in range(len(POINTS))]), flush=True)
    if sys.argv[1] == "processes":
        workers.shutdown()
"""


@pytest.mark.parametrize("end", ["return", "raise", "exit", "interrupt"])
@pytest.mark.parametrize(
    ("workers", "processes"), [("here", 1), ("children", 2), ("threads", 1), ("processes", 2)]
)
def test_a_forked_copy_of_a_worker_never_answers(
    workers: str, processes: int, end: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    code, said, complained = Driver(FORKING, workers, end, ledger).end()
    assert code == 0, complained
    assert said == f"{POINTS[:, 0].tolist()}\n"  # once: no copy went on by itself
    made = ledger.read_text().split()
    assert len(made) == len(POINTS)
    assert len(set(made)) <= processes


def send_as_the_child(number: int, *, forked: bool) -> None:
    """Send what looks like an answer over the socket of the child that calls this."""
    if forked:
        copy = os.fork()
        if copy:
            os.waitpid(copy, 0)
            return
    own = socket.socket(fileno=os.dup(int(sys.argv[1])))
    _Channel(own, os.getpid()).send(number, Answer(Status.OK, np.array(99.0)))
    if forked:
        os._exit(0)


@pytest.mark.parametrize(
    ("number", "forked"), [(2, True), (1, False), (3, False)], ids=["copy", "earlier", "later"]
)
def test_an_answer_of_another_process_or_run_is_not_taken(number: int, forked: bool) -> None:
    """Each point has a child of its own here: message 0 starts it, 1 loads and 2 asks for a run."""

    def forger(x: FloatArray) -> float:
        send_as_the_child(number, forked=forked)
        return float(x[0])

    (answer,) = answers(opened(forger), POINTS[:1]).values()
    assert answer.status is Status.CRASHED
    assert "no answer" in answer.message


def test_a_child_that_sent_nonsense_is_replaced_and_the_run_made_again(tmp_path: Path) -> None:
    once = tmp_path / "once"

    def forger(x: FloatArray) -> float:
        if x[0] > 0.5 and not once.exists():
            once.touch()
            send_as_the_child(2, forked=True)
        return float(x[0])

    found = answers(opened(forger, retries=1))
    assert [float(np.asarray(found[row].values)) for row in range(12)] == POINTS[:, 0].tolist()
    assert sorted(answer.attempts for answer in found.values()) == [1] * 11 + [2]


def close_all() -> None:
    os.closerange(3, 4096)


def write_to_all(data: bytes) -> None:
    for descriptor in range(3, 4096):
        try:
            os.write(descriptor, data)
        except OSError:
            continue


@pytest.mark.parametrize(
    ("attack", "status"),
    [
        (close_all, Status.CRASHED),
        (lambda: write_to_all(os.urandom(100_000)), Status.CRASHED),
        (lambda: write_to_all(b"\0" * 64), Status.CRASHED),
        (lambda: write_to_all(b"\xff" * 64), Status.CRASHED),
        (lambda: write_to_all(b"\0\0\1"), Status.TIMED_OUT),  # no whole message
    ],
    ids=["closed", "random", "zeros", "ones", "little"],
)
def test_a_timeout_is_kept_whatever_becomes_of_the_line_to_the_child(
    attack: Callable[[], None], status: Status
) -> None:
    def hostile(x: FloatArray) -> float:
        attack()
        time.sleep(600.0)
        return 0.0

    (answer,) = answers(opened(hostile, timeout=1.0), POINTS[:1]).values()
    assert answer.status is status
    assert answer.seconds < PATIENCE  # it is killed, and not waited for


def test_an_answer_is_not_written_to_a_file_of_the_simulator(tmp_path: Path) -> None:
    """A simulator that closes all descriptors gets that of our socket for its next file."""
    data = tmp_path / "data"

    def reopens(x: FloatArray) -> float:
        close_all()
        descriptors = {os.open(data, os.O_WRONLY | os.O_CREAT) for _ in range(32)}
        assert int(sys.argv[1]) in descriptors
        return 0.0

    (answer,) = answers(opened(reopens), POINTS[:1]).values()
    assert answer.status is Status.CRASHED
    assert data.read_bytes() == b""


def daemon(ledger: Path, seconds: float) -> None:
    """Start what is in no session of ours, and whose parent is gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with ledger.open("a") as file:
                file.write(f"{os.getpid()} ")
            time.sleep(seconds)
        os._exit(0)
    os.wait()


def pids(ledger: Path, count: int) -> set[int]:
    until(lambda: ledger.exists() and len(ledger.read_text().split()) >= count)
    return set(map(int, ledger.read_text().split()))


def last_words(end: str) -> float:
    match end:
        case "timeout":
            time.sleep(600.0)
        case "crash":
            os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows all descendants")
@pytest.mark.parametrize("end", ["timeout", "crash", "close"])
def test_daemons_of_a_child_end_with_it(end: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"

    def parent(x: FloatArray) -> float:
        daemon(ledger, 600.0)
        pids(ledger, 1)
        return last_words(end)

    patience = 2.0 if end == "timeout" else PATIENCE
    (answer,) = answers(opened(parent, timeout=patience), POINTS[:1]).values()
    wanted = {"timeout": Status.TIMED_OUT, "crash": Status.CRASHED, "close": Status.OK}
    assert answer.status is wanted[end]
    wait_until_gone(pids(ledger, 1))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux kills the child")
@pytest.mark.parametrize(
    ("blow", "status"), [(signal.SIGTERM, Status.OK), (signal.SIGKILL, Status.CRASHED)]
)
def test_a_child_outlives_no_guard(blow: signal.Signals, status: Status, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"

    def rebel(x: FloatArray) -> float:
        ledger.write_text(str(os.getpid()))
        os.kill(os.getppid(), blow)
        time.sleep(0.5 if blow == signal.SIGTERM else 600.0)
        return 0.0

    (answer,) = answers(opened(rebel), POINTS[:1]).values()
    assert answer.status is status
    wait_until_gone(pids(ledger, 1))


DRIVER = """
import sys, time
from pathlib import Path
sys.path.insert(0, "running")
from test_child import POINTS, answers, daemon, opened

def parent(x, ledger=Path(sys.argv[1])):
    daemon(ledger, 600.0)
    time.sleep(600.0)

answers(opened(parent, workers=2, timeout=None))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows all descendants")
def test_daemons_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    driver = Driver(DRIVER, ledger)
    daemons = pids(ledger, 2)
    driver.kill()
    driver.end()
    wait_until_gone(daemons)


def test_a_copy_of_the_driver_does_not_end_its_children() -> None:
    """As one that a library forks, and that then leaves by the front door."""
    pool = opened(lambda x: float(x[0]), timeout=None)
    try:
        for row in range(2):
            pool.submit(Request(row, POINTS[row]))
            (answer,) = pool.collect(PATIENCE)
            assert (answer.id, answer.attempts) == (row, 1)
            copy = os.fork()
            if copy == 0:
                atexit._run_exitfuncs()
                os._exit(0)
            os.waitpid(copy, 0)
    finally:
        pool.close()
