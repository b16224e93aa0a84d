"""The files that `supac init --fmu` writes: a problem with what the model declares."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from supac.exchange.text_table import read_rows
from supac.problem_file.csv_file import name_and_unit
from supac.problem_file.starter import template
from supac.simulators.fmi.description import (
    Description,
    FMUError,
    check_platform,
    read_description,
)
from supac.simulators.fmi.variable import Variable

_MOST = 20  # parameters that are switched on
_ROWS = 10  # of an empty table of data
_FEW = 5  # local variables that stand for missing outputs
_WIDE = 1_000.0  # times the start value: limits further apart say nothing


def fmu_starter_files(fmu: Path, folder: Path) -> dict[str, str]:
    """Return the files of a problem with an FMU: name → text; tables that are there are kept."""
    model = read_description(fmu)
    check_platform(model)
    made: dict[str, str] = {}
    header = _header(folder / "data.csv")
    outputs = _outputs(model, header)
    if not header:
        rows = _times(model)
        made["data.csv"] = _table(["time", *map(_head, outputs)], rows)
    count = _count(folder / "data.csv", outputs) or _ROWS * len(outputs)
    inputs = [each for each in model.of("input") if each.is_number]
    if inputs and not (folder / "inputs.csv").exists():
        ends = (model.start, _stop(model))
        values = [_start(each) for each in inputs]
        made["inputs.csv"] = _table(["time", *map(_head, inputs)], ends, values)
    return {"problem.toml": _problem(model, folder, outputs, inputs, count), **made}


def _problem(
    model: Description,
    folder: Path,
    outputs: Sequence[Variable],
    inputs: Sequence[Variable],
    count: int,
) -> str:
    noise = ", ".join(f"{_key(each.name)} = 0.1" for each in outputs)
    path = Path(os.path.relpath(model.path, folder.absolute())).as_posix()
    columns = ", ".join(_head(each) for each in inputs)
    table = f'input_file = "inputs.csv"      # time, {columns}\n'
    about = f"{model.path.name}: {model.name}, FMI {model.version}"
    text = {
        "MODEL": f"{about}, {' and '.join(model.interfaces)}",
        "TITLE": _text(model.name),
        "PARAMETERS": "\n".join(_parameters(model)),
        "FMU": _text(path),
        "INPUTS": table if inputs else "",
        "TIME": model.time_unit,
        "OBSERVED": f"[{', '.join(_text(each.name) for each in outputs)}]",
        "NOISE": f"{{ {noise} }}",
        "N": str(count),
        "RUN": template("run.toml"),
    }
    problem = template("fmu.toml")
    for name, each in text.items():
        problem = problem.replace(f"@{name}@", each)
    return problem


def _parameters(model: Description) -> list[str]:
    """Return a line for each parameter: a prior around its start value."""
    lines = []
    for place, each in enumerate(model.parameters):
        prior, unit = _prior(each), f", unit = {_text(each.unit)}" if each.unit else ""
        notes = [f"start {each.start}"] if "uniform" in prior else []
        notes += [" ".join(each.description.split())] if each.description else []
        about = f"   # {'; '.join(notes)}" if notes else ""
        off = "# " if place >= _MOST else ""
        lines.append(f"{off}{_key(each.name)} = {{ {prior}{unit} }}{about}")
    return lines or ["# the model declares none: name a variable with a start value"]


def _prior(variable: Variable) -> str:
    """Return a prior: between the limits if there are any of use, else around the start value."""
    start, lower, upper = _start(variable), variable.lower, variable.upper
    if lower < upper and upper - lower <= _WIDE * (abs(start) or 1.0):
        return f'prior = "uniform", lower = {lower!r}, upper = {upper!r}'
    if start > 0.0:
        return f'prior = "lognormal", median = {start!r}, log_sd = 0.5'
    return f'prior = "normal", mean = {start!r}, sd = {abs(start) / 2.0 or 1.0!r}'


def _outputs(model: Description, header: Sequence[str]) -> list[Variable]:
    """Return the variables in the header of the data, or else the outputs of the model."""
    named = [each for name in header for each in _known(model, name)]
    named = [each for each in named if each.is_number and each.causality != "independent"]
    declared = [each for each in model.of("output") if each.is_number]
    local = [each for each in model.of("local") if each.is_real]
    return named or declared or local[:_FEW]


def _known(model: Description, name: str) -> list[Variable]:
    """Return the variable with a name in a list, which is empty if there is none."""
    try:
        return [model.find(name, ())]
    except FMUError:
        return []


def _times(model: Description) -> list[float]:
    """Return evenly spaced times; whole steps if the model takes equal ones."""
    stop = _stop(model)
    times = np.linspace(model.start, stop, _ROWS + 1)[1:]
    if model.has_equal_steps and model.step:
        times = model.start + model.step * np.unique(np.rint((times - model.start) / model.step))
    return [float(f"{time:.12g}") for time in times]


def _stop(model: Description) -> float:
    return model.start + 1.0 if model.stop is None else model.stop


def _start(variable: Variable) -> float:
    """Return the start value as a number; 0 if there is none."""
    text = {"true": "1", "false": "0"}.get(variable.start, variable.start)
    number = float(text) if text else 0.0
    return number if math.isfinite(number) else 0.0


def _table(header: Sequence[str], times: Sequence[float], values: Sequence[float] = ()) -> str:
    """Return a table in CSV, with the same values in each row, or with empty cells."""
    cells = [f"{each:g}" for each in values] or [""] * (len(header) - 1)
    rows = [header, *([f"{time:.12g}", *cells] for time in times)]
    return "".join(f"{','.join(_cell(each) for each in row)}\n" for row in rows)


def _cell(text: str) -> str:
    return f'"{text}"' if "," in text else text


def _header(path: Path) -> list[str]:
    """Return the names of the columns of a table; empty if there is no such file."""
    rows = _rows(path)
    return [name_and_unit(name)[0] for name in rows[0]] if rows else []


def _count(path: Path, outputs: Sequence[Variable]) -> int:
    """Return the number of measurements in a table; 0 if there is no such file."""
    header = _header(path)
    places = [header.index(each.name) for each in outputs if each.name in header]
    rows = _rows(path)[1:]
    return sum(bool("".join(row[place : place + 1]).strip()) for row in rows for place in places)


def _rows(path: Path) -> list[list[str]]:
    """Return the rows of a table; none if there is no such file."""
    return list(read_rows(path)[1].values()) if path.is_file() else []


def _head(variable: Variable) -> str:
    """Return the head of a column, with the unit."""
    return f"{variable.name} [{variable.unit}]" if variable.unit else variable.name


def _text(words: str) -> str:
    """Return a text in TOML."""
    return json.dumps(words, ensure_ascii=False)


def _key(name: str) -> str:
    """Return a key in TOML, in quotes if it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)
