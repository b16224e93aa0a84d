"""Outputs of the simulator as functions of the parameters, emulated from the runs of a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.codec import Named
from supac.emulator.paths import Paths, draw_paths
from supac.emulator.process import Hyperprior, Process
from supac.emulator.tuning import DEFAULT
from supac.emulator.units import Inputs
from supac.families import Distribution, as_distribution, gaussian
from supac.posterior.observed import as_calibrated
from supac.posterior.outputs import Outputs
from supac.problem.observation import as_observation_loss
from supac.problem.problem import user_scales_of
from supac.record.record import Record
from supac.record.run import Run, outputs_as_rows
from supac.surrogate.estimator import Context

_PURPOSES = ("search", "validation", "certificate")
_COMPONENTS = 40  # of all outputs that are emulated
_LIMIT = 400  # runs that are used
_FEWEST = 8
_STEPS = 60  # of L-BFGS on the hyperparameters
RISK = "risk"


@dataclass(frozen=True, eq=False)
class EmulatedOutputs:
    """A process of the principal components of the outputs, over latent parameters.

    Outputs are standardised: each counts the same, whatever its unit.
    """

    process: Process
    seen: Inputs
    """Inputs of the process at latent points."""
    inputs: int
    """Number of parameters that the simulator takes: the first ones."""
    mean: FloatArray
    """Mean of each output over the runs: (m,)."""
    deviation: FloatArray
    """Standard deviation of each output over the runs: (m,)."""
    loadings: FloatArray
    """(m, k): standardised outputs = scores @ loadings.T."""
    table: Outputs
    """Names and times of all outputs of the simulator."""
    places: IntArray
    """Emulated outputs among them: those that are numbers in all runs and vary: (m,)."""
    constant: FloatArray = field(repr=False)
    """Outputs that are the same in all runs, among all of them; NaN for others: (all,)."""
    near: FloatArray = field(repr=False)
    """Distances of the runs from the centre of the distribution, in its units: (n,)."""

    @classmethod
    def of(cls, record: Record, under: Distribution) -> EmulatedOutputs:
        """Fit the emulator to the runs of a record nearest to a distribution.

        To a mixture, in the coordinates of the Gaussian with its mean and covariance.
        """
        if under.family.mixture is not None:
            under = gaussian(under.mean, under.covariance)
        runs, rows, table = _runs_and_outputs(record)
        x = np.array([run.x for run in runs])
        distance = np.linalg.norm(under.whiten().points(x), axis=1)
        chosen = np.sort(np.argsort(distance, kind="stable")[:_LIMIT])
        rows, x, distance = rows[chosen], x[chosen], distance[chosen]
        finite = np.isfinite(rows).all(axis=0)
        places = np.flatnonzero(finite & (np.ptp(np.where(finite, rows, 0.0), axis=0) > 0.0))
        if not len(places):
            raise ValueError("no output varies from run to run: there is nothing to emulate")
        outputs = rows[:, places]
        mean, deviation = outputs.mean(axis=0), outputs.std(axis=0)
        standard = (outputs - mean) / deviation
        left, sizes, right = np.linalg.svd(standard, full_matrices=False)
        count = max(min(_COMPONENTS, len(rows) - 2, int((sizes > 1e-9 * sizes[0]).sum())), 1)
        scores = left[:, :count] * sizes[:count]
        unit = float(np.sqrt((scores**2).mean()))
        inputs = under.dim - record.observation
        loss = record.settings.loss
        prior = as_distribution(record.prior) or under
        known = as_observation_loss(loss)
        context = Context(prior=prior, user_scales=user_scales_of(record.parameters), loss=known)
        process, seen = _fitted(context, x, inputs, scores / unit, under)
        loadings, constant = unit * right[:count].T, rows[0].copy()
        constant[places] = np.nan
        return cls(
            process, seen, inputs, mean, deviation, loadings, table, places, constant, distance
        )

    @property
    def runs(self) -> int:
        """Number of runs behind it."""
        return len(self.process.y)

    def _inputs(self, x: FloatArray) -> FloatArray:
        return self.seen(x)[:, : self.inputs]

    def paths(self, count: int, rng: np.random.Generator) -> Paths:
        """Draw scores as functions of latent points that the runs leave possible."""
        drawn = draw_paths(self.process, count, rng)
        return lambda x: drawn(self._inputs(x))

    def outputs(self, scores: FloatArray) -> FloatArray:
        """Convert scores (n, k) to emulated outputs (n, m) in their units."""
        return self.mean + self.deviation * (scores @ self.loadings.T)

    def predict(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predict outputs at latent points (n, m), and the standard deviations of their errors."""
        scores, variance = self.process.predict_with_variance(self._inputs(x))
        spread = np.sqrt(self.process.amplitude * variance)[:, None]
        size = np.sqrt((self.loadings**2).sum(axis=1))
        return self.outputs(scores), self.deviation * np.hypot(spread * size, self.left_out)

    @cached_property
    def left_out(self) -> FloatArray:
        """Leave-one-out error of each output, in its standard deviations over the runs: (m,).

        Over the runs that are as near to the centre as draws of the distribution are.
        """
        wrong = (self.process.y - self.process.leave_one_out) @ self.loadings.T
        near = self.near <= np.sqrt(len(self.seen.units.centre)) + 2.0
        near = near if near.sum() >= _FEWEST else np.ones(len(near), dtype=bool)
        return np.sqrt((wrong[near] ** 2).mean(axis=0))

    def every(self, outputs: FloatArray) -> FloatArray:
        """Return all outputs of the simulator, (n, all), NaN where runs have no number."""
        rows = np.tile(self.constant, (len(outputs), 1))
        rows[:, self.places] = outputs
        return rows


