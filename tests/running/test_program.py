from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from drivers import Driver
from supac.arrays import FloatArray
from supac.running import Answer, Request, Simulator, open_pool
from supac.simulators.program import ProgramError
from waiting import PATIENCE, until

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
QUICK = supac.SuPAC(supac.Voronoi(draws=500), supac.FixedStep(), first=6, batch=6)
POINT = np.array([0.1, -1e-17])

WAVE = """
import json, math
x, y = json.load(open("input.json"))
json.dump(0.5 + 0.15 * (math.sin(x) + math.sin(y)), open("output.json", "w"))
"""


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows all descendants")


def wave(x: FloatArray) -> float:
    return 0.5 + 0.15 * float(np.sin(x[0]) + np.sin(x[1]))


def python(folder: Path, text: str) -> list[str]:
    """A program in Python that starts fast."""
    script = folder / "model.py"
    script.write_text(text)
    return [sys.executable, "-S", "-E", str(script)]


def shell(folder: Path, text: str) -> list[str]:
    script = folder / "model.sh"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return [str(script)]


def alive(pid: int) -> bool:
    """Whether a process is more than a memory that nobody has asked for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def pids(path: Path, count: int) -> list[int]:
    """The processes that have written their number there, when all of them have."""
    until(lambda: path.exists() and len(path.read_text().split()) >= count)
    return [int(word) for word in path.read_text().split()]


def test_a_point_without_names_is_a_list(tmp_path: Path) -> None:
    copy = supac.Program(shell(tmp_path, "cp input.json output.json"))
    assert copy(POINT) == POINT.tolist()


def test_a_point_with_names_is_an_object(tmp_path: Path) -> None:
    said = tmp_path / "said.json"
    model = shell(tmp_path, f"cp input.json {said}; echo 0.25 > output.json")
    assert supac.Program(model, names=["rate", "share"])(POINT) == 0.25
    assert json.loads(said.read_text()) == {"rate": 0.1, "share": -1e-17}


@pytest.mark.parametrize(
    ("names", "first"), [(["rate", "share of it"], "rate,share of it"), (None, "x0,x1")]
)
def test_a_table_has_a_row_of_names_and_a_row_of_values(
    tmp_path: Path, names: list[str] | None, first: str
) -> None:
    said = tmp_path / "said.csv"
    model = shell(tmp_path, f"cp input.csv {said}; echo '[1, 2, 3]' > output.json")
    assert supac.Program(model, names=names, inputs="csv")(POINT) == [1, 2, 3]
    assert said.read_text().splitlines() == [first, "0.1,-1e-17"]


def test_the_answer_may_be_in_an_object(tmp_path: Path) -> None:
    model = shell(tmp_path, """echo '{"risk": 0.5, "cells": [1.5, 2.5]}' > output.json""")
    assert supac.Program(model, key="risk")(POINT) == 0.5
    assert supac.Program(model, key="cells")(POINT) == [1.5, 2.5]
    assert supac.Program(model, key=["cells", "risk"])(POINT) == [1.5, 2.5, 0.5]
    with pytest.raises(ProgramError, match="has cells, risk: say with key= which"):
        supac.Program(model)(POINT)
    with pytest.raises(ProgramError, match="has no 'cost', but cells, risk"):
        supac.Program(model, key="cost")(POINT)


def test_parameters_tell_a_program_their_names(tmp_path: Path) -> None:
    model = python(
        tmp_path,
        'import json; x = json.load(open("input.json")); '
        'json.dump(x["rate"] ** 2 if isinstance(x, dict) else 9.0, open("output.json", "w"))',
    )
    parameters = supac.Parameters({"rate": supac.marginals.Normal(0.0, 1.0)})
    settings = {"budget": 6, "algorithm": QUICK, "validation": 0}
    told = supac.minimize(supac.Program(model), parameters, supac.Catoni(0.1), **settings)  # type: ignore[arg-type]
    np.testing.assert_allclose(told.evaluations.risk, told.x[:, 0] ** 2)
    listed = supac.Program(model, names=[])
    plain = supac.minimize(listed, parameters, supac.Catoni(0.1), **settings)  # type: ignore[arg-type]
    assert (plain.evaluations.risk == 9.0).all()
    own = supac.Program(model, names=["speed"])
    assert own.named(["rate"]) is own


def test_words_of_the_command_stand_for_paths(tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    model = shell(tmp_path, f'cp "$1" "$2"; pwd > {said}; echo "$@" >> {said}')
    words = ["{input}", "{output}", "{folder}", "--in={input}", "{inputs}"]
    assert supac.Program([*model, *words])(POINT) == POINT.tolist()
    folder, given = said.read_text().splitlines()
    assert given == (
        f"{folder}/input.json {folder}/output.json {folder} --in={folder}/input.json {{inputs}}"
    )


def test_a_relative_path_of_the_program_is_one_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell(tmp_path, "cp input.json output.json")
    monkeypatch.chdir(tmp_path)
    program = supac.Program(["./model.sh"], scratch="runs")
    monkeypatch.chdir("/")
    assert program(POINT) == POINT.tolist()
    assert (tmp_path / "runs").is_dir()


def test_an_exit_code_is_a_failure_with_the_end_of_what_was_said(tmp_path: Path) -> None:
    loud = "import sys; sys.stderr.write('noise ' * 500 + 'no steady state'); sys.exit(3)"
    with pytest.raises(ProgramError, match=r"exit code 3: .*no steady state$") as caught:
        supac.Program(python(tmp_path, loud))(POINT)
    assert len(str(caught.value)) < 900
    with pytest.raises(ProgramError, match="exit code 1: no message"):
        supac.Program(["false"])(POINT)


def test_a_program_that_is_killed_has_failed(tmp_path: Path) -> None:
    model = shell(tmp_path, "echo 1 > output.json; kill -SEGV $$")
    with pytest.raises(ProgramError, match=r"^killed by SIGSEGV, Segmentation fault: no message"):
        supac.Program(model)(POINT)


def test_a_shell_s_report_of_a_signal_is_named(tmp_path: Path) -> None:
    model = shell(tmp_path, "sh -c 'kill -FPE $$'")
    with pytest.raises(ProgramError, match=r"^exit code 136 \(of a shell: SIGFPE, "):
        supac.Program(model)(POINT)


BAD_ANSWERS = [
    ("true", "wrote no output.json"),
    ("echo '0.5 or so' > output.json", "output.json is not JSON"),
    (": > output.json", "output.json is not JSON"),
    (r"printf '\377\376' > output.json", "output.json is not JSON"),
]


@pytest.mark.parametrize(("text", "message"), BAD_ANSWERS)
def test_an_answer_that_cannot_be_read_is_a_failure(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        supac.Program(shell(tmp_path, text))(POINT)


@pytest.mark.parametrize("name", ["no-such-program", "./no-such-program"])
def test_a_program_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ProgramError, match=r"no-such-program could not be started: .*No such file"):
        supac.Program([name])(POINT)


def test_names_must_be_as_many_as_parameters(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="3 names were given for 2 parameters"):
        supac.Program(["true"], names=["a", "b", "c"])(POINT)


BAD_PROGRAMS: list[tuple[dict[str, object], type[Exception], str]] = [
    ({"command": "./model --fast"}, TypeError, "command must be a list such as"),
    ({"command": []}, TypeError, "command must be a list such as"),
    ({"inputs": "xml"}, ValueError, "inputs must be"),
    ({"keep": "some"}, ValueError, "keep must be"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD_PROGRAMS)
def test_bad_programs_are_refused(
    options: dict[str, object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        supac.Program(**{"command": ["true"], **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(("keep", "left"), [("none", 0), ("failed", 1), ("all", 2)])
def test_folders_are_kept_as_asked(tmp_path: Path, keep: str, left: int) -> None:
    model = shell(tmp_path, "cp input.json output.json; ! grep -q 666 input.json")
    scratch = tmp_path / "scratch"
    program = supac.Program(model, scratch=scratch, keep=keep)  # type: ignore[arg-type]
    program(POINT)
    with pytest.raises(ProgramError) as caught:
        program([666.0])
    folders = list(scratch.iterdir())
    assert len(folders) == left
    assert any(str(folder) in str(caught.value) for folder in folders) is (left > 0)
    for folder in folders:
        names = {path.name for path in folder.iterdir()}
        assert names == {"input.json", "output.json", "stdout.txt", "stderr.txt"}


def test_a_whole_run_of_a_program_gives_the_bits_of_the_function(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    program = supac.Program(python(tmp_path, WAVE), scratch=scratch, keep="all")
    bound = supac.Catoni(0.05)
    alone = supac.minimize(wave, PLANE, bound, budget=18, algorithm=QUICK)
    many = supac.minimize(program, PLANE, bound, budget=18, algorithm=QUICK, execution=2)
    assert many.posterior == alone.posterior
    points = [json.loads((folder / "input.json").read_text()) for folder in scratch.iterdir()]
    assert sorted(points) == sorted(alone.evaluations.x.tolist())


def test_a_program_may_give_the_outputs_of_a_composite(tmp_path: Path) -> None:
    text = """
