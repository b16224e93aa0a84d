from __future__ import annotations

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

import supac
from supac.cli import app

pytest.importorskip("matplotlib", reason="plots are an extra")


def test_demo_prints_and_writes_what_happened(tmp_path: Path) -> None:
    out = tmp_path / "a" / "demo"
    result = CliRunner().invoke(app, ["demo", "--out", str(out), "--budget", "180"])
    assert result.exit_code == 0, result.output
    assert "What happened" in result.output
    assert "fresh draws" in result.output
    assert (out / "run.png").read_bytes().startswith(b"\x89PNG")
    with (out / "history.csv").open() as file:
        assert [row["queries"] for row in csv.DictReader(file)] == ["100.0", "140.0", "180.0"]
    with (out / "evaluations.csv").open() as file:
        assert sum(1 for _ in csv.reader(file)) == 181


def test_help_version_and_bad_options() -> None:
    runner = CliRunner()
    assert "demo" in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["--version"]).output.strip() == supac.__version__
    refused = runner.invoke(app, ["demo", "--budget", "5"])
    assert refused.exit_code == 2
    assert "greater than or equal to 100" in refused.output
