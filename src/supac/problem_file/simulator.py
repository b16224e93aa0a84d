"""Kinds of simulators that a problem file can name.

A kind is a class that registers itself: `class FMU(Simulator, kind="fmu")`. Its `kind` is the key
of [simulator] that selects it, its dataclass fields are this key and those that go with it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from supac.arrays import FloatArray
from supac.jacobian import split_answer
from supac.problem import Composite, Observations, Parameters
from supac.problem.selectable import Selectable
from supac.problem_file import values
from supac.problem_file.early_end import EarlyEnd
from supac.problem_file.errors import Key, Source, in_toml, no_file
from supac.problem_file.inputs import Inputs
from supac.problem_file.jacobian import sought
from supac.problem_file.place import launcher
from supac.problem_file.python import PythonFunction, PythonFunctionError
from supac.problem_file.values import FLAG, TEXT, one_of, setting
from supac.simulators.jacobian_file import JacobianFile
from supac.simulators.output_file import OutputFile
from supac.simulators.program import Program
from supac.simulators.template import Template, misspelt, unplaced
from supac.simulators.umbridge import UMBridge


@dataclass(frozen=True, eq=False)
class Simulate:
    """A simulator of a problem file, called with an array and returning a vector."""

    function: Callable[..., Any]
    by_name: bool = False
    """True if it takes each value by name; a field as an array of its shape."""
    observations: Observations | None = None
    """Data that define the order of the outputs."""
    vectorized: bool = False
    inputs: Inputs | None = None
    """Makes all values of the function from a point; None if the point has them."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of a Python function, unless the inputs have others."""
    early_end: EarlyEnd | None = None
    """Values where a run ended before the data; None if such a run has failed."""

    @property
    def returns_jacobian(self) -> bool:
        """True if the function is known to return pairs, as those of `supac.with_jacobian` do."""
        return bool(getattr(self.function, "returns_jacobian", False))

    def refuses(self, x: FloatArray) -> str:
        """Return why a point (dim,) is not simulated; "" if it is."""
        return "" if self.inputs is None else self.inputs.refuses(x)

    def set_up(self) -> None:
        """Set up the function, if it has a method `set_up`."""
        load = getattr(self.function, "set_up", None)
        if load is not None:
            load()

    def check(self, x: FloatArray) -> str:
        """Return what a function with a method `check` finds wrong at a point (dim,); else ""."""
        check = getattr(self.function, "check", None)
        if check is None:
            return ""
        return str(check(x if self.inputs is None else self.inputs.complete(x)))

    def __call__(self, x: FloatArray) -> Any:
        """Return the outputs as a vector, or the answer itself without data; with a Jacobian.

        That follows them in a pair, if the function returns it so.
        """
        answer, jacobian = split_answer(self.answer(x), many=np.ndim(x) > 1)
        outputs = self._outputs(answer)
        return outputs if jacobian is None else (outputs, self.sought(jacobian, x))

    def sought(self, jacobian: Any, x: FloatArray) -> Any:
        """Convert what a function returns as Jacobian at x to that of free parameters."""
        data, many = self.observations, np.ndim(x) > 1
        rows = None if data is None or many else partial(self._rows, data)
        return sought(jacobian, x, self.inputs, rows, many=many)

    def slopes(self, x: FloatArray) -> Any:
        """Return the Jacobian at x in the free parameters, where the function returns it."""
        return self.sought(self.answer(x), x)

    def answer(self, x: FloatArray) -> Any:
        """Call the function with the values of all its inputs."""
        every = x if self.inputs is None else self.inputs.complete(x)
        if self.by_name and self.inputs is not None:
            plain = every if isinstance(every, list) else np.asarray(every).tolist()
            return self.function(**self.inputs.gather(plain), **self._further)
        return self.function(every, **self._further)

    @property
    def _further(self) -> Mapping[str, Any]:
        """Arguments of the function beside the inputs."""
        return {**self.keywords, **({} if self.inputs is None else self.inputs.keywords)}

    def _rows(self, data: Observations, column: Any) -> FloatArray:
        """Return a column of the Jacobian in the order of the data."""
        return data.flat(at_rows(column, self._further.get("times"), data))

    def _outputs(self, answer: Any) -> Any:
        """Return the outputs as a vector, or the answer itself without data."""
        data, end = self.observations, self.early_end
        if data is None:
            return answer
        if self.vectorized:
            whole = end is not None and np.shape(answer)[-1:] == data.values.shape
            return end.filled(np.asarray(answer), data) if whole and end is not None else answer
        times = self._further.get("times")
        if end is None:
            return _flat(data, at_rows(answer, times, data))
        answer = end.padded(answer, data.rows if times is None else len(times))
        return end.filled(data.flat(at_rows(answer, times, data)), data)


