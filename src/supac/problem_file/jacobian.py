"""Jacobians of simulators of problem files: of the parameters that are sought, by rows of the data.

A simulator has derivatives in all values that it is given. Those in the free parameters follow by
the chain rule: a tied value passes its column on to the parameters in its formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray, as_floats
from supac.problem.composite import parts_of
from supac.problem_file.data import data_tables
from supac.problem_file.errors import Source
from supac.problem_file.inputs import Inputs
from supac.simulators.jacobian_error import JacobianError, is_wrong

Rows = Callable[[Any], FloatArray]
"""Converts outputs as a simulator returns them to a vector, in the order of the data."""


def sought(
    jacobian: Any, x: FloatArray, inputs: Inputs | None, rows: Rows | None, *, many: bool
) -> Any:
    """Return the Jacobian (m, free) of a simulator at x (free,), or what is wrong with it.

    Of `many` points x (n, free) it is a list. None stays None.
    """
    if jacobian is None or is_wrong(jacobian):
        return jacobian
    if many:
        if isinstance(jacobian, Mapping) or len(jacobian) != len(x):
            return jacobian  # told by whoever calls the simulator
        every = zip(jacobian, x, strict=True)
        return [sought(each, point, inputs, rows, many=False) for each, point in every]
    try:
        by_rows = _by_rows(jacobian, rows)
    except JacobianError as error:
        return error
    except ValueError as error:
        return JacobianError(f"the Jacobian does not fit the data: {error}")
    return by_rows if inputs is None or by_rows is None else in_free(by_rows, x, inputs)


def _by_rows(jacobian: Any, rows: Rows | None) -> FloatArray | None:
    """Return a Jacobian with a row for each output, in their order; None if it is no array."""
    if not isinstance(jacobian, Mapping):
        values = as_floats(jacobian)
        if rows is None or values is None or values.ndim < 2:
            return values
        return np.column_stack([rows(values[..., j]) for j in range(values.shape[-1])])
    parts = {name: np.asarray(each, dtype=np.float64) for name, each in jacobian.items()}
    odd = next((name for name, each in parts.items() if each.ndim != 2), None)
    if odd is not None or len({each.shape[1] for each in parts.values()}) > 1 or rows is None:
        name = next(iter(parts), "") if odd is None else odd
        raise JacobianError(
            f"the Jacobian of {name} must have one row for each row of the data and one column a "
            f"parameter, and has shape {parts[name].shape}"
        )
    columns = range(next(iter(parts.values())).shape[1])
    return np.column_stack([rows({n: each[:, j] for n, each in parts.items()}) for j in columns])


def in_free(jacobian: FloatArray, x: FloatArray, inputs: Inputs) -> FloatArray:
    """Convert derivatives in all values of a simulator, (m, all), to those in x: (m, free).

    One that has a column for each free parameter alone stays as it is, as one of another shape.
    """
    free, names = list(inputs.free), list(inputs.names)
    if names == free or jacobian.ndim != 2 or jacobian.shape[1] != len(names):
        return jacobian
    passed = np.zeros((len(names), len(free)))
    for row, name in enumerate(names):
        if name in free:
            passed[row, free.index(name)] = 1.0
        elif name in inputs.tied:
            passed[row] = inputs.slopes_of(name, x)
    used = passed.any(axis=1)  # columns of fixed values may be NaN
    return np.asarray(jacobian[:, used] @ passed[used])


def with_jacobians(
    source: Source, risk: Any, slopes: Callable[[FloatArray], Any] | None, *, returned: bool
) -> Any:
    """Return the risk with the Jacobians of the file: those of `slopes`, or `returned` by runs."""
    table = source.table("simulator")
    known = parts_of(risk).jacobian_cost is not None
    if slopes is None and not (returned or known):
        if "jacobian_cost" in table:
            words = "needs jacobian, which says where Jacobians come from"
            raise source.fail(("simulator", "jacobian_cost"), words)
        return risk
    _check_rest(source, risk)
    return replace(
        risk, jacobian=slopes or True, jacobian_cost=_number_or_none(table.get("jacobian_cost"))
    )


def _check_rest(source: Source, risk: Any) -> None:
    """Raise ProblemFileError if the rest of the file does not go with Jacobians."""
    key = ("simulator", "jacobian")
    if parts_of(risk).loss is None:
        words = "needs outputs to compare: add [data], or a [loss] of what the simulator returns"
        raise source.fail(key, words)
    ends = [key for key, table in data_tables(source).items() if "after_end" in table]
    for found, what in (
        ("coarse" in source.table("simulator"), "[simulator.coarse]"),
        (source.table("run").get("algorithm") == "paper", 'algorithm = "paper" in [run]'),
        (bool(ends), "after_end in [data]"),
    ):
        if found:
            source.add(key, f"does not go with {what} yet: remove one of the two")
    source.raise_any()


def _number_or_none(value: Any) -> float | None:
    return None if value is None else float(value)
