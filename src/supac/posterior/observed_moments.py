"""Moments of emulated outputs as they are measured, which Sobol indices are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.posterior.emulation import EmulatedOutputs
from supac.posterior.outputs import Outputs
from supac.posterior.sobol import PickFreeze
from supac.problem import MeasuredOutputs, Parameters
from supac.problem.columns import ObservedCells
from supac.record.record import Record

_AT_ONCE = 50  # outputs with scales or offsets
_SOME = 512  # points that errors of measured values are averaged over
_TINY = 1e-12  # least value, of the measured one, that has a logarithm
_FEW = 40  # outputs without rows that are columns of their own


@dataclass(frozen=True, eq=False)
class OutputMoments(ABC):
    """Outputs whose indices are computed, m in number."""

    table: Outputs
    """Columns and times."""
    names: tuple[str, ...]
    """(m,)."""
    column: IntArray
    """Column of each output in the table: (m,)."""
    by_column: bool
    """True if columns have indices of their own."""
    deviation: FloatArray
    """Unit of each output in the moments: (m,)."""
    missed: FloatArray
    """Mean squared error of the emulator, in these units: (m,)."""
    noise: FloatArray
    """Noise of each output at the median noise level, NaN where it is not known: (m,)."""
    parameters: Parameters | None

    @abstractmethod
    def parts(
        self, emulated: EmulatedOutputs, scores: FloatArray, points: PickFreeze
    ) -> FloatArray:
        """Compute variances and numerators of the outputs, in their units: (1 + 2·groups, m)."""

    def points(self, latent: FloatArray) -> FloatArray:
        """Return latent points in the user's units."""
        return latent if self.parameters is None else self.parameters.from_latent(latent)


def moments_of(emulated: EmulatedOutputs, record: Record, sets: list[PickFreeze]) -> OutputMoments:
    """Return the outputs of a search as they are measured, averaged over points of the sets."""
    latent = np.concatenate([each.x for each in sets])
    measured = MeasuredOutputs.of(record.settings.data)
    if measured is not None and emulated.table.width == measured.simulated:
        return MeasuredMoments.of(emulated, measured, record.parameters, latent)
    return ObservedMoments.of(emulated, record.parameters, latent)


@dataclass(frozen=True, eq=False)
class ObservedMoments(OutputMoments):
    """Emulated outputs, with the scales and offsets of their columns that are parameters."""

    cells: ObservedCells | None
    """None if outputs are measured as they are simulated."""

    @classmethod
    def of(
        cls, emulated: EmulatedOutputs, parameters: Parameters | None, latent: FloatArray
    ) -> ObservedMoments:
        """Return those of a table, averaged over latent points."""
        table, places = emulated.table, emulated.places
        x = latent if parameters is None else parameters.from_latent(latent)
        known, stretch = None, np.ones(len(places))
        if table.observed is not None:
            known = table.observed.at(places)
            stretch = (known.scale(x) ** 2).mean(axis=0)
        return cls(
            table,
            tuple(table.name(place) for place in places.tolist()),
            places // table.rows,
            table.rows > 1 or len(table.columns) <= _FEW,
            emulated.deviation,
            stretch * emulated.left_out**2,
            _noise(table, np.median(x, axis=0)[None])[places],
            parameters,
            known,
        )

    def parts(
        self, emulated: EmulatedOutputs, scores: FloatArray, points: PickFreeze
    ) -> FloatArray:
        """Compute variances and numerators of outputs, in deviations of the simulated ones."""
        if self.cells is None:
            return points.moments(scores).along(emulated.loadings)
        x = self.points(points.points)
        found, every = [], np.arange(len(emulated.places))
        for some in np.array_split(every, -(-len(every) // _AT_ONCE)):
            sizes = emulated.deviation[some]
            simulated = emulated.mean[some] + sizes * (scores @ emulated.loadings[some].T)
            found.append(points.parts(self.cells.at(some).outputs(simulated, x) / sizes))
        return np.concatenate(found, axis=1)


@dataclass(frozen=True, eq=False)
class MeasuredMoments(OutputMoments):
    """Measured values that follow from emulated outputs, each by a formula of its own.

    Values that are compared by their logarithms are taken as these.
    """

    measured: MeasuredOutputs
    kept: IntArray
    """Measured values that vary, among all: (m,)."""

    @classmethod
    def of(
        cls,
        emulated: EmulatedOutputs,
        measured: MeasuredOutputs,
        parameters: Parameters | None,
        latent: FloatArray,
    ) -> MeasuredMoments:
        """Return those that vary over latent points."""
        some = latent[:_SOME]
        x = some if parameters is None else parameters.from_latent(some)
        simulated = emulated.every(emulated.predict(some)[0])
        values = in_their_scale(measured, simulated, x)
        spread = values.std(axis=0)
        kept = np.flatnonzero(np.isfinite(spread) & (spread > 0.0))
        if not len(kept):
            raise ValueError("no measured value varies: there is nothing to tell apart")
        off = np.zeros((len(some), simulated.shape[1]))
        off[:, emulated.places] = emulated.left_out * emulated.deviation
        wrong, rows = measured.errors(off, x), measured.rows
        plain = measured.outputs(simulated, x)
        size = np.maximum(np.abs(plain), _TINY * np.abs(rows.values))
        wrong = np.where(measured.logarithmic, wrong / size, wrong)
        noise = np.median(measured.standard_errors(simulated, x), axis=0)
        return cls(
            Outputs(rows.names, 1),
            tuple(measured.names[i] for i in kept),
            rows.series[kept],
            True,
            spread[kept],
            (wrong[:, kept] ** 2).mean(axis=0) / spread[kept] ** 2,
            noise[kept],
            parameters,
            measured,
            kept,
        )

    def parts(
        self, emulated: EmulatedOutputs, scores: FloatArray, points: PickFreeze
    ) -> FloatArray:
        """Compute variances and numerators of measured values."""
        simulated = emulated.every(emulated.outputs(scores))
        values = in_their_scale(self.measured, simulated, self.points(points.points))
        return points.parts(values[:, self.kept] / self.deviation)


def in_their_scale(measured: MeasuredOutputs, simulated: FloatArray, x: FloatArray) -> FloatArray:
    """Return measured values, or the logarithms of those compared by them: (n, rows)."""
    values, rows = measured.outputs(simulated, x), measured.rows
    if not measured.logarithmic.any():
        return values
    least = _TINY * np.abs(rows.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(measured.logarithmic, np.log(np.maximum(values, least)), values)


def _noise(table: Outputs, x: FloatArray) -> FloatArray:
    """Return the noise of each output at a point (1, dim), NaN if it is not known or relative."""
    unknown = table.noise is None or table.logarithmic or bool(table.shares.any())
    if unknown or table.noise is None:
        return np.full(table.width, np.nan)
    return table.deviations(np.zeros((1, table.width)), x)[0]
