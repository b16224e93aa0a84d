"""An emulator of the simulator's outputs, pushed through the exact loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from scipy.linalg import solve_triangular

from supac.arrays import BoolArray, FloatArray
from supac.codec import register
from supac.emulator.gate import Units
from supac.emulator.gated import GatedModel, emulator_plan, fit_gated
from supac.emulator.process import Hyperprior, Process
from supac.emulator.view import SeenLoss, View
from supac.families import Distribution, Family, NormalWhitening
from supac.families.gaussian import orthogonal
from supac.problem import Evaluations, Loss, Problem
from supac.problem.composite import SquareLoss
from supac.surrogate.estimator import BatchPlan, Context


@register
@dataclass(frozen=True)
class OutputEmulator:
    """Emulate the principal components of the outputs with one shared process.

    The expected loss, the emulator's own uncertainty included, is averaged over `draws` draws.
    Above `limit` evaluations only those nearest to the current posterior are used. The first batch
    and the others are drawn wider than the posterior by the factors of `widening`: outputs vary
    smoothly beyond its edges, and where they do not one had better know. The share `probes` of a
    batch looks into the tails, once steps stay inside the trust region.
    """

    components: int = 40
    draws: int = 1200
    limit: int = 400
    widening: tuple[float, float] = (1.3, 1.15)
    probes: float = 0.35

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return small batches, the first of about one point a parameter."""
        first = min(max(problem.start.dim, 10), 20)
        return emulator_plan(problem, first, n, self.widening, self.probes)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> GatedModel:
        """Fit the emulator and its gate."""
        context = context or Context()
        if evaluations.outputs is None or context.loss is None:
            raise ValueError(
                "OutputEmulator needs the simulator's outputs, and they must explain the risk: "
                "pass risk=Composite(simulate, loss) without a proxy, or use GaussianProcess()"
            )
        build = partial(OutputTrainingSet.build, self, context.loss)
        return fit_gated(build, evaluations, current, context, self.limit)


@dataclass(frozen=True, eq=False)
class OutputTrainingSet:
    """Hold the parameters in prior standard deviations from the current mean, and the outputs.

    The outputs, however many, are replaced by their coordinates in the span of all runs: inner
    products and so principal components are the same there.
    """

    rule: OutputEmulator
    u: FloatArray
    coordinates: FloatArray
    """(n, r) with outputs = coordinates @ basis.T; NaN for failed runs."""
    outputs: FloatArray
    """(ok, m), of the runs that did not fail."""
    loss: Loss
    units: Units
    prior: Hyperprior
    draws: FloatArray
    """Standard normal points at which the loss is averaged."""
    errors: FloatArray
    """Standard normal errors of the emulator, one row for each draw."""
    _projectors: dict[Family, tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    _found: dict[bytes, FloatArray] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        rule: OutputEmulator,
        loss: Loss,
        runs: Evaluations,
        current: Distribution,
        context: Context,
    ) -> OutputTrainingSet:
        """Standardise the runs."""
        units = Units.of(current, context)
        outputs = np.asarray(runs.outputs)[runs.ok]
        risk = runs.risk[runs.ok]
        view = View.of(outputs, risk, loss)
        if view is not None:
            outputs = view.see(outputs)
        if view is not None or not isinstance(loss, SquareLoss):
            loss = SeenLoss(loss, view, worst=float(risk.max()))
        coordinates = np.full((len(runs), min(outputs.shape)), np.nan)
        if outputs.shape[0] < outputs.shape[1]:
            gram = outputs @ outputs.T
            gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram) + 1e-300
            coordinates[runs.ok] = np.linalg.cholesky(gram)
        else:
            coordinates[runs.ok] = outputs
        prior = Hyperprior.build(
            current.family.coupled,
            deviations=(1.0, 1.0, 0.22, 0.05),
            noise_limits=(1e-3, 0.1),
            noise_floor=3e-3,
            oblique=8.0,
        )
        count = max(rule.draws, 10 * current.family.size)
        return cls(
            rule,
            units(runs.x),
            coordinates,
            outputs,
            loss,
            units,
            prior,
            draws=orthogonal(count, current.dim, context.rng),
            errors=context.rng.standard_normal((max(count, len(runs)), rule.components)),
        )

    @cached_property
    def basis(self) -> FloatArray:
        """Compute the orthonormal basis (m, r), which only a loss of all outputs needs."""
        m, r = self.outputs.shape[1], self.coordinates.shape[1]
        if r == m:
            return np.eye(m)
        own = self.coordinates[np.isfinite(self.coordinates[:, 0])]
        return np.asarray(solve_triangular(own, self.outputs, lower=True).T)

    @property
    def default(self) -> FloatArray:
        """Return the hyperparameters to start from."""
        return self.prior.centre

    def projector(self, whitening: NormalWhitening) -> tuple[FloatArray, FloatArray]:
        """Return centred features at the draws, and the matrix of their least squares.

        They are the same for all members of a family.
        """
        family = whitening.family
        if family not in self._projectors:
            features = family.features(self.draws)
            centred = features - features.mean(axis=0)
            least_squares = np.linalg.solve(centred.T @ centred, centred.T)
            self._projectors[family] = (centred, least_squares)
        return self._projectors[family]

    def _principal(self, inliers: BoolArray) -> FloatArray:
        """Compute the principal directions of the inliers, whatever their inflations.

        All components share one kernel, so only which are left out depends on the directions.
        """
        if inliers.tobytes() not in self._found:
            rows = self.coordinates[inliers]
            centred = rows - rows.mean(axis=0)
            _, vectors = np.linalg.eigh(centred.T @ centred)
            count = max(min(self.rule.components, len(rows) - 2, vectors.shape[1]), 1)
            self._found[inliers.tobytes()] = vectors[:, ::-1][:, :count]
        return self._found[inliers.tobytes()]

    def condition(
        self, inliers: BoolArray, inflation: FloatArray, hyperparameters: FloatArray, steps: int
    ) -> FittedOutputEmulator:
        """Fit a process to the principal components of the inliers."""
        rows = self.coordinates[inliers]
        weight = (1.0 / inflation) / (1.0 / inflation).sum()
        directions = self._principal(inliers)
        mean = weight @ rows
        centred = rows - mean
        scores = centred @ directions
        rest = max(float(weight @ ((centred**2).sum(axis=1) - (scores**2).sum(axis=1))), 0.0)
        unit = float(np.sqrt((weight @ scores**2).mean())) + 1e-300
        y = (scores - weight @ scores) / unit
        shift = weight @ scores
        process = Process(hyperparameters, self.prior, self.u[inliers], y, inflation).fit(steps)
        return FittedOutputEmulator(self, process, mean, directions, shift, unit, rest)


