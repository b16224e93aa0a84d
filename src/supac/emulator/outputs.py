"""An emulator of the simulator's outputs, pushed through the exact loss."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from scipy.linalg import solve_triangular

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.codec import register
from supac.emulator.average import AveragedEmulator
from supac.emulator.gated import FittedEmulator, GatedModel, emulator_plan, fit_gated
from supac.emulator.process import Hyperprior, Process, ScoreFunction
from supac.emulator.projection import (
    CommonDraws,
    Expansion,
    PairedDraws,
    Projection,
    SubspaceDraws,
)
from supac.emulator.sparse import Trend, find_trend, fold_runs, nearness
from supac.emulator.units import Units, leading, principal_components
from supac.emulator.view import SeenLoss, View
from supac.families import Distribution, NormalWhitening
from supac.families.gaussian import orthogonal
from supac.problem import Evaluations, Loss, Problem
from supac.problem.losses import SquareLoss
from supac.problem.observation import observation_count
from supac.surrogate.estimator import MANY_PARAMETERS, NOISY, BatchPlan, Context

_FEW = 20  # parameters
_FEWEST = 10  # runs of the first batch
_OPENING = 0.3  # width of a narrow first batch, in standard deviations of the start
_POWERS = 0.3, 0.1  # of the evidence, for further sets of hyperparameters
_MOVING, _SETTLED = 2, 4  # runs of a batch of up to 20 simulated parameters
_CLEARLY_LESS = 0.5  # share of a squared error
_MOST_COMPONENTS = 200  # of many parameters: each may move an output of its own


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
        """Return small batches, the first of about one point a parameter.

        It is wide, unless there are too many parameters for so few runs to cover the prior, they
        span all directions, and the loss has a slope wherever the start is. Of a field of up to 40
        parameters the leading components count.
        """
        observed = observation_count(problem.loss)
        simulated = problem.start.dim - observed
        first, opening = min(max(simulated, _FEWEST), _FEW), 0.0
        components = _components_of_field(problem, simulated)
        if components is not None:
            first = min(max(components + 1, _FEWEST), _FEW)
        elif _FEWEST <= simulated <= _FEW and isinstance(problem.loss, SquareLoss):
            first, opening = simulated + 1, _OPENING
        plan = emulator_plan(problem, first, n, self.widening, self.probes, opening)
        if plan.few and simulated <= _FEW:
            plan = replace(plan, few=_MOVING, batch=max(_SETTLED, n // 20))
        return replace(plan, observed=observed)

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


def _components_of_field(problem: Problem, simulated: int) -> int | None:
    """Return the number of leading components of up to 40 parameters that are a field's."""
    if simulated > MANY_PARAMETERS:
        return None
    family, scales = problem.start.family, problem.variation
    covariance = scales.family.moments(scales.theta)[1][:simulated, :simulated]
    found = principal_components(covariance, family.coupled[:simulated, :simulated])
    return None if found is None else leading(found[0])


