"""What an earlier search has seen is known to the command line, whichever way its runs come."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import supac
from commands import call
from supac.problem_file import starter_files

MODEL = """
from math import exp


def simulate(initial, k1, k2, times):
    a = [initial * exp(-k1 * t) for t in times]
    b = [initial * k1 * (exp(-k1 * t) - exp(-k2 * t)) / (k2 - k1 + 1e-9) for t in times]
    return {"A": a, "B": b}
"""
WORST = "2,0.281,1.061\n"
EMPTY = "12,,\n"  # simulated by every run, so that it can be filled in later
CHANGES = {
    "the prior": ("problem.toml", "median = 0.5", "median = 0.4", "the prior"),
    "the loss": ("problem.toml", "width = 3.0", "width = 2.0", "the loss, its"),
    "the noise": ("problem.toml", "noise = 0.05 ", "noise = 0.1 ", "noise of measurements"),
    "a row removed": ("data.csv", WORST, "", "2 of the 24 measurements were"),
    "a value changed": ("data.csv", WORST, "2,0.2,1.061\n", "1 of the 24 measurements were"),
    "all shifted by rounding, a row removed": ("data.csv", "", "", "2 of the 24 measurements"),
}  # fmt: skip
HONEST = {
    "the same again": ("problem.toml", "median = 0.5", "median = 0.5"),
    "a larger budget": ("problem.toml", "budget = 30", "budget = 34"),
    "more data": ("data.csv", EMPTY, "12,0.020,0.051\n"),
    "another bound": ("problem.toml", "maurer-langford-seeger", "mcallester"),
}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, its store, and the tables of its runs and sets."""
    folder = tmp_path_factory.mktemp("first")
    for name, text in starter_files("python").items():
        (folder / name).write_text(text.replace("budget = 60", "budget = 30"))
    (folder / "model.py").write_text(MODEL)
    (folder / "data.csv").write_text((folder / "data.csv").read_text() + EMPTY)
    call("run", folder / "problem.toml", "-q")
    call("export", folder / "run.supac", folder / "runs.csv")
    call("export", folder / "run.supac", folder / "sets.csv", "--ensemble")
    return folder


