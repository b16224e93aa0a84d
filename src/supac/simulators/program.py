"""A simulator that is a program of its own."""

from __future__ import annotations

import copy
import csv
import json
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from supac.simulators.jacobian_file import JacobianFile
from supac.simulators.lost import MemoryWatch, RunLostError, loss_by
from supac.simulators.output_file import OutputError, OutputFile
from supac.simulators.process_guard import ProcessGuard
from supac.simulators.run_clock import waiting
from supac.simulators.template import Template, Value, flat, misspelt, unplaced

Inputs = Literal["json", "csv", "arguments", "environment"]

_PROLOG, _BEGUN = ".step.sh", ".step"
_LOOK = 0.05  # seconds between looks whether a step has begun
_INPUTS = ("json", "csv", "arguments", "environment")
_TAIL, _LINES = 800, 10  # characters and lines of what the program said that are kept


class ProgramError(RuntimeError):
    """The program failed, or its answer could not be read."""


class Program:
    """Run a command for each point, in a scratch folder of its own.

    The point is written to `input.json`, {"name": value, …} or a list where there are no names, or
    reaches the program as `inputs` and `template` say; the command is started in that folder and
    must write `output.json`, or another `output`: a number, a list of outputs, or several of them
    by `key`, which follow one after the other.
    In the command {input}, {output} and {folder} stand for the absolute paths. A run whose exit
    code is not zero has failed, and the end of what it wrote to its standard error is kept with it.

    Parameters
    ----------
    command
        The program and its arguments. No shell is involved.
    names
        Of the parameters, in their order; by default those of the `Parameters` that `minimize` is
        given. None of them, `names=[]`, writes a list.
    fields
        Names of the points of each field, nested lists in its shape; by default those of the
        `Parameters`. The program gets a field by its own name: in JSON as nested lists, elsewhere
        as numbers with blanks between them, the last index running fastest; in templates with a
        line for each row. `input.csv` has a column for each point.
    inputs
        "json" or "csv", a file `input.csv` with a row of names and a row of values; "arguments",
        for which the value of k stands where the command has {k}; or "environment", variables of
        these names. By default "json", unless there is a template.
    template
        One or more input files of the program, in which {k} stands for the value of k:
        `deck.in.tpl` is written as `deck.in`.
    copies
        Further files, or folders, that are copied to the folder of each run.
    key
        Name of the answer in the output, if that has names, or a list of names.
    output
        Name of the file that the program writes, or an `OutputFile`, which says more.
    scratch
        Folder in which the folders are made; by default that of temporary files.
    level
        Number in place of `{level}` in the command and the templates: 0 for the fine model and 1
        for a coarse one.
    keep
        Folders that are left there to be looked at: those of "failed" runs, "all" or "none".
    jacobian
        `JacobianFile` that the program writes as well: then a call returns (outputs, jacobian).

    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        names: Sequence[str] | None = None,
        fields: Mapping[str, list[Any]] | None = None,
        inputs: Inputs | None = None,
        template: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        copies: Sequence[str | os.PathLike[str]] = (),
        key: str | Sequence[str] | None = None,
        output: str | OutputFile = "output.json",
        scratch: str | os.PathLike[str] | None = None,
        keep: Literal["none", "failed", "all"] = "none",
        level: int | None = None,
        jacobian: JacobianFile | None = None,
    ):
        if isinstance(command, str) or not command:
            example = '["./model", "--fast"]'
            raise TypeError(f"command must be a list such as {example}, not {command!r}")
        if inputs is not None and inputs not in _INPUTS:
            raise ValueError(f"inputs must be one of {', '.join(_INPUTS)}, not {inputs!r}")
        if keep not in ("none", "failed", "all"):
            raise ValueError(f'keep must be "none", "failed" or "all", not {keep!r}')
        if isinstance(output, OutputFile) and key is not None:
            raise ValueError("key is a part of the OutputFile: give it there")
        self.command = [_at_level(os.fspath(word), level) for word in command]
        if os.sep in self.command[0]:  # it is started in another folder
            self.command[0] = str(Path(self.command[0]).absolute())
        self.names = None if names is None else list(names)
        self.fields = dict(fields or {})
        given = [template] if isinstance(template, str | os.PathLike) else list(template)
        read = [Template.read(each) for each in given]
        self.templates = [replace(each, text=_at_level(each.text, level)) for each in read]
        self.inputs = inputs or (None if self.templates else "json")
        self.copies = [Path(each).absolute() for each in copies]
        self.output = output if isinstance(output, OutputFile) else OutputFile(output, key)
        self.keep, self.jacobian = keep, jacobian
        self.scratch = None if scratch is None else Path(scratch).absolute()
        self.__qualname__ = f"Program({self.command})"

    def named(self, names: Sequence[str]) -> Program:
        """Return the program with these names, unless it has its own."""
        if self.names is not None:
            return self
        other = copy.copy(self)
        other.names = list(names)
        return other

    def with_fields(self, fields: Mapping[str, list[Any]]) -> Program:
        """Return the program with these fields, unless it has its own."""
        other = copy.copy(self)
        other.fields = self.fields or dict(fields)
        return other

    @property
    def returns_jacobian(self) -> bool:
        """True if a call returns the pair of outputs and Jacobian."""
        return self.jacobian is not None

    def unused(self, names: Sequence[str]) -> str:
        """Return what is wrong if a parameter does not reach the program; "" if all do."""
        every, texts = [*names, *self.fields], self.templates
        if self.inputs == "arguments":
            texts = [Template("the command", "\n".join(self.command)), *texts]
        elif literal := next((n for n in every if any(f"{{{n}}}" in w for w in self.command)), ""):
            return (
                f"{{{literal}}} in the command is not replaced by its value: write "
                'inputs = "arguments", or take it out'
            )
        if self.inputs not in (None, "arguments"):
            return ""
        missing = unplaced(every, texts)
        where = " or ".join(text.file or text.name for text in texts)
        for name, points in self.fields.items():  # all of it at once, or point by point
            if name not in missing:
                missing = [each for each in missing if each not in flat(points)]
            elif not set(flat(points)) & set(missing):
                missing.remove(name)
        missing = [name for name in missing if name in self.fields] + missing
        if not missing:
            return ""
        hint = misspelt(missing[0], every, texts)
        return f"{{{missing[0]}}} stands nowhere in {where}: write it where its value belongs{hint}"

    def __call__(self, x: Any) -> Any:
        """Return the program's answer at one point (dim,): a number or a list of numbers."""
        if self.names and len(self.names) != len(x):
            raise ProgramError(f"{len(self.names)} names were given for {len(x)} parameters")
        names = self.names or [f"x{i}" for i in range(len(x))]
        plain = [value if isinstance(value, str) else float(value) for value in x]
        point = dict(zip(names, plain, strict=True))
        trouble = self.unused(names)
        if trouble:
            raise ProgramError(trouble)
        scratch = Path(tempfile.gettempdir()) if self.scratch is None else self.scratch
        scratch.mkdir(parents=True, exist_ok=True)
        folder = scratch / f"run-{secrets.token_hex(6)}"
        command, failed = self._command(folder, self._with_fields(point)), True
        environment = {} if not self._takes_steps else {"SLURM_PROLOG": str(folder / _PROLOG)}
        if self.inputs == "environment":
            environment |= {name: _text(value) for name, value in self._grouped(point).items()}
        # The guard is there before the folder: it removes the folder if this process is killed.
        keep = self.keep != "none"
        guard = ProcessGuard(command, folder=folder, keep=keep, env={**os.environ, **environment})
        with closing(guard):
            folder.mkdir(mode=0o700)
            try:
                self._write(folder, point)
                answer = self._run(guard, command[0], folder)
                failed = False
                return answer
            finally:
                if self.keep == "none" or (self.keep == "failed" and not failed):
                    shutil.rmtree(folder, ignore_errors=True)

    def _with_fields(self, point: Mapping[str, Value]) -> dict[str, Any]:
        """Return all values, and fields as nested lists."""
        return {**point, **{name: _nested(point, each) for name, each in self.fields.items()}}

    def _grouped(self, point: Mapping[str, Value]) -> dict[str, Any]:
        """Return fields as nested lists, and the values that are no points of them."""
        points = {name for each in self.fields.values() for name in flat(each)}
        return {k: v for k, v in self._with_fields(point).items() if k not in points}

    def _command(self, folder: Path, point: Mapping[str, Any]) -> list[str]:
        """Return the command with paths, and values if it takes them, in place of {words}."""
        decks = [template.name for template in self.templates]
        source = f"input.{self.inputs}" if self.inputs in ("json", "csv") else (*decks, "")[0]
        words: dict[str, Value] = {
            "input": str(folder / source),
            "output": str(folder / self.output.name),
            "folder": str(folder),
        }
        if self.inputs == "arguments":
            words |= {k: _text(v) if isinstance(v, list) else v for k, v in point.items()}
        return [_filled(Template("the command", word), words) for word in self.command]

    def _write(self, folder: Path, point: Mapping[str, Value]) -> None:
        """Write the input files of a run."""
        for path in self.copies:
            try:
                copy_of = shutil.copytree if path.is_dir() else shutil.copy
                copy_of(path, folder / path.name)
            except OSError as error:
                raise ProgramError(f"{path} could not be copied: {error}") from error
        for template in self.templates:
            text = _filled(template, self._with_fields(point))
            content = text.encode("utf-8", errors="surrogateescape")
            (folder / template.name).write_bytes(content)
        if self.inputs == "csv":
            with (folder / "input.csv").open("w", newline="") as file:
                csv.writer(file).writerows([list(point), [_text(v) for v in point.values()]])
        elif self.inputs == "json":
            told = json.dumps(self._grouped(point) if self.names else list(point.values()))
            (folder / "input.json").write_text(told)

    @property
    def _takes_steps(self) -> bool:
        """True if the command waits until an allocation of SLURM has room for its step."""
        return Path(self.command[0]).name == "srun"

    def _run(self, guard: ProcessGuard, name: str, folder: Path) -> Any:
        memory = MemoryWatch()
        if self._takes_steps:
            prolog = folder / _PROLOG  # which srun calls when it has its step
            prolog.write_text(f"#!/bin/sh\n: > '{folder / _BEGUN}'\n")
            prolog.chmod(0o700)
        try:
            guard.start()
        except OSError as error:
            raise ProgramError(f"{name} could not be started: {error}") from error
        if self._takes_steps:
            with waiting():
                while guard.wait(_LOOK) is None and not (folder / _BEGUN).exists():
                    pass
        kept = f" (in {folder})" if self.keep != "none" else ""
        code = guard.wait()
        if code:
            said = _last_lines(folder) or "no message"
            loss = loss_by(code, memory, said)
            if loss:
                raise RunLostError(f"{loss} ({socket.gethostname()})")
            raise ProgramError(f"{_end(code)}{kept}: {said}")
        try:
            outputs = self.output.read(folder)
            return outputs if self.jacobian is None else (outputs, self.jacobian.read(folder))
        except OutputError as error:
            said = _last_lines(folder)
            words = f"; the program's last words: {said}" if said else ""
            raise ProgramError(f"{error}{kept}{words}") from error


