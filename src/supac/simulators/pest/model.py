"""The model of a PEST case, started in copies of its folder, with its own input and output."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from supac.simulators.output_file import OutputError
from supac.simulators.pest.control import Control
from supac.simulators.pest.errors import PestError
from supac.simulators.program import Program, ProgramError

FloatArray = npt.NDArray[np.float64]
_OWN = (".supac", ".supac-wal", ".supac-shm", ".replaced", "-report.html")


class CaseModel(Program):
    """Run the commands of a control file, each run in a copy of the folder of the case.

    It returns the observations with a weight, and then the left sides of the prior information.
    """

    def __init__(
        self,
        control: Control,
        *,
        copies: Sequence[Path] | None = None,
        scratch: str | os.PathLike[str] | None = None,
        keep: Literal["none", "failed", "all"] = "none",
    ):
        self.control, self.notes = control, control.notes
        # Some cases name a program of their folder without ./, as Windows finds it.
        script = "\n".join(['PATH="$PATH:."', *control.commands])
        super().__init__(
            ["sh", "-e", "-c", script],
            names=[each.name for each in control.adjustable],
            copies=_folder(control) if copies is None else copies,
            scratch=scratch,
            keep=keep,
        )
        self.hidden = [] if copies is not None else _hidden(control)
        self.inputs = None
        self.output: Any = _Outputs(control)
        self.__qualname__ = f"CaseModel({control.path.name})"

    def unused(self, names: Sequence[str]) -> str:
        """Return "": the control file is checked when it is read."""
        return ""

    def _command(self, folder: Path, point: Any) -> list[str]:
        return self.command

    def _write(self, folder: Path, point: Any) -> None:
        super()._write(folder, point)
        for each in self.control.instructions:  # what an earlier run has left is no output of this
            (folder / each.name).unlink(missing_ok=True)
        values = self.control.written(self.control.complete(point))
        for template in self.control.templates:
            target = folder / template.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(template.fill(values), encoding="utf-8", errors="surrogateescape")

    def __call__(self, x: Any) -> FloatArray:
        """Return the outputs at one point (dim,)."""
        try:
            return np.append(super().__call__(x), self.without_run(x))
        except ProgramError as error:
            missed = [name for name in self.hidden if name in str(error)]
            if not missed:
                raise
            words = f"{missed[0]} is a hidden file of the case's folder, which is not copied for a"
            fix = "run: write copies in [simulator] of a problem file, with all that a run needs"
            raise ProgramError(f"{words} {fix}; {error}") from error

    def without_run(self, x: Any) -> FloatArray:
        """Return the last outputs at one point, the left sides of the prior information."""
        values = self.control.complete(dict(zip(self.names or (), map(float, x), strict=True)))
        return np.array([each.left_side(values) for each in self.control.prior_information])


class _Outputs:
    """Reads the observations of a run."""

    name = ""

    def __init__(self, control: Control):
        self.instructions = control.instructions
        self.wanted = [each.name for each in control.observations]

    def read(self, folder: Path) -> list[float]:
        """Return the observations; OutputError if one is not found."""
        found: dict[str, float] = {}
        try:
            for each in self.instructions:
                found |= each.outputs(folder)
        except PestError as error:
            raise OutputError(str(error)) from error
        for each in self.instructions:
            for name, line in each.observations.items():
                if name in self.wanted and not math.isfinite(found[name]):
                    words = f"{name} is {found[name]} in {each.name}"
                    raise OutputError(f"{each.file}, line {line}: {words}")
        return [found[name] for name in self.wanted]


def _hidden(control: Control) -> list[str]:
    """Return the names of hidden files and folders beside the control file."""
    return sorted(each.name for each in control.path.parent.iterdir() if each.name[0] == ".")


def _folder(control: Control) -> list[Path]:
    """Return all in the folder of the case but hidden files and those of supac."""
    every: Iterable[Path] = sorted(control.path.parent.iterdir())
    return [each for each in every if not each.name.endswith(_OWN) and each.name[0] != "."]
