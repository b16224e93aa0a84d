"""Runs at given points outside a search, and predictions, which are such runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

import numpy as np

from supac.arrays import FloatArray, whole
from supac.problem import Composite, Parameters
from supac.record.calibrated import Calibrated
from supac.record.record import Record
from supac.record.run import Purpose, Run
from supac.running.execution import Execution
from supac.running.runner import Runner
from supac.running.terminal import Interrupted, ProgressBar

Path = str | os.PathLike[str]
_STREAM = 0x9CED  # of random numbers that neither a search nor a certificate uses


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
) -> list[Run]:
    """Make runs at latent points x (n, dim), or read them from `store`, which keeps new ones.

    With `enough`, stop when it is True of the runs made so far, which it is asked after the first
    20 and whenever a quarter has been added, whatever the number of workers. On Ctrl-C, finish the
    runs in progress and raise KeyboardInterrupt; with `some`, return the first ones until the
    first that is missing.
    """
    bar = ProgressBar(len(x), execution.progress)
    opened = partial(Record.of_runs, risk, x.shape[1], store, purpose)
    with Runner.opened(
        [risk], execution, opened, bar, parameters=parameters, ceilings=[ceiling]
    ) as runner:
        record = runner.record
        asked = {point.tobytes() for point in x}
        there = sum(r.purpose == purpose and r.x.tobytes() in asked for r in record.light_runs)
        if there:
            bar.resume(f"{store}: continuing after {there} of {len(x)} runs", 0, there)
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


@dataclass(frozen=True, eq=False)
class Prediction:
    """Outputs of a simulator at draws of a posterior."""

    x: FloatArray
    """Draws with successful runs, in the user's units: (n, dim)."""
    outputs: FloatArray
    """(n, m)."""
    failures: tuple[Run, ...] = ()
    """Failed runs, with their messages."""

    def quantiles(self, *levels: float) -> FloatArray:
        """Compute quantiles of every output over the draws: (levels, m)."""
        return np.quantile(self.outputs, levels, axis=0)


def predict(
    posterior: Calibrated,
    simulate: Callable[[FloatArray], Any],
    n: int | None = None,
    *,
    ensemble: bool = False,
    execution: Execution | Any = None,
    store: Path | None = None,
    seed: int = 0,
) -> Prediction:
    """Run `simulate`, x (dim,) → outputs (m,), at n draws of a posterior, by default 100.

    With `ensemble`, run it at the certified parameter sets of the result instead.

    `posterior` is a `Result` or a `Record`; `simulate` is the calibrated simulator, or another one
    with the same parameters, such as a new scenario. `store` keeps every run as it ends, and an
    interrupted prediction continues from it; use one file per simulator. Failed runs are left out
    and returned with their messages.
    """
    if isinstance(simulate, Composite):
        simulate = simulate.simulate
    record = posterior.own_record
    if ensemble:
        if n is not None:
            raise ValueError("n is the number of new draws: give it, or ensemble=True")
        latent = np.array([run.x for run in record.ensemble_runs()])
    else:
        rng = np.random.default_rng([whole(seed, "seed", least=0), _STREAM])
        draws = whole(100 if n is None else n, "n", least=1)
        latent = record.known_posterior().sample(draws, rng)
    policy = replace(Execution.of(execution), on_failure="drop")
    runs = run_fresh(
        latent,
        Composite(simulate, _no_loss),
        policy,
        "prediction",
        parameters=record.parameters,
        store=store,
    )
    good = [i for i, run in enumerate(runs) if run.ok]
    if not good:
        raise ValueError(f"all {len(runs)} runs failed, the first with: {runs[0].message}")
    chosen = latent[good]
    return Prediction(
        chosen if record.parameters is None else record.parameters.from_latent(chosen),
        np.array([runs[i].outputs for i in good]),
        tuple(run for run in runs if not run.ok),
    )


def _no_loss(outputs: FloatArray) -> FloatArray:
    """Return zeros: predictions are not compared with data."""
    return np.zeros(len(outputs))
