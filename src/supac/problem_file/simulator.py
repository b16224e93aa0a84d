"""Make the simulator that a problem file describes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.problem.observations import Observations
from supac.problem.parameters import Parameters
from supac.problem_file.errors import FileErrors, in_toml
from supac.problem_file.fingerprints import named_file
from supac.problem_file.python import PythonFunction, PythonFunctionError
from supac.problem_file.schema import OPTIONS_OF
from supac.simulators.program import Program
from supac.simulators.reaction import OUTPUTS, PARAMETERS, Reaction
from supac.simulators.umbridge import UMBridge


@dataclass(frozen=True, eq=False)
class Simulate:
    """A simulator of a problem file, called with an array and returning a vector."""

    function: Callable[..., Any]
    names: tuple[str, ...] = ()
    """Names of the arguments; empty if it takes an array."""
    observations: Observations | None = None
    """Data that define the order of the outputs."""
    vectorized: bool = False

    def set_up(self) -> None:
        """Set up the function, if it has a method `set_up`."""
        load = getattr(self.function, "set_up", None)
        if load is not None:
            load()

    def __call__(self, x: FloatArray) -> Any:
        """Return the outputs as a vector, or the answer itself without data."""
        named = dict(zip(self.names, np.asarray(x).tolist(), strict=True)) if self.names else None
        answer = self.function(x) if named is None else self.function(**named)
        if self.observations is None or self.vectorized:
            return answer
        return self.observations.flat(answer)


def kind_of(table: Mapping[str, Any], errors: FileErrors) -> str:
    """Return the kind of simulator; refuse keys of other kinds."""
    kinds = [kind for kind in OPTIONS_OF if kind in table]
    if len(kinds) != 1:
        if kinds:
            raise errors.fail(
                ("simulator", kinds[1]), f"there is {kinds[0]} already: keep one of them"
            )
        raise errors.fail(
            ("simulator",),
            f"needs one of {', '.join(OPTIONS_OF)}; for a function simulate of model.py beside "
            'this file, python = "model:simulate"',
        )
    for kind, options in OPTIONS_OF.items():
        for name in options:
            if name in table and kind != kinds[0]:
                errors.add(("simulator", name), f"goes with {kind}, not with {kinds[0]}: remove it")
    errors.raise_any()
    return kinds[0]


def make_simulator(
    table: Mapping[str, Any],
    kind: str,
    parameters: Parameters,
    observations: Observations | None,
    folder: Path,
    errors: FileErrors,
) -> Simulate:
    """Make any simulator except ADM1, which has its own data."""
    if kind == "python":
        return _python(table, parameters, observations, folder, errors)
    if kind == "command":
        program = _program(table, parameters, observations, folder, errors)
        return Simulate(program, observations=observations)
    if kind == "umbridge":
        server = UMBridge(table["umbridge"], table.get("model", "forward"), table.get("config"))
        return Simulate(server, observations=observations)
    return _reaction(parameters, observations, errors)


def load_function(
    reference: str, folder: Path, key: tuple[str, ...], errors: FileErrors
) -> PythonFunction:
    """Load a function from a file of the user."""
    function = PythonFunction(folder, reference)
    try:
        function.set_up()
    except PythonFunctionError as error:
        raise errors.fail(key, str(error)) from error
    return function


def _python(
    table: Mapping[str, Any],
    parameters: Parameters,
    observations: Observations | None,
    folder: Path,
    errors: FileErrors,
) -> Simulate:
    function = load_function(table["python"], folder, ("simulator", "python"), errors)
    vectorized = bool(table.get("vectorized", False))
    names: tuple[str, ...] = ()
    if table.get("arguments") == "names":
        if vectorized:
            raise errors.fail(
                ("simulator", "arguments"), 'with vectorized = true it must be "array"'
            )
        names = parameters.names
        trouble = function.missing_arguments(names)
        if trouble:
            raise errors.fail(("simulator", "arguments"), trouble)
    return Simulate(function, names, observations, vectorized)


def _program(
    table: Mapping[str, Any],
    parameters: Parameters,
    observations: Observations | None,
    folder: Path,
    errors: FileErrors,
) -> Program:
    key = ("simulator", "command")
    # It starts in another folder, so files beside the problem file need their full paths.
    words = [_absolute(word, folder) for word in table["command"]]
    if not (Path(words[0]).is_file() if "/" in words[0] else shutil.which(words[0])):
        hint = (
            f"there is no file {words[0]}"
            if "/" in words[0]
            else f"no program of this name is installed, nor is there a file {folder / words[0]}"
        )
        raise errors.fail(key, f"{in_toml(table['command'][0])} cannot be started: {hint}")
    if "/" in words[0] and not os.access(words[0], os.X_OK):
        name = Path(words[0]).name
        first = {".py": "{python}", ".sh": "sh", ".R": "Rscript", ".jl": "julia", ".pl": "perl"}
        interpreter = first.get(Path(name).suffix)
        hint = "" if interpreter is None else f', or write ["{interpreter}", "{name}"]'
        raise errors.fail(key, f"{name} is not executable: chmod +x {name}{hint}")
    beside = [word for word in table["command"][1:] if _looks_like_a_file(word, folder)]
    if beside:
        raise errors.fail(key, f"there is no file {folder / beside[0]}")
    answer = table.get("key", None if observations is None else list(observations.columns))
    scratch = named_file(folder, table["scratch"]) if "scratch" in table else None
    return Program(
        words, names=parameters.names, inputs=table.get("inputs", "json"), key=answer,
        scratch=scratch, keep=table.get("keep", "none"),
    )  # fmt: skip


def _absolute(word: str, folder: Path) -> str:
    if word == "{python}":
        return sys.executable
    path = named_file(folder, word)
    return str(path.absolute()) if path.is_file() else word


def _looks_like_a_file(word: str, folder: Path) -> bool:
    """Return True for a missing script of a known language."""
    script = word.endswith((".py", ".sh", ".R", ".jl", ".m", ".pl"))
    return script and not word.startswith("-") and not named_file(folder, word).exists()


def _reaction(
    parameters: Parameters, observations: Observations | None, errors: FileErrors
) -> Simulate:
    if set(parameters.names) != set(PARAMETERS):
        raise errors.fail(
            ("parameters",),
            f"the built-in reaction has the parameters {', '.join(PARAMETERS)}, not "
            f"{', '.join(parameters.names)}",
        )
    if observations is None or observations.columns != OUTPUTS or observations.times is None:
        raise errors.fail(
            ("data", "observed") if observations is not None else ("simulator", "builtin"),
            'the built-in reaction needs data with a column time and observed = ["A", "B"]',
        )
    model = Reaction(observations.times, parameters.names)
    return Simulate(model, observations=observations, vectorized=True)