@dataclass(frozen=True, eq=False)
class FittedOutputEmulator:
    """Predict the risk from a process of the standardised principal components."""

    training: OutputTrainingSet
    process: Process
    mean: FloatArray
    directions: FloatArray
    shift: FloatArray
    unit: float
    rest: float
    """Sum of squares that the components leave out."""

    @property
    def hyperparameters(self) -> FloatArray:
        """Return the hyperparameters as one vector."""
        return self.process.hyperparameters

    def misfit(self) -> float:
        """Compute minus the log-evidence of the scores."""
        return self.process.misfit

    @cached_property
    def _directions_of_outputs(self) -> FloatArray:
        return self.training.basis @ self.directions

    def _risk(self, y: FloatArray, variance: FloatArray) -> FloatArray:
        """Average the loss of standardised scores y (n, k) over their variance (n,)."""
        scores, spread = self.shift + self.unit * y, self.process.amplitude * self.unit**2
        loss = self.training.loss
        if isinstance(loss, SquareLoss):
            square = self.mean @ self.mean + 2.0 * scores @ (self.mean @ self.directions)
            square += np.einsum("ij,ij->i", scores, scores) + self.rest
            square += y.shape[1] * spread * variance
            return loss.of_mean_square(np.maximum(square, 0.0) / self.training.outputs.shape[1])
        errors = self.training.errors
        noise = errors[np.arange(len(y)) % len(errors), : y.shape[1]]
        noise = np.sqrt(spread * variance)[:, None] * noise
        # Both signs of each error: what is odd in them averages out.
        either = np.concatenate([scores + noise, scores - noise])
        mean_output = self.training.basis @ self.mean
        risk = np.asarray(loss(mean_output + either @ self._directions_of_outputs.T))
        return 0.5 * (risk[: len(y)] + risk[len(y) :])

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""
        return self._risk(*self.process.predict_with_variance(self.training.units(x)))

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out predicted risks and squared standardised residuals of inliers."""
        process = self.process
        error = ((process.y - process.leave_one_out) ** 2).mean(axis=1)
        noise, variance = process.noise, process.leave_one_out_variance
        own = np.maximum(variance - noise * (process.inflation - 1.0), noise)
        risk = self._risk(process.leave_one_out, np.maximum(variance - noise, 0.0))
        return risk, error / (process.amplitude * own)

    def predict_outliers(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return predicted risks and squared standardised residuals of runs not trained on."""
        mean, variance = self.process.predict_with_variance(self.training.u[rows])
        scores = (self.training.coordinates[rows] - self.mean) @ self.directions
        error = (((scores - self.shift) / self.unit - mean) ** 2).mean(axis=1)
        surprise = error / (self.process.amplitude * (variance + self.process.noise))
        return self._risk(mean, variance), surprise

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Compute the mean risk and E[risk · features] by regression on common draws."""
        risk = self.predict(whitening.spread(self.training.draws))
        features, least_squares = self.training.projector(whitening)
        beta = least_squares @ risk
        total = float(risk.var())
        explained = float((features @ beta).var()) / total if total > 0.0 else 1.0
        return float(risk.mean()), beta, explained
