"""The application: its commands, error messages and exit codes.

A command is imported when it is called, since `supac --help` needs neither NumPy nor SciPy.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import supac
from supac.codec.text import visible
from supac.early_signals import CAN_BE_CONTINUED

if TYPE_CHECKING:
    from supac.record.record import Record

ERROR, RESUMABLE, INTERRUPTED = 1, CAN_BE_CONTINUED, 130
"""Exit codes beside 0, done, and 2, wrong usage."""

_EXIT_CODES = (
    "\n\nExit codes: 0 done, 1 error, 2 wrong usage, 3 stopped early and can be resumed, "
    "130 stopped by Ctrl-C."
)
COMMANDS = {
    "demo": (
        "demo",
        "Calibrate the embedded digester (ADM1), or one of the paper's synthetic risks.",
    ),
    "init": (
        "problems",
        "Write a commented problem file that runs as it is, to be changed line by line.",
    ),
    "run": (
        "problems",
        "Calibrate the problem of a file. Ctrl-C stops, `supac resume` continues.",
    ),
    "cluster": (
        "clusters",
        "Show the job script of the workers of a problem, and check that they can make a run.",
    ),
    "resume": (
        "problems",
        "Continue an interrupted or killed run, or one with a larger budget.",
    ),
    "show": ("stores", "Show the content of a store, also while another process writes to it."),
    "watch": (
        "watch",
        "Show a run in progress as a live page for the browser: fit, outlook, workers, every run.",
    ),
    "certify": (
        "stores",
        "Show what is guaranteed on new data for the parameter sets that validated the posterior.",
    ),
    "predict": (
        "posteriors",
        "Run the simulator under another scenario at draws of the posterior; print the bands.",
    ),
    "sensitivity": (
        "posteriors",
        "Show which parameters matter: combinations that the data determine, and Sobol indices.",
    ),
    "next": (
        "posteriors",
        "Show which measurement would help most: how much of an uncertainty would remain.",
    ),
    "report": (
        "stores",
        "Write a run as one HTML page: the problem, the posterior, and whether to trust it.",
    ),
    "export": (
        "stores",
        "Write all runs of a store as a table, in the parameters' units, or its result as JSON.",
    ),
}
"""Each command, in the order of `supac --help`: its module in this package, and the first
sentence of its help."""
_IMPORTED: dict[str, Any] = {}
_STYLE: dict[str, Any] = {
    "rich_markup_mode": "markdown",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class Commands(TyperGroup):
    """All commands, with expected errors as messages."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with guarded():
            return super().invoke(ctx)


class LaterCommand(TyperCommand):
    """A command of which only the name and the first sentence are known until it is called."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """Import the command and make its context, in which it is called or explained."""
        assert self.name is not None
        import_module("supac.public")  # registers all that a store may hold
        import_module(f"supac.cli.{COMMANDS[self.name][0]}")
        return _IMPORTED[self.name].make_context(info_name, args, *more, **extra)


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


app = typer.Typer(cls=Commands, no_args_is_help=True, epilog=_EXIT_CODES, **_STYLE)
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


for _name, (_, _sentence) in COMMANDS.items():
    app.command(_name, cls=LaterCommand, help=_sentence)(lambda: None)


def command(example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of `COMMANDS`, with an example and the exit codes below its help."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        alone = typer.Typer(add_completion=False, **_STYLE)
        alone.command(epilog=example + _EXIT_CODES)(function)
        made = get_command(alone)
        _IMPORTED[made.name or ""] = made
        return function

    return add


@contextmanager
def guarded() -> Iterator[None]:
    """Print expected errors as a message and exit; with a traceback if SUPAC_TRACEBACK is set."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, _expected()):
            raise
        if os.environ.get("SUPAC_TRACEBACK"):
            error_console.print(traceback.format_exc(), soft_wrap=True)
        raise failed(_system_error(error) if isinstance(error, OSError) else str(error)) from error


def _expected() -> tuple[type[Exception], ...]:
    """Return the errors that are told in a sentence; imported once there is one."""
    own = supac.EvaluationError, supac.StoreError, supac.ExecutionError
    return *own, ImportError, ValueError, OSError


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
        from supac.report.tables import summary  # noqa: PLC0415 - slow to import

        console.print(summary(run, title, console.width))


def print_json(value: dict[str, Any]) -> None:
    """Print JSON, with control characters as escapes."""
    words = json.dumps(value, indent=2, ensure_ascii=False)
    print_text(visible(words, lambda character: json.dumps(character)[1:-1]))


def print_text(text: str) -> None:
    """Print a text as it is; exit without a word if nobody reads on, as in `| head`."""
    try:
        typer.echo(text)
    except BrokenPipeError:
        console.on_broken_pipe()


def shown_progress(*, quiet: bool) -> bool | Literal["log"] | None:
    """Return how runs are shown: not if `quiet`, by a bar on a terminal, by lines in a log."""
    if quiet:
        return False
    return None if sys.stderr.isatty() else "log"


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


def check_vacant(path: Path, *, force: bool) -> None:
    """Exit with a message if a file cannot be written, before any work is done."""
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
