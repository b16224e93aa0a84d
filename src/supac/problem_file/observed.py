"""Scales, offsets and noise levels in [data] that are parameters, and need no run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from supac.problem import Observations, Parameters
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem_file.data import data_tables, experiment_names
from supac.problem_file.errors import Key, Source, suggestion
from supac.problem_file.noise import is_parameter

ROLES = {"scale": "scales", "offset": "offsets", "noise": "levels"}
"""Keys of [data], and the fields of a `ColumnLoss` that they fill."""


def observation_names(source: Source) -> tuple[str, ...]:
    """Return the parameters that scales, offsets and noise levels name, in the file's order."""
    table = source.table("parameters")
    named = {name for _, _, _, name in _uses(source)}
    for key, role, column, name in _uses(source):
        observed = data_tables(source)[_place(key)]["observed"]
        if column is not None and column not in (
            [observed] if isinstance(observed, str) else observed
        ):
            source.add(key, f"{column} is not observed{suggestion(column, observed)}")
        elif words := _wrong(role, name, table):
            source.add(key, words)
    source.raise_any()
    if named and len(named) == sum(_is_sought(each) for each in table.values()):
        raise source.fail(("parameters",), "none is left for the simulator")
    return tuple(name for name in table if name in named)


def check_priors(source: Source, parameters: Parameters) -> None:
    """Raise ProblemFileError for a noise level, or a scale of logarithms, that may be negative."""
    tables = data_tables(source)
    for key, role, _, name in _uses(source):
        log = tables[_place(key)].get("compare") == "log"
        if role == "offset" and log:
            source.add(key, 'goes without compare = "log", which compares ratios')
        positive = role == "noise" or (role == "scale" and log)
        if positive and parameters.transforms[name].bounds[0] < 0.0:
            fix = 'choose prior = "lognormal", "loguniform" or "halfnormal"'
            source.add(("parameters", name), f"may be negative, but is a {role} in [data]: {fix}")
    source.raise_any()


def column_loss(
    source: Source, names: tuple[str, ...], data: Observations, loss: Callable[..., Any] | None
) -> ColumnLoss:
    """Return the loss of residuals and of these parameters; a likelihood if none is given."""
    places: dict[str, Any] = {field: np.full(len(data.values), -1) for field in ROLES.values()}
    keys = dict(zip(experiment_names(source), data_tables(source), strict=True))
    noisy: Key | None = None
    for experiment, column, rows in data.parts:
        place = keys.get(experiment, ("data",))
        for key, role, observed, name in _uses(source):
            if key[: len(place)] == place and observed in (None, data.columns[column]):
                places[ROLES[role]][column * data.rows + rows] = names.index(name)
                noisy = key if role == "noise" else noisy
    if noisy is not None and not isinstance(loss, Likelihood | None):
        words = (
            'a noise level that is a parameter needs kind = "likelihood" in [loss], or no table '
            "[loss]: with any other loss, more noise is always better"
        )
        raise source.fail(noisy, words)
    made = Likelihood() if loss is None else loss
    known: dict[str, Any] = {"values": data.values, "noise": data.noise}
    return ColumnLoss(made, **places, **known, logarithmic=data.logarithmic)


def _uses(source: Source) -> Iterator[tuple[Key, str, str | None, str]]:
    """Yield key, role, observed column (None for all) and parameter of each use in the data."""
    table = source.table("parameters")
    for place, data in data_tables(source).items():
        for role in ROLES:
            given = data.get(role)
            every = given.items() if isinstance(given, dict) else [(None, given)]
            for column, name in every:
                key: Key = (*place, role) if column is None else (*place, role, column)
                if isinstance(name, str) and (role != "noise" or is_parameter(name, table)):
                    yield key, role, column, name


def _place(key: Key) -> Key:
    """Return the key of the table of data that a key is in."""
    return key[:2] if isinstance(key[1], int) else key[:1]


def _is_sought(entry: Any) -> bool:
    return isinstance(entry, dict) and "prior" in entry


def _wrong(role: str, name: str, table: Mapping[str, Any]) -> str:
    """Return the error message for a name that is no single parameter with a prior."""
    if name not in table:
        hint = suggestion(name, table) or f"; they are {', '.join(table)}"
        return f"{name} is no parameter{hint}"
    if not _is_sought(table[name]):
        return f"{name} must have a prior in [parameters] to be a {role}"
    if "field" in table[name]:
        return f"{name} is a field: a {role} is a single parameter"
    return ""
