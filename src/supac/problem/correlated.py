"""Errors of measurements that are correlated in time, with parameters that need no run.

Standardised residuals u = (observed − measured)/s, with the spread s of a measurement, have the
covariance C. Minus the mean log-likelihood is (½ uᵀC⁻¹u + ½ log|C|)/m + mean log s, up to a
constant; the last term is that of independent errors, and is added by `ColumnLoss`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.codec import register
from supac.problem.correlations import BENDS, SLOPES, Correlation
from supac.problem.fields import COVARIANCES
from supac.problem.reduced_memory import ReducedMemory, correlation_of_steps, few_steps
from supac.problem.shared_factors import SharedFactors

_CELLS = 4_000_000  # numbers in the matrices of as many points as are treated at once
_STEP = 1e-5  # relative, for differences


class Spread(NamedTuple):
    """Standard errors of measurements: noise · level."""

    noise: FloatArray
    """(m,)."""
    level: FloatArray
    """(n, m); the same within a series, as a rule."""

    @property
    def total(self) -> FloatArray:
        """Return noise · level: (n, m)."""
        return self.noise * self.level


class ErrorSlopes(NamedTuple):
    """Derivatives of the mean in residuals (n, m), in levels (n, m), and in z (n, parameters).

    Where the levels of a series are the same, only the sum of their derivatives is right.
    """

    by_residual: FloatArray
    by_level: FloatArray
    by_z: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrelatedErrors(ABC):
    """Errors that are correlated within each series: a column of an experiment."""

    series: IntArray
    """Number of the series of each cell of the data: (rows · columns,)."""
    times: FloatArray
    """Time of each cell."""

    def __post_init__(self) -> None:
        for each in fields(self):
            given = getattr(self, each.name)
            if each.name in ("zero_at", "flat_at"):
                continue
            if each.name == "times":
                object.__setattr__(self, "times", frozen(np.array(given, dtype=np.float64)))
            elif isinstance(given, list | tuple | np.ndarray):
                object.__setattr__(self, each.name, np.array(given, dtype=np.intp))

    def at(self, seen: BoolArray) -> Self:
        """Return the errors of some cells."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        some = {n: a[seen] for n, a in arrays.items() if isinstance(a, np.ndarray)}
        changed: dict[str, Any] = some
        return replace(self, **changed)

    def _parts(self) -> Iterator[IntArray]:
        """Yield the places of the cells of each series, in the order of time."""
        for name in np.unique(self.series):
            yield self.in_time(np.flatnonzero(self.series == name))

    def in_time(self, cells: IntArray) -> IntArray:
        """Return the cells of a series in the order of time."""
        return np.asarray(cells[np.argsort(self.times[cells], kind="stable")])

    @property
    @abstractmethod
    def places(self) -> dict[str, IntArray]:
        """Places of the parameters of each cell among z, −1 for none, by their role."""

    @abstractmethod
    def is_reducible(self, cells: IntArray) -> bool:
        """Return True if quadratic forms of a series cost less than its residuals."""

    @abstractmethod
    def reduced(
        self, cells: IntArray, noise: FloatArray, matrix: FloatArray
    ) -> tuple[ReducedMemory | None, SharedFactors | None]:
        """Return the forms of residuals u = matrix·f of cells in the order of time."""

    @abstractmethod
    def value(self, residuals: FloatArray, spread: Spread, z: FloatArray) -> FloatArray:
        """Compute (½ uᵀC⁻¹u + ½ log|C|)/m at residuals u (n, m): (n,)."""

    @abstractmethod
    def slopes(self, residuals: FloatArray, spread: Spread, z: FloatArray) -> ErrorSlopes:
        """Compute its derivatives."""