def _flat(data: Observations, answer: Any) -> FloatArray:
    """Return outputs as a vector; ValueError with advice if columns end before the data."""
    try:
        return data.flat(answer)
    except ValueError as error:
        columns = answer.values() if isinstance(answer, Mapping) else ()
        if any(0 < np.size(each) < data.rows for each in columns):
            words = 'if a run may end before the data do, write after_end = "hold" in [data]'
            raise ValueError(f"{error}; {words}") from error
        raise


def at_rows(answer: Any, times: FloatArray | None, data: Observations) -> Any:
    """Return what a function gave for increasing times as values at each row of the data.

    The rows of several files may have the same times, or earlier ones again.
    """
    if times is None or data.times is None or np.array_equal(times, data.times):
        return answer
    rows, count = np.searchsorted(times, data.times), len(times)
    if isinstance(answer, Mapping):
        columns = {name: np.atleast_1d(np.asarray(each, float)) for name, each in answer.items()}
        return {
            name: each[rows] if each.shape == (count,) else each for name, each in columns.items()
        }
    values = np.asarray(answer, dtype=np.float64)
    if values.shape == (count * len(data.columns),):
        return values.reshape(-1, count)[:, rows].ravel()
    return values[rows] if values.ndim == 2 and len(values) == count else answer


