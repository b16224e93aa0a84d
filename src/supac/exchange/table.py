"""Runs and draws as tables: columns by name, in the user's units.

The one place where such a table is made, whoever it is for: a file, pandas, xarray or ArviZ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem.evaluations import Evaluations
from supac.problem.parameters import Parameters, names_of
from supac.record.run import Run, Status
from supac.surrogate import Importance

Table = dict[str, list[Any]]
"""Columns of one length; None where a value is not known."""

OUTPUT = "output_"
_BOOKKEEPING = (
    "risk", "status", "seconds", "attempts", "message", "source", "purpose", "id", "iteration",
    "drawn", "weight",
)  # fmt: skip


def table_of_runs(
    runs: Sequence[Run], rounds: Sequence[Sequence[int]], parameters: Parameters | None
) -> Table:
    """The runs of a store; `rounds` are the ids that each iteration learnt from."""
    iteration = {each: i for i, ids in enumerate(rounds) for each in ids}
    dim = len(runs[0].x) if runs else 0
    x = np.array([run.x for run in runs]).reshape(len(runs), dim)
    told: Table = {
        "status": [run.status.value for run in runs],
        "iteration": [iteration.get(run.id) for run in runs],
        "seconds": [run.seconds for run in runs],
        "attempts": [run.attempts for run in runs],
        "message": [run.message for run in runs],
        "source": [run.source for run in runs],
        "purpose": [run.purpose for run in runs],
    }
    ids: Table = {"id": [run.id for run in runs]}
    outputs = [run.outputs for run in runs]
    return ids | _table(x, parameters, [run.risk for run in runs], told, outputs)


def table_of_evaluations(
    evaluations: Evaluations,
    learnt: int,
    failures: Sequence[Run],
    posterior: Distribution,
    parameters: Parameters | None,
) -> Table:
    """The runs of a result, of which the first `learnt` iterations are in its history."""
    failed = {run.x.tobytes(): run for run in failures}
    good = evaluations.ok.tolist()
    runs = [
        None if ok else failed.get(x.tobytes()) for x, ok in zip(evaluations.x, good, strict=True)
    ]
    ends = [_end_of(run, ok=ok) for run, ok in zip(runs, good, strict=True)]
    searched = [i if i < learnt else None for i in evaluations.iteration.tolist()]
    told = {
        "status": [status.value for status, _ in ends],
        "iteration": searched,
        "drawn": evaluations.drawn.tolist(),
        "weight": _known(_weights(evaluations, posterior)),
        "message": [message for _, message in ends],
        # Nothing is learnt from a first batch that fails: no iteration, but a search it was.
        "purpose": [
            run.purpose if run is not None else "validation" if i is None else "search"
            for run, i in zip(runs, searched, strict=True)
        ],
    }
    rows = evaluations.outputs
    outputs = [
        None if rows is None or not ok else rows[row] for row, ok in enumerate(evaluations.ok)
    ]
    risk = np.where(evaluations.ok, evaluations.risk, np.nan).tolist()
    return _table(evaluations.x, parameters, risk, told, outputs)


def table_of_draws(draws: FloatArray, parameters: Parameters | None) -> Table:
    """Points in the user's units, (n, dim), one column a parameter."""
    names = names_of(parameters, draws.shape[1])
    return {name: draws[:, i].tolist() for i, name in enumerate(names)}


def _end_of(run: Run | None, *, ok: bool) -> tuple[Status, str]:
    """How a run ended, and why."""
    if run is None:
        return (Status.OK if ok else Status.INVALID), ""
    return run.status, run.message


def _weights(evaluations: Evaluations, posterior: Distribution) -> FloatArray:
    """What each run counts for in a mean over the posterior; NaN where it cannot."""
    weights = np.full(len(evaluations), np.nan)
    counted = evaluations.drawn & evaluations.ok
    if counted.any():
        fitted = Importance().fit(evaluations.select(counted), posterior)
        weights[counted] = fitted.weights(posterior)
    return weights


def _table(
    x: FloatArray,
    parameters: Parameters | None,
    risk: Sequence[float],
    told: Mapping[str, list[Any]],
    outputs: Sequence[FloatArray | None],
) -> Table:
    """From latent points, with what is told of each run between its risk and its outputs."""
    points = x if parameters is None or not len(x) else parameters.from_latent(x)
    names = columns_of(names_of(parameters, x.shape[1]))
    width = max((len(row) for row in outputs if row is not None), default=0)
    cells = [[None] * width if row is None else row.tolist() for row in outputs]
    return {
        **{name: points[:, i].tolist() if len(x) else [] for i, name in enumerate(names)},
        "risk": _known(risk),
        **told,
        **{f"{OUTPUT}{i}": [row[i] for row in cells] for i in range(width)},
    }


def _known(values: Sequence[float] | FloatArray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def columns_of(names: Sequence[str]) -> list[str]:
    """The columns of parameters: none of those that say what became of a run."""
    return apart(names, lambda name: name in _BOOKKEEPING or is_output(name))


def apart(names: Sequence[str], means_another: Callable[[str], bool]) -> list[str]:
    """The names, one that means something else with `_` at its end until it is free."""
    taken = {name for name in names if not means_another(name)}
    found = []
    for name in names:
        free = name
        while means_another(free) or (free != name and free in taken):
            free += "_"
        taken.add(free)
        found.append(free)
    return found


def is_output(name: str) -> bool:
    """Whether a column of this name holds outputs."""
    return re.fullmatch(rf"{OUTPUT}[0-9]+", name) is not None
