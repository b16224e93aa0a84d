"""The application: error messages and exit codes."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from typer.core import TyperGroup

import supac
from supac.cli.tables import summary
from supac.codec.text import visible
from supac.record.record import Record
from supac.running import ExecutionError

ERROR, RESUMABLE, INTERRUPTED = 1, 3, 130
"""Exit codes beside 0, done, and 2, wrong usage."""

_EXIT_CODES = (
    "\n\nExit codes: 0 done, 1 error, 2 wrong usage, 3 stopped early and can be resumed, "
    "130 stopped by Ctrl-C."
)
_KNOWN = (supac.EvaluationError, supac.StoreError, ExecutionError, ImportError, ValueError, OSError)


class Commands(TyperGroup):
    """All commands, with expected errors as messages."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with guarded():
            return super().invoke(ctx)


class CleanConsole(Console):
    """Console that shows control characters in names and messages instead of obeying them.

    It does not interpret markup in brackets.
    """

    def __init__(self, **options: Any):
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as `Console` does, with cleaned texts."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EXIT_CODES,
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


def command(example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command, with an example and the exit codes below its help."""
    return app.command(epilog=example + _EXIT_CODES)


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


def print_run(run: Record, title: str, *, as_json: bool, quiet: bool = False) -> None:
    """Print a summary of a run, or all of it as JSON."""
    if as_json:
        print_json(run.to_dict())
    elif not quiet:
        console.print(summary(run, title, console.width))


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