class Simulator(Selectable):
    """A kind of simulator, with the values of its keys.

    It implements `make`; or, if it brings its own data, loss and priors, `complete` and
    `make_risk`.
    """

    @property
    def complete(self) -> str:
        """Name of the model if it brings its own data, loss and priors; "" if not."""
        return ""

    @property
    def other_scenario(self) -> str:
        """Words on how a scenario changes a complete simulator: it has no [outputs], [settings]."""
        return ""

    @property
    def takes_many(self) -> bool:
        """True if a complete simulator takes many points at a time."""
        return False

    @property
    def ceiling(self) -> float:
        """Largest possible risk, if the file does not give it."""
        return 1.0

    def make(self, source: Source, parameters: Inputs, data: Observations | None) -> Simulate:
        """Return the simulator of these parameters; ProblemFileError if that is impossible."""
        raise NotImplementedError

    @property
    def returns_jacobian(self) -> bool:
        """True if a run may return its Jacobian beside its outputs."""
        return False

    @property
    def has_jacobian_apart(self) -> bool:
        """True if something else than a run computes the Jacobian."""
        return False

    def make_jacobian(
        self, source: Source, parameters: Inputs, data: Observations | None
    ) -> Simulate:
        """Return what computes Jacobians apart from outputs, if `has_jacobian_apart`."""
        raise NotImplementedError

    def not_taken(self, source: Source, inputs: Inputs) -> list[str]:
        """Return names in formulas or constraints that the simulator itself does not take."""
        return []

    def make_risk(
        self, source: Source, parameters: Parameters | None
    ) -> tuple[Composite, Parameters]:
        """Return the risk of a complete simulator, and its parameters if the file has none."""
        raise NotImplementedError

    def files(self, source: Source) -> dict[str, list[Path]]:
        """Return the files that it is made from, which may not exist, by purpose."""
        return {}

    def code(self, source: Source) -> str:
        """Return the checksum of the code that matters in its files; "" if all of it does."""
        return ""

    def has_levels(self, source: Source) -> bool:
        """Return True if the fine and the coarse model are told apart by a number that it takes."""
        return False

    def settable(self, source: Source, inputs: Inputs) -> list[str]:
        """Return names that a scenario may set beside the fixed inputs of the problem."""
        return []

    def with_settable(self, inputs: Inputs, values: Mapping[str, Any]) -> Inputs:
        """Return the inputs with values of such names."""
        return inputs.with_settings(values)

    def how_to_set(self, name: str) -> str:
        """Return what makes a value that it does not take one that a scenario may set."""
        return "name a simulator with this value in [simulator] of the scenario"

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Ends of the names of files that are whole problems of this kind."""

    @classmethod
    def problem_text(cls, path: Path) -> str:
        """Return the problem file for such a file, which begins with `GENERATED`."""
        raise NotImplementedError

    @classmethod
    def of_file(cls, path: Path) -> type[Simulator] | None:
        """Return the kind of which a file is a whole problem; None if there is none."""
        return next((kind for kind in cls.kinds.values() if path.suffix in kind.suffixes), None)

    @classmethod
    def kind_in(cls, table: Mapping[str, Any]) -> str:
        """Return the kind that a table selects; "" if it selects none or several."""
        kinds = [kind for kind in cls.kinds if kind in table]
        return kinds[0] if len(kinds) == 1 else ""


def simulator_of(source: Source) -> Simulator:
    """Return the simulator that a checked file describes; there must be exactly one."""
    table = source.table("simulator")
    table.pop("coarse", None)
    kinds = [kind for kind in Simulator.kinds if kind in table]
    if not kinds:
        raise source.fail(
            ("simulator",),
            f"needs one of {', '.join(Simulator.kinds)}; for a function simulate of model.py "
            'beside this file, python = "model:simulate"',
        )
    if len(kinds) > 1:
        words = f"there is {kinds[0]} already: keep one of them"
        raise source.fail(("simulator", kinds[1]), words)
    made: Simulator = Simulator.kinds[kinds[0]](**table)
    return made


def load_function(reference: str, source: Source, key: Key) -> PythonFunction:
    """Load a function from a file of the user."""
    function = PythonFunction(source.path.parent, reference)
    try:
        function.set_up()
    except PythonFunctionError as error:
        raise source.fail(key, str(error)) from error
    return function


@dataclass(frozen=True)
class Python(Simulator, kind="python"):
    """A function of the user's own, in Python."""

    python: str = setting(
        values.FUNCTION, "a function of a Python file beside this one, or of a package"
    )
    arguments: str = setting(
        one_of("array", "names"), "call it with one array, or with every parameter by name", "array"
    )
    vectorized: bool = setting(FLAG, "it takes an (n, dim) array of points", default=False)
    jacobian: bool | str = setting(
        values.JACOBIAN,
        "`true` if a run returns `(outputs, jacobian)`, of UM-Bridge if the server is asked for "
        "derivatives; a function of the Jacobian; the file that a program writes it to",
        default=False,
    )
    jacobian_cost: float | None = setting(
        values.COST,
        "what a Jacobian costs, in runs",
        words="1 of a function, 0 of what a run returns",
    )

    def make(self, source: Source, parameters: Inputs, data: Observations | None) -> Simulate:
        """Load the function and check its arguments."""
        function = load_function(self.python, source, ("simulator", "python"))
        by_name, times = self.arguments == "names", self._times(function, parameters, data)
        if by_name:
            trouble = 'with vectorized = true it must be "array"' if self.vectorized else ""
            names = (*parameters.arguments, *parameters.keywords, *times)
            trouble = trouble or function.missing_arguments(names)
            if trouble and data is not None and data.times is None and function.needs("times"):
                trouble += ': name the column of the times, time = "…" in [data]'
            if trouble:
                raise source.fail(("simulator", "arguments"), trouble)
        return Simulate(function, by_name, data, self.vectorized, keywords=times)

    @property
    def has_jacobian_apart(self) -> bool:
        """True if there is a function of the Jacobian."""
        return isinstance(self.jacobian, str)

    def make_jacobian(
        self, source: Source, parameters: Inputs, data: Observations | None
    ) -> Simulate:
        """Load the function of the Jacobian, which takes what the other takes."""
        key, function = ("simulator", "jacobian"), str(self.jacobian)
        if not values.FUNCTION.accepts(function):
            words = f'is the function "module:name", or true, not {in_toml(function)}'
            raise source.fail(key, f"of python {words}")
        load_function(function, source, key)
        return replace(self, python=function, jacobian=False).make(source, parameters, data)

    @property
    def returns_jacobian(self) -> bool:
        """True if the file says so."""
        return self.jacobian is True

    def _times(
        self, function: PythonFunction, inputs: Inputs, data: Observations | None
    ) -> dict[str, Any]:
        """Return the times of the data, if the function has an argument `times` without a value."""
        given, after = {*inputs.arguments, *inputs.keywords}, 0 if self.arguments == "names" else 1
        if data is None or data.times is None or "times" in given:
            return {}
        if not function.needs("times", after=after):
            return {}
        return {"times": data.times if self.vectorized else np.unique(data.times)}

    def not_taken(self, source: Source, inputs: Inputs) -> list[str]:
        """Return names in formulas or constraints that are no arguments of the function."""
        if self.arguments != "names":
            return []
        function = load_function(self.python, source, ("simulator", "python"))
        taken = function.named_arguments(inputs.in_formulas)
        return [name for name in inputs.names if name in inputs.in_formulas - {*taken}]

    def files(self, source: Source) -> dict[str, list[Path]]:
        """Return the file of the function."""
        return {"simulator": [PythonFunction(source.path.parent, self.python).file]}

    def code(self, source: Source) -> str:
        """Return the checksum of what the function depends on in its file."""
        return PythonFunction(source.path.parent, self.python).code

    def settable(self, source: Source, inputs: Inputs) -> list[str]:
        """Return the arguments of the function that the problem leaves at their defaults."""
        function = load_function(self.python, source, ("simulator", "python"))
        after = 0 if self.arguments == "names" else 1  # the first is the array
        names = function.named_arguments(source.table("settings"), after=after)
        return [name for name in names if name not in inputs.arguments]

    def with_settable(self, inputs: Inputs, values: Mapping[str, Any]) -> Inputs:
        """Return the inputs with values of further arguments, as the file has them."""
        return replace(inputs, keywords={**inputs.keywords, **values})

    def how_to_set(self, name: str) -> str:
        """Advise an argument with a default, or another function."""
        module, _, function = self.python.partition(":")
        return (
            f"give {function} an argument {name}, with the value of the calibration as its "
            "default, so that it calibrates as before (a warning says that it has changed); or "
            "name another function of the same parameters in [simulator] of the "
            f'scenario, python = "{module}:{function}_2"'
        )


