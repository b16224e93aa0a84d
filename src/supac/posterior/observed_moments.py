"""Moments of emulated outputs as they are measured, which Sobol indices are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.posterior.emulation import EmulatedOutputs
from supac.posterior.outputs import Outputs
from supac.posterior.sobol import PickFreeze
from supac.problem import Parameters
from supac.problem.columns import ObservedCells

_AT_ONCE = 50  # outputs with scales or offsets


@dataclass(frozen=True, eq=False)
class ObservedMoments:
    """Emulated outputs as they are measured, with scales and offsets that are parameters."""

    cells: ObservedCells | None
    """None if outputs are measured as they are simulated."""
    parameters: Parameters | None
    stretch: FloatArray
    """Mean square of the scale of each emulated output: (m,)."""
    noise: FloatArray
    """Noise of all outputs at the median noise level, NaN where it is not known."""

    @classmethod
    def of(
        cls, emulated: EmulatedOutputs, parameters: Parameters | None, sets: list[PickFreeze]
    ) -> ObservedMoments:
        """Return those of a table, averaged over the first points of the sets."""
        table, latent = emulated.table, np.concatenate([each.x for each in sets])
        x = latent if parameters is None else parameters.from_latent(latent)
        known, stretch = None, np.ones(len(emulated.places))
        if table.observed is not None:
            known = table.observed.at(emulated.places)
            stretch = (known.scale(x) ** 2).mean(axis=0)
        return cls(known, parameters, stretch, _noise(table, np.median(x, axis=0)[None]))

    def parts(
        self, emulated: EmulatedOutputs, scores: FloatArray, points: PickFreeze
    ) -> FloatArray:
        """Compute variances and numerators of outputs, in deviations of the simulated ones."""
        if self.cells is None:
            return points.moments(scores).along(emulated.loadings)
        latent = points.points
        x = latent if self.parameters is None else self.parameters.from_latent(latent)
        found, every = [], np.arange(len(emulated.places))
        for some in np.array_split(every, -(-len(every) // _AT_ONCE)):
            sizes = emulated.deviation[some]
            simulated = emulated.mean[some] + sizes * (scores @ emulated.loadings[some].T)
            found.append(points.parts(self.cells.at(some).outputs(simulated, x) / sizes))
        return np.concatenate(found, axis=1)


def _noise(table: Outputs, x: FloatArray) -> FloatArray:
    """Return the noise of each output at a point (1, dim), NaN if it is not known or relative."""
    unknown = table.noise is None or table.logarithmic or bool(table.shares.any())
    if unknown or table.noise is None:
        return np.full(table.width, np.nan)
    return table.deviations(np.zeros((1, table.width)), x)[0]
