"""Read the table of known runs that a problem file names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from supac.exchange import KnownRuns, read_csv
from supac.problem.composite import Composite
from supac.problem.observations import Observations
from supac.problem.parameters import Parameters

_MEANING = "what the simulator returns, column after column, as `supac export` writes it"


def read_known(
    path: Path, parameters: Parameters, risk: Callable[..., Any], observations: Observations | None
) -> KnownRuns:
    """Read known runs; ValueError if the columns do not fit the problem."""
    known = read_csv(path, parameters)
    if not isinstance(risk, Composite):
        if known.outputs is not None:
            raise ValueError(
                f"{path.name} has columns output_0, …, but without [data] and [loss] a run has no "
                "outputs, only a risk: remove these columns, or add the tables"
            )
        return known
    count = None if observations is None else len(observations.values)
    wanted = "output_0, output_1, …" if count is None else f"output_0 to output_{count - 1}"
    if known.outputs is None:
        raise ValueError(
            f"{path.name} has a risk, but no outputs: a table for this problem needs the columns "
            f"{wanted}, which are {_MEANING}"
        )
    if count is not None and known.outputs.shape[1] != count:
        raise ValueError(
            f"{path.name} has {known.outputs.shape[1]} columns output_…, but the data have {count} "
            f"numbers: {wanted} are {_MEANING}"
        )
    _check_risks(path, known, known.outputs, risk)
    return known


def _check_risks(path: Path, known: KnownRuns, outputs: Any, risk: Composite) -> None:
    """Raise ValueError if risks in the table differ from the loss of the outputs."""
    told = np.isfinite(known.risk) & np.isfinite(outputs).all(axis=1)
    if not told.any():
        return
    losses = np.asarray(risk.loss(risk.residuals(outputs[told])), dtype=np.float64)
    wrong = ~np.isclose(losses, known.risk[told])
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{path.name}, line {int(np.flatnonzero(told)[first]) + 2}: risk is "
            f"{known.risk[told][first]:.6g}, but the loss of its outputs is {losses[first]:.6g}; "
            f"output_0, output_1, … must be {_MEANING} (version 0.1 wrote residuals)"
        )
