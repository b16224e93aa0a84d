"""The discrepancy of a calibrated model from the truth, at predicted outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.codec import register
from supac.posterior.emulation import EmulatedOutputs
from supac.posterior.observed import SIMULATED
from supac.posterior.outputs import Outputs
from supac.problem import Observations
from supac.problem.columns import ColumnLoss, as_column_loss
from supac.problem.correlated import Discrepancy
from supac.problem.shared_factors import SharedFactors
from supac.record.record import Record


@register
@dataclass(frozen=True, eq=False)
class PredictedDiscrepancy:
    """Mean and standard deviation of the discrepancy of each output at draws of a posterior."""

    draws: FloatArray
    """Latent points: (n, dim)."""
    mean: FloatArray
    """In the unit of the column, or of its logarithm: (n, m)."""
    deviation: FloatArray
    """NaN in columns of which it is not known: (n, m)."""

    def __post_init__(self) -> None:
        for name in ("draws", "mean", "deviation"):
            given = np.array(getattr(self, name), dtype=np.float64)  # None in a file is NaN
            object.__setattr__(self, name, given)

    def at(self, draws: FloatArray) -> PredictedDiscrepancy:
        """Return that of some of the draws."""
        places = {each.tobytes(): i for i, each in enumerate(self.draws)}
        rows = [places[np.ascontiguousarray(each).tobytes()] for each in draws]
        return PredictedDiscrepancy(self.draws[rows], self.mean[rows], self.deviation[rows])


def has_discrepancy(record: Record) -> bool:
    """Return True if a discrepancy was calibrated."""
    own = as_column_loss(record.settings.loss)
    return own is not None and own.discrepancy is not None


def discrepancy_at(
    record: Record, table: Outputs | None, draws: FloatArray, *, continues: bool
) -> PredictedDiscrepancy | None:
    """Compute the discrepancy of outputs at latent draws; None if none was calibrated.

    In other conditions it has mean 0 and the amplitude of the draw, but where it is known to be
    less. Where the scenario `continues` the calibration, at other times, it is a Gaussian process
    given the residuals of the draw,

        mean = k(t)ᵀ(K + S)⁻¹(y − simulated),   variance = a² − k(t)ᵀ(K + S)⁻¹k(t),

    with the noise variances S: far from the data these are 0 and a² again. What is simulated for
    the data is emulated from the runs of the record.
    """
    own, data = as_column_loss(record.settings.loss), record.settings.observations
    if table is None or data is None or record.parameters is None:
        return None
    if own is None or own.discrepancy is None:
        return None
    if continues and data.experiments is not None and len(set(data.experiments)) > 1:
        raise ValueError(
            "continues must be False: there are several experiments, and a scenario continues none"
        )
    if continues and data.times is None:
        raise ValueError("continues must be False: the data have no times")
    z = record.parameters.from_latent(draws)[:, -record.observation :]
    mean = np.zeros((len(draws), table.width))
    deviation = np.full(mean.shape, np.nan)
    residuals = _residuals(record, data, own, draws, z) if continues else None
    for column, amplitude, length in _columns(own.discrepancy, data, table):
        place = table.places(column)
        if amplitude < 0:
            deviation[:, place] = 0.0
        elif residuals is None:
            deviation[:, place] = [
                row[amplitude] * np.sqrt(_prior(own.discrepancy, table, row[length])) for row in z
            ]
        else:
            mean[:, place], deviation[:, place] = _conditioned(
                own, data, column, table.clock, residuals, z[:, [amplitude, length]], z
            )
    return PredictedDiscrepancy(draws, mean, deviation)


def _columns(
    errors: Discrepancy, data: Observations, table: Outputs
) -> Iterator[tuple[str, int, int]]:
    """Yield the columns whose discrepancy is known, with the places of amplitude and length."""
    units = table.units or ("",) * len(table.columns)
    for column, unit in zip(table.columns, units, strict=True):
        if column not in data.columns or unit == SIMULATED:
            continue
        rows = data.columns.index(column) * data.rows + np.arange(data.rows)
        rows = rows[data.needed[rows]] if data.needed[rows].any() else rows
        pairs = {(int(errors.amplitudes[i]), int(errors.lengths[i])) for i in rows}
        if len(pairs) == 1:  # else it differs between experiments
            yield (column, *pairs.pop())


def _prior(errors: Discrepancy, table: Outputs, length: float) -> FloatArray:
    """Return the variance of b at the predicted times of a column, in those of its amplitude."""
    if errors.correlation.is_free:
        return np.ones(1)
    return errors.correlation.variance(table.clock, length)


def _residuals(
    record: Record, data: Observations, loss: ColumnLoss, draws: FloatArray, z: FloatArray
) -> FloatArray:
    """Return y − simulated, in the unit of the data or as logarithms, and NaN: (n, cells)."""
    emulated = EmulatedOutputs.of(record, record.known_posterior())
    simulated = emulated.every(emulated.predict(draws)[0])
    if data.logarithmic:
        simulated = np.maximum(simulated, 1e-300)
    # The data of the loss are those of the search and those held out.
    own = loss.for_data(data)
    spread = own.cells(record.observation).level(z) * data.noise
    found = np.full((len(draws), len(data.values)), np.nan)
    found[:, data.needed] = -own.residuals(data.residuals(simulated), z) * spread[:, data.needed]
    return found


def _conditioned(
    loss: ColumnLoss,
    data: Observations,
    column: str,
    times: FloatArray,
    residuals: FloatArray,
    own: FloatArray,
    z: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation at the times for each draw: (n, times)."""
    assert loss.discrepancy is not None
    assert data.times is not None
    correlation = loss.discrepancy.correlation
    rows = np.flatnonzero(data.needed.reshape(-1, data.rows)[data.columns.index(column)])
    cells = data.columns.index(column) * data.rows + rows
    there, noise = data.times[rows], data.noise[cells]
    levels = loss.cells(z.shape[1]).level(z)[:, cells[0]]
    factors = SharedFactors(there, noise, correlation)
    mean, variance = np.empty((2, len(z), len(times)))
    for i, (amplitude, length) in enumerate(own):
        cross = amplitude**2 * correlation.between(times, there, length)
        spread = levels[i] * noise
        weights = factors.solve((cross / spread).T, amplitude / levels[i], length) / spread[:, None]
        mean[i] = residuals[i, cells] @ weights
        before = amplitude**2 * correlation.variance(times, length)
        variance[i] = before - np.einsum("ij,ji->i", cross, weights)
    return mean, np.sqrt(np.maximum(variance, 0.0))
