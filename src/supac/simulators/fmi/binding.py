"""From the names of a user to the variables of a model, with their units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from supac.simulators.fmi.description import Description, FMUError, near
from supac.simulators.fmi.signals import Signals
from supac.simulators.fmi.units import Conversion
from supac.simulators.fmi.variable import Variable, elements

Bound = tuple[Variable, Conversion]
"""A variable, and the conversion from the user's unit to the model's."""


@dataclass(frozen=True)
class Binding:
    """A model, with the user's names and units where these differ from the model's."""

    model: Description
    variables: Mapping[str, str]
    units: Mapping[str, str]

    def sized(self, values: Mapping[str, Any]) -> Binding:
        """Return the binding to the model whose arrays have the sizes that `values` give."""
        sizes: dict[int, int] = {}
        for name, each in values.items():
            variable = self.model.variables.get(self.variables.get(name, name))
            if variable is None or variable.causality != "structuralParameter":
                continue
            if isinstance(each, bool) or not isinstance(each, int) or each < 0:
                words = f"{variable.name} is the size of an array: a whole number, not {each!r}"
                raise FMUError(words, "values", name)
            sizes[variable.reference] = each
        return replace(self, model=self.model.resized(sizes)) if sizes else self

    def parameter(self, name: str) -> Bound:
        """Return the variable of a parameter; FMUError if there is none that can be set."""
        likely = self.model.parameters
        variable = self._find(name, likely, "names")
        if not (variable.is_real and variable.is_settable):
            others = near("", [each.name for each in likely], ())
            words = f"{variable.name} of {self.model.path.name} is {_what(variable)}"
            if variable.is_array:
                raise FMUError(f"{words}: {_name_elements(variable)}", "names", name)
            raise FMUError(f"{words} and cannot be set before a run{others}", "names", name)
        return variable, self._conversion(variable, name)

    def output(self, name: str) -> Bound:
        """Return the variable that is recorded; FMUError if there is none that is a number."""
        variable = self._find(name, self.model.of("output"), "outputs")
        if not variable.is_number:
            words = (
                f"{variable.name} of {self.model.path.name} is {_what(variable)}, not one number"
            )
            fix = _name_elements(variable) if variable.is_array else "choose another output"
            raise FMUError(f"{words}: {fix}", "outputs", name)
        return variable, self._conversion(variable, name)

    def value(self, name: str, value: Any) -> tuple[Variable, Any]:
        """Return a variable with a value of its type, an array with a list; FMUError if it is none.

        The values of an array with several indices are given in rows.
        """
        variable = self._find(name, self.model.of("parameter"), "values")
        about = ("values", name)
        if not variable.is_settable:
            raise FMUError(f"{variable.name} is {_what(variable)} and cannot be set", *about)
        if variable.is_array:
            return variable, _numbers(variable, value, *about)
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
                if variable.causality == "input" and variable.is_array:
                    words = f"{variable.name} is {_what(variable)}: {_name_elements(variable)}"
                raise FMUError(words, "inputs", name)
            table.append((variable, self._conversion(variable, name).forward(column)))
        variables = tuple(variable for variable, _ in table)
        return Signals(variables, times, np.column_stack([column for _, column in table]))

    def check_complete(self, given: Iterable[Variable], names: Iterable[str]) -> None:
        """Raise FMUError if an input has no value, or a name stands for nothing that is used."""
        listed = list(given)
        whole = {each.name for each in listed if each.is_array}
        known = {each.name for each in listed}
        self._check_arrays(listed, whole, known)
        for each in self.model.of("input"):
            if each.name not in known and (each.array is None or each.array.name not in whole):
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

    def _check_arrays(self, given: list[Variable], whole: set[str], known: set[str]) -> None:
        """Raise FMUError if an array is given in part, and the rest has no start values."""
        for each in given:
            array = each.array
            if array is None or array.name in whole or each.start:
                continue
            missing = next((one.name for one in elements(array) if one.name not in known), None)
            if missing is not None:
                raise FMUError(
                    f"{array.name} of {self.model.path.name} has {array.size} elements, for which "
                    f"its start values do not do: give {missing} as well, or all of {array.name} "
                    "in values",
                    "values",
                )

    def _find(self, name: str, likely: Iterable[Variable], about: str) -> Variable:
        if name in self.variables:
            return self.model.find(self.variables[name], likely, "variables", name)
        return self.model.find(name, likely, about, name)

    def _conversion(self, variable: Variable, name: str) -> Conversion:
        return self.model.convert(variable, self.units.get(name, ""), "units", name)


def _what(variable: Variable) -> str:
    """Return a description of a variable: "an output", "a constant local", "an array of 3"."""
    if variable.is_array:
        return f"an array of {' x '.join(map(str, variable.shape))}"
    constant = "constant " if variable.variability == "constant" else ""
    kind = "" if variable.is_real else f"{variable.type.lower()} "
    words = f"{constant}{kind}{variable.causality}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _name_elements(array: Variable) -> str:
    """Return how to name an element of an array."""
    first = next(elements(array), None)
    if first is None:
        return "it has no elements"
    return f'name each of its elements, such as "{first.name}"'


def _numbers(array: Variable, value: Any, *about: str) -> list[float]:
    """Return the values of an array one after the other; FMUError if they are not as many."""
    try:
        given = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.empty(0)
    misshaped = given.size != array.size or (given.ndim > 1 and given.shape != array.shape)
    real = array.type in ("Real", "Float32", "Float64")
    broken = not real and (given != np.trunc(given)).any()
    if array.is_textual or misshaped or broken or not np.isfinite(given).all():
        if array.is_textual:
            raise FMUError(f"{array.name} is {_what(array)} of texts and cannot be set", *about)
        kind = "numbers" if real else "whole numbers"
        rows = ", row by row" if len(array.shape) > 1 else ""
        words = f"{array.name} is {_what(array)}: give a list of {array.size} {kind}{rows}"
        raise FMUError(f"{words}, not {value!r}", *about)
    return given.ravel().tolist()
