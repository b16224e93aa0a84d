"""The mean of several emulators of the same runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from supac.arrays import FloatArray
from supac.emulator.base import FittedEmulator, WrappedEmulator
from supac.families import NormalWhitening


@dataclass(frozen=True, eq=False)
class AveragedEmulator(WrappedEmulator):
    """Average the risks that emulators with different hyperparameters predict.

    A few dozen runs do not determine the hyperparameters, and the most likely ones promise more
    than new runs keep. The average is the expected risk if each emulator may be the right one:
    what they disagree about counts as uncertain. The first, inner one screens the runs and
    chooses new ones.
    """

    others: tuple[FittedEmulator, ...]

    @classmethod
    def of(
        cls, members: tuple[FittedEmulator, ...], hyperparameters: Mapping[str, FloatArray]
    ) -> Self:
        """Return the average of emulators, with the hyperparameters of all of them."""
        first, *others = members
        return cls(first, tuple(others), process=first.process, hyperparameters=hyperparameters)

    @property
    def members(self) -> tuple[FittedEmulator, ...]:
        """Return all emulators."""
        return (self.inner, *self.others)

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""
        return np.asarray(np.mean([each.predict(x) for each in self.members], axis=0))

    def doubt(self, x: FloatArray) -> FloatArray | None:
        """Return the mean of what their own uncertainties add: (n, dim) → (n,)."""
        found = [known for each in self.members if (known := each.doubt(x)) is not None]
        return np.asarray(np.mean(found, axis=0)) if found else None

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Compute the mean risk, E[risk · features], and the share of variance they explain."""
        means, betas, explained = zip(
            *(each.moments(whitening) for each in self.members), strict=True
        )
        return float(np.mean(means)), np.mean(betas, axis=0), float(np.mean(explained))

    def expand(self, whitening: NormalWhitening) -> None:
        """Return None: only emulators of few parameters are averaged, by their moments."""
        return
