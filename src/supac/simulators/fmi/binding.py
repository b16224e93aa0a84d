"""From the names of a user to the variables of a model, with their units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from supac.simulators.fmi.description import Description, FMUError, Variable, near
from supac.simulators.fmi.signals import Signals
from supac.simulators.fmi.units import Conversion

Bound = tuple[Variable, Conversion]
"""A variable, and the conversion from the user's unit to the model's."""


@dataclass(frozen=True)
class Binding:
    """A model, with the user's names and units where these differ from the model's."""

    model: Description
    variables: Mapping[str, str]
    units: Mapping[str, str]

    def parameter(self, name: str) -> Bound:
        """Return the variable of a parameter; FMUError if there is none that can be set."""
        likely = self.model.parameters
        variable = self._find(name, likely, "names")
        if not (variable.is_real and variable.is_settable):
            others = near("", [each.name for each in likely], ())
            words = f"{variable.name} of {self.model.path.name} is {_what(variable)}"
            raise FMUError(f"{words} and cannot be set before a run{others}", "names", name)
        return variable, self._conversion(variable, name)

    def output(self, name: str) -> Bound:
        """Return the variable that is recorded; FMUError if there is none that is a number."""
        variable = self._find(name, self.model.of("output"), "outputs")
        if not variable.is_number:
            words = (
                f"{variable.name} of {self.model.path.name} is {_what(variable)}, not one number"
            )
            raise FMUError(f"{words}: choose another output", "outputs", name)
        return variable, self._conversion(variable, name)

    def value(self, name: str, value: Any) -> tuple[Variable, Any]:
        """Return a variable with a value of its type; FMUError if it cannot be set."""
        variable = self._find(name, self.model.of("parameter"), "values")
        about = ("values", name)
        if not variable.is_settable or variable.is_array:
            raise FMUError(f"{variable.name} is {_what(variable)} and cannot be set", *about)
        wanted = {"String": str, "Boolean": bool}.get(variable.type, float)
        fits = isinstance(value, (int, float) if wanted is float else wanted)
        if not fits or (wanted is float and isinstance(value, bool)):
            kinds = {str: "a text", bool: "true or false", float: "a number"}
            raise FMUError(f"{variable.name} must be {kinds[wanted]}, not {value!r}", *about)
        return variable, value

    def signals(self, inputs: Mapping[str, npt.ArrayLike], time_scale: float) -> Signals:
        """Return the inputs of a table with a column `time`, in the model's unit of time."""
        if "time" not in inputs or len(inputs) < 2:
            raise FMUError("inputs need a column time and one for each input", "inputs")
        columns = {name: np.asarray(each, dtype=np.float64) for name, each in inputs.items()}
        times = columns.pop("time") * time_scale
        if any(each.shape != times.shape for each in columns.values()) or not len(times):
            raise FMUError("all columns of inputs must be as long as time", "inputs")
        if (np.diff(times) < 0.0).any():
            raise FMUError("the times of inputs must not decrease", "inputs", "time")
        table = []
        for name, column in columns.items():
            variable = self._find(name, self.model.of("input"), "inputs")
            if variable.causality != "input" or not variable.is_number:
                words = f"{variable.name} is {_what(variable)}, not an input: remove this column"
                raise FMUError(words, "inputs", name)
            table.append((variable, self._conversion(variable, name).forward(column)))
        variables = tuple(variable for variable, _ in table)
        return Signals(variables, times, np.column_stack([column for _, column in table]))

    def check_complete(self, given: Iterable[Variable], names: Iterable[str]) -> None:
        """Raise FMUError if an input has no value, or a name stands for nothing that is used."""
        known = {each.name for each in given}
        for each in self.model.of("input"):
            if each.name not in known:
                start = each.start or "0"
                raise FMUError(
                    f"{self.model.path.name} has the input {each.name}: give it as a column of "
                    f"inputs, or as a constant in values, such as its start value, {start}",
                    "inputs",
                )
        used = set(names)
        for table, about in ((self.variables, "variables"), (self.units, "units")):
            for name in table:
                if name not in used:
                    hint = near(name, sorted(used), ())
                    words = f"{name} is no parameter, output or input here{hint}"
                    raise FMUError(words, about, name)

    def _find(self, name: str, likely: Iterable[Variable], about: str) -> Variable:
        if name in self.variables:
            return self.model.find(self.variables[name], likely, "variables", name)
        return self.model.find(name, likely, about, name)

    def _conversion(self, variable: Variable, name: str) -> Conversion:
        return self.model.convert(variable, self.units.get(name, ""), "units", name)


def _what(variable: Variable) -> str:
    """Return a description of a variable: "an output", "a constant local", "an array"."""
    if variable.is_array:
        return "an array"
    constant = "constant " if variable.variability == "constant" else ""
    kind = "" if variable.is_real else f"{variable.type.lower()} "
    words = f"{constant}{kind}{variable.causality}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
