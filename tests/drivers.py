"""Processes that run a piece of code, forked from one that has imported the package already.

Tests kill dozens of them. Each would otherwise spend most of its life importing SciPy.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType

from waiting import PATIENCE, until

TESTS = Path(__file__).parent
COMMAND = "from supac.cli import app; app()"

_CONTEXT = multiprocessing.get_context("forkserver")
# Not the command line, which looks at its terminal when it is imported.
_CONTEXT.set_forkserver_preload(
    [
        "pytest",
        "rich.live",
        "rich.table",
        "scipy.optimize",
        "scipy.stats",
        "supac.problem_file",
        "supac.report",
        "toy_search",
        "typer.testing",
    ]
)


def _empty_file() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="supac-driver-")
    os.close(descriptor)
    return Path(name)


class Driver:
    """A process of its own that runs `code` with these arguments, as `python -c` does."""

    def __init__(
        self,
        code: str,
        *arguments: object,
        cwd: Path = TESTS,
        environment: Mapping[str, str] = MappingProxyType({}),
    ):
        self._said, self._complained = _empty_file(), _empty_file()
        files = str(self._said), str(self._complained)
        words = ["-c", *map(str, arguments)]
        self._process = _CONTEXT.Process(
            target=_run, args=(code, words, str(cwd), {**os.environ, **environment}, files)
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def complaint(self, words: str = "") -> str:
        """Wait for a line of the standard error with these words in it, and return it."""

        def lines() -> list[str]:
            whole = self._complained.read_text().rpartition("\n")[0]
            return [line for line in whole.splitlines() if words in line]

        until(lines, unless=lambda: self.poll() is not None)
        return lines()[0]

    def end(self) -> tuple[int, str, str]:
        """Wait for its end; return its exit code, and what it wrote to both outputs."""
        self._process.join(PATIENCE)
        code = self.poll()
        if code is None:
            os.killpg(self.pid, signal.SIGKILL)
            raise AssertionError(f"it does not end within {PATIENCE:g} s")
        texts = []
        for file in (self._said, self._complained):
            texts.append(file.read_text())
            file.unlink(missing_ok=True)
        return code, *texts  # type: ignore[return-value]


def _run(
    code: str, words: list[str], cwd: str, environment: dict[str, str], files: tuple[str, str]
) -> None:
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    multiprocessing.set_start_method(None, force=True)  # the default, not that of this process
    sys.argv = words
    sys.path.insert(0, "")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main = ModuleType("__main__")  # functions defined there travel by value
    sys.modules["__main__"] = main
    exec(compile(code, "<string>", "exec"), main.__dict__)
