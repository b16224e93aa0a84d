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
from supac.problem.composite import Composite, RootMeanSquare
from supac.problem.marginals import LogNormal
from supac.simulators.adm1 import model
from supac.simulators.adm1.digester import OUTPUTS, Digester, DigesterError, FloatArray
from supac.simulators.adm1.simulator import Simulator

FAILURE = 3.0
"""The risk of a failed run, and the ceiling of the risk."""


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Calibration problem of a digester; x (n, 30) is in the user's units."""

    digester: Digester
    simulator: Simulator

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
        squares, doubtful = self.simulator.squares(x, self.data.log_observed)
        risk = Loss().of_mean_square(squares / self.data.measured)
        if len(doubtful):  # the processor needs Numba, which takes time to import
            processor = replace(self, simulator=replace(self.simulator, device="cpu"))
            risk[doubtful] = processor.risk(x[doubtful])
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
        return LogObservations(np.log(observed + _SMALL).ravel())


@dataclass(frozen=True, eq=False)
class LogObservations:
    """Logarithms of the measurements, NaN where nothing was measured: (9·days,)."""

    log_observed: FloatArray

    def __repr__(self) -> str:
        return f"LogObservations({self.measured} numbers)"

    @property
    def measured(self) -> int:
        """Number of measurements."""
        return int(np.isfinite(self.log_observed).sum())

    def series(self, residuals: FloatArray) -> list[FloatArray]:
        """Divide residuals (measured,) into those of each output, day after day."""
        places = np.full(self.log_observed.size, np.nan)
        places[np.isfinite(self.log_observed)] = residuals
        every = places.reshape(-1, len(OUTPUTS)).T
        return [column[np.isfinite(column)] for column in every]

    @property
    def blocks_of_measured(self) -> FloatArray:
        """Days of the measurements: those of one day are not independent: (measured,)."""
        days = np.arange(self.log_observed.size) // len(OUTPUTS)
        return days[np.isfinite(self.log_observed)].astype(np.float64)

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Compute softly capped log-residuals of the observations; NaN for a failed run."""
        seen = np.flatnonzero(~np.isnan(self.log_observed))
        found = np.empty((len(outputs), len(seen)))
        # Few rows at a time stay in the processor's cache.
        for first in range(0, len(outputs), _ROWS):
            rows = slice(first, first + _ROWS)
            failed = ~np.isfinite(outputs[rows]).all(axis=1)
            predicted = np.log(np.maximum(outputs[rows].take(seen, axis=1), 0.0) + _SMALL)
            residual = predicted - self.log_observed[seen]
            found[rows] = np.sign(residual) * soft_cap(residual)
            found[rows][failed] = np.nan
        return found


class Loss(RootMeanSquare):
    """Root mean square of the residuals, at most 3, and 3 for a failed run."""

    ceiling = FAILURE

    def of_mean_square(self, mean_square: FloatArray) -> FloatArray:
        """Compute the root, at most 3."""
        return np.where(np.isnan(mean_square), FAILURE, np.minimum(np.sqrt(mean_square), FAILURE))


_ROWS = 8
_SMALL = 1e-8  # outputs far below it count as zero


def soft_cap(residual: FloatArray, cap: float = 3.0, elbow: float = 2.0) -> FloatArray:
    """Compute a smooth function that is |residual| for small and `cap` for large residuals."""
    scale = (1.0 + np.exp(-elbow * cap)) / elbow
    # Twice as fast as logaddexp; elbow * cap cannot overflow.
    rise = np.log1p(np.exp(elbow * cap)) - np.log1p(np.exp(elbow * (cap - np.abs(residual))))
    return scale * rise


def load(
    folder: str | Path,
    variant: Literal["dae", "split"] = "dae",
    fixed: Mapping[str, float] = model.PAPER,
    *,
    interpolate: bool = False,
    normalised: bool = False,
    threads: int = 1,
    device: Literal["cpu", "cuda"] = "cpu",
) -> Problem:
    """Load a digester in the layout of the paper's data; options as in `Simulator`."""
    digester = Digester.read(folder)
    simulator = Simulator(
        digester, variant, fixed,
        interpolate=interpolate, normalised=normalised, threads=threads, device=device,
    )  # fmt: skip
    if device == "cuda":
        simulator.load()
    return Problem(digester, simulator)


def example(
    variant: Literal["dae", "split"] = "dae",
    *,
    threads: int = 1,
    device: Literal["cpu", "cuda"] = "cpu",
) -> Problem:
    """Load the embedded digester: 196 days of synthetic data, made by `generate.py`."""
    return load(Path(__file__).parent / "data", variant, threads=threads, device=device)