@dataclass(frozen=True)
class Command(Simulator, kind="command"):
    """A program in any language, started for each run."""

    command: Sequence[str] = setting(
        values.WORDS, "a program and its arguments, started without a shell"
    )
    inputs: Literal["json", "csv", "arguments", "environment"] | None = setting(
        one_of("json", "csv", "arguments", "environment"),
        "how it gets the values: `input.json`, `input.csv`, in place of `{k}` in the command, or "
        "variables of the environment",
        words='"json", or only the template',
    )
    template: str | Sequence[str] = setting(
        values.NAMES, "input files with `{k}` where the value of k belongs", (), "none"
    )
    copies: str | Sequence[str] = setting(
        values.NAMES, "further files that are copied to the folder of each run", (), "none"
    )
    output: str = setting(
        TEXT, 'the file that it writes, JSON or a table, or "stdout"', "output.json"
    )
    pattern: str | Sequence[str] = setting(
        values.NAMES, "for other outputs, lines with `{X}` where the number X stands", (), "none"
    )
    key: str | Sequence[str] | None = setting(
        values.NAMES, "key or keys of the output with the answer", words="the observed columns"
    )
    times: str | None = setting(
        TEXT, "key of the output's times: it is interpolated at those of the data", words="none"
    )
    jacobian: bool | str = setting(values.JACOBIAN, "", default=False)
    jacobian_cost: float | None = setting(values.COST, "")
    scratch: str | None = setting(TEXT, "folder for the folders of the runs", words="temporary")
    keep: Literal["none", "failed", "all"] = setting(
        one_of("none", "failed", "all"), "which of these folders are kept", "none"
    )

    def make(self, source: Source, parameters: Inputs, data: Observations | None) -> Simulate:
        """Check that the program can be started."""
        # It starts in another folder, so files beside the problem file need their full paths.
        words = [_absolute(word, source) for word in self.command]
        trouble = self._trouble(words[0], source)
        if trouble:
            raise source.fail(("simulator", "command"), trouble)
        for name in ("template", "copies"):
            for each in listed(getattr(self, name)):
                if not source.file(each).exists():
                    raise source.fail(("simulator", name), no_file(source.file(each)))
        try:
            program = Program(
                [*launcher(source), *words],
                names=parameters.names,
                fields=parameters.fields,
                inputs=self.inputs,
                template=[source.file(each) for each in listed(self.template)],
                copies=[source.file(each) for each in listed(self.copies)],
                output=self._output(source, data),
                scratch=None if self.scratch is None else source.file(self.scratch),
                keep=self.keep,
                level=None if "level" in parameters.names else source.level,
                jacobian=self._jacobian_file(source, parameters, data),
            )
        except (OSError, UnicodeDecodeError) as error:
            raise source.fail(("simulator", "template"), f"cannot be read: {error}") from error
        unused = program.unused(parameters.names)
        if unused:
            key = "template" if program.inputs is None else "command"
            raise source.fail(("simulator", key), unused)
        return Simulate(program, observations=data)

    def not_taken(self, source: Source, inputs: Inputs) -> list[str]:
        """Return names in formulas or constraints that stand in no template or argument.

        One that is only misspelt there is not among them.
        """
        if self.inputs != "arguments" and not (self.template and self.inputs is None):
            return []
        texts = self._texts(source)
        left_out = unplaced(inputs.in_formulas, texts)
        known = {*inputs.names, *inputs.fields}
        return [name for name in left_out if not misspelt(name, known, texts)]

    def has_levels(self, source: Source) -> bool:
        """Return True if {level} stands in the command or a template."""
        texts = [*self._texts(source), Template("command", "\n".join(self.command))]
        return any("level" in each.places for each in texts)

    def _texts(self, source: Source) -> list[Template]:
        """Return the templates, and the command if values stand in it."""
        files = [source.file(each) for each in listed(self.template)]
        texts = [Template.read(each) for each in files if each.is_file()]
        if self.inputs == "arguments":
            texts.append(Template("command", "\n".join(self.command)))
        return texts

    def _output(self, source: Source, data: Observations | None) -> OutputFile:
        """Return what is read of the output: for data, a value of each column at each row."""
        key, rows, at, needed = self.key, None, None, None  # type: Any, Any, Any, Any
        if data is not None:
            key = key or list(data.columns)
            keys = listed(key) if len(listed(key)) == len(data.columns) else []
            there = dict(zip(keys, data.present.reshape(-1, data.rows), strict=False))
            rows = {name: int(each.sum()) for name, each in there.items()} or None
            finite = data.needed.reshape(-1, data.rows)
            needed = {
                name: each[there[name]].tolist() for name, each in zip(keys, finite, strict=False)
            }
            clock = None if self.times is None else data.times
            if clock is not None:
                at = {name: clock[each].tolist() for name, each in there.items()} or clock.tolist()
        if self.times is not None and at is None:
            raise source.fail(("simulator", "times"), "needs data with a column of times")
        try:
            asks = {} if data is None else {"asks": data.asks_for, "needed": needed}
            return OutputFile(self.output, key, self.pattern, self.times, at, rows, **asks)
        except ValueError as error:
            raise source.fail(("simulator", "pattern"), str(error)) from error

    @property
    def returns_jacobian(self) -> bool:
        """True if the program writes one."""
        return self.jacobian is not False

    def _jacobian_file(
        self, source: Source, inputs: Inputs, data: Observations | None
    ) -> JacobianFile | None:
        """Return what is read of the file of the Jacobian; None if there is none."""
        if self.jacobian is False:
            return None
        key, trouble = ("simulator", "jacobian"), ""
        if self.jacobian is True:
            trouble = 'of a command is the file that it writes, such as "jacobian.csv"'
        elif self.jacobian == self.output:
            trouble = "must be another file than output"
        elif self.times is not None:
            trouble = "does not go with times yet: let the program write the rows of the data"
        if trouble:
            raise source.fail(key, trouble)
        wanted = [name for name in inputs.names if name in inputs.free or name in inputs.tied]
        columns = data.columns if data is not None else ()
        return JacobianFile(str(self.jacobian), inputs.names, wanted, columns)

    def _trouble(self, program: str, source: Source) -> str:
        """Return why the program cannot be started; "" if it can."""
        path, is_path = Path(program), "/" in program
        if not (path.is_file() if is_path else shutil.which(program)):
            beside = source.file(program)
            missing = f"no program of this name is installed, nor is there a file {beside}"
            hint = f"there is no file {program}" if is_path else missing
            return f"{in_toml(self.command[0])} cannot be started: {hint}"
        if is_path and not os.access(path, os.X_OK):
            interpreter = _INTERPRETERS.get(path.suffix)
            hint = "" if interpreter is None else f', or write ["{interpreter}", "{path.name}"]'
            return f"{path.name} is not executable: chmod +x {path.name}{hint}"
        for word in self.command[1:]:
            script = word.endswith((*_INTERPRETERS, ".m")) and not word.startswith("-")
            if script and not source.file(word).exists():
                return f"there is no file {source.file(word)}"
        return ""

    def files(self, source: Source) -> dict[str, list[Path]]:
        """Return the program, the files among its arguments, and its input files."""
        inputs = [*listed(self.template), *listed(self.copies)]
        return {"simulator": [source.file(word) for word in [*self.command, *inputs]]}

    def settable(self, source: Source, inputs: Inputs) -> list[str]:
        """Return the names in braces that are no inputs, of the command and the templates."""
        names = dict.fromkeys(name for each in self._texts(source) for name in each.places)
        own = {*inputs.names, *inputs.fields, "input", "output", "folder", "python"}
        own |= set() if source.level is None else {"level"}
        return [name for name in names if name.isidentifier() and name not in own]

    def how_to_set(self, name: str) -> str:
        """Advise another command or template."""
        return (
            "name another command, template or copies in [simulator] of the scenario, with the "
            f"value in it, or {{{name}}} in a template or among arguments"
        )


