from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import supac
from supac.cli import app
from supac.plots import drawing_is_possible


@pytest.mark.skipif(not drawing_is_possible(), reason="plots are an extra")
def test_demo_prints_and_writes_what_happened(tmp_path: Path) -> None:
    out = tmp_path / "a" / "demo"
    result = CliRunner().invoke(app, ["demo", "synthetic", "--out", str(out), "--budget", "60"])
    assert result.exit_code == 0, result.output
    assert re.search(r"runs +objective +mean risk +KL +step +radius +wrong\n", result.output)
    assert re.search(r"parameter +prior +posterior +width +truth\n", result.output)
    assert "fresh draws" in result.output
    out = out / "synthetic"
    assert (out / "posterior.png").read_bytes().startswith(b"\x89PNG")
    with (out / "history.csv").open() as file:
        queries = [row["queries"] for row in csv.DictReader(file)]
    assert queries == ["20", "25", "30", "35", "40", "45"]
    with (out / "evaluations.csv").open() as file:
        assert sum(1 for _ in csv.reader(file)) == 61


@pytest.mark.skipif(not drawing_is_possible(), reason="plots are an extra")
def test_demo_calibrates_the_digester(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="ADM1 needs the extra adm1")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--budget", "100"])
    said = " ".join(result.output.split())
    assert "the truth alone 0.067" in said
    assert re.search("The truth of .*pH_LL_aa.* lies outside of the posterior's range", said)
    assert result.exit_code == 0, result.output
    assert "…" not in result.output
    assert re.search(r"k_m_ac\s+1/d\s+\d", result.output)
    names = sorted(path.name for path in (tmp_path / "adm1").iterdir())
    assert names == ["evaluations.csv", "fit.png", "history.csv", "posterior.png", "report.html"]
    page = (tmp_path / "adm1" / "report.html").read_text()
    assert page.count("the data with their standard error, and simulations") == 9  # each output
    assert "noise standard deviations, would (S_va, S_bu, S_pro, S_ac and S_IN " in page
    assert "Yes: typical misfits are at most 1." in page
    assert "Were there outliers among the runs?" in page
    with (tmp_path / "adm1" / "evaluations.csv").open() as file:
        row = next(csv.DictReader(file))
    assert 1.0 < float(row["k_m_ac"]) < 50.0  # in its own unit


def test_demo_without_extras_keeps_the_tables(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as util; find = util.find_spec; "
        "util.find_spec = lambda name, *a: None if name == 'matplotlib' else find(name, *a); "
        "sys.modules['numba'] = None; "
        f"sys.argv = ['supac', 'demo', PROBLEM, '--budget', '40', '--out', {str(tmp_path)!r}]; "
        "from supac.cli import app; app()"
    )
    plain, missing = (
        subprocess.run(
            [sys.executable, "-c", code.replace("PROBLEM", repr(problem))],
            capture_output=True,
            text=True,
            check=False,
        )
        for problem in ("synthetic", "adm1")
    )
    assert "no figures: they need matplotlib, pip install 'supac[plot]'" in plain.stdout
    names = sorted(path.name for path in (tmp_path / "synthetic").iterdir())
    assert names == ["evaluations.csv", "history.csv", "report.html"]
    assert missing.returncode == 1
    assert "pip install 'supac[adm1]'" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_demo_says_where_it_cannot_write(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    arguments = ["demo", "synthetic", "--budget", "100", "--out", str(blocked / "demo")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "cannot write to" in result.output


def test_demo_overwrites_nothing(tmp_path: Path) -> None:
    mine = tmp_path / "synthetic" / "history.csv"
    mine.parent.mkdir()
    mine.write_text("mine")
    arguments = ["demo", "synthetic", "--budget", "20", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "--force replaces it" in result.output
    assert mine.read_text() == "mine"
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    assert mine.read_text().startswith("queries")


def test_the_package_is_a_command_as_well() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "supac", "show"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Usage: supac show " in done.stderr


def test_help_version_and_bad_options() -> None:
    runner = CliRunner()
    assert "demo" in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["--version"]).output.strip() == supac.__version__
    small = runner.invoke(app, ["demo", "synthetic", "--budget", "5"])
    assert small.exit_code == 2
    assert re.search("'--budget'.*20", small.output)  # runs of the first batch
    assert runner.invoke(app, ["demo", "--budget", "0"]).exit_code == 2