def _fitted(
    context: Context, x: FloatArray, inputs: int, y: FloatArray, under: Distribution
) -> tuple[Process, Inputs]:
    """Fit the hyperparameters of a process of y (n, k), and choose its inputs."""
    seen = Inputs.of_last_fit(under, context, DEFAULT.units)
    prior = Hyperprior.build(
        under.family.coupled[:inputs, :inputs],
        replace(DEFAULT.hyperprior.outputs, noise_floor=1e-3),
    )
    if seen.units.spectrum is not None:
        prior = prior.best_of(seen.units.spectrum, seen(x)[:, :inputs], y)
    seen = seen.chosen(lambda u: prior.expected_misfit(u[:, :inputs]), x, y)
    u = seen(x)[:, :inputs]
    return Process(prior.centre, prior, u, y, np.ones(len(y))).fit(_STEPS), seen


def _runs_and_outputs(record: Record) -> tuple[list[Run], FloatArray, Outputs]:
    """Return successful runs, their outputs (n, m) or risks (n, 1), and the table of these."""
    if record.counts is not None:
        raise ValueError("the file was written without its runs: write it with runs=True")
    light = [r for r in record.light_runs if r.ok and r.task == 0 and r.purpose in _PURPOSES]
    if len(light) < _FEWEST:
        raise ValueError(f"{len(light)} successful runs are too few to emulate: {_FEWEST} at least")
    runs = list(record.iterate(light))
    rows = outputs_as_rows(runs)
    if rows is None:
        return runs, np.array([[run.risk] for run in runs]), Outputs((RISK,), 1)
    rows = rows[:, : rows.shape[1] - record.observation]
    data = record.settings.data
    table = Outputs.of_simulation(data)
    if table is None or table.width != rows.shape[1]:
        return runs, rows, Outputs.plain(rows.shape[1])
    observed = record.settings.observations
    if observed is not None:
        table = replace(table, experiments=observed.experiments)
    return runs, rows, as_calibrated(table, record)


def risk_of(
    record: Record, emulated: EmulatedOutputs
) -> Callable[[FloatArray, FloatArray], FloatArray] | None:
    """Return the risk of emulated outputs (n, m) at latent points (n, dim); None if not known."""
    loss, data = record.settings.loss, record.settings.data
    if not callable(loss) or isinstance(data, Named) or emulated.table.columns == (RISK,):
        return None
    residuals = getattr(data, "residuals", None)
    if residuals is None and data is not None:
        return None
    least = None
    observed = record.settings.observations
    if observed is not None and observed.logarithmic:
        least = np.maximum(emulated.mean - 10.0 * emulated.deviation, 1e-6 * np.abs(emulated.mean))
        least = np.maximum(least, 1e-300)
    parameters, observing = record.parameters, as_observation_loss(loss)

    def risk(outputs: FloatArray, x: FloatArray) -> FloatArray:
        rows = emulated.every(outputs if least is None else np.maximum(outputs, least))
        if observing is not None:
            known = observing if residuals is None else observing.for_data(data)
            within = known.within(parameters)
            full = within.rows(rows, x)
            seen = full if residuals is None else within.residuals(residuals, full)
            return np.asarray(within(seen))
        return np.asarray(loss(rows if residuals is None else residuals(rows)))

    return risk
