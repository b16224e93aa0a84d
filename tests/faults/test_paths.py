"""Stores behind links, in loops, in forked processes, and paths that are no files."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import supac
from drivers import COMMAND
from supac.cli import app
from supac.problem_file import starter_files
from supac.record.store.file import is_being_written
from supac.record.store.replaced import has_good_run, set_aside
from waiting import PATIENCE, until
from waves import wave

TESTS = Path(__file__).parents[1]
QUICK = supac.SuPAC(supac.Voronoi(draws=500), supac.FixedStep(), first=20, batch=10)
MODEL = """
import os, signal
from math import exp

calls = 0


def simulate(initial, k1, k2):
    global calls
    calls += 1
    if calls == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
    times = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]
    return {{"A": [exp(-k1 * t) for t in times], "B": [exp(-k2 * t) for t in times]}}
"""


NEVER = -100
"""A run that is never made; of another length, since bytecode of equal time and size is kept."""


def run(**options: Any) -> supac.Result:
    prior, bound = supac.gaussian([0.0, 0.0], np.eye(2)), supac.Catoni(0.05)
    settings = {"risk": wave, "prior": prior, "bound": bound, "budget": 60, "algorithm": QUICK}
    return supac.minimize(**{**settings, **options})


def assert_same(result: supac.Result, other: supac.Result) -> None:
    assert result.posterior == other.posterior
    assert str(result) == str(other)
    np.testing.assert_array_equal(result.evaluations.x, other.evaluations.x)
    np.testing.assert_array_equal(result.evaluations.risk, other.evaluations.risk)


def call(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output + str(result.exception)
    return result


def script(text: str, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, words)],
        cwd=TESTS, env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip


# Links.


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Path, Path]:
    """A problem file and a link to its store, whose process was killed in its 13th run."""
    for name, text in starter_files("python").items():
        (tmp_path / name).write_text(text)
    (tmp_path / "model.py").write_text(MODEL.format(last=13))
    (tmp_path / "disk").mkdir()
    link, real = tmp_path / "run.supac", tmp_path / "disk" / "real.supac"
    link.symlink_to(real)
    problem = tmp_path / "problem.toml"
    done = script(COMMAND, "run", problem, "--store", link, "-q")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert real.with_name("real.supac-wal").stat().st_size > 0
    assert not link.with_name("run.supac-wal").exists()
    (tmp_path / "model.py").write_text(MODEL.format(last=NEVER))
    return problem, link


def test_the_runs_of_a_killed_process_are_seen_through_a_link(killed: tuple[Path, Path]) -> None:
    problem, link = killed
    assert len(supac.read_store(link).runs) == 12
    assert len(supac.read_store(link).runs) == 12
    assert has_good_run(link)
    said = call("run", problem, "--store", link, code=1).output
    assert "already exists" in said
    call("resume", link, "--budget", "40", "--as-begun", "--changed-simulator", "-q")
    ended = supac.read_store(link)
    assert len(ended.made) == 40
    assert sorted(each.name for each in link.parent.glob("disk/*")) == ["real.supac"]
    assert link.is_symlink()


def test_the_way_back_to_the_earlier_store_can_be_typed(tmp_path: Path) -> None:
    """Behind a link, and with a name that a shell would take apart."""
    for name, text in starter_files("python").items():
        (tmp_path / name).write_text(text)
    problem, link = tmp_path / "problem.toml", tmp_path / "run.supac"
    (tmp_path / "a disk; touch sign").mkdir()
    link.symlink_to(tmp_path / "a disk; touch sign" / "the run.supac")
    (tmp_path / "model.py").write_text(MODEL.format(last=NEVER))
    call("run", problem, "--store", link, "--budget", "30", "-q")
    (tmp_path / "model.py").write_text(MODEL.format(last=13).replace("SIGKILL", "SIGINT"))
    done = script(COMMAND, "run", problem, "--store", link, "--budget", "40", "--force")
    assert done.returncode == 3, done.stderr
    (words,) = re.findall("to have it back: (.*)", done.stderr)
    assert len(supac.read_store(link).made) < 30
    subprocess.run(["sh", "-ec", words], cwd=tmp_path, check=True)
    assert len(supac.read_store(link).made) == 30
    assert link.is_symlink()
    assert not (tmp_path / "sign").exists()
    (words,) = re.findall(
        "To continue it: (.*?)[.] To replace", call("run", problem, code=1).output
    )
    assert words == f"supac resume {link}, or this command with --continue"


def test_a_link_that_is_turned_elsewhere_meanwhile_moves_nothing(tmp_path: Path) -> None:
    first, second, link = (tmp_path / name for name in ("first", "second", "link"))
    link.symlink_to(first)

    def turned(iteration: supac.Iteration) -> None:
        link.unlink(missing_ok=True)
        link.symlink_to(second)

    assert_same(run(store=link, callback=turned), run())
    assert len(supac.read_store(first).runs) == 60
    assert not second.exists()
    assert not is_being_written(first)


def test_a_store_with_a_second_hard_link_is_not_written(tmp_path: Path) -> None:
    """Its log would be found beside one of the names only."""
    store, twin = tmp_path / "run.supac", tmp_path / "twin.supac"
    result = run(store=store)
    os.link(store, twin)
    with pytest.raises(supac.StoreError, match=r"has 2 names .*copy it"):
        supac.resume(twin, wave, budget=70)
    assert len(supac.read_store(twin).runs) == 60
    twin.unlink()
    assert_same(supac.resume(store, wave), result)


# Forked copies of the driver.

FORKED = """
import os, sys, time
import supac
from faults import test_paths