def _at_level(text: str, level: int | None) -> str:
    """Return a text with the level in its place."""
    return text if level is None else text.replace("{level}", str(level))


def _filled(template: Template, values: Mapping[str, Any]) -> str:
    try:
        return template.fill(values)
    except ValueError as error:
        raise ProgramError(str(error)) from error


def _text(value: Value | list[Any]) -> str:
    """Return a value as text, a number with all its digits; blanks between those of a field."""
    if isinstance(value, list):
        return " ".join(map(_text, value))
    return value if isinstance(value, str) else repr(value)


def _nested(point: Mapping[str, Value], names: Any) -> Any:
    """Replace the names in nested lists by their values."""
    return [_nested(point, each) for each in names] if isinstance(names, list) else point[names]


def _end(code: int) -> str:
    """Describe how a program ended: its exit code, or the name of a signal."""
    number = -code if code < 0 else code - 128  # a shell reports 128 + signal
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"exit code {code}"
    said = f"{name}, {signal.strsignal(number)}"
    return f"killed by {said}" if code < 0 else f"exit code {code} (of a shell: {said})"


def _last_lines(folder: Path) -> str:
    """Return the last lines of the standard error; of the standard output if that is empty."""
    for name in ("stderr.txt", "stdout.txt"):
        path = folder / name
        size = path.stat().st_size if path.is_file() else 0
        if size:
            with path.open("rb") as file:
                file.seek(max(size - 4 * _TAIL, 0))
                lines = file.read().decode(errors="replace").strip().splitlines()[-_LINES:]
            if lines:
                return "\n".join(lines)[-_TAIL:]
    return ""
