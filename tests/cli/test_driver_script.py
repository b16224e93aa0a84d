"""The script of a search that is a job of its own, and signals before the search listens."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from supac.cli.clusters import driver_script
from supac.problem_file import read_problem, starter_files
from waiting import PATIENCE, until

if sys.platform != "linux":
    pytest.skip("SLURM runs on Linux", allow_module_level=True)

PAGE = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text()
SEARCH = """#!/bin/bash
# Hears every signal, and ends with the code that the test decides.
trap 'echo heard >> heard' USR1
echo $$ > pid
until [ -e code ]; do sleep 0.02; done
exit $(cat code)
"""


class Driver:
    """A running driver script, with a search, a `scontrol` and a `squeue` that only say things."""

    def __init__(self, folder: Path, lines: str, state: str = "RUNNING None"):
        self.folder = folder
        for name, body in {
            "supac": SEARCH,
            "scontrol": '#!/bin/sh\necho "$@" >> requeued\n',
            "squeue": f'#!/bin/sh\necho "{state}"\n',
        }.items():
            (folder / name).write_text(body)
            (folder / name).chmod(0o755)
        (folder / "job.sh").write_text(lines)
        path = f"{folder}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "SLURM_JOB_ID": "7"}
        self.process = subprocess.Popen(["bash", "job.sh"], cwd=folder, env=environment)

    def begun(self) -> None:
        until((self.folder / "pid").exists)
        until((self.folder / "pid").read_text)

    def told(self, number: int = signal.SIGUSR1) -> None:
        """Send a signal, and wait until the search has heard it."""
        before = self.heard()
        self.process.send_signal(number)
        until(lambda: self.heard() > before)

    def heard(self) -> int:
        file = self.folder / "heard"
        return len(file.read_text().split()) if file.exists() else 0

    def end(self, code: int) -> int:
        (self.folder / "next").write_text(str(code))
        (self.folder / "next").rename(self.folder / "code")
        return self.process.wait(PATIENCE)

    @property
    def requeued(self) -> list[str]:
        file = self.folder / "requeued"
        return file.read_text().splitlines() if file.exists() else []

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        with suppress(OSError, ValueError):
            os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The script of `--submit`, whose search is the `supac` on the path."""
    for name, text in starter_files("command").items():
        (tmp_path / name).write_text(text)
    written = driver_script(read_problem(tmp_path / "problem.toml"), [])
    changed = written.replace(f"{sys.executable} -m supac", "supac")
    assert changed != written
    return changed


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    made: list[Driver] = []

    def begin(lines: str, **options: str) -> Driver:
        made.append(Driver(tmp_path, lines, **options))
        made[-1].begun()
        return made[-1]

    yield begin
    for each in made:
        each.kill()


def test_a_driver_waits_for_its_search_however_often_it_is_told(
    script: str, start: Callable[..., Driver]
) -> None:
    driver = start(script)
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
        driver.told(number)
    with pytest.raises(subprocess.TimeoutExpired):
        driver.process.wait(0.3)
    assert driver.end(3) == 3
    assert driver.requeued == ["requeue 7"]


def test_the_three_lines_of_the_page_wait_too(start: Callable[..., Driver]) -> None:
    found = re.search(r"<!-- recipe: requeue -->\n```bash\n(.*?)^```", PAGE, flags=re.M | re.S)
    assert found is not None
    driver = start(found[1])
    driver.told()
    driver.told()
    driver.end(3)
    assert driver.requeued == ["requeue 7"]


@pytest.mark.parametrize(("code", "again"), [(0, 0), (1, 0), (3, 1), (138, 1), (143, 1)])
def test_what_a_signal_has_ended_is_queued_again(
    script: str, start: Callable[..., Driver], code: int, again: int
) -> None:
    """Also where Python was not yet there to hear it: 138 and 143 are 128 and its number."""
    driver = start(script)
    assert driver.end(code) == code
    assert len(driver.requeued) == again


@pytest.mark.parametrize(("state", "again"), [("COMPLETING None", 0), ("COMPLETING TimeLimit", 1)])
def test_a_cancelled_job_is_not_queued_again(
    script: str, start: Callable[..., Driver], state: str, again: int
) -> None:
    """SLURM 22.05 says so of a job that `scancel` or its walltime is ending."""
    driver = start(script, state=state)
    driver.told(signal.SIGTERM)
    driver.end(3)
    assert len(driver.requeued) == again


def test_a_driver_told_before_its_search_begins_stops_it(
    script: str, start: Callable[..., Driver], tmp_path: Path
) -> None:
    line = "supac run"
    assert line in script
    held = script.replace(line, f"touch waiting; until [ -e go ]; do sleep 0.02; done; {line}", 1)
    driver = Driver(tmp_path, held)
    try:
        until((tmp_path / "waiting").exists)
        driver.process.send_signal(signal.SIGUSR1)
        (tmp_path / "go").touch()
        until(lambda: driver.heard() or driver.process.poll() is not None)
        driver.end(3)
        assert driver.requeued == ["requeue 7"]
    finally:
        driver.kill()


def signalled(number: signal.Signals, *words: str) -> tuple[int, str]:
    """Run a command that gets a signal while it imports NumPy; return its code and what it says."""
    command = [sys.executable, "-X", "importtime", "-m", "supac", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.split("|")[-1].strip().startswith("numpy."):  # in the middle of it
                process.send_signal(number)
                break
        said = process.stderr.read()
        return process.wait(PATIENCE), said


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_while_python_imports_ends_it_as_one_that_can_be_continued(
    tmp_path: Path, number: signal.Signals
) -> None:
    code, said = signalled(number, "run", str(tmp_path / "problem.toml"))
    assert code == 3, said[-2000:]
    assert f"{number.name}: stopped" in said


def test_a_command_that_makes_no_search_dies_of_it_as_ever(tmp_path: Path) -> None:
    code, _ = signalled(signal.SIGTERM, "show", str(tmp_path / "no.supac"))
    assert code == -signal.SIGTERM
