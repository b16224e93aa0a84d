"""Interfaces of training sets, and of the emulators that are fitted to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.emulator.process import Process
from supac.emulator.projection import Expansion
from supac.emulator.units import Inputs, Units
from supac.families import NormalWhitening


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedEmulator(ABC):
    """Predict the risk from the runs of a training set that are no outliers."""

    process: Process
    """The process behind the predictions."""
    hyperparameters: Mapping[str, FloatArray]
    """Hyperparameters of this process and of its fellows, by their names."""

    @property
    def noise(self) -> float:
        """Return the standard deviation of the simulator's noise, in those of its outputs.

        NaN if it is not known.
        """
        return np.nan

    @abstractmethod
    def inputs(self, x: FloatArray) -> FloatArray:
        """Return points as inputs of the process: (n, dim) → (n, p)."""

    @abstractmethod
    def misfit(self) -> float:
        """Compute minus the log-evidence."""

    @abstractmethod
    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""

    def doubt(self, x: FloatArray) -> FloatArray | None:
        """Return what its own uncertainty adds to the mean risk, (n,); None if it adds nothing."""
        return None

    @abstractmethod
    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out predicted risks and squared standardised residuals of inliers."""

    @abstractmethod
    def predict_outliers(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return predicted risks and squared standardised residuals of runs not trained on."""

    @abstractmethod
    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Compute the mean risk, E[risk · features], and the share of variance they explain."""

    def expand(self, whitening: NormalWhitening) -> Expansion | None:
        """Expand the risk by gradients, which is cheaper for many parameters.

        None if the moments are to be taken.
        """
        return None


class TrainingSet(ABC):
    """Hold runs in standardised units, from which emulators are fitted."""

    inputs: Inputs
    """Inputs of the process."""

    @property
    def units(self) -> Units:
        """Return the units of the latent parameters."""
        return self.inputs.units

    @property
    @abstractmethod
    def default(self) -> Mapping[str, FloatArray]:
        """Return the hyperparameters to start from, by the names of the processes."""

    @abstractmethod
    def condition(
        self,
        inliers: BoolArray,
        inflation: FloatArray,
        hyperparameters: Mapping[str, FloatArray],
        steps: int,
    ) -> FittedEmulator:
        """Improve the hyperparameters by `steps` of L-BFGS, and condition on the inliers."""

    @property
    def averages(self) -> bool:
        """Return True if emulators are averaged as long as there are few runs."""
        return False

    def average(
        self, emulator: FittedEmulator, inliers: BoolArray, inflation: FloatArray, steps: int
    ) -> FittedEmulator:
        """Return the mean of the emulator and of others, fitted anew by `steps` if not 0."""
        return emulator


@dataclass(frozen=True, eq=False)
class WrappedEmulator(FittedEmulator):
    """Forward every member to another emulator; subclasses override what they change."""

    inner: FittedEmulator

    @property
    def noise(self) -> float:
        """Return the inner emulator's noise."""
        return self.inner.noise

    def inputs(self, x: FloatArray) -> FloatArray:
        """Return points as inputs of the inner emulator's process."""
        return self.inner.inputs(x)

    def misfit(self) -> float:
        """Return the inner emulator's misfit."""
        return self.inner.misfit()

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the inner emulator's predictions."""
        return self.inner.predict(x)

    def doubt(self, x: FloatArray) -> FloatArray | None:
        """Return the inner emulator's doubt."""
        return self.inner.doubt(x)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return the inner emulator's leave-one-out risks and squared residuals."""
        return self.inner.leave_one_out()

    def predict_outliers(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the inner emulator's risks and squared residuals of runs not trained on."""
        return self.inner.predict_outliers(rows)

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Return the inner emulator's moments."""
        return self.inner.moments(whitening)

    def expand(self, whitening: NormalWhitening) -> Expansion | None:
        """Return the inner emulator's expansion."""
        return self.inner.expand(whitening)
