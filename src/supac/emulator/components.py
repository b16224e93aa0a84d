"""A process of the outputs, or of their principal components, pushed through the exact loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.emulator.average import AveragedEmulator
from supac.emulator.base import FittedEmulator, TrainingSet
from supac.emulator.exact import ExactRisk, is_exact, is_long
from supac.emulator.process import Hyperprior, Process, ScoreFunction
from supac.emulator.projection import CommonDraws, Projection
from supac.emulator.sparse import fold_runs, nearness
from supac.emulator.tuning import DrawTuning, EmulatorTuning
from supac.emulator.units import Inputs
from supac.emulator.view import SeenLoss, View
from supac.families import Distribution, NormalWhitening
from supac.families.gaussian import orthogonal
from supac.problem import Evaluations, Loss
from supac.problem.losses import SquareLoss
from supac.problem.observation import observation_count
from supac.surrogate.estimator import Context

OUTPUTS = "outputs"
"""Name of the process of all outputs, or of their principal components."""


@dataclass(frozen=True, eq=False)
class OutputTrainingSet(TrainingSet):
    """Hold the parameters in prior standard deviations from the current mean, and the outputs.

    The outputs, however many, are replaced by their coordinates in the span of all runs: inner
    products and so principal components are the same there.
    """

    x: FloatArray
    """Points of all runs: (n, dim)."""
    u: FloatArray
    """(n, p), of the p parameters that the outputs depend on."""
    coordinates: FloatArray
    """(n, r) with outputs = coordinates @ basis.T; NaN for failed runs."""
    outputs: FloatArray
    """(ok, m), of the runs that did not fail."""
    loss: SquareLoss | SeenLoss
    inputs: Inputs
    prior: Hyperprior
    tuning: EmulatorTuning
    components: int
    """Largest number of principal components."""
    draws: CommonDraws
    """Points at which the loss is averaged."""
    errors: FloatArray
    """Standard normal errors of the emulator, one row for each draw."""
    nearness: FloatArray
    """Weights of the runs in a model around the posterior, all 1 of few parameters: (n,)."""
    one_by_one: bool
    """True if outputs are emulated one by one, False if their principal components are."""
    folds: IntArray
    """Parts into which the runs are divided: (n,)."""
    own_basis: FloatArray | None = None
    """Orthonormal basis (m, r) of the coordinates, where it is not that of the runs."""
    _found: dict[bytes, Any] = field(default_factory=dict)
    """Results for the sets of inliers that were seen so far."""

    is_of_many: ClassVar[bool] = False
    """True for the training set of many parameters."""

    @classmethod
    def build(
        cls,
        components: int,
        draws: int,
        loss: Loss,
        tuning: EmulatorTuning,
        runs: Evaluations,
        current: Distribution,
        context: Context,
        *,
        like: OutputTrainingSet | None = None,
    ) -> OutputTrainingSet:
        """Standardise the runs; in the units and the view of another set, if one is given."""
        known, inputs = observation_count(loss), None if like is None else like.inputs
        rows = np.asarray(runs.outputs)
        rows = rows if runs.ok.all() else rows[runs.ok]
        outputs, simulated = rows[:, : rows.shape[1] - known], current.dim - known
        risk, many, coupled = runs.risk[runs.ok], cls.is_of_many, current.family.coupled
        coupled = coupled[:simulated, :simulated]
        prior = Hyperprior.build(coupled, tuning.hyperprior.outputs, tuning.hyperprior)
        seen_by = inputs or Inputs.of_last_fit(current, context, tuning.units)
        u = seen_by(runs.x)[:, :simulated]
        expected = None if many else prior.expected_misfit(u[runs.ok])
        known_of_view = rows, risk, loss, known, expected, tuning.view
        linear = is_long(loss, outputs.shape[1], tuning.view)
        view = like.view if like else View.of(*known_of_view, linear=linear)
        if view is not None:
            outputs = view.see(outputs)
        seen = _seen(loss, view, float(risk.max()))
        one_by_one = many and outputs.shape[1] <= tuning.trend.outputs
        own = outputs if one_by_one else _coordinates(outputs)
        coordinates = np.full((len(runs), own.shape[1]), np.nan)
        coordinates[runs.ok] = own
        spectrum, y = seen_by.units.spectrum, _standardised(coordinates[runs.ok])
        if spectrum is not None:
            prior = prior.best_of(spectrum, u[runs.ok], y)
        if inputs is None:
            evidence = lambda each: prior.expected_misfit(each[:, :simulated])  # noqa: E731
            inputs = seen_by.chosen(evidence, runs.x[runs.ok], y, tuning.units)
            u = inputs(runs.x)[:, :simulated]
        exact = not many and is_exact(loss, view, outputs.shape[1], tuning)
        rough = not many and not _has_slopes(seen, outputs, runs.x[runs.ok])
        count = _number_of_draws(draws, current, tuning.draws, rough=rough, exact=exact)
        components = max(components, tuning.trend.outputs) if many else components
        return cls(
            runs.x,
            u,
            coordinates,
            outputs,
            seen,
            inputs,
            prior,
            tuning,
            components,
            CommonDraws(orthogonal(count, current.dim, context.rng)),
            errors=context.rng.standard_normal((max(count, len(runs)), components)),
            nearness=nearness(current, runs.x, tuning.trend) if many else np.ones(len(runs)),
            one_by_one=one_by_one,
            folds=fold_runs(runs.iteration, tuning.trend),
        )

    @cached_property
    def basis(self) -> FloatArray:
        """Compute the orthonormal basis (m, r), which only a loss of all outputs needs."""
        if self.own_basis is not None:
            return self.own_basis
        m, r = self.outputs.shape[1], self.coordinates.shape[1]
        if r == m:
            return np.eye(m)
        own = self.coordinates[np.isfinite(self.coordinates[:, 0])]
        return np.asarray(solve_triangular(own, self.outputs, lower=True).T)

    @property
    def seen(self) -> SeenLoss | None:
        """Return the loss of what is emulated, but for a square loss of outputs as they are."""
        return self.loss if isinstance(self.loss, SeenLoss) else None

    @property
    def view(self) -> View | None:
        """Return the view in which the outputs are emulated, if they are not as they are."""
        return None if self.seen is None else self.seen.view

    @cached_property
    def has_slopes(self) -> bool:
        """Return True if the loss has a derivative."""
        return _has_slopes(self.loss, self.outputs, self.x)

    @property
    def default(self) -> dict[str, FloatArray]:
        """Return the hyperparameters to start from: of the process, and of its fellows."""
        fellows = (_named(power) for power in self.tuning.average.powers if self.averages)
        return dict.fromkeys((OUTPUTS, *fellows), self.prior.centre)

    @property
    def averages(self) -> bool:
        """Return True if few parameters are simulated, so that several processes are fitted."""
        rule = self.tuning.average
        return bool(rule.powers) and self.u.shape[1] <= rule.parameters

    def _principal(self, inliers: BoolArray) -> FloatArray:
        """Compute the principal directions of the inliers, whatever their inflations.

        All components share one kernel, so only which are left out depends on the directions.
        """
        if inliers.tobytes() not in self._found:
            rows = self.coordinates[inliers]
            centred = rows - rows.mean(axis=0)
            _, vectors = np.linalg.eigh(centred.T @ centred)
            count = max(min(self.components, len(rows) - 2, vectors.shape[1]), 1)
            self._found[inliers.tobytes()] = vectors[:, ::-1][:, :count]
        return np.asarray(self._found[inliers.tobytes()])

    def condition(
        self,
        inliers: BoolArray,
        inflation: FloatArray,
        hyperparameters: Mapping[str, FloatArray],
        steps: int,
    ) -> FittedOutputEmulator:
        """Fit a process to the principal components of the inliers.

        What it cannot explain of many parameters, mostly curvature in directions that few runs have
        taken, counts as noise; there is the more of it the farther a run is from the posterior.
        """
        rows, by_distance = self.coordinates[inliers], 1.0 / self.nearness[inliers]
        inflation = inflation * by_distance
        weight = (1.0 / inflation) / (1.0 / inflation).sum()
        directions = self._principal(inliers)
        mean = weight @ rows
        centred = rows - mean
        scores = centred @ directions
        rest = max(float(weight @ ((centred**2).sum(axis=1) - (scores**2).sum(axis=1))), 0.0)
        unit = float(np.sqrt((weight @ scores**2).mean())) + 1e-300
        y = (scores - weight @ scores) / unit
        shift = weight @ scores
        process = Process(hyperparameters[OUTPUTS], self.prior, self.u[inliers], y, inflation)
        process = self._fit(process, inliers, steps)
        return self.emulator_kind(
            self,
            self.x[inliers],
            by_distance,
            mean,
            directions,
            shift,
            unit,
            rest,
            process=process,
            hyperparameters={**hyperparameters, OUTPUTS: process.hyperparameters},
        )

    @property
    def emulator_kind(self) -> type[FittedOutputEmulator]:
        """Return the class of the emulators that are fitted to such a set."""
        return FittedOutputEmulator

    def _fit(self, process: Process, inliers: BoolArray, steps: int) -> Process:
        return process.fit(steps)

    def average(
        self, emulator: FittedEmulator, inliers: BoolArray, inflation: FloatArray, steps: int
    ) -> FittedEmulator:
        """Return the mean of the emulator and of others, for which the evidence counts less.

        Outputs of one run are not independent of each other, so that their evidence is too sure
        of the hyperparameters. Those for which it counts a third or a tenth against the prior
        predict new runs about as well, and elsewhere something else.
        """
        assert isinstance(emulator, FittedOutputEmulator)
        members, found = [emulator], dict(emulator.hyperparameters)
        for power in self.tuning.average.powers:
            start = self.prior.centre if steps else found[_named(power)]
            process = replace(emulator.process, hyperparameters=start).fit(steps, power=power)
            members.append(replace(emulator, process=process))
            found[_named(power)] = process.hyperparameters
        return AveragedEmulator.of(tuple(members), found)


def _named(power: float) -> str:
    """Return the name of the process for which the evidence counts `power` times."""
    return f"{OUTPUTS}, evidence to the power {power:g}"


def _seen(loss: Loss, view: View | None, worst: float) -> SquareLoss | SeenLoss:
    """Return the loss of outputs in a view; a square loss itself if they are as they are."""
    return loss if view is None and isinstance(loss, SquareLoss) else SeenLoss(loss, view, worst)


def _has_slopes(loss: SquareLoss | SeenLoss, outputs: FloatArray, x: FloatArray) -> bool:
    """Return True if the loss of the outputs (n, m) at x has a derivative in each of them."""
    if isinstance(loss, SquareLoss):
        return True
    try:
        return loss.slopes(outputs[:1], x[:1]) is not None
    except Exception:  # of `each`, which is for certificates: a search can do without
        return False


def _coordinates(outputs: FloatArray) -> FloatArray:
    """Return the coordinates of outputs in the span of all runs: (n, m) → (n, r)."""
    if min(outputs.shape) == outputs.shape[1]:
        return outputs
    gram = outputs @ outputs.T
    gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram) + 1e-300
    return np.asarray(np.linalg.cholesky(gram))


def _number_of_draws(
    draws: int, current: Distribution, tuning: DrawTuning, *, rough: bool, exact: bool
) -> int:
    """Return how many draws a loss is averaged over; a `rough` one has no slopes.

    A gradient says the more the more parameters there are, and where its expectation over the
    emulator is `exact`.
    """
    if rough:
        return max(draws, tuning.a_statistic * current.family.size)
    many = current.dim > tuning.all_up_to
    found = max(draws // 2, tuning.a_parameter * current.dim) if many else draws
    return min(found, max(tuning.exact, tuning.a_parameter * current.dim)) if exact else found


def _standardised(rows: FloatArray) -> FloatArray:
    centred = rows - rows.mean(axis=0)
    return np.asarray(centred / (np.sqrt((centred**2).mean()) + 1e-300))


@dataclass(frozen=True, eq=False)
class FittedOutputEmulator(FittedEmulator):
    """Predict the risk from a process of the standardised principal components."""

    training: OutputTrainingSet
    x: FloatArray
    """Points of the inliers."""
    by_distance: FloatArray
    """Factors on their noise because of their distance from the posterior."""
    mean: FloatArray
    """Weighted mean of the inliers' coordinates: (r,)."""
    directions: FloatArray
    """Principal directions, (r, k), along which scores are taken from the mean."""
    shift: FloatArray
    """Weighted mean of the scores: (k,)."""
    unit: float
    """Root mean square of the scores, the unit of the standardised ones."""
    rest: float
    """Sum of squares that the components leave out."""

    def standardised(self, scores: FloatArray) -> FloatArray:
        """Convert scores as they are to those of the process: (n, k) → (n, k)."""
        return (scores - self._mean_scores - self.shift) / self.unit

    def _predict(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predict the mean of the standardised scores (m, k) and their variance (m,)."""
        return self.process.predict_with_variance(u)

    def misfit(self) -> float:
        """Compute minus the log-evidence of the scores."""
        return self.process.misfit

    @cached_property
    def noise(self) -> float:
        """Return the standard deviation of the noise, in those of the outputs over all runs."""
        return float(np.sqrt(self.process.amplitude * self.process.noise))

    @cached_property
    def _directions_of_outputs(self) -> FloatArray:
        return self.training.basis @ self.directions

    def _as_outputs(self, scores: FloatArray) -> FloatArray:
        """Return what scores add to the outputs: (n, k) → (n, m)."""
        if self.training.one_by_one:
            return scores
        return np.asarray(scores @ self._directions_of_outputs.T)

    def _as_scores(self, slopes: FloatArray) -> FloatArray:
        """Return slopes in the outputs as those in the scores: (n, m) → (n, k)."""
        if self.training.one_by_one:
            return slopes
        return np.asarray(slopes @ self._directions_of_outputs)

    def _risk(self, x: FloatArray, y: FloatArray, variance: FloatArray) -> FloatArray:
        """Average the loss of standardised scores y (n, k) at x over their variance (n,)."""
        variance = self._with_noise(variance)
        loss = self.training.loss
        if isinstance(loss, SquareLoss):
            return loss.of_mean_square(self._mean_square(y, variance))
        if self._exact is not None:
            return self._exact.risk_and_slopes(x, y, self.process.amplitude * variance)[0]
        risk = loss(self._with_errors(y, variance, 0)[0], np.concatenate([x, x]))
        return 0.5 * (risk[: len(y)] + risk[len(y) :])

    @cached_property
    def _exact(self) -> ExactRisk | None:
        """Return the exact expectation of a likelihood, if there is one."""
        seen = self.training.seen
        if self.training.is_of_many or seen is None:
            return None
        origin = self.training.basis @ self.mean + self._as_outputs(self.shift[None])[0]
        basis = self.unit * self._directions_of_outputs
        return ExactRisk.of(seen, origin, basis, self.training.tuning)

    def _with_noise(self, variance: FloatArray) -> FloatArray:
        """Add the noise of the simulator, if it has any: that of the next run will be another."""
        noisy = self.noise > self.training.tuning.draws.noisy
        return variance + self.process.noise if noisy else variance

    @property
    def _spread(self) -> float:
        """Return the factor from the process's variance to that of a score."""
        return self.process.amplitude * self.unit**2

    @cached_property
    def _mean_scores(self) -> FloatArray:
        return np.asarray(self.mean @ self.directions)

    def _mean_square(self, y: FloatArray, variance: FloatArray) -> FloatArray:
        """Compute the expected mean square of all outputs: (n,)."""
        return self._mean_square_of(self._scores(y), variance)

    def _scores(self, y: FloatArray) -> FloatArray:
        """Return standardised scores as those of the outputs, not of what they differ by."""
        return self.unit * y + (self.shift + self._mean_scores)

    def _mean_square_of(self, scores: FloatArray, variance: FloatArray) -> FloatArray:
        square = np.einsum("ij,ij->i", scores, scores)
        square += scores.shape[1] * self._spread * variance
        square += self.mean @ self.mean - self._mean_scores @ self._mean_scores + self.rest
        return np.maximum(square, 0.0) / self.training.outputs.shape[1]

    def _with_errors(
        self, y: FloatArray, variance: FloatArray, first: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return outputs with an error and with its opposite (2n, m), and the errors (n, k).

        Both signs of each error: what is odd in them averages out. `first` is the row of errors to
        begin with.
        """
        errors = self.training.errors
        errors = errors[(first + np.arange(len(y))) % len(errors), : y.shape[1]]
        scores, noise = self.shift + self.unit * y, np.sqrt(self._spread * variance)[:, None]
        either = np.concatenate([scores + noise * errors, scores - noise * errors])
        mean_output = self.training.basis @ self.mean
        return mean_output + self._as_outputs(either), errors

    def _risk_and_slopes(
        self,
        x: FloatArray,
        by_own: FloatArray,
        rows: slice,
        y: FloatArray,
        variance: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute the risk of some of the common draws x, and its slopes in y and the variance.

        Those in the observation parameters are written to the rows of `by_own`.
        """
        loss, variance = self.training.loss, self._with_noise(variance)
        if isinstance(loss, SquareLoss):
            return self._slopes_of_square(loss, y, variance)
        if self._exact is not None:
            spread = self.process.amplitude
            risk, by_y, wide, by_own[rows] = self._exact.risk_and_slopes(
                x[rows], y, spread * variance
            )
            return risk, by_y, spread * wide
        outputs, errors = self._with_errors(y, variance, rows.start)
        twice = np.concatenate([x[rows], x[rows]])
        both, found = loss.risk_and_slopes(outputs, twice)
        assert found is not None
        above, below = np.split(self._as_scores(found[0]), 2)
        by_own[rows] = np.mean(np.split(found[1], 2), axis=0)
        by_noise = 0.5 * np.einsum("ij,ij->i", above - below, errors)
        by_variance = by_noise * 0.5 * np.sqrt(self._spread / np.maximum(variance, 1e-300))
        risk = np.mean(np.split(both, 2), axis=0)
        return risk, (0.5 * self.unit) * (above + below), by_variance

    def _slopes_of_square(
        self, loss: SquareLoss, y: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        scores = self._scores(y)
        square = self._mean_square_of(scores, variance)
        step = 1e-4 * square + 1e-300
        slope = loss.of_mean_square(square + step) - loss.of_mean_square(square - step)
        slope = slope / (2.0 * step) / self.training.outputs.shape[1]
        scores *= (2.0 * self.unit * slope)[:, None]
        return loss.of_mean_square(square), scores, slope * y.shape[1] * self._spread

    def inputs(self, x: FloatArray) -> FloatArray:
        """Return points as inputs of the process: (n, dim) → (n, p)."""
        return self.training.inputs(x)[:, : self.training.u.shape[1]]

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""
        return self._risk(x, *self._predict(self.inputs(x)))

    def doubt(self, x: FloatArray) -> FloatArray:
        """Return what the variance of the scores adds to the mean risk: (n, dim) → (n,)."""
        y, variance = self._predict(self.inputs(x))
        return self._risk(x, y, variance) - self._risk(x, y, np.zeros_like(variance))

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out predicted risks and squared standardised residuals of inliers."""
        process = self.process
        error = ((process.y - process.leave_one_out) ** 2).mean(axis=1)
        noise, variance = process.noise * self.by_distance, process.leave_one_out_variance
        own = np.maximum(variance - process.noise * (process.inflation - self.by_distance), noise)
        y, surprise = process.leave_one_out, error / (process.amplitude * own)
        return self._risk(self.x, self._seen(y), np.maximum(variance - noise, 0.0)), surprise

    def left_out_errors(self, inliers: BoolArray) -> FloatArray:
        """Compute squared errors of the outputs of the inliers as others predict them: (n,).

        Of all outputs: with few runs, principal components of all of them know each of them.
        """
        every = (self.training.coordinates[inliers] - self.mean) / self.unit
        error = every - replace(self.process, y=every).leave_one_out
        return np.asarray(self.unit**2 * np.einsum("ij,ij->i", error, error))

    def _seen(self, y: FloatArray) -> FloatArray:
        """Return leave-one-out predictions of the process as those of the scores: (n, k)."""
        return y

    def predict_outliers(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return predicted risks and squared standardised residuals of runs not trained on."""
        mean, variance = self._predict(self.training.u[rows])
        scores = (self.training.coordinates[rows] - self.mean) @ self.directions
        error = (((scores - self.shift) / self.unit - mean) ** 2).mean(axis=1)
        noise = self.process.noise / self.training.nearness[rows]
        surprise = error / (self.process.amplitude * (variance + noise))
        return self._risk(self.training.x[rows], mean, variance), surprise

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Compute the mean risk and E[risk · features] by regression on common draws."""
        found = self._projection(whitening)
        return found.mean, found.beta, found.explained

    def _projection(self, whitening: NormalWhitening) -> Projection:
        draws = self.training.draws
        if self.training.has_slopes:
            return draws.project_gradients(whitening, *self.risk_and_gradients(whitening))
        return draws.project_values(whitening, self.predict(whitening.spread(draws.z)))

    def risk_and_gradients(self, whitening: NormalWhitening) -> tuple[FloatArray, FloatArray]:
        """Compute the risk at the common draws, (n,), and its gradient in z, (n, dim)."""
        z, known = self.training.draws.z, len(whitening.mean) - self.training.u.shape[1]
        by_own = np.zeros((len(z), known))
        x = whitening.spread(z) if known else by_own
        risk, gradients = self._gradients(whitening, partial(self._risk_and_slopes, x, by_own))
        if known:
            gradients += by_own @ self._gradients_of_own(whitening).T
        return risk, gradients

    def _gradients_of_own(self, whitening: NormalWhitening) -> FloatArray:
        """Compute the gradients in z of the observation parameters: (dim, k)."""
        own = np.eye(len(whitening.mean))[:, self.training.u.shape[1] :]
        return np.asarray(solve_triangular(whitening.root, own, lower=True))

    def _gradients(
        self, whitening: NormalWhitening, function: ScoreFunction
    ) -> tuple[FloatArray, FloatArray]:
        """Compute a function of the scores at the common draws, (n,), and its gradient in z."""
        z, inputs = self.training.draws.z, self.training.inputs
        if inputs.scales is not None:
            x = whitening.spread(z)
            values, gradients = self._gradients_in_units(self.inputs(x), function)
            return values, inputs.back(x, gradients) @ whitening.inverse_root.T
        units, scale = inputs.units, inputs.units.scale[:, : self.training.u.shape[1]]
        by_z = solve_triangular(whitening.root, scale, lower=True)  # u = u(mean) + z @ by_z
        u = (whitening.mean - units.centre) @ scale + z @ by_z
        values, gradients = self._gradients_in_units(u, function)
        return values, gradients @ by_z.T

    def _gradients_in_units(
        self, u: FloatArray, function: ScoreFunction
    ) -> tuple[FloatArray, FloatArray]:
        """Compute a function of the scores at inputs, (n,), and its gradient in them."""
        return self.process.value_and_gradient(u, function)
