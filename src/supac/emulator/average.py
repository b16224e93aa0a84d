"""The mean of several emulators of the same runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.emulator.gated import FittedEmulator
from supac.emulator.process import Process
from supac.families import NormalWhitening


@dataclass(frozen=True, eq=False)
class AveragedEmulator:
    """Average the risks that emulators with different hyperparameters predict.

    A few dozen runs do not determine the hyperparameters, and the most likely ones promise more
    than new runs keep. The average is the expected risk if each emulator may be the right one:
    what they disagree about counts as uncertain. The first one screens the runs and chooses new
    ones.
    """

    members: tuple[FittedEmulator, ...]
    hyperparameters: FloatArray
    """Of all members, one after the other."""

    @property
    def process(self) -> Process:
        """Return the process of the first member."""
        return self.members[0].process

    @property
    def noise(self) -> float:
        """Return the standard deviation of the simulator's noise by the first member."""
        return float(getattr(self.members[0], "noise", np.nan))

    def inputs(self, x: FloatArray) -> FloatArray:
        """Return points as inputs of the processes: (n, dim) → (n, p)."""
        return self.members[0].inputs(x)

    def misfit(self) -> float:
        """Compute minus the log-evidence of the first member."""
        return self.members[0].misfit()

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out risks and squared standardised residuals of the first member."""
        return self.members[0].leave_one_out()

    def predict_outliers(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return risks and squared standardised residuals of outliers by the first member."""
        return self.members[0].predict_outliers(rows)

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""
        return np.asarray(np.mean([each.predict(x) for each in self.members], axis=0))

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Compute the mean risk, E[risk · features], and the share of variance they explain."""
        means, betas, explained = zip(
            *(each.moments(whitening) for each in self.members), strict=True
        )
        return float(np.mean(means)), np.mean(betas, axis=0), float(np.mean(explained))
