"""Ctrl-C: the first asks to stop, the second stops at once."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from supac.running.terminal import Interrupt


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _usual_handler() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_the_first_asks_and_the_second_stops(capsys: pytest.CaptureFixture[str]) -> None:
    with Interrupt() as interrupt:
        before = interrupt.requested
        press()
        assert (before, interrupt.requested) == (False, True)
        assert "Ctrl-C again stops at once" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            press()


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
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with Interrupt() as interrupt:
        press()
        assert not interrupt.requested
    assert heard == [1]


def test_other_threads_do_not_listen() -> None:
    found: list[bool] = []

    def work() -> None:
        with Interrupt() as interrupt:
            found.append(interrupt.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
