"""Runs at given points outside a search, for certificates and predictions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from supac.arrays import FloatArray
from supac.problem import Parameters
from supac.record.record import Record
from supac.record.run import Purpose, Run
from supac.running.execution import Execution
from supac.running.runner import Runner
from supac.running.terminal import Interrupted, ProgressBar

Path = str | os.PathLike[str]


def run_fresh(
    x: FloatArray,
    risk: Callable[[FloatArray], Any],
    execution: Execution,
    purpose: Purpose,
    *,
    parameters: Parameters | None = None,
    store: Path | None = None,
    progress: bool | None = None,
    ceiling: float | None = None,
) -> list[Run]:
    """Make runs at latent points x (n, dim), or read them from `store`, which keeps new ones.

    On Ctrl-C, finish the runs in progress and raise KeyboardInterrupt.
    """
    record, bar = Record.of_runs(risk, x.shape[1], store, purpose), ProgressBar(len(x), progress)
    with Runner.opened(
        [risk], execution, record, bar, parameters=parameters, ceilings=[ceiling]
    ) as runner:
        asked = {point.tobytes() for point in x}
        there = sum(r.purpose == purpose and r.x.tobytes() in asked for r in record.light_runs)
        if there:
            bar.resume(f"{store}: continuing after {there} of {len(x)} runs", 0, there)
        try:
            return runner.run(x, purpose)
        except Interrupted as error:
            raise KeyboardInterrupt from error
