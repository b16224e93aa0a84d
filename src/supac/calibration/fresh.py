"""Runs at given points outside a search, such as those of certificates and predictions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

from supac.arrays import FloatArray
from supac.problem import Parameters
from supac.record.record import Record
from supac.record.run import Purpose, Run
from supac.running.execution import Execution
from supac.running.interrupt import Interrupted
from supac.running.runner import Runner
from supac.running.terminal import ProgressBar

Path = str | os.PathLike[str]


def run_fresh(
    x: FloatArray,
    risk: Callable[[FloatArray], Any],
    execution: Execution,
    purpose: Purpose,
    *,
    parameters: Parameters | None = None,
    store: Path | None = None,
    ceiling: float | None = None,
    enough: Callable[[list[Run]], bool] | None = None,
    some: bool = False,
    opened: Callable[[Record], None] = lambda record: None,
    watch: Callable[[Sequence[Run]], None] = lambda runs: None,
) -> list[Run]:
    """Make runs at latent points x (n, dim), or read them from `store`, which keeps new ones.

    `opened` is called with the record before any run is made, and `watch` with new runs as they
    end: what it raises ends all others.

    With `enough`, stop when it is True of the runs made so far, which it is asked after the first
    20 and whenever a quarter has been added, whatever the number of workers. On Ctrl-C, finish the
    runs in progress and raise KeyboardInterrupt; with `some`, return the first ones until the
    first that is missing.
    """
    bar = ProgressBar(len(x), execution.progress)
    open_record = partial(Record.of_runs, risk, x.shape[1], store, purpose)
    with Runner.opened(
        [risk], execution, open_record, bar, parameters=parameters, ceilings=[ceiling], watch=watch
    ) as runner:
        record = runner.record
        opened(record)
        asked = {point.tobytes() for point in x}
        there = sum(r.purpose == purpose and r.x.tobytes() in asked for r in record.light_runs)
        if there:
            all_ = f"all {there} runs are there already"
            words = all_ if there >= len(x) else f"continuing after {there} of {len(x)} runs"
            bar.resume(f"{store}: {words}", 0, there)
        runs: list[Run] = []
        try:
            for begin, end in pairwise(_looks(len(x)) if enough else [0, len(x)]):
                runs += runner.run(x[begin:end], purpose)
                if enough is not None and enough(runs):
                    break
        except Interrupted as error:
            made = {r.x.tobytes(): r for r in record.light_runs if r.purpose == purpose}
            runs = [made[point.tobytes()] for point in takewhile(lambda p: p.tobytes() in made, x)]
            if not (some and runs):
                raise KeyboardInterrupt from error
            return list(record.iterate(runs))
        return runs


def _looks(n: int) -> list[int]:
    """Return the numbers of runs after which to ask whether they are enough, from 0 to n."""
    looks = [0]
    while looks[-1] < n:
        looks.append(min(max(20, looks[-1] + looks[-1] // 4), n))
    return looks
