"""A digester as a calibration problem: prior, simulator, risk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from supac.families import Distribution
from supac.problem import Parameters
from supac.problem.composite import Composite
from supac.problem.log_observations import SMALL, LogObservations
from supac.problem.losses import RootMeanSquare
from supac.problem.marginals import LogNormal
from supac.simulators.adm1 import model
from supac.simulators.adm1.digester import (
    OUTPUT_UNITS,
    OUTPUTS,
    Digester,
    DigesterError,
    FloatArray,
)
from supac.simulators.adm1.simulator import Simulator

EXAMPLE_NOISE = {name: 0.08 if name.startswith("S_") else 0.04 for name in OUTPUTS}
"""Relative standard errors of the embedded data: of concentrations, and of the gas."""
FAILURE = 3.0
"""The risk of a failed run, and the ceiling of the risk."""


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Calibration problem of a digester; x (n, 30) is in the user's units."""

    digester: Digester
    simulator: Simulator
    noise: Mapping[str, float] | None = None
    """Relative standard error of each output, by which misfits are told; the risk is without."""

    def __post_init__(self) -> None:
        if self.noise is not None and set(self.noise) != set(OUTPUTS):
            raise DigesterError(f"noise must have a number for each of {', '.join(OUTPUTS)}")

    def __repr__(self) -> str:
        return f"Problem({self.simulator!r}, {len(self.parameters)} parameters)"

    @cached_property
    def parameters(self) -> Parameters:
        """Return the thirty parameters with the paper's priors and blocks."""
        marginals = {
            name: LogNormal(median, log_sd, unit=model.UNITS[name])
            for name, (median, log_sd) in model.PRIOR.items()
        }
        return Parameters(marginals, blocks=model.BLOCKS)

    @property
    def prior(self) -> Distribution:
        """Return the latent prior; pass `parameters` to `minimize`, for the user's units."""
        return self.parameters.prior

    def simulate(self, x: FloatArray) -> FloatArray:
        """Simulate nine outputs per day: (n, 30) → (n, 9·days), NaN from a failure on."""
        outputs = self.simulator.outputs(x)
        return outputs.reshape(len(outputs), outputs.shape[1] * outputs.shape[2])

    def loss(self, outputs: FloatArray) -> FloatArray:
        """Compute the paper's risk of simulated outputs: (n, 9·days) → (n,).

        Root mean square of softly capped log-residuals of the observations, at most 3; 3 for a run
        with any missing output. Negative outputs count as zero.
        """
        if outputs.ndim != 2 or outputs.shape[1] != self.data.log_observed.size:
            raise ValueError(
                f"outputs must have a row of {self.data.log_observed.size} numbers a run, as "
                f"`simulate` gives them, not shape {outputs.shape}"
            )
        return Loss()(self.data.residuals(outputs))

    def risk(self, x: FloatArray) -> FloatArray:
        """Compute the risk, between 0 and 3: (n, 30) → (n,)."""
        if self.simulator.device == "cpu":
            return self.loss(self.simulate(x))
        # On the device, which then has a number a run to give back instead of all outputs.
        measured = np.exp(self.data.log_observed).reshape(-1, len(OUTPUTS))
        squares, doubtful = self.simulator.squares(x, measured)
        risk = Loss().of_mean_square(squares / self.data.measured)
        if len(doubtful):
            again = self.simulator.careful
            risk[doubtful] = FAILURE
            if again is not None:
                risk[doubtful] = replace(self, simulator=again).risk(x[doubtful])
        return risk

    def residuals(self, x: FloatArray) -> FloatArray:
        """Compute softly capped log-residuals: (n, 30) → (n, observed), NaN if failed."""
        return self.data.residuals(self.simulate(x))

    @property
    def composite(self) -> Composite:
        """Return the risk as simulator, loss and data; it takes many points at a time."""
        return Composite(self.simulate, Loss(), self.data)

    @cached_property
    def data(self) -> LogObservations:
        """Measurements of the digester."""
        observed = self.digester.observed
        if np.isnan(observed).all():
            raise DigesterError("there is no observation in the days of the feed")
        return LogObservations(
            OUTPUTS,
            np.log(observed + SMALL).ravel(),
            self.digester.days,
            tuple(OUTPUT_UNITS.values()),
            noise=None if self.noise is None else tuple(self.noise[name] for name in OUTPUTS),
        )


class Loss(RootMeanSquare):
    """Root mean square of the residuals, at most 3, and 3 for a failed run."""

    ceiling = FAILURE
    in_words = "root mean square of the log-residuals, each softly capped at 3"

    def of_mean_square(self, mean_square: FloatArray) -> FloatArray:
        """Compute the root, at most 3."""
        return np.where(np.isnan(mean_square), FAILURE, np.minimum(np.sqrt(mean_square), FAILURE))


def load(
    folder: str | Path,
    variant: Literal["dae", "split"] = "dae",
    fixed: Mapping[str, float] = model.PAPER,
    *,
    interpolate: bool = False,
    normalised: bool = False,
    threads: int = 1,
    device: Literal["cpu", "cuda"] = "cpu",
    noise: Mapping[str, float] | None = None,
) -> Problem:
    """Load a digester in the layout of the paper's data; options as in `Simulator`.

    With `noise`, the relative standard error of each output, reports tell misfits in its units.
    """
    digester = Digester.read(folder)
    simulator = Simulator(
        digester, variant, fixed,
        interpolate=interpolate, normalised=normalised, threads=threads, device=device,
    )  # fmt: skip
    if device == "cuda":
        simulator.load()
    return Problem(digester, simulator, noise)


def example(
    variant: Literal["dae", "split"] = "dae",
    *,
    threads: int = 1,
    device: Literal["cpu", "cuda"] = "cpu",
) -> Problem:
    """Load the embedded digester: 196 days of synthetic data, made by `generate.py`."""
    folder = Path(__file__).parent / "data"
    return load(folder, variant, threads=threads, device=device, noise=EXAMPLE_NOISE)
