"""Losses of residuals: how wrong a simulation is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from supac.arrays import FloatArray, positive
from supac.codec import register
from supac.problem.selectable import Selectable, option

_STEP = 1e-5  # of a central difference


class ResidualLoss(Selectable, ABC):
    """Loss of residuals; `class Huber(ResidualLoss, kind="huber")` adds one to problem files."""

    ceiling: ClassVar[float | None] = None
    """Largest possible risk, if every datum has its largest loss; None if there is none."""
    unbounded: ClassVar[str] = ""
    """Reason why there is no certificate, if the loss can have no ceiling."""
    root: ClassVar[bool] = False
    """True if the loss is the root of a mean over the data."""

    @property
    def flat_from(self) -> float | None:
        """Residual from which the loss of a datum is flat; None if it never is."""
        return None

    def each(self, residuals: FloatArray) -> FloatArray | None:
        """Compute the loss of each datum, (n, m) → (n, m): the loss is their mean, or its root.

        PAC-Bayes bounds are on such means: without `each` there is no certificate.
        """
        return None

    def slopes(self, residuals: FloatArray) -> FloatArray | None:
        """Compute the derivative of the loss in each residual, (n, m) → (n, m), from `each`."""
        slopes = self.slope_of_each(residuals)
        if slopes is None:
            return None
        many = float(residuals.shape[1])
        if self.root:
            return np.asarray(slopes / np.maximum(2.0 * many * self(residuals), 1e-300)[:, None])
        return np.asarray(slopes / many)

    def slope_of_each(self, residuals: FloatArray) -> FloatArray | None:
        """Compute the derivative of `each`, (n, m) → (n, m), by default from differences."""
        step = _STEP * (1.0 + np.abs(residuals))
        above, below = self.each(residuals + step), self.each(residuals - step)
        return None if above is None or below is None else (above - below) / (2.0 * step)

    @abstractmethod
    def __call__(self, residuals: FloatArray) -> FloatArray:
        """Compute the loss of each run: (n, m) → (n,)."""


def as_residual_loss(loss: object) -> ResidualLoss | None:
    """Return a loss of residuals; None for a function of the user's own."""
    return loss if isinstance(loss, ResidualLoss) else None


def reason_of_no_ceiling(loss: object) -> str:
    """Return why a loss can have no certificate; "" if it can, as far as it says."""
    return str(getattr(loss, "unbounded", ""))


class SquareLoss(ResidualLoss):
    """A loss that depends on the residuals (n, m) through their mean square alone.

    Then its mean over the emulator's uncertainty costs nothing, however many outputs there are.
    """

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """(n, m) → (n,)."""
        return self.of_mean_square(np.einsum("ij,ij->i", residuals, residuals) / residuals.shape[1])

    @abstractmethod
    def of_mean_square(self, mean_square: FloatArray) -> FloatArray:
        """The loss where the residuals have this mean square: (n,) → (n,)."""


@register
class MeanSquare(SquareLoss, kind="mean-square"):
    """The mean of the squared residuals."""

    def each(self, residuals: FloatArray) -> FloatArray:
        """Compute the squares."""
        return residuals**2

    def slope_of_each(self, residuals: FloatArray) -> FloatArray:
        """Compute the derivatives of the squares."""
        return 2.0 * residuals

    def of_mean_square(self, mean_square: FloatArray) -> FloatArray:
        """The identity."""
        return mean_square


@register
class RootMeanSquare(SquareLoss, kind="root-mean-square"):
    """The root of the mean of the squared residuals."""

    root = True

    def each(self, residuals: FloatArray) -> FloatArray:
        """Compute the squares."""
        return residuals**2

    def slope_of_each(self, residuals: FloatArray) -> FloatArray:
        """Compute the derivatives of the squares."""
        return 2.0 * residuals

    def of_mean_square(self, mean_square: FloatArray) -> FloatArray:
        """The square root."""
        return np.sqrt(mean_square)


_IS_ONE = 100.0  # widths: the loss is 1 to the last digit, and squares do not overflow


@register
@dataclass(frozen=True)
class Welsch(ResidualLoss, kind="welsch"):
    """The mean of 1 − exp(−½ (r/width)²) over the residuals r, each between 0 and 1.

    A residual well above `width` counts as 1 whatever it is: outliers cost no more than that.
    """

    ceiling = 1.0
    width: float = field(default=3.0, metadata=option("the residual above which it flattens"))

    def __post_init__(self) -> None:
        positive(self.width, "width")

    @property
    def flat_from(self) -> float:
        """The width."""
        return self.width

    def each(self, residuals: FloatArray) -> FloatArray:
        """Compute the loss of each residual, in [0, 1]."""
        return -np.expm1(-0.5 * np.minimum(np.abs(residuals / self.width), _IS_ONE) ** 2)

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """(n, m) → (n,)."""
        return self.each(residuals).mean(axis=1)


@register
@dataclass(frozen=True)
class CappedSquare(ResidualLoss, kind="capped-square"):
    """The mean of min((r/cap)², 1) over the residuals r, each between 0 and 1."""

    ceiling = 1.0
    cap: float = field(default=3.0, metadata=option("the residual above which it is 1"))

    def __post_init__(self) -> None:
        positive(self.cap, "cap")

    @property
    def flat_from(self) -> float:
        """The cap."""
        return self.cap

    def each(self, residuals: FloatArray) -> FloatArray:
        """Compute the loss of each residual, in [0, 1]."""
        return np.minimum(np.abs(residuals / self.cap), 1.0) ** 2

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """(n, m) → (n,)."""
        return self.each(residuals).mean(axis=1)
