"""Commands as tests call them, in this process or in one of their own."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from drivers import COMMAND, Driver
from supac.cli import app


def call(*words: object, code: int = 0) -> Result:
    """A command in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output + str(result.exception)
    assert "Traceback" not in result.output
    return result


def start(folder: Path, *words: str) -> Driver:
    """A command in a process of its own."""
    return Driver(COMMAND, *words, cwd=folder, environment={"COLUMNS": "80"})


def ended(process: Driver, code: int = 0) -> str:
    """What it said, when it has ended with this code."""
    found, said, complained = process.end()
    assert found == code, said + complained
    return said