@register
@dataclass(frozen=True, eq=False, kw_only=True)
class Autoregressive(CorrelatedErrors):
    """Errors that forget their past: corr(u_i, u_j) = exp(−|t_i − t_j|/τ), AR(1) at even times.

    The innovations (u_i − φ u_i−1)/√(1 − φ²), φ = exp(−Δt/τ), are independent, so that a value
    costs no more than that of independent errors.
    """

    memories: IntArray
    """Place of the parameter τ of each cell among z; −1 for independent errors."""

    @property
    def places(self) -> dict[str, IntArray]:
        """Return the places of the memories."""
        return {"memories": self.memories}

    def is_reducible(self, cells: IntArray) -> bool:
        """Return True for few different steps of time."""
        return self.memories[cells[0]] < 0 or few_steps(self.times[cells])

    def reduced(
        self, cells: IntArray, noise: FloatArray, matrix: FloatArray
    ) -> tuple[ReducedMemory | None, SharedFactors | None]:
        """Return sums of products of neighbours."""
        if self.memories[cells[0]] < 0 or len(cells) < 2:
            return None, None
        return ReducedMemory.of(self.times[cells], matrix), None

    def _steps(self, part: IntArray, z: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return φ and dφ/dτ of a series: (n, steps); None where errors are independent."""
        place = int(self.memories[part[0]])
        if place < 0 or len(part) < 2:
            return None
        return correlation_of_steps(np.diff(self.times[part]), z[:, place])

    def value(self, residuals: FloatArray, spread: Spread, z: FloatArray) -> FloatArray:
        """(n, m), (n, m) and (n, parameters) → (n,)."""
        total = np.zeros(len(residuals))
        for part in self._parts():
            u, steps = residuals[:, part], self._steps(part, z)
            if steps is None:
                total += np.einsum("ij,ij->i", u, u)
                continue
            rest = 1.0 - steps[0] ** 2
            new = u[:, 1:] - steps[0] * u[:, :-1]
            total += u[:, 0] ** 2 + (new**2 / rest + np.log(rest)).sum(axis=1)
        return np.asarray(0.5 * total / residuals.shape[1])

    def slopes(self, residuals: FloatArray, spread: Spread, z: FloatArray) -> ErrorSlopes:
        """Compute the derivatives in residuals, levels (0), and z."""
        by_u, by_z = np.zeros(residuals.shape), np.zeros(z.shape)
        for part in self._parts():
            u, steps = residuals[:, part], self._steps(part, z)
            if steps is None:
                by_u[:, part] = u
                continue
            phi, rise = steps
            rest = 1.0 - phi**2
            new = u[:, 1:] - phi * u[:, :-1]
            own = np.zeros(u.shape)
            own[:, 0] = u[:, 0]
            own[:, 1:] += new / rest
            own[:, :-1] -= phi * new / rest
            by_u[:, part] = own
            by_phi = -u[:, :-1] * new / rest + phi * new**2 / rest**2 - phi / rest
            place = int(self.memories[part[0]])
            by_z[:, place] += (by_phi * rise).sum(axis=1)
        m = residuals.shape[1]
        return ErrorSlopes(by_u / m, np.zeros(residuals.shape), by_z / m)


@register(later=("zero_at", "flat_at"))
@dataclass(frozen=True, eq=False, kw_only=True)
class Discrepancy(CorrelatedErrors):
    """A smooth difference b(t) of the model from the truth beside independent noise.

    b is a Gaussian process with mean 0, standard deviation a and correlation ρ(|t − t'|/ℓ): so C =
    1 + a² ρ/(s sᵀ) in each series (Kennedy and O'Hagan, 2001). Points share decompositions of ρ for
    lengths of a grid, if the noise of a series has one level.
    """

    amplitudes: IntArray
    """Place of the parameter a of each cell among z, in the unit of the column; −1 for none."""
    lengths: IntArray
    """Place of ℓ, in the unit of the times."""
    covariance: str = "squared-exponential"
    """Name of ρ, as for fields."""
    zero_at: tuple[float, ...] = ()
    """Times at which b is known to be 0, in every series."""
    flat_at: tuple[float, ...] = ()
    """Times at which its slope is known to be 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("zero_at", "flat_at"):
            object.__setattr__(self, name, tuple(map(float, getattr(self, name))))
        if self.flat_at and self.covariance not in BENDS:
            raise ValueError(
                f"flat_at needs a covariance with slopes, such as {', '.join(BENDS)}, not "
                f"{self.covariance!r}"
            )

    @property
    def correlation(self) -> Correlation:
        """Correlations of b, given what is known of it."""
        return Correlation(self.covariance, self.zero_at, self.flat_at)

    @property
    def places(self) -> dict[str, IntArray]:
        """Return the places of amplitudes and lengths."""
        return {"amplitudes": self.amplitudes, "lengths": self.lengths}

    def is_reducible(self, cells: IntArray) -> bool:
        """Return True."""
        return True

    def reduced(
        self, cells: IntArray, noise: FloatArray, matrix: FloatArray
    ) -> tuple[ReducedMemory | None, SharedFactors | None]:
        """Return shared decompositions of the correlations."""
        return None, None if self.amplitudes[cells[0]] < 0 else self.shared(cells, noise)

    def value(self, residuals: FloatArray, spread: Spread, z: FloatArray) -> FloatArray:
        """(n, m), (n, m) and (n, parameters) → (n,)."""
        total = np.zeros(len(residuals))
        for part in self._parts():
            u = residuals[:, part]
            if self.amplitudes[part[0]] < 0:
                total += np.einsum("ij,ij->i", u, u)
            elif (shared := self._shared_at(part, spread)) is not None:
                total += shared.terms(u, *self._ratio_and_length(part, spread, z)).value
            else:
                for rows in self._pieces(part, len(u)):
                    total[rows] += self._dense_value(part, rows, u[rows], spread, z)
        return np.asarray(0.5 * total / residuals.shape[1])

    def slopes(self, residuals: FloatArray, spread: Spread, z: FloatArray) -> ErrorSlopes:
        """Compute the derivatives."""
        by_u, by_level = np.zeros(residuals.shape), np.zeros(residuals.shape)
        by_z = np.zeros(z.shape)
        for part in self._parts():
            u = residuals[:, part]
            if self.amplitudes[part[0]] < 0:
                by_u[:, part] = u
            elif (shared := self._shared_at(part, spread)) is not None:
                ratio, length = self._ratio_and_length(part, spread, z)
                found = shared.terms(u, ratio, length)
                level, half = spread.level[:, part[0]], 0.5 * found.by_ratio
                by_u[:, part] = 0.5 * found.by_residual
                by_level[:, part] = (-half * ratio / level / len(part))[:, None]
                by_z[:, int(self.amplitudes[part[0]])] += half / level
                by_z[:, int(self.lengths[part[0]])] += 0.5 * found.by_length
            else:
                for rows in self._pieces(part, len(u)):
                    at = np.ix_(rows, part)
                    found_here = self._dense_slopes(part, rows, u[rows], spread, z)
                    by_u[at], by_level[at] = found_here.by_residual, found_here.by_level
                    by_z[rows] += found_here.by_z
        m = residuals.shape[1]
        return ErrorSlopes(by_u / m, by_level / m, by_z / m)

    def _shared_at(self, part: IntArray, spread: Spread) -> SharedFactors | None:
        """Return what points share of a series; None if its noise has several levels."""
        if (spread.level[:, part] != spread.level[:, part[:1]]).any():
            return None
        return self.shared(part, spread.noise[part])

    def shared(self, part: IntArray, noise: FloatArray) -> SharedFactors:
        """Return the decompositions of a series with this noise, but for its level."""
        key = (part.tobytes(), noise.tobytes())
        if key not in self._factors:
            self._factors[key] = SharedFactors(self.times[part], noise, self.correlation)
        return self._factors[key]

    @cached_property
    def _factors(self) -> dict[tuple[bytes, bytes], SharedFactors]:
        return {}

    def _ratio_and_length(
        self, part: IntArray, spread: Spread, z: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return amplitude over noise level and length of a series at each point: (n,), (n,)."""
        amplitude = z[:, int(self.amplitudes[part[0]])]
        return amplitude / spread.level[:, part[0]], z[:, int(self.lengths[part[0]])]

    def _dense_value(
        self, part: IntArray, rows: IntArray, u: FloatArray, spread: Spread, z: FloatArray
    ) -> FloatArray:
        """Compute uᵀC⁻¹u + log|C| of a series at some points, from C itself."""
        factor = np.linalg.cholesky(self._matrix(part, spread.total[rows], z[rows])[0])
        white = np.linalg.solve(factor, u[:, :, None])[:, :, 0]
        logarithm = 2.0 * np.log(np.einsum("ijj->ij", factor)).sum(axis=1)
        return np.asarray(np.einsum("ij,ij->i", white, white) + logarithm)

    def _dense_slopes(
        self, part: IntArray, rows: IntArray, u: FloatArray, spread: Spread, z: FloatArray
    ) -> ErrorSlopes:
        """Compute the derivatives of half of it: in θ ½ tr((C⁻¹ − C⁻¹uuᵀC⁻¹) ∂C/∂θ)."""
        own, by_z = z[rows], np.zeros((len(rows), z.shape[1]))
        whole, smooth = self._matrix(part, spread.total[rows], own)
        inverse = np.linalg.inv(whole)
        weighed = np.einsum("ijk,ik->ij", inverse, u)
        change = inverse - weighed[:, :, None] * weighed[:, None, :]
        # C − 1 is proportional to a², and to 1/s in its rows and in its columns.
        by_level = -np.einsum("ijk,ijk->ij", change, smooth) / spread.level[np.ix_(rows, part)]
        place, length = int(self.amplitudes[part[0]]), int(self.lengths[part[0]])
        by_z[:, place] = np.einsum("ijk,ijk->i", change, smooth) / own[:, place]
        share = own[:, place][:, None] / spread.total[rows][:, part]
        bend = self._slopes_in_length(part, own) * (share[:, :, None] * share[:, None, :])
        by_z[:, length] += 0.5 * np.einsum("ijk,ijk->i", change, bend)
        return ErrorSlopes(weighed, by_level, by_z)

    def _pieces(self, part: IntArray, count: int) -> Iterator[IntArray]:
        """Yield as many of the points as fit into memory."""
        many = max(_CELLS // max(len(part) ** 2, 1), 1)
        for first in range(0, count, many):
            yield np.arange(first, min(first + many, count))

    def _matrix(
        self, part: IntArray, spread: FloatArray, z: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return C and C − 1 of a series at each point: (n, k, k)."""
        share = z[:, int(self.amplitudes[part[0]])][:, None] / spread[:, part]
        smooth = self._correlations(part, z[:, int(self.lengths[part[0]])])
        smooth = smooth * (share[:, :, None] * share[:, None, :])
        return smooth + np.eye(len(part)), smooth

    def _correlations(self, part: IntArray, lengths: FloatArray) -> FloatArray:
        """Return the correlations of b in a series for each length: (n, k, k)."""
        times, own = self.times[part], self.correlation
        if own.is_free:
            distance = np.abs(times[:, None] - times)
            return COVARIANCES[self.covariance](distance / lengths[:, None, None])
        return np.array([own.between(times, times, float(each)) for each in lengths])

    def _slopes_in_length(self, part: IntArray, z: FloatArray) -> FloatArray:
        """Return the derivatives of the correlations in the length: (n, k, k)."""
        times, length = self.times[part], z[:, int(self.lengths[part[0]])]
        if self.correlation.is_free:
            scaled = np.abs(times[:, None] - times) / length[:, None, None]
            return -SLOPES[self.covariance](scaled) * scaled / length[:, None, None]
        ends = [self._correlations(part, length * (1.0 + sign * _STEP)) for sign in (1.0, -1.0)]
        return np.asarray((ends[0] - ends[1]) / (2.0 * _STEP * length)[:, None, None])