store, parent_dies, signal = sys.argv[1], sys.argv[2] == "dies", sys.argv[3]

def forking(iteration):
    if iteration.queries == 20:
        child = os.fork()
        if parent_dies and child:
            os._exit(9)
        if not parent_dies and child:
            os.waitpid(child, 0)

driver = os.getpid()
try:
    test_paths.run(store=store, callback=forking)
except supac.StoreError as error:
    with open(signal + ".part", "w") as file:
        file.write(f"{type(error).__name__} {os.getpid() != driver}: {error}")
    os.rename(signal + ".part", signal)
    while parent_dies and not os.path.exists(signal + ".go"):
        time.sleep(0.01)
    del error
    import gc
    gc.collect()
    sys.exit(0)
"""


def test_a_forked_copy_of_the_driver_writes_nothing(tmp_path: Path) -> None:
    store, sign = tmp_path / "run.supac", tmp_path / "sign"
    done = script(FORKED, store, "lives", sign)
    assert done.returncode == 0, done.stderr
    assert sign.read_text().startswith("StoreError True: ")
    assert "a copy of the process that opened it" in sign.read_text()
    assert_same(supac.resume(store, wave), run())
    assert len(supac.read_store(store).runs) == 60


def test_the_end_of_a_forked_copy_leaves_the_store_alone(tmp_path: Path) -> None:
    store, sign = tmp_path / "run.supac", tmp_path / "sign"
    process = subprocess.Popen(
        [sys.executable, "-c", FORKED, str(store), "dies", str(sign)],
        cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.wait(PATIENCE) == 9
    until(sign.exists)
    log = store.with_name("run.supac-wal")
    before = (store.read_bytes(), log.read_bytes())
    supac.resume(store, wave)
    whole = store.read_bytes()
    # As the driver left it, while the copy of it still has it open.
    store.write_bytes(before[0])
    log.write_bytes(before[1])
    sign.with_name("sign.go").touch()
    process.communicate(timeout=PATIENCE)  # ends when the copy closes its end of the pipe
    assert (store.read_bytes(), log.read_bytes()) == before
    log.unlink()
    store.write_bytes(whole)
    assert_same(supac.resume(store, wave), run())


# What is no file.


def loop(folder: Path) -> Path:
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    return folder / "a"


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def below_a_file(folder: Path) -> Path:
    (folder / "text").write_text("mine")
    return folder / "text" / "run.supac"


PLACES: dict[str, Callable[[Path], Path]] = {
    "a loop": loop,
    "NUL": lambda folder: folder / "a\0b.supac",
    "a folder": lambda folder: folder,
    "a fifo": fifo,
    "a device": lambda folder: Path("/dev/null"),
    "an endless device": lambda folder: Path("/dev/zero"),
    "a name that is too long": lambda folder: folder / ("a" * 300),
    "below a file": below_a_file,
    "bytes that are no text": lambda folder: folder / "none" / "caf\udce9.supac",
}


@pytest.mark.parametrize("kind", PLACES)
def test_what_is_no_file_is_an_error_by_name(kind: str, tmp_path: Path) -> None:
    place = PLACES[kind](tmp_path)
    named = (supac.StoreError, ValueError, FileNotFoundError)
    ways: list[Callable[[], object]] = [
        lambda: run(store=place),
        lambda: supac.resume(place, wave),
        lambda: supac.read_store(place),
        lambda: supac.read_store(place).runs,
        lambda: supac.export(place, tmp_path / "table.csv"),
        lambda: set_aside(place),
    ]
    for way in ways:
        with pytest.raises(named) as caught:
            way()
        assert place.name in str(caught.value) or "store = " in str(caught.value)
        assert type(caught.value) is not ValueError or "store = " in str(caught.value)
    assert not is_being_written(place)


@pytest.mark.parametrize("kind", PLACES)
def test_the_commands_say_what_is_no_file(kind: str, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "here").mkdir()
    for name, text in starter_files("builtin").items():
        (tmp_path / "study" / name).write_text(text)
    place = PLACES[kind](tmp_path / "here")
    for words in (
        ("show", place),
        ("show", place, "--follow"),
        ("run", tmp_path / "study" / "problem.toml", "--store", place, "-q"),
        ("resume", place),
        ("export", place, tmp_path / "table.csv"),
        ("report", place, "-o", tmp_path / "page.html"),
        ("certify", place, "--n", "24", "--draws", "5"),
    ):
        result = call(*words, code=2 if kind == "NUL" else 1)  # typer itself knows that of NUL
        assert isinstance(result.exception, SystemExit), words
        said = result.output.encode(errors="surrogateescape").decode("utf-8")  # as a terminal wants
        assert "Traceback" not in said


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    for name, text in starter_files("builtin").items():
        (folder / name).write_text(text)
    call("run", folder / "problem.toml", "--budget", "30", "-q")
    return folder / "run.supac"


def into_nowhere(folder: Path) -> Path:
    (folder / "link").symlink_to(folder / "nowhere" / "file")
    return folder / "link"


@pytest.mark.parametrize("kind", ["a loop", "NUL", "a folder", "a name that is too long", "a link"])
def test_what_cannot_be_written_is_said_before_the_work(
    kind: str, finished: Path, tmp_path: Path
) -> None:
    place = PLACES.get(kind, into_nowhere)(tmp_path)
    for words in (
        ("certify", finished, "--draws", "5", "--out", place),
        ("report", finished, "--out", place),
        ("export", finished, place),
    ):
        result = call(*words, "--force", code=2 if kind == "NUL" else 1)
        assert isinstance(result.exception, SystemExit), words
        assert "fresh runs" not in result.output
    call("certify", finished, "--draws", "5", "--out", tmp_path / "certificate.json")


def test_a_problem_file_that_is_none_is_said(tmp_path: Path) -> None:
    for name, text in starter_files("builtin").items():
        (tmp_path / name).write_text(text)
    problem = tmp_path / "problem.toml"
    text = problem.read_text()
    for name in ("a\\u0000b.supac", "\\u001b[31m.supac/x"):
        problem.write_text(text.replace("[run]", f'[run]\nstore = "{name}"', 1))
        for word in ("run", "show", "resume"):
            result = call(word, problem, code=1)
            assert isinstance(result.exception, SystemExit), (word, name)
            assert "\x1b" not in result.output
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "loop.toml").symlink_to(tmp_path / "loop.toml")
    for name in ("folder.toml", "loop.toml"):
        for word in ("run", "show", "resume", "certify"):
            assert isinstance(call(word, tmp_path / name, code=1).exception, SystemExit)