import json
x, y = json.load(open("input.json"))
json.dump({"misfit": [x - 1.0, y + 0.5, x * y]}, open("output.json", "w"))
"""
    program = supac.Program(python(tmp_path, text), key="misfit")

    def misfit(x: FloatArray) -> list[float]:
        return [x[0] - 1.0, x[1] + 0.5, x[0] * x[1]]

    alone, many = (
        supac.minimize(
            supac.Composite(simulate, supac.MeanSquare()),
            PLANE,
            supac.Catoni(0.1),
            budget=24,
            execution=executor,
        )
        for simulate, executor in ((misfit, None), (program, 2))
    )
    assert many.posterior == alone.posterior
    assert many.evaluations.outputs is not None
    assert many.evaluations.outputs.shape == (24, 3)


def test_failures_of_a_program_are_recorded_and_penalised(tmp_path: Path) -> None:
    model = shell(
        tmp_path, "grep -q '\\[-' input.json && { echo dry >&2; exit 7; }; echo 0.2 > output.json"
    )
    result = supac.minimize(
        supac.Program(model),
        PLANE,
        supac.Catoni(0.05),
        budget=18,
        algorithm=QUICK,
        execution=supac.Execution(2, on_failure="penalise", max_failures=1.0),
    )
    assert len(result.failures) == (result.evaluations.x[:, 0] < 0.0).sum() > 0
    assert {run.message for run in result.failures} == {"ProgramError: exit code 7: dry"}


def test_a_program_that_hangs_is_killed_with_all_it_has_started(tmp_path: Path) -> None:
    started, scratch = tmp_path / "pids", tmp_path / "scratch"
    model = shell(tmp_path, f"sleep 600 & echo $! $$ >> {started}; sleep 600")
    result = supac.minimize(
        supac.Program(model, scratch=scratch),
        PLANE,
        supac.Catoni(0.05),
        budget=2,
        algorithm=supac.SuPAC(first=2, batch=2),
        execution=supac.Execution(2, timeout=3.0, on_failure="penalise"),
    )
    assert {run.status for run in result.failures} == {supac.Status.TIMED_OUT}
    assert len(result.failures) == 2
    processes = pids(started, 4)
    until(lambda: not any(map(alive, processes)))
    until(lambda: not list(scratch.iterdir()))  # nothing was to be kept


DRIVER = """
import numpy as np, supac, sys
plane = supac.gaussian([0.0, 0.0], np.eye(2))
executor = int(sys.argv[1]) or None
program = supac.Program(sys.argv[2:])
supac.minimize(program, plane, supac.Catoni(0.05), budget=40, execution=executor)
"""


@pytest.mark.parametrize(("workers", "programs"), [(0, 1), (2, 2)])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_programs_die_with_their_driver(
    tmp_path: Path, workers: int, programs: int, end: signal.Signals
) -> None:
    started = tmp_path / "pids"
    model = shell(tmp_path, f"sleep 600 & echo $! $$ >> {started}; sleep 600")
    driver = Driver(DRIVER, workers, *model)
    processes = pids(started, 2 * programs)
    assert all(map(alive, processes))
    driver.send_signal(end)
    if end == signal.SIGTERM:  # the first one asks to stop when the runs have ended
        driver.complaint("SIGTERM: stopping when the runs in progress have ended")
        driver.send_signal(end)
    driver.end()
    until(lambda: not any(map(alive, processes)))


STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
folder = os.getcwd()
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
while True:
    os.makedirs(folder, exist_ok=True)
    try:
        open(f"{folder}/{time.time()}", "w").close()
    except OSError:
        pass
"""
ONE_RUN = """
import sys, supac
program = supac.Program(sys.argv[2:], scratch=sys.argv[1])
while True:
    program([0.1, 0.2])
"""


