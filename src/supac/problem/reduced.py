"""The likelihood of long series, where outputs depend on a few numbers linearly.

With outputs origin + basis·c, the residuals of a series are linear in features f of the few numbers
c and of scale and offset, u = B f/level. So uᵀC⁻¹u is a quadratic form in f, whose cost does not
depend on the number of measurements; and its expectation over normal errors of c is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.problem.columns import ColumnLoss
from supac.problem.reduced_memory import ReducedMemory
from supac.problem.shared_factors import Coordinates, SharedFactors


class ReducedSlopes(NamedTuple):
    """An expected risk (n,), and its derivatives in c (n, k), their variance (n,), and z."""

    risk: FloatArray
    by_numbers: FloatArray
    by_variance: FloatArray
    by_z: FloatArray


class _Form(NamedTuple):
    """Expected uᵀC⁻¹u + log|C| of a series at unit level, and its derivatives."""

    value: FloatArray
    by_features: FloatArray
    by_variance: FloatArray
    by_z: FloatArray


@dataclass(frozen=True, eq=False)
class _Series:
    """One series: its features are (a·c, a, b, 1), or (c, 1, log a) of logarithms."""

    count: int
    matrix: FloatArray
    """B: (count, features); errors of c move the first k."""
    places: dict[str, int]
    """Of its parameters among z, −1 for none."""
    logarithmic: bool
    memory: ReducedMemory | None = None
    smooth: SharedFactors | None = None

    @cached_property
    def gram(self) -> FloatArray:
        """Compute BᵀB."""
        return np.asarray(self.matrix.T @ self.matrix)

    @cached_property
    def _coordinates(self) -> Coordinates:
        """Return Bᵀ in the bases of smooth correlations: (features, size)."""
        assert self.smooth is not None
        factors = self.smooth
        return Coordinates(lambda size: factors.coordinates(self.matrix.T, size))

    def value(self, z: FloatArray, role: str, default: float) -> FloatArray:
        """Return a parameter of the series at points (n, parameters): (n,)."""
        place = self.places.get(role, -1)
        return np.full(len(z), default) if place < 0 else z[:, place]

    def add(self, by_z: FloatArray, role: str, slope: FloatArray) -> None:
        """Add the derivative in a parameter of the series, if it has one."""
        if self.places.get(role, -1) >= 0:
            by_z[:, self.places[role]] += slope

    def terms(self, c: FloatArray, variance: FloatArray, z: FloatArray) -> ReducedSlopes:
        """Compute the expectation of ½(uᵀC⁻¹u + log|C|) + Σ log level, and its derivatives."""
        scale, level = self.value(z, "scales", 1.0), self.value(z, "levels", 1.0)
        offset, one = self.value(z, "offsets", 0.0), np.ones(len(z))
        if self.logarithmic:
            parts, moved = [c, one[:, None], np.log(scale)[:, None]], one
        else:
            parts = [scale[:, None] * c, *(each[:, None] for each in (scale, offset, one))]
            moved = scale
        features = np.concatenate(parts, axis=1) / level[:, None]
        share = (moved / level) ** 2
        found = self._form(features, share * variance, level, z)
        k, by_z = c.shape[1], 0.5 * found.by_z
        by_f = 0.5 * found.by_features / level[:, None]
        wide = 0.5 * found.by_variance * variance * 2.0 * share  # d/d log(moved/level)
        if self.logarithmic:
            self.add(by_z, "scales", by_f[:, k + 1] / scale)
        else:
            along = np.einsum("ij,ij->i", by_f[:, :k], c) + by_f[:, k] + wide / scale
            self.add(by_z, "scales", along)
            self.add(by_z, "offsets", by_f[:, k + 1])
        fading = np.einsum("ij,ij->i", by_f, features) + wide / level
        self.add(by_z, "levels", self.count / level - fading)
        risk = 0.5 * found.value + self.count * np.log(level)
        return ReducedSlopes(
            risk, by_f[:, :k] * moved[:, None], 0.5 * share * found.by_variance, by_z
        )

    def _form(self, f: FloatArray, variance: FloatArray, level: FloatArray, z: FloatArray) -> _Form:
        k = self.matrix.shape[1] - (2 if self.logarithmic else 3)
        by_z = np.zeros(z.shape)
        if self.memory is not None:
            found = self.memory.terms(f, variance, k, self.value(z, "memories", 1.0))
            self.add(by_z, "memories", found.by_memory)
            return _Form(found.value, found.by_features, found.by_variance, by_z)
        along, trace = f @ self.gram, float(np.trace(self.gram[:k, :k]))
        value = np.einsum("ij,ij->i", along, f) + variance * trace
        by_variance, by_f = np.full(len(f), trace), 2.0 * along
        if self.smooth is None:
            return _Form(value, by_f, by_variance, by_z)
        own, errors = self._coordinates, Coordinates(lambda size: self._coordinates(size)[:k])
        amplitude, length = (self.value(z, role, 1.0) for role in ("amplitudes", "lengths"))
        ratio = amplitude / level
        smooth = self.smooth.smooth(
            Coordinates(lambda size: f @ own(size)), ratio, length, errors, variance
        )
        for size, slopes in smooth.by_coordinates.items():
            by_f += slopes @ own(size).T
        self.add(by_z, "amplitudes", smooth.by_ratio / level)
        self.add(by_z, "lengths", smooth.by_length)
        self.add(by_z, "levels", -smooth.by_ratio * ratio / level)
        return _Form(value + smooth.value, by_f, by_variance + smooth.by_variance, by_z)


@dataclass(frozen=True, eq=False)
class ReducedLikelihood:
    """A likelihood of outputs that are origin + basis·c, for few numbers c."""

    series: tuple[_Series, ...]
    count: int
    """Number of measurements."""

    def risk_and_slopes(self, c: FloatArray, variance: FloatArray, z: FloatArray) -> ReducedSlopes:
        """Compute the expected loss where c (n, k) have errors of a variance (n,) each."""
        parts = [each.terms(c, variance, z) for each in self.series]
        return ReducedSlopes(*(sum(every) / self.count for every in zip(*parts, strict=True)))


def reduced(loss: ColumnLoss, origin: FloatArray, basis: FloatArray) -> ReducedLikelihood:
    """Return the likelihood of residuals origin (m,) + basis (m, k)·c of what was simulated.

    The loss must be one that is reducible.
    """
    own = loss.measured
    made = [_series(own, cells, origin[cells], basis[cells]) for cells in own.series]
    return ReducedLikelihood(tuple(made), len(origin))


def _series(loss: ColumnLoss, cells: IntArray, origin: FloatArray, basis: FloatArray) -> _Series:
    errors = loss.errors
    places = {role: int(every[cells[0]]) for role, every in loss.places.items()}
    noise, one = loss.noise[cells], np.ones(len(cells))
    if loss.logarithmic:
        columns = [basis, origin[:, None], (one / noise)[:, None]]
    else:
        values = loss.values[cells] / noise
        columns = [basis, *(x[:, None] for x in (origin + values, one / noise, -values))]
    matrix = np.concatenate(columns, axis=1)
    forms = (None, None) if errors is None else errors.reduced(cells, noise, matrix)
    return _Series(len(cells), matrix, places, loss.logarithmic, *forms)
