from __future__ import annotations

import re

import numpy as np
import pytest

from supac.record.run import Run, Status
from supac.running import terminal
from supac.running.terminal import ProgressBar, duration
from supac.search.algorithm import Info


def runs(*statuses: Status) -> list[Run]:
    return [Run(i, np.zeros(1), status, 0.1) for i, status in enumerate(statuses)]


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", " ", capsys.readouterr().err).split())


def test_it_shows_where_a_run_stands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with ProgressBar(40, show=True) as bar:
        bar.watch(runs(*[Status.OK] * 9, Status.TIMED_OUT))
        bar.update(10, Info(0.3, 1.25, 0.4))
        bar.update(20, Info(0.5, 2.5, 0.6))
    words = shown(capsys)
    assert "20/40" in words
    assert re.search(r"objective 0\.6, best 0\.4, KL 2\.5, 1 failed, \S+ (µs|ms|s) left", words)


def test_what_is_not_a_terminal_hears_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(40, show=None) as bar:
        bar.resume("going on", 1, 10)
        bar.watch(runs(Status.OK))
        bar.update(10, Info(0.3, 1.25, 0.4))
    assert shown(capsys) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(2e-5, "20 µs"), (0.004, "4 ms"), (0.25, "0.25 s"), (41.2, "41 s"), (720.0, "12 min"),
     (12_600.0, "3.5 h"), (180_000.0, "2.1 d"), (864_000.0, "10 d")],
)  # fmt: skip
def test_durations_have_the_unit_that_suits_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_log_gets_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProgressBar(40, show="log") as bar:
        bar.watch(runs(Status.OK))
        assert shown(capsys) == ""
        bar.say("validating the posterior with 8 fresh runs")
        assert re.fullmatch(r"\d\d:\d\d:\d\d validating .* 8 fresh runs", shown(capsys))
        monkeypatch.setattr(terminal, "LOG_EVERY", 0.0)
        bar.watch(runs(Status.OK, Status.TIMED_OUT))
    assert re.search(r"3 of 40 runs: .*1 failed, .* left", shown(capsys))


def test_a_log_has_a_line_a_round_and_no_other_beside_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("supac.running.terminal.time.monotonic", lambda: now)
    with ProgressBar(40, show="log") as bar:
        now += 29.0
        bar.watch(runs(*[Status.OK] * 10))
        bar.update(10, Info(0.3, 1.25, 0.4))
        now += 29.0  # a minute after the beginning, but no half a one after the line of the round
        bar.watch(runs(Status.OK))
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert lines[0][9:] == "10 of 40 runs: objective 0.4, mean risk 0.3, KL 1.25, 87 s left"
        now += 2.0
        bar.watch(runs(Status.OK))
    assert "12 of 40 runs" in shown(capsys)
