"""A second study of the same data, which uses the runs of the first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import supac
from commands import call
from supac.problem_file import starter_files

MODEL = """
from math import exp

TIMES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]


def simulate(initial, k1, k2):
    a = [initial * exp(-k1 * t) for t in TIMES]
    b = [initial * k1 * (exp(-k1 * t) - exp(-k2 * t)) / (k2 - k1 + 1e-9) for t in TIMES]
    return {"A": a, "B": b}
"""


def said(*words: object, code: int = 0) -> str:
    return " ".join(call(*words, code=code).output.split())


def write(path: Path, text: str, *pairs: tuple[str, str]) -> Path:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the first study, which nobody changes."""
    folder = tmp_path_factory.mktemp("first")
    for name, text in starter_files("python").items():
        (folder / name).write_text(text)
    (folder / "model.py").write_text(MODEL)
    problem = folder / "problem.toml"
    write(problem, problem.read_text(), ("budget = 60", "budget = 30"))
    call("run", problem, "-q")
    return folder


@pytest.fixture
def study(first: Path, tmp_path: Path) -> Path:
    """A copy of it, and beside its store a problem file that has its runs as known ones."""
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    problem = tmp_path / "problem.toml"
    return write(
        tmp_path / "second.toml",
        problem.read_text(),
        ('store = "run.supac"', 'store = "second.supac"\nknown = "run.supac"'),
    )


def test_only_runs_of_a_known_store_matter(study: Path) -> None:
    """Not that the certificate of the second search was counted in it."""
    call("run", study, "-q", "--budget", "12")
    store = study.with_name("second.supac")
    assert "has changed" not in said("resume", store, "--budget", "14")
    call("certify", study.with_name("run.supac"), "--draws", "5")
    assert "has changed" not in said("resume", store, "--budget", "16")
    call("resume", study.with_name("run.supac"), "--budget", "34", "-q")
    told = said("resume", store, "--budget", "18")
    assert "the store of known runs has changed since second.supac was begun" in told


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [("median = 0.5", "median = 0.4", "the prior"), ("width = 3.0", "width = 2.0", "the loss")],
)
def test_changes_after_a_result_are_told_before_the_first_run(
    study: Path, old: str, new: str, name: str
) -> None:
    assert "guaranteed" not in said("run", study, "--check")
    write(study, study.read_text(), (old, new))
    for options in (["--check"], ["--budget", "12"]):
        told = said("run", study, *options)
        assert f"nothing will be guaranteed: {name}" in told
        assert "was chosen or changed after a result on the same data, in run.supac" in told
    assert told.index("nothing will be guaranteed") < told.index("guaranteed nothing")


def test_no_certificate_is_offered_where_none_can_be_given(study: Path) -> None:
    write(study, study.read_text(), ("median = 0.5", "median = 0.4"))
    call("run", study, "-q")
    store = study.with_name("second.supac")
    told = said("certify", store, code=1)
    assert "no certificate: the prior was" in told
    assert "--draws" not in told
    told = said("certify", store, "--posterior", "--precision", "0.01", code=1)
    assert "no certificate: the prior was" in told
    assert "fresh runs" not in told
    call("report", store)
    page = study.with_name("second-report.html").read_text()
    assert "Get a guarantee" not in page
    assert "--draws 20" not in page


def test_a_stopped_search_is_to_be_resumed(study: Path) -> None:
    store = study.with_name("second.supac")
    result = supac.read_problem(study).minimize(callback=lambda _: True)
    assert result.stop_reason is supac.StopReason.USER
    assert "guaranteed not yet: the search was stopped before" in said("show", store)
    told = said("certify", store, code=1)
    assert "`supac resume`" in told
    assert "--draws" not in told
    call("report", store)
    assert "Get a guarantee" not in study.with_name("second-report.html").read_text()
    told = said("resume", store)
    assert "that validate the posterior" in told
    assert "earlier posterior" not in told
    assert "since those of the earlier posterior" in said("resume", store, "--budget", "40")


def test_failures_come_before_a_guarantee(study: Path) -> None:
    model = study.with_name("model.py")
    model.write_text(model.read_text().replace("    a = [", "    1 / 0\n    a = ["))
    write(study, study.read_text(), ('known = "run.supac"', ""))
    call("run", study, "-q", code=1)
    told = said("show", study.with_name("second.supac"))
    assert "too many runs failed: look at the failures of the simulator first" in told
    assert "such as 20" not in told
