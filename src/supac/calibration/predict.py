"""Predict with a posterior: run a simulator at its draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray, whole
from supac.calibration.fresh import Path, run_fresh
from supac.problem import Composite
from supac.record.calibrated import Calibrated
from supac.record.run import Run
from supac.running.execution import Execution

_STREAM = 0x9CED  # of random numbers that neither a search nor a certificate uses


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
    n: int = 100,
    *,
    execution: Execution | Any = None,
    store: Path | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Prediction:
    """Run `simulate`, x (dim,) → outputs (m,), at n draws of a posterior.

    `posterior` is a `Result` or a `Record`; `simulate` is the calibrated simulator, or another one
    with the same parameters, such as a new scenario. `store` keeps every run as it ends, and an
    interrupted prediction continues from it; use one file per simulator. Failed runs are left out
    and returned with their messages.
    """
    if isinstance(simulate, Composite):
        simulate = simulate.simulate
    record = posterior.own_record
    rng = np.random.default_rng([whole(seed, "seed", least=0), _STREAM])
    latent = record.known_posterior().sample(whole(n, "n", least=1), rng)
    policy = replace(Execution.of(execution), mode="batch", on_failure="drop")
    runs = run_fresh(
        latent, Composite(simulate, _no_loss), policy, "prediction", parameters=record.parameters,
        store=store, progress=progress,
    )  # fmt: skip
    good = [i for i, run in enumerate(runs) if run.ok]
    if not good:
        raise ValueError(f"all {n} runs failed, the first with: {runs[0].message}")
    chosen = latent[good]
    return Prediction(
        chosen if record.parameters is None else record.parameters.from_latent(chosen),
        np.array([runs[i].outputs for i in good]),
        tuple(run for run in runs if not run.ok),
    )


def _no_loss(outputs: FloatArray) -> FloatArray:
    """Return zeros: predictions are not compared with data."""
    return np.zeros(len(outputs))
