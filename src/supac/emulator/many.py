"""The emulator of outputs that depend on many parameters: fewer runs than directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.emulator.components import OUTPUTS, FittedOutputEmulator, OutputTrainingSet
from supac.emulator.process import Process, ScoreFunction
from supac.emulator.projection import Expansion, PairedDraws, Projection, SubspaceDraws
from supac.emulator.sparse import Trend, find_trend
from supac.families import NormalWhitening
from supac.surrogate.regime import Regime

REST = "rest of a trend"
"""Name of the process of what a sparse polynomial leaves."""


@dataclass(frozen=True, eq=False)
class ManyTrainingSet(OutputTrainingSet):
    """Hold the runs of many parameters.

    Up to some number of outputs each is emulated by itself, and may have a trend of its own: a
    sparse polynomial, of which the process emulates what is left.
    """

    is_of_many: ClassVar[bool] = True

    @property
    def default(self) -> dict[str, FloatArray]:
        """Return the hyperparameters to start from: of the process, and of that after a trend."""
        return dict.fromkeys([OUTPUTS, REST] if self.one_by_one else [OUTPUTS], self.prior.centre)

    @property
    def averages(self) -> bool:
        """Return False: processes of many parameters are fitted once."""
        return False

    @property
    def emulator_kind(self) -> type[FittedOutputEmulator]:
        """Return the class of the emulators that are fitted to such a set."""
        return FittedManyEmulator

    def _principal(self, inliers: BoolArray) -> FloatArray:
        return np.eye(self.outputs.shape[1]) if self.one_by_one else super()._principal(inliers)

    @cached_property
    def pairs(self) -> PairedDraws:
        """Return one of each pair of the points at which the loss is averaged."""
        return PairedDraws.of(self.draws.z)

    @cached_property
    def subspace(self) -> SubspaceDraws:
        """Draw the points at which a loss without a derivative is averaged."""
        dim, rng = self.x.shape[1], np.random.default_rng(0)
        return SubspaceDraws.of(dim, rng, dim - self.u.shape[1], self.tuning.draws)

    def condition(
        self,
        inliers: BoolArray,
        inflation: FloatArray,
        hyperparameters: Mapping[str, FloatArray],
        steps: int,
    ) -> FittedOutputEmulator:
        """Fit a process to the outputs of the inliers, or to what a sparse polynomial leaves."""
        fitted = super().condition(inliers, inflation, hyperparameters, steps)
        assert isinstance(fitted, FittedManyEmulator)
        return self._with_trend(fitted, inliers, steps) if self.one_by_one else fitted

    def _fit(self, process: Process, inliers: BoolArray, steps: int) -> Process:
        """Fit the hyperparameters; many inputs keep the expected lengths, if not clearly worse.

        With fewer runs than inputs that count, lengths of their own fit too well: the evidence
        rises, and new runs are predicted worse than the process expects. Until there are more runs
        they have to predict left-out runs with half the squared error, because they were fitted to
        these too.
        """
        own = process.fit(steps)
        if not (steps and Regime.of(self.prior.dim).is_many):
            return own
        expected, folds = process.fit(steps, own_lengths=False), self.folds[inliers]
        errors = [float((each.leave_out(folds) ** 2).sum()) for each in (own, expected)]
        enough = len(process.u) > self.prior.inputs_that_count
        least = 1.0 if enough else self.tuning.hyperprior.clearly_less
        return own if errors[0] < least * errors[1] else expected

    def _with_trend(
        self, fitted: FittedManyEmulator, inliers: BoolArray, steps: int
    ) -> FittedManyEmulator:
        """Return the emulator of what a sparse polynomial leaves, if that predicts better.

        Where none ever did, it is tried when the hyperparameters are fitted anew.
        """
        last = fitted.hyperparameters[REST]
        if not steps and np.array_equal(last, self.prior.centre):
            return fitted
        trend, process = self._trend(fitted, inliers), fitted.process
        if trend is None:
            return fitted
        near, known = trend.near, fitted.standardised(trend.unseen)
        rest = replace(
            process,
            hyperparameters=last,
            u=process.u[near],
            y=process.y[near] - known,
            inflation=process.inflation[near],
        ).fit(steps)
        return replace(
            fitted,
            x=fitted.x[near],
            by_distance=fitted.by_distance[near],
            process=rest,
            hyperparameters={**fitted.hyperparameters, REST: rest.hyperparameters},
            trend=trend,
            everywhere=fitted,
        )

    def _trend(self, fitted: FittedOutputEmulator, inliers: BoolArray) -> Trend | None:
        key, process, folds = inliers.tobytes(), fitted.process, self.folds[inliers]
        if key not in self._found:
            rival = fitted.unit**2 * (process.leave_out(folds) ** 2).mean(axis=1)
            weight, outputs = self.nearness[inliers], self.coordinates[inliers]
            found = find_trend(process.u, outputs, weight, folds, rival, self.tuning.trend)
            self._found[key] = found
        trend: Trend | None = self._found[key]
        return trend


@dataclass(frozen=True, eq=False)
class FittedManyEmulator(FittedOutputEmulator):
    """Predict the risk from a process of many parameters, and perhaps a trend beneath it."""

    trend: Trend | None = None
    """A polynomial around the posterior, if the process is of what it leaves."""
    everywhere: FittedOutputEmulator | None = None
    """The emulator without the trend, for runs that are far away."""

    def _predict(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, variance = super()._predict(u)
        if self.trend is not None:
            mean += self.standardised(self.trend.polynomial(u))
        return mean, variance

    def _seen(self, y: FloatArray) -> FloatArray:
        return y if self.trend is None else y + self.standardised(self.trend.unseen)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out predicted risks and squared standardised residuals of inliers."""
        risk, surprise = super().leave_one_out()
        if self.trend is None or self.everywhere is None:
            return risk, surprise
        all_risks, all_surprises = self.everywhere.leave_one_out()
        all_risks[self.trend.near], all_surprises[self.trend.near] = risk, surprise
        return all_risks, all_surprises

    def left_out_errors(self, inliers: BoolArray) -> FloatArray:
        """Compute squared errors of the outputs of the inliers as others predict them: (n,)."""
        if self.trend is None or self.everywhere is None:
            return super().left_out_errors(inliers)
        errors, rest = self.everywhere.left_out_errors(inliers), self.process
        errors[self.trend.near] = self.unit**2 * ((rest.y - rest.leave_one_out) ** 2).sum(axis=1)
        return errors

    def _projection(self, whitening: NormalWhitening) -> Projection:
        if self.training.has_slopes:
            return super()._projection(whitening)
        z = self.training.draws.z
        combined = np.random.default_rng(0).standard_normal((len(z), self.process.y.shape[1]))
        of_outputs = self._gradients(
            whitening, lambda rows, y, variance: (variance, combined[rows], 0.0 * variance)
        )[1]
        subspace = self._set.subspace
        basis = subspace.basis(of_outputs, self._gradients_of_own(whitening))
        risk = self.predict(whitening.spread(subspace.points(basis)))
        return subspace.project(whitening, basis, risk)

    @property
    def _set(self) -> ManyTrainingSet:
        assert isinstance(self.training, ManyTrainingSet)
        return self.training

    def expand(self, whitening: NormalWhitening) -> Expansion | None:
        """Expand the risk by gradients; None if the loss has none."""
        training, dim = self._set, len(whitening.mean)
        if not training.has_slopes:
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

    def _gradients_in_units(
        self, u: FloatArray, function: ScoreFunction
    ) -> tuple[FloatArray, FloatArray]:
        if self.trend is None:
            return super()._gradients_in_units(u, function)
        known = self.standardised(self.trend.polynomial(u))
        slopes = np.empty((len(u), len(self.shift)))

        def with_trend(
            rows: slice, mean: FloatArray, variance: FloatArray
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            found = function(rows, mean + known[rows], variance)
            slopes[rows] = found[1]
            return found

        values, gradients = self.process.value_and_gradient(u, with_trend)
        gradients += self.trend.polynomial.pull_back(u, slopes / self.unit)
        return values, gradients
