"""Outputs emulated as those of a coarse model, and what a few fine runs differ from them.

With c the emulated coarse outputs, the fine ones are modelled as ρ·c + constant + d: d a process
of its own, learnt from the fine runs alone. What c is wrong by is part of d, which is learnt from
runs and c as it was emulated: so the variance of c counts no second time, and does not drive the
search to where coarse runs are many. By Theorem 1 the projection of the risk needs nothing
but gradients of the modelled outputs, and these are the sum of both parts. At every fit left-out
fine runs choose between this and the process of the fine runs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.emulator.average import AveragedEmulator
from supac.emulator.base import FittedEmulator
from supac.emulator.components import FittedOutputEmulator, OutputTrainingSet
from supac.emulator.gated import GatedModel, fit_gated
from supac.emulator.outputs import OutputEmulator
from supac.emulator.process import Process, ScoreFunction
from supac.emulator.sparse import nearness
from supac.emulator.tuning import DEFAULT, EmulatorTuning
from supac.families import Distribution
from supac.problem import Evaluations, Loss, Problem
from supac.surrogate.estimator import BatchPlan, Context, Estimator
from supac.surrogate.memory import Memory

DIFFERENCE = "difference from coarse outputs"
"""Name of the process of what the fine outputs differ from the coarse ones."""
_SAME = 1e-9  # share of the largest singular value below which a direction is rounding


@dataclass(frozen=True, eq=False)
class TwoLevelEmulator(Estimator):
    """Emulate fine outputs with the help of coarse runs, where left-out fine runs say it helps."""

    rule: OutputEmulator = field(default_factory=OutputEmulator)
    coarse: Evaluations | None = None
    """Runs of the coarse model."""
    begun: Memory | None = None
    """Memory of the search that made them, for the first fit."""

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return the batches of the emulator of fine runs alone."""
        return self.rule.plan(problem, n)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> GatedModel:
        """Fit an emulator of the coarse outputs, then that of the fine ones and its gate."""
        context, rule = context or Context(), self.rule
        if self.coarse is None or context.loss is None or self.coarse.ok.sum() < 3:
            return rule.fit(evaluations, current, context)
        tuning = rule.tuning or DEFAULT
        memory = self.begun if context.memory is None else context.memory.coarse or self.begun
        # Failed coarse runs are left out: they teach no gate.
        about = replace(
            context,
            memory=memory,
            expected=None,
            failure_risk=None,
            rng=np.random.default_rng(len(self.coarse)),
        )
        numbers = rule.components, rule.draws, context.loss, tuning
        good = self.coarse.select(self.coarse.ok)
        build = partial(CoarseTrainingSet.build, *numbers)
        below = fit_gated(build, good, current, about, rule.limit, tuning)
        assert isinstance(below.emulator, FittedOutputEmulator)
        corrected = partial(CorrectedTrainingSet.beside, below.emulator, *numbers)
        model = fit_gated(corrected, evaluations, current, context, rule.limit, tuning)
        corrects = isinstance(first_of(model.emulator), CorrectedEmulator)
        learnt = replace(model.learnt, coarse=below.learnt, corrects=corrects)
        return replace(model, learnt=learnt)


def first_of(emulator: FittedEmulator) -> FittedEmulator:
    """Return the emulator, or the first of those that are averaged."""
    return emulator.inner if isinstance(emulator, AveragedEmulator) else emulator


class CoarseTrainingSet(OutputTrainingSet):
    """Hold coarse runs, of which there are many: one set of hyperparameters does."""

    @property
    def averages(self) -> bool:
        """Return False: coarse runs are many enough."""
        return False


