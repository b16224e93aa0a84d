"""The application: global options, error messages and exit codes."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import supac
from supac.cli.console import CleanConsole
from supac.codec.text import visible
from supac.running import ExecutionError

ERROR, RESUMABLE, INTERRUPTED = 1, 3, 130
"""Exit codes beside 0, done, and 2, wrong usage."""

EXIT_CODES = (
    "\n\nExit codes: 0 done, 1 error, 2 wrong usage, 3 stopped early and can be resumed, "
    "130 stopped by Ctrl-C."
)
_KNOWN = (supac.EvaluationError, supac.StoreError, ExecutionError, ImportError, ValueError, OSError)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
console = CleanConsole()
error_console = CleanConsole(stderr=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(supac.__version__)
        raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
)


@app.callback()
def main(version: Annotated[bool, _VERSION] = False) -> None:
    """Calibrate expensive simulators with PAC-Bayes guarantees.

    To begin: `supac init`, then `supac run problem.toml`, then `supac show run.supac`.
    """


@contextmanager
def guarded() -> Iterator[None]:
    """Print expected errors as a message and exit; with a traceback if SUPAC_TRACEBACK is set."""
    try:
        yield
    except _KNOWN as error:
        if os.environ.get("SUPAC_TRACEBACK"):
            error_console.print(traceback.format_exc(), soft_wrap=True)
        raise failed(_system_error(error) if isinstance(error, OSError) else str(error)) from error


def _system_error(error: OSError) -> str:
    """Format an error of the operating system as `path: reason`; keep our own messages."""
    if error.filename is None or not error.strerror:
        return str(error)
    return f"{os.fsdecode(error.filename)}: {error.strerror[0].lower()}{error.strerror[1:]}"


def check_vacant(path: Path, *, force: bool) -> None:
    """Exit with a message if a file cannot be written, before any work is done."""
    with guarded():
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()  # of a loop of links, say, neither of the questions below would tell
        folder = Path(os.path.realpath(path)).parent
        if path.is_dir():
            raise failed(f"{path} is a folder: name a file in it")
        if path.exists() and not force:
            raise failed(f"{path} exists already: --force replaces it")
        if not folder.is_dir():
            raise failed(f"{path}: no such file or directory; create the folder {folder} first")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise failed(f"{path} cannot be written: permission denied")


@contextmanager
def user_code() -> Iterator[None]:
    """Redirect what the user's code prints to standard error, in child processes as well.

    Standard output is for results, which may be read by a program.
    """
    sys.stdout.flush()
    with redirect_stdout(sys.stderr):
        kept = os.dup(1)
        try:
            os.dup2(2, 1)
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def print_json(value: dict[str, Any]) -> None:
    """Print JSON, with control characters as escapes."""
    words = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo(visible(words, lambda character: json.dumps(character)[1:-1]))


def inform(message: str) -> None:
    """Print a status message to stderr."""
    error_console.print(message, soft_wrap=True)


def warn(message: str) -> None:
    """Print a warning to stderr."""
    error_console.print(message, style="yellow", soft_wrap=True)


def failed(message: str) -> typer.Exit:
    """Print an error to stderr; return the exit to raise."""
    error_console.print(message, style="red", soft_wrap=True)
    return typer.Exit(ERROR)