@linux
def test_folders_are_removed_when_the_driver_is_killed(tmp_path: Path) -> None:
    """Also that of a program which does not listen, with a daemon that makes the folder anew."""
    started, scratch = tmp_path / "pids", tmp_path / "scratch"
    model = [*python(tmp_path, STUBBORN), str(started)]
    driver = Driver(ONE_RUN, scratch, *model, environment={"SUPAC_STOP": "TERM 1"})
    processes = pids(started, 2)
    assert list(scratch.iterdir())
    driver.kill()
    driver.end()
    until(lambda: not any(map(alive, processes)))
    until(lambda: not list(scratch.iterdir()))


def test_no_folder_is_left_whenever_the_driver_is_killed(tmp_path: Path) -> None:
    """Before the program starts, while it runs, when it has ended: at random moments."""
    scratch = tmp_path / "scratch"
    rng = np.random.default_rng(0)
    model = shell(tmp_path, "cp input.json output.json")
    for _ in range(12):
        driver = Driver(ONE_RUN, scratch, *model)
        until(lambda: scratch.exists() and list(scratch.iterdir()))
        time.sleep(float(rng.uniform(0.0, 0.05)))
        driver.kill()
        driver.end()
        until(lambda: not list(scratch.iterdir()))


@linux
@pytest.mark.parametrize("code", [0, 1])
def test_daemons_of_a_program_end_with_it(tmp_path: Path, code: int) -> None:
    started = tmp_path / "pids"
    daemon = f"setsid sh -c 'sleep 600 & echo $! $$ >> {started}; wait'"
    model = shell(
        tmp_path,
        f"{daemon} &\nwhile ! [ -s {started} ]; do :; done; echo 1 > output.json; exit {code}",
    )
    with pytest.raises(ProgramError) if code else nullcontext():
        assert supac.Program(model)(POINT) == 1
    assert not any(map(alive, pids(started, 2)))


