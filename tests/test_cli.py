from __future__ import annotations

import csv
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
    result = CliRunner().invoke(app, ["demo", "--out", str(out), "--budget", "180"])
    assert result.exit_code == 0, result.output
    assert "What happened" in result.output
    assert "fresh draws" in result.output
    assert (out / "run.png").read_bytes().startswith(b"\x89PNG")
    with (out / "history.csv").open() as file:
        assert [row["queries"] for row in csv.DictReader(file)] == ["100", "140", "180"]
    with (out / "evaluations.csv").open() as file:
        assert sum(1 for _ in csv.reader(file)) == 181


def test_demo_without_matplotlib_keeps_the_tables(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as util; find = util.find_spec; "
        "util.find_spec = lambda name, *a: None if name == 'matplotlib' else find(name, *a); "
        f"sys.argv = ['supac', 'demo', '--budget', '100', '--out', {str(tmp_path)!r}]; "
        "from supac.cli import app; app()"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "no picture: it needs matplotlib, pip install 'supac[plot]'" in outcome.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evaluations.csv", "history.csv"]


def test_demo_says_where_it_cannot_write(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    result = CliRunner().invoke(app, ["demo", "--budget", "100", "--out", str(blocked / "demo")])
    assert result.exit_code == 1
    assert "cannot write to" in result.output


def test_help_version_and_bad_options() -> None:
    runner = CliRunner()
    assert "demo" in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["--version"]).output.strip() == supac.__version__
    refused = runner.invoke(app, ["demo", "--budget", "5"])
    assert refused.exit_code == 2
    assert "greater than or equal to 100" in refused.output