@dataclass(frozen=True, eq=False)
class OutputTrainingSet:
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
    units: Units
    prior: Hyperprior
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
    _found: dict[bytes, FloatArray] = field(default_factory=dict)
    _trends: dict[bytes, Trend | None] = field(default_factory=dict)

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
        units, known = Units.of(current, context), observation_count(loss)
        rows = np.asarray(runs.outputs)
        rows = rows if runs.ok.all() else rows[runs.ok]
        outputs, simulated = rows[:, : rows.shape[1] - known], current.dim - known
        risk, many = runs.risk[runs.ok], current.dim > MANY_PARAMETERS
        prior = Hyperprior.build(
            current.family.coupled[:simulated, :simulated],
            deviations=(1.0, 1.0, 0.22, 0.05),
            noise_limits=(1e-3, 0.1),
            noise_floor=3e-3,
            oblique=8.0,
        )
        u = units(runs.x)[:, :simulated]
        expected = None if many else prior.expected_misfit(u[runs.ok])
        view = View.of(rows, risk, loss, known, expected)
        if view is not None:
            outputs = view.see(outputs)
        seen: SquareLoss | SeenLoss = SeenLoss(loss, view, worst=float(risk.max()))
        if view is None and isinstance(loss, SquareLoss):
            seen = loss
        one_by_one = many and outputs.shape[1] <= _MOST_COMPONENTS
        rank = outputs.shape[1] if one_by_one else min(outputs.shape)
        coordinates = np.full((len(runs), rank), np.nan)
        if rank < outputs.shape[1]:
            gram = outputs @ outputs.T
            gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram) + 1e-300
            coordinates[runs.ok] = np.linalg.cholesky(gram)
        else:
            coordinates[runs.ok] = outputs
        if units.spectrum is not None:
            prior = prior.best_of(units.spectrum, u[runs.ok], _standardised(coordinates[runs.ok]))
        # A gradient says the more the more parameters there are.
        count = rule.draws if current.dim <= _FEW else max(rule.draws // 2, 2 * current.dim)
        if not many and not _has_slopes(seen, outputs, runs.x[runs.ok]):
            count = max(rule.draws, 10 * current.family.size)
        components = max(rule.components, _MOST_COMPONENTS) if many else rule.components
        return cls(
            runs.x,
            u,
            coordinates,
            outputs,
            seen,
            units,
            prior,
            components,
            CommonDraws(orthogonal(count, current.dim, context.rng)),
            errors=context.rng.standard_normal((max(count, len(runs)), components)),
            nearness=nearness(current, runs.x) if many else np.ones(len(runs)),
            one_by_one=one_by_one,
            folds=fold_runs(runs.iteration),
        )

    @cached_property
    def basis(self) -> FloatArray:
        """Compute the orthonormal basis (m, r), which only a loss of all outputs needs."""
        m, r = self.outputs.shape[1], self.coordinates.shape[1]
        if r == m:
            return np.eye(m)
        own = self.coordinates[np.isfinite(self.coordinates[:, 0])]
        return np.asarray(solve_triangular(own, self.outputs, lower=True).T)

    @cached_property
    def has_slopes(self) -> bool:
        """Return True if the loss has a derivative."""
        return _has_slopes(self.loss, self.outputs, self.x)

    @cached_property
    def pairs(self) -> PairedDraws:
        """Return one of each pair of the points at which the loss is averaged."""
        return PairedDraws.of(self.draws.z)

    @cached_property
    def subspace(self) -> SubspaceDraws:
        """Draw the points at which a loss without a derivative is averaged."""
        dim = self.x.shape[1]
        return SubspaceDraws.of(dim, np.random.default_rng(0), dim - self.u.shape[1])

    @property
    def default(self) -> FloatArray:
        """Return the hyperparameters to start from: of the process, and of all that follow it.

        One process of many parameters may be followed by that of what a trend leaves, any other by
        those that it is averaged with.
        """
        followers = len(_POWERS) if self.averages else int(self.one_by_one)
        return np.tile(self.prior.centre, 1 + followers)

    @property
    def averages(self) -> bool:
        """Return True if several processes are fitted: if few parameters are simulated."""
        return self.u.shape[1] <= _FEW and self.x.shape[1] <= MANY_PARAMETERS

    def _principal(self, inliers: BoolArray) -> FloatArray:
        """Compute the principal directions of the inliers, whatever their inflations.

        All components share one kernel, so only which are left out depends on the directions.
        """
        if self.one_by_one:
            return np.eye(self.outputs.shape[1])
        if inliers.tobytes() not in self._found:
            rows = self.coordinates[inliers]
            centred = rows - rows.mean(axis=0)
            _, vectors = np.linalg.eigh(centred.T @ centred)
            count = max(min(self.components, len(rows) - 2, vectors.shape[1]), 1)
            self._found[inliers.tobytes()] = vectors[:, ::-1][:, :count]
        return self._found[inliers.tobytes()]

    def condition(
        self, inliers: BoolArray, inflation: FloatArray, hyperparameters: FloatArray, steps: int
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
        own, first = self.x[inliers], hyperparameters[: len(self.prior.centre)]
        process = Process(first, self.prior, self.u[inliers], y, inflation)
        process = self._fit(process, inliers, steps)
        found = np.concatenate([process.hyperparameters, hyperparameters[len(first) :]])
        fitted = FittedOutputEmulator(
            self, own, by_distance, process, mean, directions, shift, unit, rest, found
        )
        return self._with_trend(fitted, inliers, steps) if self.one_by_one else fitted

    def average(
        self, emulator: FittedEmulator, inliers: BoolArray, inflation: FloatArray, steps: int
    ) -> FittedEmulator:
        """Return the mean of the emulator and of others, for which the evidence counts less.

        Outputs of one run are not independent of each other, so that their evidence is too sure
        of the hyperparameters. Those for which it counts a third or a tenth against the prior
        predict new runs about as well, and elsewhere something else.
        """
        assert isinstance(emulator, FittedOutputEmulator)
        own, *others = np.split(emulator.hyperparameters, 1 + len(_POWERS))
        members = [emulator]
        for power, last in zip(_POWERS, others, strict=True):
            start = self.prior.centre if steps else last
            process = replace(emulator.process, hyperparameters=start).fit(steps, power=power)
            members.append(replace(emulator, process=process))
        found = [own, *(each.process.hyperparameters for each in members[1:])]
        return AveragedEmulator(tuple(members), np.concatenate(found))

    def _fit(self, process: Process, inliers: BoolArray, steps: int) -> Process:
        """Fit the hyperparameters; many inputs keep the expected lengths, if not clearly worse.

        With fewer runs than inputs that count, lengths of their own fit too well: the evidence
        rises, and new runs are predicted worse than the process expects. Until there are more runs
        they have to predict left-out runs with half the squared error, because they were fitted to
        these too.
        """
        own = process.fit(steps)
        if not steps or self.prior.dim <= MANY_PARAMETERS:
            return own
        expected, folds = process.fit(steps, own_lengths=False), self.folds[inliers]
        errors = [float((each.leave_out(folds) ** 2).sum()) for each in (own, expected)]
        least = 1.0 if len(process.u) > self.prior.inputs_that_count else _CLEARLY_LESS
        return own if errors[0] < least * errors[1] else expected

    def _with_trend(
        self, fitted: FittedOutputEmulator, inliers: BoolArray, steps: int
    ) -> FittedOutputEmulator:
        """Return the emulator of what a sparse polynomial leaves, if that predicts better.

        Where none ever did, it is tried when the hyperparameters are fitted anew.
        """
        first, second = np.split(fitted.hyperparameters, 2)
        if not steps and np.array_equal(second, self.prior.centre):
            return fitted
        trend, process = self._trend(fitted, inliers), fitted.process
        if trend is None:
            return fitted
        near, known = trend.near, fitted.standardised(trend.unseen)
        rest = replace(
            process,
            hyperparameters=second,
            u=process.u[near],
            y=process.y[near] - known,
            inflation=process.inflation[near],
        ).fit(steps)
        both = np.concatenate([first, rest.hyperparameters])
        return replace(
            fitted,
            x=fitted.x[near],
            by_distance=fitted.by_distance[near],
            process=rest,
            hyperparameters=both,
            trend=trend,
            everywhere=fitted,
        )

    def _trend(self, fitted: FittedOutputEmulator, inliers: BoolArray) -> Trend | None:
        key, process, folds = inliers.tobytes(), fitted.process, self.folds[inliers]
        if key not in self._trends:
            rival = fitted.unit**2 * (process.leave_out(folds) ** 2).mean(axis=1)
            weight, outputs = self.nearness[inliers], self.coordinates[inliers]
            self._trends[key] = find_trend(process.u, outputs, weight, folds, rival)
        return self._trends[key]


def _has_slopes(loss: SquareLoss | SeenLoss, outputs: FloatArray, x: FloatArray) -> bool:
    """Return True if the loss of the outputs (n, m) at x has a derivative in each of them."""
    if isinstance(loss, SquareLoss):
        return True
    try:
        return loss.slopes(outputs[:1], x[:1]) is not None
    except Exception:  # of `each`, which is for certificates: a search can do without
        return False


def _standardised(rows: FloatArray) -> FloatArray:
    centred = rows - rows.mean(axis=0)
    return np.asarray(centred / (np.sqrt((centred**2).mean()) + 1e-300))


@dataclass(frozen=True, eq=False)
class FittedOutputEmulator:
    """Predict the risk from a process of the standardised principal components."""

    training: OutputTrainingSet
    x: FloatArray
    """Points of the inliers."""
    by_distance: FloatArray
    """Factors on their noise because of their distance from the posterior."""
    process: Process
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
    hyperparameters: FloatArray
    """Of the process, and of those that follow it: see `OutputTrainingSet.default`."""
    trend: Trend | None = None
    """A polynomial around the posterior, if the process is of what it leaves."""
    everywhere: FittedOutputEmulator | None = None
    """The emulator without the trend, for runs that are far away."""

    def standardised(self, scores: FloatArray) -> FloatArray:
        """Convert scores as they are to those of the process: (n, k) → (n, k)."""
        return (scores - self._mean_scores - self.shift) / self.unit

    def _predict(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predict the mean of the standardised scores (m, k) and their variance (m,)."""
        mean, variance = self.process.predict_with_variance(u)
        if self.trend is not None:
            mean += self.standardised(self.trend.polynomial(u))
        return mean, variance

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
        risk = loss(self._with_errors(y, variance, 0)[0], np.concatenate([x, x]))
        return 0.5 * (risk[: len(y)] + risk[len(y) :])

    def _with_noise(self, variance: FloatArray) -> FloatArray:
        """Add the noise of the simulator, if it has any: that of the next run will be another."""
        return variance + self.process.noise if self.noise > NOISY else variance

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
        return self.training.units(x)[:, : self.training.u.shape[1]]

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""
        return self._risk(x, *self._predict(self.inputs(x)))

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out predicted risks and squared standardised residuals of inliers."""
        process = self.process
        error = ((process.y - process.leave_one_out) ** 2).mean(axis=1)
        noise, variance = process.noise * self.by_distance, process.leave_one_out_variance
        own = np.maximum(variance - process.noise * (process.inflation - self.by_distance), noise)
        y, surprise = process.leave_one_out, error / (process.amplitude * own)
        if self.trend is not None:
            y = y + self.standardised(self.trend.unseen)
        risk = self._risk(self.x, y, np.maximum(variance - noise, 0.0))
        if self.trend is None or self.everywhere is None:
            return risk, surprise
        all_risks, all_surprises = self.everywhere.leave_one_out()
        all_risks[self.trend.near], all_surprises[self.trend.near] = risk, surprise
        return all_risks, all_surprises

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
        if len(whitening.mean) <= MANY_PARAMETERS:
            return draws.project_values(whitening, self.predict(whitening.spread(draws.z)))
        rng = np.random.default_rng(0)
        combined = rng.standard_normal((len(draws.z), self.process.y.shape[1]))
        of_outputs = self._gradients(
            whitening, lambda rows, y, variance: (variance, combined[rows], 0.0 * variance)
        )[1]
        subspace = self.training.subspace
        basis = subspace.basis(of_outputs, self._gradients_of_own(whitening))
        risk = self.predict(whitening.spread(subspace.points(basis)))
        return subspace.project(whitening, basis, risk)

    def expand(self, whitening: NormalWhitening) -> Expansion | None:
        """Expand the risk of many parameters by gradients; None if there is another way."""
        training, dim = self.training, len(whitening.mean)
        if dim <= MANY_PARAMETERS or not training.has_slopes:
            return None
        units, simulated, pairs = training.units, training.u.shape[1], training.pairs
        steps = pairs.steps(whitening)
        here = units.forward((whitening.mean - units.centre)[None], simulated)
        away, n = units.forward(steps, simulated), len(steps)
        by_own = np.zeros((2 * n, dim - simulated))
        x = by_own
        if dim > simulated:
            x = np.concatenate([whitening.mean + steps, whitening.mean - steps])
        values, gradients = self._gradients_in_units(
            np.concatenate([here + away, here - away]), partial(self._risk_and_slopes, x, by_own)
        )
        slope = units.back(gradients.mean(axis=0)[None])[0]
        slope[simulated:] += by_own.mean(axis=0)
        differences = units.back(0.5 * (gradients[:n] - gradients[n:]))
        differences[:, simulated:] += 0.5 * (by_own[:n] - by_own[n:])
        return pairs.expand(whitening, steps, (values[:n], values[n:]), slope, differences)

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
        z, units = self.training.draws.z, self.training.units
        scale = units.scale[:, : self.training.u.shape[1]]
        by_z = solve_triangular(whitening.root, scale, lower=True)  # u = u(mean) + z @ by_z
        u = (whitening.mean - units.centre) @ scale + z @ by_z
        values, gradients = self._gradients_in_units(u, function)
        return values, gradients @ by_z.T

    def _gradients_in_units(
        self, u: FloatArray, function: ScoreFunction
    ) -> tuple[FloatArray, FloatArray]:
        """Compute a function of the scores at inputs, (n,), and its gradient in them."""
        if self.trend is None:
            return self.process.value_and_gradient(u, function)
        known, slopes = (
            self.standardised(self.trend.polynomial(u)),
            np.empty((len(u), len(self.shift))),
        )

        def with_trend(
            rows: slice, mean: FloatArray, variance: FloatArray
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            found = function(rows, mean + known[rows], variance)
            slopes[rows] = found[1]
            return found

        values, gradients = self.process.value_and_gradient(u, with_trend)
        gradients += self.trend.polynomial.pull_back(u, slopes / self.unit)
        return values, gradients
