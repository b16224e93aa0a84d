"""Parameters that are a field: a value at each point of a grid, correlated by their distance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from supac.arrays import FloatArray, positive, vector, whole
from supac.codec import register
from supac.families.family import check_dim
from supac.problem.marginals import Marginal


def _matern32(r: FloatArray) -> FloatArray:
    return np.asarray((1.0 + math.sqrt(3.0) * r) * np.exp(-math.sqrt(3.0) * r))


def _matern52(r: FloatArray) -> FloatArray:
    scaled = math.sqrt(5.0) * r
    return np.asarray((1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled))


COVARIANCES: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "exponential": lambda r: np.exp(-r),
    "matern32": _matern32,
    "matern52": _matern52,
    "squared-exponential": lambda r: np.exp(-0.5 * r**2),
}
"""Correlations as functions of distance over length, from the roughest to the smoothest."""

Axis = int | tuple[float, ...]


@register
@dataclass(frozen=True)
class Field:
    """A parameter at each point of a grid: one prior for all, correlations by distance.

    The latent values u of the points are N(0, C), C_ij = (1 − nugget) ρ(r_ij) + nugget·1[i = j],
    where r is the distance in units of `length`; the values are x(u), as the prior says.

    Parameters
    ----------
    prior
        Prior of the value at each point, such as `LogNormal(1e-4, 1.0)`.
    grid
        For each axis the number of its points, which are the centres of as many equal cells of
        (0, 1), or their coordinates.
    length
        Distance over which values are alike, in the unit of the coordinates; one number, or one
        for each axis.
    covariance
        "exponential", "matern32", "matern52" or "squared-exponential": from rough to smooth.
    nugget
        Fraction of the variance that is independent from point to point. A little of it keeps
        smooth fields on fine grids computable.

    """

    prior: Marginal
    grid: int | Sequence[int | Sequence[float]]
    length: float | Sequence[float]
    covariance: str = "matern32"
    nugget: float = 1e-6

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Marginal):
            raise TypeError(f"prior must be a marginal such as Normal(0.0, 1.0), not {self.prior}")
        axes = self.grid if isinstance(self.grid, Sequence) else (self.grid,)
        object.__setattr__(self, "grid", tuple(_axis(each) for each in axes))
        if not self._grid:
            raise ValueError("grid must have at least one axis, such as grid=(20, 10)")
        check_dim(math.prod(self.shape), "number of points")
        if self.covariance not in COVARIANCES:
            known = ", ".join(COVARIANCES)
            raise ValueError(f"covariance must be one of {known}, not {self.covariance!r}")
        object.__setattr__(self, "length", self._checked_length())
        if not 0.0 <= self.nugget < 1.0:
            raise ValueError(f"nugget must be from 0 to below 1, not {self.nugget!r}")

    def _checked_length(self) -> float | tuple[float, ...]:
        if not isinstance(self.length, Sequence | np.ndarray):
            return positive(self.length, "length")
        axes = len(self._grid)
        if len(self.length) != axes:
            raise ValueError(f"length must be one number or {axes}, one an axis: {self.length!r}")
        return tuple(positive(each, "length") for each in self.length)

    @property
    def _grid(self) -> tuple[Axis, ...]:
        """The axes once they are checked."""
        return cast("tuple[Axis, ...]", self.grid)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of points along each axis."""
        return tuple(each if isinstance(each, int) else len(each) for each in self._grid)

    @property
    def axes(self) -> tuple[FloatArray, ...]:
        """Coordinates of the points along each axis."""
        return tuple(
            (np.arange(each) + 0.5) / each if isinstance(each, int) else np.array(each)
            for each in self._grid
        )

    @property
    def correlation(self) -> FloatArray:
        """Compute the prior's correlations of the latent values, points in row-major order."""
        corners = np.meshgrid(*self.axes, indexing="ij")
        places = np.stack([each.ravel() for each in corners], axis=1) / np.asarray(self.length)
        square = np.zeros((len(places), len(places)))
        for column in places.T:
            square += np.subtract.outer(column, column) ** 2
        between = (1.0 - self.nugget) * COVARIANCES[self.covariance](np.sqrt(square))
        return between + self.nugget * np.eye(len(places))

    def names(self, name: str) -> npt.NDArray[np.str_]:
        """Return the name of each point of a field, such as `k[3,2]`, in the field's shape."""
        indices = (",".join(map(str, each)) for each in np.ndindex(self.shape))
        return np.array([f"{name}[{each}]" for each in indices]).reshape(self.shape)


def _axis(given: Any) -> Axis:
    """Return the number of points of an axis, or their coordinates."""
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        places = vector(given, "grid")
        if not len(places) or (np.diff(places) <= 0.0).any():
            raise ValueError(f"the coordinates of an axis must increase, not {given!r}")
        return tuple(places.tolist())
    return whole(given, "number of points of an axis", least=1)
