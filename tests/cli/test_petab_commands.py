"""`supac run problem.yaml`: a PEtab problem from its own files to a report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import petab_example as example
import supac
from extras import needs
from supac.cli import app

needs("roadrunner", "petab")

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "petab"


def command(*words: str, code: int = 0) -> str:
    outcome = CliRunner().invoke(app, list(words), catch_exceptions=False)
    said = " ".join(outcome.output.split())
    assert outcome.exit_code == code, said
    return said


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    example.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_from_its_own_files_to_a_report(folder: Path) -> None:
    said = command("run", "problem.yaml", "--check")
    assert "outputs compared 16" in said
    assert "no mistake found" in said
    said = command("run", "problem.yaml", "--budget", "20")
    assert "20 of 20" in said
    assert "nothing: a likelihood has no largest value" in said
    assert "leave the range" not in said
    said = command("resume", "problem.yaml", "--budget", "24")
    assert "24 of 24" in said
    assert "28 of 28" in command("resume", "problem.supac", "--budget", "28")
    assert "problem (problem.supac)" in command("show", "problem.yaml")
    assert "wrote problem-report.html" in command("report", "problem.yaml")
    page = (folder / "problem-report.html").read_text()
    assert "How well it fits" in page
    assert "logged (after): the data with their standard error" in page
    assert "no largest value" in command("certify", "problem.yaml", code=1)
    assert "Shares of the variance" in command("sensitivity", "problem.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["Boehm_JProteomeRes2014", "Crauste_CellSystems2017", "Fiedler_BMCSystBiol2016",
     "Bruno_JExpBot2016"],
)  # fmt: skip
def test_published_problems_end_to_end(name: str, tmp_path: Path) -> None:
    path = REFERENCE / name / f"{name}.yaml"
    if not path.exists():
        pytest.skip(f"the PEtab collection is not at {REFERENCE}")
    store = str(tmp_path / "run.supac")
    said = command("run", str(path), "--budget", "20", "--store", store)
    assert "20 of 20" in said
    assert f"{name} (" in said
    command("report", store)
    page = (tmp_path / "run-report.html").read_text()
    assert "How well it fits" in page
    assert "the data with their standard error" in page


@pytest.mark.slow
def test_the_same_bits_from_python_and_with_any_number_of_workers(folder: Path) -> None:
    command("run", "problem.yaml", "--budget", "20", "--workers", "2", "--store", "two.supac")
    two = supac.read_store("two.supac").result()
    one = supac.read_problem("problem.yaml").minimize(budget=20, store=folder / "one.supac")
    assert len(one.record.rounds) > 2
    assert one.objective == two.objective


def test_a_problem_file_may_name_it_and_change_priors(folder: Path) -> None:
    (folder / "problem.toml").write_text(
        '[parameters]\nk = { prior = "lognormal", median = 0.5, log_sd = 0.5 }\n'
        '[simulator]\npetab = "problem.yaml"\n[bound]\ntemperature = 0.0625\n[run]\nbudget = 15\n'
    )
    command("run", "problem.toml")
    record = supac.read_store("problem.supac")
    assert record.parameters is not None
    assert record.parameters.names == ("k",)


def test_observation_parameters_of_a_problem_file_are_put_last(folder: Path) -> None:
    wide = '{ prior = "lognormal", median = 1.0, log_sd = 0.5 }'
    (folder / "problem.toml").write_text(
        f"[parameters]\nscale = {wide}\nk = {wide}\n"
        '[simulator]\npetab = "problem.yaml"\n[bound]\ntemperature = 0.0625\n[run]\nbudget = 30\n'
    )
    problem = supac.read_problem("problem.toml")
    assert problem.parameters.names == ("k", "scale")
    one, two = (problem.risk(np.array([0.4, scale])) for scale in (3.0, 1.0))
    assert one < two  # 3 is the scale of the example, and 0.4 its k


def test_init_writes_a_problem_file_with_the_priors(folder: Path) -> None:
    assert "wrote study/problem.toml" in command("init", "study", "--petab", "problem.yaml")
    made, own = supac.read_problem("study/problem.toml"), supac.read_problem("problem.yaml")
    assert made.parameters.marginals == own.parameters.marginals
    assert (made.bound, made.budget) == (own.bound, own.budget)
    assert "no mistake found" in command("run", "study/problem.toml", "--check")


def test_changed_data_are_refused_and_a_changed_model_is_told(folder: Path) -> None:
    command("run", "problem.yaml", "--budget", "12")
    model = folder / "model.xml"
    model.write_text(model.read_text().replace('id="on" value="1"', 'id="on" value="2"'))
    said = command("resume", "problem.yaml", "--budget", "14", "--changed-simulator")
    assert "the simulator has changed since 12 of the 12 runs in problem.supac" in said
    table = folder / "measurements.tsv"
    table.write_text(table.read_text().replace("\t0.0\t", "\t0.5\t", 1))
    said = command("resume", "problem.yaml", "--budget", "16", code=1)
    assert "the data have changed" in said


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("measurements.tsv", "scale\tsd", "scale\tsdd",
         "measurements.tsv, line 2, column noiseParameters: sdd is neither in the "
         "model nor in the parameter table; did you mean sd?"),
        ("problem.yaml", "model.xml", "modle.xml", "did you mean model.xml?"),
    ],
)  # fmt: skip
def test_wrong_files_are_named(folder: Path, file: str, old: str, new: str, words: str) -> None:
    path = folder / file
    path.write_text(path.read_text().replace(old, new, 1))
    said = command("run", "problem.yaml", code=1)
    assert words in said
    assert "Traceback" not in said


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    assert "pip install 'supac[petab]'" in command("run", "problem.yaml", code=1)