def test_an_interrupt_that_is_raised_kills_the_program(tmp_path: Path) -> None:
    started = tmp_path / "pids"
    model = shell(
        tmp_path, f"sleep 600 & echo $! $$ >> {started}; sleep 0.3; kill -INT {os.getpid()}; wait"
    )
    with pytest.raises(KeyboardInterrupt):
        supac.Program(model)(POINT)
    processes = pids(started, 2)
    until(lambda: not any(map(alive, processes)))


def test_waiting_for_the_step_of_an_allocation_is_no_time_of_the_run(tmp_path: Path) -> None:
    """A command `srun` that gets its step after a while, as inside a full allocation of SLURM."""
    srun = tmp_path / "srun"
    words = 'sleep 3.5; sh -c "$SLURM_PROLOG"; sleep 0.2; echo 0.25 > output.json'
    srun.write_text(f"#!/bin/sh\n{words}\n")
    srun.chmod(0o700)
    program = supac.Program([srun])
    result = supac.minimize(
        program,
        supac.gaussian([0.0], [[1.0]]),
        supac.Catoni(0.05),
        budget=2,
        algorithm=supac.SuPAC(first=2, batch=2),
        execution=supac.Execution(2, timeout=3.0, on_failure="penalise"),
    )
    assert not result.failures
    assert all(0.1 < run.seconds < 3.0 for run in result.own_record.made)
    slow = supac.Program(["/bin/sh", "-c", "sleep 600; echo 0.25 > output.json"])
    (answer,) = run_once(slow, timeout=1.0)
    assert answer.status is supac.Status.TIMED_OUT


def run_once(simulate: Any, timeout: float) -> list[Answer]:
    pool = open_pool(supac.Execution(1, timeout=timeout), [Simulator(simulate, "risk", 0)])
    pool.submit(Request(0, np.zeros(1)))
    answers = pool.collect(PATIENCE)
    pool.close()
    return answers
