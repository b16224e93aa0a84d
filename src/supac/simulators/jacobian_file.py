"""The Jacobian in a second file of a program: JSON, or a table with a column for each parameter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from supac.simulators.jacobian_error import JacobianError
from supac.simulators.output_file import OutputError, OutputFile

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class JacobianFile:
    """Name of the file, and of the values that the program gets.

    A table has a column for each value of `wanted`, by its name, and one row for each output, in
    the order of these. `*.json` holds such columns as lists by name, a list of rows, or either
    under the name of each output of `columns`. Others of the names may be left out. An empty file,
    or null, stands for no Jacobian of this run.
    """

    name: str
    names: Sequence[str]
    """Of all values that the program gets: the columns of what is read."""
    wanted: Sequence[str]
    columns: Sequence[str] = ()
    """Observed columns, under which the rows may be given."""

    def read(self, folder: Path) -> Any:
        """Return the Jacobian (outputs, names), NaN where a name is left out; None if empty.

        With the names of `columns` it is {column: (rows, names)}. What is wrong is returned as a
        `JacobianError`.
        """
        try:
            return self._read(folder)
        except (OutputError, JacobianError) as error:
            return JacobianError(f"the Jacobian cannot be read: {error}")

    def _read(self, folder: Path) -> Any:
        path = folder / self.name
        if path.is_file() and not path.read_bytes().strip():
            return None
        if not self.name.endswith(".json"):
            table = OutputFile(self.name).table(folder)
            return self._by_name(table)
        content = json_of(path)
        named = isinstance(content, Mapping) and content and set(content) <= {*self.columns}
        if named and not set(self.wanted) <= set(content):
            return {column: self._rows(each) for column, each in content.items()}
        return None if content is None else self._rows(content)

    def _rows(self, content: Any) -> FloatArray:
        """Return rows that are given as lists, or by columns."""
        if isinstance(content, Mapping):
            return self._by_name(content)
        try:
            return np.array(content, dtype=np.float64)
        except (TypeError, ValueError) as error:
            words = f"{self.name} must hold rows of numbers, one for each output"
            raise JacobianError(words) from error

    def _by_name(self, content: Mapping[str, Any]) -> FloatArray:
        """Return columns by name as an array in the order of all names."""
        missing = [name for name in self.wanted if name not in content]
        if missing:
            has = ", ".join(content) or "nothing"
            raise JacobianError(f"{self.name} has no column {', '.join(missing)}, but {has}")
        columns = {name: self._rows(content[name]) for name in self.names if name in content}
        counts = {each.shape for each in columns.values()}
        if len(counts) > 1 or any(len(shape) != 1 for shape in counts):
            sizes = ", ".join(f"{name}: {np.size(each)}" for name, each in columns.items())
            raise JacobianError(f"{self.name} must have columns of equal length, and has {sizes}")
        unknown = np.full(next(iter(counts), (0,)), np.nan)
        return np.column_stack([columns.get(name, unknown) for name in self.names])


def json_of(path: Path) -> Any:
    """Return what a JSON file holds; OutputError if it is missing or torn."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise OutputError(f"the program wrote no {path.name}") from error
    except (OSError, ValueError) as error:
        raise OutputError(f"{path.name} is not JSON: {error}") from error