_INTERPRETERS = {".py": "{python}", ".sh": "sh", ".R": "Rscript", ".jl": "julia", ".pl": "perl"}


def listed(names: str | Sequence[str]) -> list[str]:
    """Return one name or several as a list."""
    return [names] if isinstance(names, str) else list(names)


def _absolute(word: str, source: Source) -> str:
    if word == "{python}":
        return sys.executable
    path = source.file(word)
    return str(path.absolute()) if path.is_file() else word


@dataclass(frozen=True)
class Server(Simulator, kind="umbridge"):
    """A model of an UM-Bridge server."""

    umbridge: str = setting(values.URL, "the address of an UM-Bridge server")
    model: str = setting(TEXT, "the name of the model on the server", "forward")
    config: Mapping[str, Any] | None = setting(
        values.TABLE, "configuration that is passed to the model"
    )
    jacobian: bool | str = setting(values.JACOBIAN, "", default=False)
    jacobian_cost: float | None = setting(values.COST, "")

    def make(self, source: Source, parameters: Inputs, data: Observations | None) -> Simulate:
        """Return the model, which is connected when it is first called."""
        return Simulate(self._server, observations=data)

    @property
    def has_jacobian_apart(self) -> bool:
        """True if the server is asked for derivatives."""
        return self.jacobian is not False

    def make_jacobian(
        self, source: Source, parameters: Inputs, data: Observations | None
    ) -> Simulate:
        """Return what asks the server for derivatives."""
        if self.jacobian is not True:
            raise source.fail(("simulator", "jacobian"), "of umbridge is true or false")
        if self.jacobian_cost is None:
            words = (
                "needs jacobian_cost, in runs: the server is called once for each parameter, or "
                "once for each output if these are fewer"
            )
            raise source.fail(("simulator", "jacobian"), words)
        return Simulate(self._server.jacobian, observations=data)

    @property
    def _server(self) -> UMBridge:
        return UMBridge(self.umbridge, self.model, dict(self.config or {}))
