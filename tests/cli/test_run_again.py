"""`supac resume --again`: runs whose cause was outside of the simulator, and is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

import supac
from commands import call
from supac import Status
from supac.problem_file import starter_files

FAILING = """    import os
    from pathlib import Path
    from supac import RunLostError
    folder = Path(__file__).parent
    with (folder / "ledger").open("a") as ledger:
        ledger.write("x")
    if k1 > 1.0 and (folder / "no-licence").exists():
        raise RuntimeError("no licence")
    if k2 > 1.0 and (folder / "bad-library").exists():
        os._exit(9)
    if initial > 4.0 and (folder / "no-memory").exists():
        raise RunLostError("out of memory: 1 GB was not enough")
"""
TROUBLES = ("no-licence", "bad-library", "no-memory")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A problem whose simulator fails as long as there is a file of the name of the trouble."""
    files = starter_files("python")
    model = files["model.py"]
    files["model.py"] = model.replace("\n    def rates", f"\n{FAILING}\n    def rates", 1)
    files["problem.toml"] = files["problem.toml"].replace("budget = 60", "budget = 12")
    files["problem.toml"] = files["problem.toml"].replace("[run]", "[run]\nvalidation = 0")
    files["problem.toml"] += "workers = 2\nretries = 0\n"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def count(study: Path) -> int:
    return len((study / "ledger").read_text())


def status(study: Path) -> dict[int, Status]:
    return {run.id: run.status for run in supac.read_store(study / "run.supac").made}


@pytest.mark.parametrize(
    ("again", "repeated", "kept"),
    [
        ("failed", {Status.RAISED, Status.CRASHED}, set()),
        ("crashed", {Status.CRASHED}, {Status.RAISED}),
    ],
)
def test_failed_or_only_crashed_runs_are_made_again(
    study: Path, again: str, repeated: set[Status], kept: set[Status]
) -> None:
    for name in TROUBLES[:2]:
        (study / name).touch()
    call("run", study / "problem.toml", "-q")
    before, runs = status(study), count(study)
    assert {Status.RAISED, Status.CRASHED} <= set(before.values())
    for name in TROUBLES:
        (study / name).unlink(missing_ok=True)
    store = study / "run.supac"
    said = call("resume", store, "--again", again, code=1).output
    assert "give a larger --budget as well" in " ".join(said.split())
    call("resume", store, "--again", again, "--budget", 14, "-q")
    after = status(study)
    made = sum(each in repeated for each in before.values())
    assert count(study) - runs == made + 2  # and two that are new
    for number, each in before.items():
        assert after[number] is (Status.OK if each in repeated else each)
    assert kept <= set(after.values())
    assert len(after) == 14


def test_lost_runs_are_made_again_in_any_case(study: Path) -> None:
    """They are in no round: `--again lost` says what a resume does."""
    (study / "no-memory").touch()
    said = " ".join(call("run", study / "problem.toml", "-q", code=1).output.split())
    assert "was lost once" in said
    assert "more memory" in said
    (study / "no-memory").unlink()
    call("resume", study / "run.supac", "--again", "lost", "-q")
    assert set(status(study).values()) == {Status.OK}
    assert len(status(study)) == 12
