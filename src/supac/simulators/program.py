"""A simulator that is a program of its own."""

from __future__ import annotations

import copy
import csv
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from supac.simulators.process_guard import ProcessGuard

_TAIL = 800  # characters of what the program said that are kept


class ProgramError(RuntimeError):
    """The program failed, or its answer could not be read."""


class Program:
    """Run a command for each point, in a scratch folder of its own.

    The point is written to `input.json`, {"name": value, …} or a list where there are no names, or
    to `input.csv`, a row of names and a row of values; the command is started in that folder and
    must write `output.json`: a number, a list of outputs, or an object with either under `key`; of
    several keys the outputs follow one after the other.
    In the command {input}, {output} and {folder} stand for the absolute paths. A run whose exit
    code is not zero has failed, and the end of what it wrote to its standard error is kept with it.

    Parameters
    ----------
    command
        The program and its arguments. No shell is involved.
    names
        Of the parameters, in their order; by default those of the `Parameters` that `minimize` is
        given. None of them, `names=[]`, writes a list.
    inputs
        "json" or "csv".
    key
        Name of the answer in `output.json`, if that is an object, or a list of names.
    scratch
        Folder in which the folders are made; by default that of temporary files.
    keep
        Folders that are left there to be looked at: those of "failed" runs, "all" or "none".

    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        names: Sequence[str] | None = None,
        inputs: Literal["json", "csv"] = "json",
        key: str | Sequence[str] | None = None,
        scratch: str | os.PathLike[str] | None = None,
        keep: Literal["none", "failed", "all"] = "none",
    ):
        if isinstance(command, str) or not command:
            example = '["./model", "--fast"]'
            raise TypeError(f"command must be a list such as {example}, not {command!r}")
        if inputs not in ("json", "csv"):
            raise ValueError(f'inputs must be "json" or "csv", not {inputs!r}')
        if keep not in ("none", "failed", "all"):
            raise ValueError(f'keep must be "none", "failed" or "all", not {keep!r}')
        self.command = [os.fspath(word) for word in command]
        if os.sep in self.command[0]:  # it is started in another folder
            self.command[0] = str(Path(self.command[0]).absolute())
        self.names = None if names is None else list(names)
        self.inputs, self.keep = inputs, keep
        self.key = key if key is None or isinstance(key, str) else list(key)
        self.scratch = None if scratch is None else Path(scratch).absolute()
        self.__qualname__ = f"Program({self.command})"

    def named(self, names: Sequence[str]) -> Program:
        """Return the program with these names, unless it has its own."""
        if self.names is not None:
            return self
        other = copy.copy(self)
        other.names = list(names)
        return other

    def __call__(self, x: Any) -> Any:
        """Return the program's answer at one point (dim,): a number or a list of numbers."""
        if self.names and len(self.names) != len(x):
            raise ProgramError(f"{len(self.names)} names were given for {len(x)} parameters")
        scratch = Path(tempfile.gettempdir()) if self.scratch is None else self.scratch
        scratch.mkdir(parents=True, exist_ok=True)
        folder = scratch / f"run-{secrets.token_hex(6)}"
        source, target = folder / f"input.{self.inputs}", folder / "output.json"
        command = self.command
        for name, path in (("{input}", source), ("{output}", target), ("{folder}", folder)):
            command = [word.replace(name, str(path)) for word in command]
        failed = True
        # The guard is there before the folder: it removes the folder if this process is killed.
        guard = ProcessGuard(command, folder=folder, keep=self.keep != "none")
        with closing(guard):
            folder.mkdir(mode=0o700)
            try:
                self._write(source, [float(value) for value in x])
                answer = self._run(guard, command[0], folder)
                failed = False
                return answer
            finally:
                if self.keep == "none" or (self.keep == "failed" and not failed):
                    shutil.rmtree(folder, ignore_errors=True)

    def _write(self, source: Path, x: list[float]) -> None:
        names = self.names or [f"x{i}" for i in range(len(x))]
        if self.inputs == "csv":
            with source.open("w", newline="") as file:
                csv.writer(file).writerows([names, [repr(value) for value in x]])
        else:
            point = dict(zip(names, x, strict=True)) if self.names else x
            source.write_text(json.dumps(point))

    def _run(self, guard: ProcessGuard, name: str, folder: Path) -> Any:
        try:
            guard.start()
        except OSError as error:
            raise ProgramError(f"{name} could not be started: {error}") from error
        kept = f" (in {folder})" if self.keep != "none" else ""
        code = guard.wait()
        if code:
            tail = (folder / "stderr.txt").read_text(errors="replace").strip()[-_TAIL:]
            raise ProgramError(f"exit code {code}{kept}: {tail or 'no message'}")
        return self._read(folder / "output.json", kept)

    def _read(self, target: Path, kept: str) -> Any:
        try:
            answer = json.loads(target.read_text())
        except FileNotFoundError as error:
            raise ProgramError(f"the program wrote no output.json{kept}") from error
        except ValueError as error:
            raise ProgramError(f"output.json is not JSON{kept}: {error}") from error
        if not isinstance(answer, dict):
            return answer
        has = ", ".join(sorted(answer)) or "nothing"
        if self.key is None:
            raise ProgramError(f"output.json has {has}: say with key= which is the answer")
        for key in [self.key] if isinstance(self.key, str) else self.key:
            if key not in answer:
                raise ProgramError(f"output.json has no {key!r}, but {has}")
        if isinstance(self.key, str):
            return answer[self.key]
        parts = [answer[key] for key in self.key]
        return [value for part in parts for value in (part if isinstance(part, list) else [part])]