@dataclass(frozen=True, eq=False)
class CorrectedTrainingSet(OutputTrainingSet):
    """Hold fine runs beside an emulator of coarse ones, in coordinates that both have."""

    coarse: FittedOutputEmulator | None = None
    joint: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """Orthonormal basis of the outputs of both: (m, r)."""
    together: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """Coordinates of the runs of both levels: (ok, r)."""
    near: FloatArray = field(default_factory=lambda: np.empty(0))
    """Weights of the fine runs by their distance from the posterior: (n,)."""

    @classmethod
    def beside(
        cls,
        coarse: FittedOutputEmulator,
        components: int,
        draws: int,
        loss: Loss,
        tuning: EmulatorTuning,
        runs: Evaluations,
        current: Distribution,
        context: Context,
    ) -> CorrectedTrainingSet:
        """Standardise the fine runs as the coarse ones were."""
        numbers = components, draws, loss, tuning
        known = coarse.training
        base = OutputTrainingSet.build(*numbers, runs, current, context, like=known)
        rows = np.concatenate([base.outputs, known.outputs])
        basis = _basis(rows)
        coordinates = np.full((len(runs), basis.shape[1]), np.nan)
        coordinates[runs.ok] = base.outputs @ basis
        own = {each.name: getattr(base, each.name) for each in fields(OutputTrainingSet)}
        own |= {"coordinates": coordinates, "_found": {}}
        near = nearness(current, runs.x, tuning.trend)
        return cls(**own, coarse=coarse, joint=basis, together=rows @ basis, near=near)

    @cached_property
    def basis(self) -> FloatArray:
        """Return the orthonormal basis of the outputs of both levels: (m, r)."""
        return self.joint

    @property
    def default(self) -> dict[str, FloatArray]:
        """Return the hyperparameters to start from: also those of the difference."""
        return {**super().default, DIFFERENCE: self.prior.centre}

    def _principal(self, inliers: BoolArray) -> FloatArray:
        """Compute the principal directions of all runs of both levels."""
        if b"" not in self._found:
            rows = self.together
            centred = rows - rows.mean(axis=0)
            _, vectors = np.linalg.eigh(centred.T @ centred)
            count = max(min(self.components, len(rows) - 2, vectors.shape[1]), 1)
            self._found[b""] = vectors[:, ::-1][:, :count]
        return np.asarray(self._found[b""])

    def condition(
        self,
        inliers: BoolArray,
        inflation: FloatArray,
        hyperparameters: Mapping[str, FloatArray],
        steps: int,
    ) -> FittedOutputEmulator:
        """Fit the process of fine runs, and that of the difference; return the better one.

        Better is what predicts left-out fine runs, weighted by their nearness, with less error.
        """
        fine = super().condition(inliers, inflation, hyperparameters, steps)
        weight = self.near[inliers] / inflation
        weight = weight / weight.sum()
        trend, known = self._trend(fine, weight)
        y = fine.process.y - fine.standardised(known)
        start = hyperparameters[DIFFERENCE]
        rest = replace(fine.process, hyperparameters=start, y=y).fit(steps)
        found = {**fine.hyperparameters, DIFFERENCE: rest.hyperparameters}
        errors = [
            float(weight @ ((each.y - each.leave_one_out) ** 2).sum(axis=1))
            for each in (fine.process, rest)
        ]
        if not errors[1] < self.tuning.correction.better * errors[0]:
            return replace(fine, hyperparameters=found)
        own = {each.name: getattr(fine, each.name) for each in fields(FittedOutputEmulator)}
        own |= {"process": rest, "hyperparameters": found}
        return CorrectedEmulator(**own, trend=trend, unseen=known)

    def _trend(
        self, fine: FittedOutputEmulator, weight: FloatArray
    ) -> tuple[CoarseTrend, FloatArray]:
        """Return the coarse emulator as a mean function of the scores, and its value at the runs.

        ρ is 1 but for what the runs say: a ridge regression towards 1.
        """
        coarse, tuning, process = self.coarse, self.tuning.correction, fine.process
        assert coarse is not None
        to_scores = self.joint @ fine.directions
        mean, directions = _in_outputs(coarse)
        origin, slope = mean @ to_scores, directions.T @ to_scores
        known = origin + coarse.process.predict(process.u) @ slope
        scores = fine.unit * process.y + (fine.shift + fine.mean @ fine.directions)
        a, b = known - weight @ known, scores - weight @ scores
        left = float(weight @ ((b - a) ** 2).sum(axis=1)) / max(len(weight) - 1, 1)
        pull = left / tuning.scale**2 if tuning.scale else np.inf
        rho = 1.0
        if np.isfinite(pull):
            top, bottom = float(weight @ (a * b).sum(axis=1)), float(weight @ (a * a).sum(axis=1))
            rho = (top + pull) / (bottom + pull + 1e-300)
        offset = weight @ (scores - rho * known)
        trend = CoarseTrend(coarse, rho * origin + offset, rho * slope, rho)
        return trend, rho * known + offset


def _in_outputs(emulator: FittedOutputEmulator) -> tuple[FloatArray, FloatArray]:
    """Return the outputs where all standardised scores are 0, (m,), and those of each, (m, k)."""
    basis, directions = emulator.training.basis, emulator.directions
    mean = basis @ (emulator.mean + directions @ emulator.shift)
    return mean, emulator.unit * (basis @ directions)


def _basis(rows: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the span of rows (n, m): (m, r)."""
    if rows.shape[1] <= len(rows):
        return np.eye(rows.shape[1])
    _, size, right = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(right[size > _SAME * size[0]].T)


@dataclass(frozen=True, eq=False)
class CoarseTrend:
    """Predict the scores of fine runs by the emulator of coarse ones."""

    coarse: FittedOutputEmulator
    constant: FloatArray
    """(k,)."""
    slope: FloatArray
    """Scores for each standardised coarse score: (j, k)."""
    rho: float

    @property
    def process(self) -> Process:
        """Return the process of the coarse scores."""
        return self.coarse.process


@dataclass(frozen=True, eq=False)
class CorrectedEmulator(FittedOutputEmulator):
    """Predict the risk from a process of coarse outputs and one of the difference."""

    trend: CoarseTrend
    unseen: FloatArray
    """Scores of the runs by the trend: (n, k)."""

    def _predict(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, variance = super()._predict(u)
        return mean + self._known(u), variance

    def _known(self, u: FloatArray) -> FloatArray:
        """Return the standardised scores by the trend: (m, k)."""
        known = self.trend.process.predict(u)
        return self.standardised(self.trend.constant + known @ self.trend.slope)

    def _seen(self, y: FloatArray) -> FloatArray:
        return y + self.standardised(self.unseen)

    def _gradients_in_units(
        self, u: FloatArray, function: ScoreFunction
    ) -> tuple[FloatArray, FloatArray]:
        trend = self.trend
        known = self._known(u)
        by_mean = np.empty_like(known)

        def with_coarse(
            rows: slice, mean: FloatArray, variance: FloatArray
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            found = function(rows, mean + known[rows], variance)
            by_mean[rows] = found[1]
            return found

        values, gradients = self.process.value_and_gradient(u, with_coarse)
        by_scores = by_mean @ trend.slope.T / self.unit

        def of_coarse(
            rows: slice, mean: FloatArray, variance: FloatArray
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            return variance, by_scores[rows], np.zeros_like(variance)

        return values, gradients + trend.process.value_and_gradient(u, of_coarse)[1]
