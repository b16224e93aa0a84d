"""`supac run` where the runs are made elsewhere: behind an UM-Bridge server, on a Dask cluster."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import supac
from drivers import COMMAND, Driver
from servers import free_port, local_cluster, serving
from supac.cli import app
from supac.problem_file import StarterKind, starter_files

# The function of the server's model "reaction": same arithmetic, same bits.
FUNCTION = """
import os
from math import exp
from pathlib import Path

TIMES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]


def simulate(initial, k1, k2):
    with Path(__file__).with_name("ledger").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    a = [initial * exp(-k1 * t) for t in TIMES]
    gap = k2 - k1 or 1e-9
    b = [initial * k1 / gap * (exp(-k1 * t) - exp(-(k1 + gap) * t)) for t in TIMES]
    return {"A": a, "B": b}
"""


def write(folder: Path, kind: StarterKind, *pairs: tuple[str, str]) -> Path:
    """The starter, with some of its text replaced."""
    folder.mkdir(exist_ok=True)
    for name, text in starter_files(kind).items():
        (folder / name).write_text(text)
    if kind == "python":
        (folder / "model.py").write_text(FUNCTION)
    path = folder / "problem.toml"
    for old, new in pairs:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
    return path


def command(folder: Path, *words: str, code: int = 0) -> str:
    """A command in a process of its own; what it said."""
    found, said, complained = Driver(COMMAND, *words, cwd=folder).end()
    assert found == code, said + complained
    assert "Traceback" not in complained
    return " ".join((said + complained).split())


def call(folder: Path, *words: str, code: int = 0) -> str:
    """A command in this process, where nothing but its words matters; faster."""
    first, target, *options = words
    result = CliRunner().invoke(app, [first, str(folder / target), *options])
    assert result.exit_code == code, result.output + str(result.exception)
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


def posterior(folder: Path, runs: int | None = 49) -> supac.Distribution:
    run = supac.read_store(folder / "run.supac")
    assert run.stop_reason in (supac.StopReason.BUDGET, supac.StopReason.CONVERGED)
    assert runs is None or len(run.made) == runs
    assert not run.failures
    assert run.posterior is not None
    return run.posterior


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> supac.Distribution:
    """What a run in one process finds."""
    folder = tmp_path_factory.mktemp("here")
    write(folder, "python")
    call(folder, "run", "problem.toml")
    return posterior(folder)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    pytest.importorskip("umbridge", reason="umbridge is not installed")
    with serving() as (url, _):
        yield url


def served(folder: Path, url: str, *pairs: tuple[str, str]) -> Path:
    changes = ("http://localhost:4242", url), ('"forward" ', '"reaction" '), *pairs
    return write(folder, "umbridge", *changes)


def test_a_server_gives_the_bits_of_the_function(
    url: str, here: supac.Distribution, tmp_path: Path
) -> None:
    served(tmp_path, url)
    assert "outputs compared 24" in call(tmp_path, "run", "problem.toml", "--check")
    call(tmp_path, "run", "problem.toml", "--workers", "2")
    assert posterior(tmp_path) == here
    certificate = call(tmp_path, "certify", "run.supac", "--draws", "20", "--json")
    assert json.loads(certificate)["failed"] == 0


def test_a_run_goes_on_when_the_server_is_back(
    url: str, here: supac.Distribution, tmp_path: Path
) -> None:
    """At another address: what was made stays, since the model is the same."""
    served(tmp_path, url, ("budget = 60", "budget = 30"))
    call(tmp_path, "run", "problem.toml")
    served(tmp_path, f"http://127.0.0.1:{free_port()}")
    said = call(tmp_path, "resume", "problem.toml", code=1)
    assert "no UM-Bridge server answers at http://127.0.0.1" in said
    served(tmp_path, url)
    call(tmp_path, "resume", "problem.toml")
    assert posterior(tmp_path, 49 + 8) == here  # the smaller budget was validated as well


def test_what_the_server_lacks_is_said(url: str, tmp_path: Path) -> None:
    served(tmp_path, url, ('"reaction" ', '"reactor" '))
    said = call(tmp_path, "run", "problem.toml", code=1)
    assert "has no model 'reactor', but wave, misfit" in said
    served(tmp_path, url, ('"reaction" ', '"wave" '))
    said = call(tmp_path, "run", "problem.toml", "--check", code=1)
    assert "the model 'wave' takes 2 parameters, not 3" in said


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    pytest.importorskip("distributed", reason="distributed is not installed")
    with local_cluster(2, processes=True) as cluster:
        yield cluster.scheduler_address


def on_dask(folder: Path, address: str, *more: str) -> Path:
    settings = "\n".join([f'dask = "{address}"', *more])
    return write(folder, "python", ("# workers = 4 ", f"{settings} # "))


@pytest.mark.parametrize("more", [[], ["timeout = 30.0"]], ids=["plain", "timeout"])
def test_a_cluster_gives_the_bits_of_one_process(
    address: str, here: supac.Distribution, tmp_path: Path, more: list[str]
) -> None:
    on_dask(tmp_path, address, *more)
    command(tmp_path, "run", "problem.toml")
    assert posterior(tmp_path) == here
    # In one or two processes of the cluster, none of which was the command's.
    assert 1 <= len(set((tmp_path / "ledger").read_text().split())) <= 2


def test_asynchronous_runs_on_a_cluster_come_to_an_end(address: str, tmp_path: Path) -> None:
    on_dask(tmp_path, address, 'mode = "async"')
    call(tmp_path, "run", "problem.toml")
    posterior(tmp_path, runs=None)


def test_a_killed_run_on_a_cluster_is_resumed_to_the_same_bits(
    address: str, here: supac.Distribution, tmp_path: Path
) -> None:
    path = on_dask(tmp_path, address)
    model = path.with_name("model.py")
    killing = (  # the whole command, from a worker, at its thirtieth run
        "    runs = len(Path(__file__).with_name('ledger').read_text().split())\n"
        "    driver = Path(__file__).with_name('driver')\n"
        "    if runs == 30 and driver.exists():\n"
        f"        os.kill(int(driver.read_text()), {int(signal.SIGKILL)})\n"
    )
    model.write_text(model.read_text().replace("    a = [", f"{killing}    a = [", 1))
    begin = (
        "import os; from pathlib import Path; Path('driver').write_text(str(os.getpid())); "
        "from supac.cli import app; app()"
    )
    assert Driver(begin, "run", "problem.toml", cwd=tmp_path).end()[0] == -signal.SIGKILL
    (tmp_path / "driver").unlink()
    kept = len(supac.read_store(tmp_path / "run.supac").made)
    assert 0 < kept < 60
    call(tmp_path, "resume", "run.supac")
    assert posterior(tmp_path) == here
    certificate = call(tmp_path, "certify", "run.supac", "--draws", "20", "--json")
    assert json.loads(certificate)["draws"] == 20


def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    on_dask(tmp_path, f"tcp://127.0.0.1:{free_port()}")
    said = call(tmp_path, "run", "problem.toml", code=1)
    assert "no Dask scheduler answers at workers = 'tcp://127.0.0.1" in said
