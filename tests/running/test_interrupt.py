"""Ctrl-C and the signals of batch systems: the first asks to stop, the second stops at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from supac.running.interrupt import Interrupt


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_asks_and_the_second_stops(capsys: pytest.CaptureFixture[str]) -> None:
    with Interrupt() as interrupt:
        before = interrupt.requested
        press()
        assert (before, interrupt.requested) == (False, True)
        assert "Ctrl-C again stops at once" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            press()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_of_batch_systems_are_like_ctrl_c(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with Interrupt() as interrupt:
        os.kill(os.getpid(), number)
        assert interrupt.requested
        assert f"{number.name}: stopping when the runs in progress" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is signal.SIG_DFL


IGNORING = """
import os, signal, time
os.setsid()  # without a terminal
from supac.running.interrupt import Interrupt
with Interrupt() as interrupt:
    os.kill(os.getpid(), signal.SIGINT)
    print(interrupt.requested)
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""


def test_ctrl_c_is_heard_where_it_was_inherited_as_ignored() -> None:
    """As in a script of a batch system: `supac run problem.toml & wait`."""
    command = f"trap '' INT; exec {sys.executable} -c '{IGNORING}'"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_afterwards_everything_is_as_before() -> None:
    with Interrupt():
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        press()


def test_an_inner_one_hears_the_outer() -> None:
    with Interrupt() as outer:
        with Interrupt() as inner:
            press()
            assert inner.requested
        assert outer.requested


def test_a_handler_of_the_users_own_is_left_alone() -> None:
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with Interrupt() as interrupt:
        press()
        assert not interrupt.requested
    assert heard == [1]
    signal.signal(signal.SIGINT, before)


def test_other_threads_do_not_listen() -> None:
    found: list[bool] = []

    def work() -> None:
        with Interrupt() as interrupt:
            found.append(interrupt.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
