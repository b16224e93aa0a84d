"""Scales, offsets and noise levels in [data] that are parameters, and need no run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from supac.arrays import IntArray
from supac.problem import Observations, Parameters
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.correlated import Autoregressive, CorrelatedErrors, Discrepancy
from supac.problem.correlations import BENDS
from supac.problem.shared_factors import MANY, SMOOTH
from supac.problem_file.data import data_tables, experiment_names, read_observations
from supac.problem_file.errors import Key, Source, suggestion
from supac.problem_file.noise import is_parameter

ROLES = {"scale": "scales", "offset": "offsets", "noise": "levels"}
"""Keys of [data], and the fields of a `ColumnLoss` that they fill."""
ERRORS = {"correlation_time": "memories", "amplitude": "amplitudes", "length": "lengths"}
"""Further ones, and the fields of its correlated errors."""
_POSITIVE = {"noise", *ERRORS}
_MOST = 5_000  # measurements of a series with a smooth discrepancy


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


def likelihood_is_needed(source: Source) -> bool:
    """Return True if noise levels or correlations of errors are parameters."""
    return any(role in _POSITIVE for _, role, _, _ in _uses(source))


def check_priors(source: Source, parameters: Parameters) -> None:
    """Raise ProblemFileError for a noise level, or a scale of logarithms, that may be negative."""
    tables = data_tables(source)
    for key, role, _, name in _uses(source):
        log = tables[_place(key)].get("compare") == "log"
        if role == "offset" and log:
            source.add(key, 'goes without compare = "log", which compares ratios')
        positive = role in _POSITIVE or (role == "scale" and log)
        if positive and parameters.transforms[name].bounds[0] < 0.0:
            fix = 'choose prior = "lognormal", "loguniform" or "halfnormal"'
            source.add(("parameters", name), f"may be negative, but is a {role} in [data]: {fix}")
    source.raise_any()


def column_loss(
    source: Source, names: tuple[str, ...], data: Observations, loss: Callable[..., Any] | None
) -> ColumnLoss:
    """Return the loss of residuals and of these parameters; a likelihood if none is given."""
    fields = {**ROLES, **ERRORS}
    places: dict[str, Any] = {field: np.full(len(data.values), -1) for field in fields.values()}
    keys = dict(zip(experiment_names(source), data_tables(source), strict=True))
    noisy: Key | None = None
    for experiment, column, rows in data.parts:
        place = keys.get(experiment, ("data",))
        for key, role, observed, name in _uses(source):
            if key[: len(place)] == place and observed in (None, data.columns[column]):
                places[fields[role]][column * data.rows + rows] = names.index(name)
                noisy = key if role in _POSITIVE else noisy
    if noisy is not None and not isinstance(loss, Likelihood | None):
        words = (
            'a parameter of the noise needs kind = "likelihood" in [loss], or no table '
            "[loss]: with any other loss, more of it is always better"
        )
        raise source.fail(noisy, words)
    made = Likelihood() if loss is None else loss
    known: dict[str, Any] = {"values": data.values, "noise": data.noise}
    further = {field: places.pop(field) for field in ERRORS.values()}
    errors = _errors(source, data, further)
    return ColumnLoss(made, **places, **known, logarithmic=data.logarithmic, errors=errors)


def _errors(
    source: Source, data: Observations, places: Mapping[str, IntArray]
) -> CorrelatedErrors | None:
    """Return the correlated errors of the data; None if all are independent."""
    used = [role for role, field in ERRORS.items() if (places[field] >= 0).any()]
    if not used:
        return None
    key: Key = next(key for key, role, _, _ in _uses(source) if role == used[0])
    if "correlation_time" in used and len(used) > 1:
        raise source.fail(key, "goes without discrepancy: keep one of them")
    if data.times is None:
        raise source.fail(key, 'needs times: name their column in [data], time = "…"')
    series = np.zeros(len(data.values), dtype=np.intp)
    for number, (_, column, rows) in enumerate(data.parts):
        series[column * data.rows + rows] = number
    common: dict[str, Any] = {"series": series, "times": np.tile(data.times, len(data.columns))}
    if used == ["correlation_time"]:
        return Autoregressive(**common, memories=places["memories"])
    smooth = data.needed & (places["amplitudes"] >= 0)
    largest = int(np.bincount(series[smooth]).max(initial=0))
    given = next(t["discrepancy"] for t in data_tables(source).values() if "discrepancy" in t)
    kind = given.get("covariance", SMOOTH)
    most = _MOST if kind == SMOOTH else MANY
    if largest > most:
        words = f"a series has {largest:,} measurements, and a discrepancy with {kind} at most"
        raise source.fail(key, f"{words} {most:,}: thin them, or name a correlation_time instead")
    common |= {name: places[name] for name in ("amplitudes", "lengths")}
    fixed = {name: given[name] for name in ("zero_at", "flat_at") if name in given}
    if "flat_at" in fixed and kind not in BENDS:
        raise source.fail(key, f"flat_at needs one of {', '.join(BENDS)}: {kind} has no slopes")
    return Discrepancy(**common, covariance=kind, **fixed)


def declare_automatic(source: Source) -> None:
    """Write parameters for a discrepancy without an amplitude into the document, usual priors.

    An amplitude for each column, around a tenth of the spread of its measurements, and one length,
    around a fifth of the time that they cover.
    """
    chosen = [key for key, t in data_tables(source).items() if _is_automatic(t.get("discrepancy"))]
    if not chosen:
        return
    data, table = read_observations(source), source.document["parameters"]
    if data.times is None or not np.ptp(data.times) > 0.0:
        words = 'needs times: name their column in [data], time = "…"'
        raise source.fail((*chosen[0], "discrepancy"), words)
    spreads = np.nanstd(data.values.reshape(-1, data.rows), axis=1)
    length = {"prior": "lognormal", "median": float(np.ptp(data.times)) / 5.0, "log_sd": 0.8}
    table["discrepancy_length"] = length
    for name, spread in zip(data.columns, spreads, strict=True):
        median = 0.1 * float(spread) or 1.0
        prior = {"prior": "lognormal", "median": median, "log_sd": 1.5}
        table[f"discrepancy_{name}"] = prior
    tables = source.document["data"]
    for key in chosen:
        own = tables[int(key[1])] if isinstance(tables, list) else tables
        observed = own["observed"]
        names = [observed] if isinstance(observed, str) else observed
        known = own["discrepancy"] if isinstance(own["discrepancy"], dict) else {}
        own["discrepancy"] = known | {
            "amplitude": {name: f"discrepancy_{name}" for name in names},
            "length": "discrepancy_length",
        }


def _is_automatic(given: Any) -> bool:
    """Return True if a discrepancy has amplitudes and a length with the usual priors."""
    return given == "auto" or (isinstance(given, dict) and "amplitude" not in given)


def _uses(source: Source) -> Iterator[tuple[Key, str, str | None, str]]:
    """Yield key, role, observed column (None for all) and parameter of each use in the data."""
    table = source.table("parameters")
    for place, data in data_tables(source).items():
        smooth = data.get("discrepancy")
        own = smooth if isinstance(smooth, dict) else {}
        for role in (*ROLES, *ERRORS):
            within = ("discrepancy",) if role in own else ()
            given = own[role] if within else data.get(role)
            every = given.items() if isinstance(given, dict) else [(None, given)]
            for column, name in every:
                key: Key = (*place, *within, role) if column is None else (
                    (*place, *within, role, column)
                )  # fmt: skip
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
