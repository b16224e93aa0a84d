"""Labels of runs: which are outliers, and how noisy the others are.

One bad run in the training set of a smooth emulator spoils it far around. So runs that failed, or
that lie far outside what all others explain, are labelled outliers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.emulator.base import FittedEmulator, TrainingSet
from supac.emulator.tuning import ScreeningTuning
from supac.problem import Evaluations
from supac.surrogate.memory import Memory


@dataclass(frozen=True, eq=False)
class Labels:
    """Hold what a screening says of each run."""

    outliers: BoolArray
    """True for runs that failed or are outliers: (n,)."""
    inflation: FloatArray
    """Factors on their noise variance: (n,)."""

    @classmethod
    def remembered(
        cls,
        runs: Evaluations,
        memory: Memory | None,
        expected: FloatArray | None,
        tuning: ScreeningTuning,
    ) -> Labels:
        """Return the labels of the last fit; label new runs by its predictions."""
        n, outliers, inflation = len(runs), ~runs.ok, np.ones(len(runs))
        if memory is not None:
            old = len(memory.outliers)
            outliers[:old] = memory.outliers
            inflation[:old] = memory.inflation
            if tuning.early and expected is not None and len(expected) == n - old:
                outliers[old:] |= runs.risk[old:] - expected > memory.threshold
        if (outliers & runs.ok).sum() > tuning.most * n:
            outliers = ~runs.ok
        return cls(outliers, inflation)

    def of(self, rows: IntArray) -> Labels:
        """Return the labels of some of the runs."""
        return Labels(self.outliers[rows], self.inflation[rows])

    def updated(self, rows: IntArray, labels: Labels) -> Labels:
        """Return the labels with those of some runs replaced."""
        outliers, inflation = self.outliers.copy(), self.inflation.copy()
        outliers[rows], inflation[rows] = labels.outliers, labels.inflation
        return Labels(outliers, inflation)

    def same_as(self, other: Labels) -> bool:
        """Return True if the other labels are no different."""
        return np.array_equal(self.outliers, other.outliers) and np.array_equal(
            self.inflation, other.inflation
        )

    def emulator(
        self, training: TrainingSet, hyperparameters: Mapping[str, FloatArray], steps: int
    ) -> FittedEmulator:
        """Fit an emulator to the inliers."""
        inliers = ~self.outliers
        return training.condition(inliers, self.inflation[inliers], hyperparameters, steps)


@dataclass(frozen=True, eq=False)
class Screened:
    """Hold labels, and the emulator behind them."""

    labels: Labels
    hyperparameters: Mapping[str, FloatArray]
    threshold: float
    """Excess risk from which a run may be an outlier."""
    emulator: FittedEmulator | None
    """The emulator that was fitted to the inliers by these labels; None if it was by others."""

    def fitted(self, training: TrainingSet, steps: int, before: Labels) -> FittedEmulator:
        """Return the emulator of the inliers, improved by some steps if outliers have changed.

        The hyperparameters were just fitted to the same runs, but for those that have changed.
        """
        changed = not np.array_equal(self.labels.outliers, before.outliers)
        if self.emulator is not None and not (changed and steps):
            return self.emulator
        return self.labels.emulator(training, self.hyperparameters, steps if changed else 0)


def screen(
    training: TrainingSet,
    runs: Evaluations,
    given: Screened,
    steps: int,
    resolution: float,
    tuning: ScreeningTuning,
) -> Screened:
    """Fit the emulator to the inliers and label all runs by their residuals, some times.

    The second time the hyperparameters remain: only the labels are made anew, until they stay.
    """
    least = tuning.nats * resolution
    labels, hyperparameters, threshold = given.labels, given.hyperparameters, given.threshold
    for number in range(tuning.passes):
        emulator = labels.emulator(training, hyperparameters, 0 if number else steps)
        hyperparameters = emulator.hyperparameters
        residuals = _Residuals.of(emulator, runs, labels.outliers)
        threshold = max(tuning.deviations * residuals.deviation(labels.outliers, tuning), least)
        last, labels = labels, residuals.labels(runs, threshold, tuning)
        inliers = runs.risk[~last.outliers]
        cut = None
        if number == 0 and threshold > max(_spread(inliers, tuning), least):
            # The emulator is useless: its errors exceed the spread of the risks themselves.
            cut = _upper_class(inliers, tuning)
        if cut is not None:
            labels = Labels(labels.outliers | (runs.risk > cut), labels.inflation)
            hyperparameters = training.default
        elif labels.same_as(last):
            return Screened(labels, hyperparameters, threshold, emulator)
    return Screened(labels, hyperparameters, threshold, None)


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Compare runs with what an emulator predicts of them without them."""

    predicted: FloatArray
    """Risks, of failed runs 0: (n,)."""
    surprise: FloatArray
    """Squared standardised residuals, of failed runs 0: (n,)."""
    excess: FloatArray
    """Risk minus prediction: (n,)."""

    @classmethod
    def of(cls, emulator: FittedEmulator, runs: Evaluations, outliers: BoolArray) -> _Residuals:
        predicted, surprise = np.zeros((2, len(runs)))
        predicted[~outliers], surprise[~outliers] = emulator.leave_one_out()
        before = outliers & runs.ok
        if before.any():
            predicted[before], surprise[before] = emulator.predict_outliers(before)
        return cls(predicted, surprise, runs.risk - predicted)

    def deviation(self, outliers: BoolArray, tuning: ScreeningTuning) -> float:
        """Return a robust standard deviation of the latest errors."""
        recent = self.excess[~outliers][-tuning.recent_errors :]
        return 1.4826 * float(np.median(np.abs(recent - np.median(recent))))

    def labels(self, runs: Evaluations, threshold: float, tuning: ScreeningTuning) -> Labels:
        """Label runs that are not explained as outliers."""
        if tuning.surprise is None:
            return Labels(~runs.ok, np.ones(len(runs)))
        usual = float(np.median(runs.risk[-tuning.recent :]))
        bar = threshold + tuning.slack * np.maximum(self.predicted - usual, 0.0)
        new = (self.surprise > tuning.surprise) & (self.excess > bar) & runs.ok
        most = int(tuning.most * len(runs))
        if new.sum() > most:
            new &= self.excess >= np.sort(self.excess)[-most]
        inflation = np.clip(self.surprise / tuning.surprise, 1.0, tuning.most_inflated)
        return Labels(new | ~runs.ok, inflation)


def _spread(risk: FloatArray, tuning: ScreeningTuning) -> float:
    return float(np.ptp(np.quantile(risk, tuning.spread)))


def _upper_class(risk: FloatArray, tuning: ScreeningTuning) -> float | None:
    """Return the cut of the risks in two classes (Otsu), if it explains most of their variance."""
    if not tuning.two_classes:
        return None
    ordered = np.sort(risk)
    n = len(ordered)
    below = np.arange(1, n)
    sums = np.cumsum(ordered)[:-1]
    between = below * (n - below) * (sums / below - (ordered.sum() - sums) / (n - below)) ** 2
    best = int(np.argmax(between))
    least = max(tuning.class_runs, tuning.class_share * n)
    if between[best] <= tuning.class_explains * n**2 * ordered.var() or best + 1 < least:
        return None
    return float(0.5 * (ordered[best] + ordered[best + 1]))
