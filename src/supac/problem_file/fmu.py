"""Functional Mock-up Units as simulators of problem files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supac.arrays import FloatArray
from supac.problem import Observations
from supac.problem_file import values
from supac.problem_file.csv_file import CSVFile
from supac.problem_file.data import data_tables
from supac.problem_file.errors import Key, Source, in_toml, no_file
from supac.problem_file.fmu_times import check_data_times, check_inputs_last
from supac.problem_file.inputs import Inputs
from supac.problem_file.simulator import Simulate, Simulator
from supac.problem_file.values import FLAG, NUMBER, TABLE, TEXT, one_of, positive, setting
from supac.simulators.fmi.description import FMUError, read_description
from supac.simulators.fmi.fmu import FMU
from supac.simulators.fmi.units import SECONDS


@dataclass(frozen=True, eq=False)
class OfNumbers:
    """A model as a function of all inputs, of which it takes those that are numbers."""

    model: FMU
    places: tuple[int, ...]

    def set_up(self) -> None:
        """Set up the model."""
        self.model.set_up()

    def check(self, x: Any) -> str:
        """Return what is wrong with a repeated run."""
        return self.model.check(self._numbers(x))

    def __call__(self, x: Any) -> FloatArray:
        """Return the outputs."""
        return self.model(self._numbers(x))

    def _numbers(self, x: Any) -> list[float]:
        return [float(x[place]) for place in self.places]


@dataclass(frozen=True)
class FunctionalMockupUnit(Simulator, kind="fmu"):
    """A model that another tool has exported, of FMI 2 or 3."""

    fmu: str = setting(TEXT, "a Functional Mock-up Unit of FMI 2 or 3 (extra `fmi`)")
    input_file: str | None = setting(
        TEXT, "a table with a column `time` and one for each input of the model"
    )
    variables: Mapping[str, str] | None = setting(
        values.TEXTS_BY_NAME, "names in the model of parameters and columns that differ from it"
    )
    values: Mapping[str, Any] | None = setting(
        TABLE, "start values of other variables, and of inputs that stay constant"
    )
    interface: str | None = setting(
        one_of("co-simulation", "model-exchange"), "which interface is used", words="its first"
    )
    start: float | None = setting(NUMBER, "time at which a run begins", words="the model's")
    step: float | None = setting(
        positive(), "longest time between two communication points", words="the model's"
    )
    tolerance: float | None = setting(
        positive(1.0), "relative tolerance of the solver", words="the model's"
    )
    time_unit: str | None = setting(
        one_of(*SECONDS), "unit of the times in this file and its tables", words="the model's"
    )
    reset: bool = setting(
        FLAG, "one instance a worker is reset between runs; false makes a new one", default=True
    )

    def make(self, source: Source, parameters: Inputs, data: Observations | None) -> Simulate:
        """Return the model, with outputs at the times of the data.

        Of the settings of an experiment, `input_file` is its own table, and texts are values of
        variables.
        """
        path = source.file(self.fmu)
        if not path.is_file():
            raise source.fail(("simulator", "fmu"), no_file(path))
        if data is None:
            words = "its outputs are compared with data: add [data], with a column of times"
            raise source.fail(("simulator", "fmu"), words)
        if data.times is None:
            words = "the model is recorded at the times of the data: name the column with them"
            raise source.fail(("data", "time"), words)
        texts = {name: each for name, each in parameters.fixed.items() if isinstance(each, str)}
        own = texts.pop("input_file", None)
        numbers = [name for name in parameters.names if name not in texts and name != "input_file"]
        inputs, input_units = self._inputs(source, own, data)
        given = dict(zip(parameters.names, parameters.units, strict=True)) | input_units
        given |= dict(zip(data.columns, data.units or (), strict=False))
        try:
            model = FMU(
                path,
                data.columns,
                data.times,
                names=numbers,
                variables=self.variables,
                units={name: unit for name, unit in given.items() if unit},
                values={**(self.values or {}), **texts},
                inputs=inputs,
                interface=self.interface,
                start=self.start,
                step=self.step,
                tolerance=self.tolerance,
                time_unit=self.time_unit,
                reset=self.reset,
            )
        except ImportError as error:
            raise source.fail(("simulator", "fmu"), str(error)) from error
        except FMUError as error:
            key = self._key(source, *error.about)
            raise source.fail(key, f"{self._where(source, error, own)}{error}") from error
        check_data_times(source, model.model.time_unit, self.time_unit)
        places = tuple(parameters.names.index(name) for name in numbers)
        return Simulate(OfNumbers(model, places), observations=data)

    def not_taken(self, source: Source, inputs: Inputs) -> list[str]:
        """Return names in formulas or constraints that are no variables of the model."""
        named = [name for name in inputs.in_formulas if name not in (self.variables or {})]
        if not named or not source.file(self.fmu).is_file():
            return []
        try:
            model = read_description(source.file(self.fmu))
        except (FMUError, ImportError):
            return []  # `make` tells what is wrong
        return [name for name in named if model.variable(name) is None]

    def _inputs(
        self, source: Source, own: str | None, data: Observations
    ) -> tuple[dict[str, FloatArray] | None, dict[str, str]]:
        """Read the table of inputs, that of an experiment if it has its own, and its units."""
        if own is None and self.input_file is None:
            return None, {}
        key: Key = ("simulator", "input_file")
        if own is not None:
            tables = source.document["data"]
            several = isinstance(tables, list)
            among = enumerate(tables) if several else [(0, tables)]
            mine = (i for i, each in among if each.get("settings", {}).get("input_file") == own)
            key = ("data", *((next(mine),) if several else ()), "settings", "input_file")
        file = CSVFile(source, key)
        if "time" not in file.header:
            raise file.fail(f"{file.path.name} has no column time")
        columns = {name: file.column(name, file.key, gaps=False) for name in file.header}
        lines, times = list(file.rows), columns["time"]
        for line, time, before in zip(lines[1:], times[1:], times[:-1], strict=True):
            if time < before:
                words = f"{time:g} is before {before:g}: sort the rows by time"
                raise file.fail(f"{file.path.name}, line {line}, column time: {words}")
        check_inputs_last(source, key, file.path.name, float(times[-1]), len(times), data)
        units = {name: unit for name, unit in file.units.items() if name in columns}
        return columns, {name: unit for name, unit in units.items() if name != "time"}

    def _key(self, source: Source, about: str = "", name: str = "", *_: str) -> Key:
        """Return the key of the file that an argument of `FMU` comes from."""
        keys: dict[str, Key] = {
            "path": ("simulator", "fmu"),
            "names": ("parameters", name),
            "units": ("parameters", name, "unit"),
            "outputs": ("data", "observed"),
            "inputs": ("simulator", "input_file"),
            "times": ("simulator", "start"),
        }
        if about in ("names", "units") and name not in source.table("parameters"):
            return ("data",)  # a column, or a setting of an experiment
        return keys.get(about, ("simulator", about, name) if name else ("simulator", about))

    def _where(self, source: Source, error: FMUError, own: str | None) -> str:
        """Return the file and the column that an error of the inputs or the data is about."""
        tables = list(data_tables(source).values())
        about, name, *_ = (*error.about, "", "")
        if about == "units" and len(tables) == 1 and name in tables[0].get("observed", ()):
            return f"{Path(tables[0]['file']).name}, line 1, column {name}: "
        file = own or self.input_file
        if error.about[:1] != ("inputs",) or len(error.about) < 2 or file is None:
            return ""
        return f"{Path(file).name}, column {error.about[1]}: "

    def files(self, source: Source) -> dict[str, list[Path]]:
        """Return the model and its inputs."""
        settings = [each.get("settings", {}) for each in data_tables(source).values()]
        given = [self.fmu, self.input_file, *(each.get("input_file") for each in settings)]
        return {"simulator": [source.file(name) for name in given if isinstance(name, str)]}

    def how_to_set(self, name: str) -> str:
        """Advise a start value of the model."""
        key = name if name.isidentifier() else in_toml(name)
        where = "[simulator] of the scenario has the model's other variables"
        return f"{where}, values = {{ {key} = … }}"