@pytest.fixture
def study(first: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    return tmp_path / "problem.toml"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def changed(study: Path, name: str) -> str:
    """Change the study, and return what is said of that."""
    file, old, new, reason = CHANGES[name]
    if name.startswith("all shifted"):
        lines = (study.with_name(file).read_text().replace(WORST, "")).splitlines()
        shifted = [",".join([time, f"{float(a) + 1e-12!r}", f"{float(b) + 1e-12!r}"])
                   for time, a, b in (line.split(",") for line in lines[1:-1])]  # fmt: skip
        study.with_name(file).write_text("\n".join([lines[0], *shifted]) + "\n")
    else:
        change(study.with_name(file), old, new)
    if reason.startswith("2 of"):
        change(study, "n = 24", "n = 22")
    return reason


def known(study: Path, name: str) -> Path:
    """Give the study a store of its own, and known runs."""
    change(study, 'store = "run.supac"', f'store = "second.supac"\nknown = "{name}"')
    return study.with_name("second.supac")


def checked(study: Path, *options: str) -> str:
    return " ".join(call("run", study, "--check", *options).output.split())


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("way", ["runs.csv", "sets.csv", "run.supac", "--force"])
def test_changes_are_told_before_the_first_run(study: Path, name: str, way: str) -> None:
    if way != "--force":
        known(study, way)
    reason = changed(study, name)
    told = checked(study, *(["--force"] if way == "--force" else []))
    assert "nothing will be guaranteed" in told
    assert reason in told
    assert ("run.supac" if way == "--force" else way) in told.replace(" ", "")


@pytest.mark.parametrize("way", ["runs.csv", "--force"])
def test_changes_are_refused(study: Path, way: str) -> None:
    if way != "--force":
        known(study, way)
    changed(study, "a row removed")
    for budget in (30, 31)[: 1 + (way == "--force")]:  # also in place of what took its place
        call("run", study, "-q", "--budget", budget, *(["--force"] if way == "--force" else []))
    problem = supac.read_problem(study)
    made = supac.read_store(problem.store)
    assert made.certificate is None
    assert "were removed or changed" in made.never_certified
    with pytest.raises(supac.CertificateError, match="were removed or changed"):
        problem.certify(made, draws=5, subject="ensemble")


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("way", ["runs.csv", "sets.csv", "run.supac", "--force"])
def test_honest_repetitions_are_not_refused(study: Path, name: str, way: str) -> None:
    file, old, new = HONEST[name]
    change(study.with_name(file), old, new)
    if name == "more data":
        change(study, "n = 24", "n = 26")
    if way != "--force":
        known(study, way)
    assert "guaranteed" not in checked(study, *(["--force"] if way == "--force" else []))


@pytest.mark.parametrize("way", ["runs.csv", "run.supac", "--force"])
def test_more_data_are_certified(study: Path, way: str) -> None:
    if way != "--force":
        known(study, way)
    change(study.with_name("data.csv"), *HONEST["more data"][1:])
    change(study, "n = 24", "n = 26")
    call("run", study, "-q", *(["--force"] if way == "--force" else []))
    certificate = supac.read_store(supac.read_problem(study).store).certificate
    assert certificate is not None
    assert (certificate.n, certificate.earlier) == (26, 1)


@pytest.mark.parametrize("way", ["runs.csv", "--force"])
def test_further_certificates_are_counted(study: Path, way: str) -> None:
    if way != "--force":
        known(study, way)
    for budget in (32, 34)[: 1 + (way == "--force")]:
        call("run", study, "-q", "--budget", budget, *(["--force"] if way == "--force" else []))
    certificate = supac.read_store(supac.read_problem(study).store).certificate
    assert certificate is not None
    assert certificate.earlier == (2 if way == "--force" else 1)


def test_the_same_command_again_is_the_same_certificate(first: Path, study: Path) -> None:
    call("run", study, "--force", "-q")
    one, other = (
        supac.read_store(each) for each in (first / "run.supac", study.parent / "run.supac")
    )
    assert one.certificate == other.certificate


def test_a_table_that_lost_its_first_rows_says_nothing_of_its_search(study: Path) -> None:
    store = known(study, "runs.csv")
    table = study.with_name("runs.csv")
    with table.open(newline="") as file:
        header, _, *rows = csv.reader(file)
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    call("run", study, "-q", "--budget", "12")
    assert "column `origin` was changed" in supac.read_store(store).never_certified


def test_without_its_column_a_table_is_declared(study: Path) -> None:
    store = known(study, "runs.csv")
    table = study.with_name("runs.csv")
    with table.open(newline="") as file:
        rows = [row[:-1] for row in csv.reader(file)]
    with table.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    change(study, "budget = 30", "budget = 30\nprior_has_seen_data = true")
    call("run", study, "-q")
    assert "prior was learnt on the same data" in supac.read_store(store).never_certified


def test_fresh_sets_of_a_certificate_are_not_learnt_from(study: Path) -> None:
    """With the same seed, those of the next search's certificate have the same normals."""
    call("certify", study.with_name("run.supac"), "--draws", "4")
    call("export", study.with_name("run.supac"), study.with_name("runs.csv"), "--force")
    known(study, "runs.csv")
    runs = supac.read_problem(study).options["known"]
    assert len(runs) == 30
    assert len(runs.statuses) == len(runs.sources) == len(runs.places) == len(runs.outputs) == 30


def normals(path: Path) -> NDArray[np.float64]:
    """Return the normals behind the fresh draws of a certificate."""
    run = supac.read_store(path)
    x = np.array([each.x for each in run.light_runs if each.purpose == "certificate"])
    posterior = run.known_posterior()
    return np.asarray(np.linalg.solve(np.linalg.cholesky(posterior.covariance),
                                      (x - posterior.mean).T)).T  # fmt: skip


def test_sets_of_a_certificate_that_are_known_are_never_drawn_again(study: Path) -> None:
    """Else the sets of the second certificate would be those that its posterior is fitted to."""
    first, sets = study.with_name("run.supac"), study.with_name("sets.csv")
    call("certify", first, "--draws", "6")
    call("export", first, sets, "--ensemble", "--draws", "6", "--force")
    second = known(study, "sets.csv")
    call("run", study, "-q", "--budget", "20")
    said = call("certify", second, "--draws", "6").output
    assert "6 fresh runs" in said
    drawn = normals(first), normals(second)
    assert all(each.shape == (6, 3) for each in drawn)
    # Of independent normals the mean is 1.13 ± 0.2; of repeated ones, up to rotation, 0.
    assert np.abs(drawn[0] - drawn[1]).mean() > 0.5
    # What is made once is known again, by the certificate and by its table.
    assert "6 more are in the store" in call("certify", second, "--draws", "8").output
    call("export", second, study.with_name("more.csv"), "--ensemble", "--draws", "8")
