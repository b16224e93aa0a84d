"""The application: its options, its errors and its exit codes."""

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
"""Exit codes; 0 is done, and 2 a wrong use of the command line."""

EXIT_CODES = (
    "\n\nExit codes: 0 done, 1 an error, 2 wrong usage, 3 stopped early, to be resumed, "
    "130 stopped by Ctrl-C."
)
_TRACEBACK = "SUPAC_TRACEBACK"

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
console = CleanConsole()
complaints = CleanConsole(stderr=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(supac.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and leave."
        ),
    ] = False,
) -> None:
    """Calibrate expensive simulators with PAC-Bayes guarantees.

    To begin: `supac init`, then `supac run problem.toml`, then `supac show run.supac`.
    """


@contextmanager
def guarded() -> Iterator[None]:
    """Errors that a user can mend, as a message; with a traceback only where that is wanted."""
    try:
        yield
    except (
        supac.EvaluationError,
        supac.StoreError,
        ExecutionError,
        ImportError,
        ValueError,
        OSError,
    ) as error:
        if os.environ.get(_TRACEBACK):
            complaints.print(traceback.format_exc(), soft_wrap=True)
        raise failed(_of_the_system(error) if isinstance(error, OSError) else str(error)) from error


def _of_the_system(error: OSError) -> str:
    """What the operating system says of a file, without its number; our own words as they are."""
    if error.filename is None or not error.strerror:
        return str(error)
    return f"{os.fsdecode(error.filename)}: {error.strerror[0].lower()}{error.strerror[1:]}"


def check_vacant(path: Path, *, force: bool) -> None:
    """Leave with an error, before the work, if a file cannot be written there after it."""
    with guarded():
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()  # of a loop of links, say, neither of the questions below would tell
        folder = Path(os.path.realpath(path)).parent
        if path.is_dir():
            raise failed(f"{path} is a folder: name a file in it")
        if path.exists() and not force:
            raise failed(f"{path} is there already: --force replaces it")
        if not folder.is_dir():
            raise failed(f"{path}: no such file or directory; make the folder {folder} first")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise failed(f"{path} cannot be written: permission denied")


@contextmanager
def user_code() -> Iterator[None]:
    """What the user's code prints goes to the standard error, in child processes as well.

    The standard output is for results, which a machine may read.
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
    """Print a value for machines, with an escape of JSON for every hidden character."""
    words = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo(visible(words, lambda character: json.dumps(character)[1:-1]))


def inform(message: str) -> None:
    """Say what is going on, to whom it may interest."""
    complaints.print(message, soft_wrap=True)


def warn(message: str) -> None:
    """Say what should be known."""
    complaints.print(message, style="yellow", soft_wrap=True)


def failed(message: str) -> typer.Exit:
    """Say what went wrong; the exit to raise."""
    complaints.print(message, style="red", soft_wrap=True)
    return typer.Exit(ERROR)
