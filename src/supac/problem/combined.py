"""Measurements of sums and products of simulated terms and observation parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.codec import register
from supac.problem.data import Observations, told_apart
from supac.problem.likelihood import Measurements
from supac.problem.losses import ResidualLoss

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@register
@dataclass(frozen=True, eq=False)
class CombinedMeasurements:
    """Measurements whose values and noise levels are combined from simulated terms.

    A run returns terms t, and observation parameters z follow them. What `measurements` take,
    values and noise levels, are sums over their parts,

        Σ factor · t · Π zⱼ^powerⱼ,

    so that scales, offsets and noise levels need no run.
    """

    measurements: Measurements
    places: IntArray
    """Index of the value or level that a part belongs to, in ascending order: (parts,)."""
    terms: IntArray
    """Index of the part's simulated term, −1 for 1: (parts,)."""
    factors: FloatArray
    """(parts,)."""
    products: IntArray
    """Index of the part's product of observation parameters: (parts,)."""
    powers: FloatArray
    """Exponents of the observation parameters in each product: (products, parameters)."""
    floors: FloatArray
    """Least values of terms that are emulated as logarithms; 0 for all others: (terms,)."""

    def __post_init__(self) -> None:
        for name in ("places", "terms", "products"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.intp))
        for name in ("factors", "powers", "floors"):
            given = np.array(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, frozen(given))

    def __repr__(self) -> str:
        return f"{self.measurements!r} of {len(self.floors)} simulated terms"

    @property
    def measured(self) -> int:
        """Number of measurements."""
        return self.measurements.measured

    @property
    def observation(self) -> int:
        """Number of observation parameters."""
        return self.powers.shape[1]

    @property
    def output_names(self) -> list[str]:
        """Name of each simulated term: that of the first value or noise level it is a part of."""
        places = dict(zip(self.terms[::-1].tolist(), self.places[::-1].tolist(), strict=True))
        names = self.measurements.output_names
        return told_apart(names[places[term]] for term in range(len(self.floors)))

    @property
    def loss(self) -> CombinedLikelihood:
        """Minus the mean log-likelihood of a measurement, of terms and observation parameters."""
        return CombinedLikelihood(self.measurements.loss, self)

    @cached_property
    def logarithmic(self) -> BoolArray:
        """True for terms that are emulated as logarithms: (terms,)."""
        return self.floors > 0.0

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Return the terms as they are emulated: (…, terms) → (…, terms)."""
        if outputs.shape[-1] != len(self.floors):
            wanted = len(self.floors)
            raise ValueError(f"the simulator returned {outputs.shape[-1]} numbers, not {wanted}")
        seen = np.array(outputs, dtype=np.float64)
        chosen = self.logarithmic
        seen[..., chosen] = np.log(np.maximum(seen[..., chosen], self.floors[chosen]))
        return seen

    def tangents(self, outputs: FloatArray, changes: FloatArray) -> FloatArray:
        """Compute how residuals change with the terms: (n, terms) → (n, terms)."""
        chosen, terms = self.logarithmic, np.asarray(outputs)
        rise = np.where(chosen & (terms <= self.floors), 0.0, 1.0)
        return np.asarray(changes * rise / np.where(chosen & (rise > 0.0), terms, 1.0))

    def simulated(self, seen: FloatArray) -> FloatArray:
        """Return the terms, given as they are emulated: the inverse of `residuals`."""
        terms = np.array(seen, dtype=np.float64)
        terms[..., self.logarithmic] = np.exp(terms[..., self.logarithmic])
        return terms

    def combine(self, terms: FloatArray, z: FloatArray) -> FloatArray:
        """Return values and noise levels: (n, terms) and (n, parameters) → (n, rows + levels)."""
        products = self._products(z)
        parts = self._in_parts(terms) * products[:, self.products] * self.factors
        starts = np.flatnonzero(np.diff(self.places, prepend=-1))
        return np.asarray(np.add.reduceat(parts, starts, axis=1))

    def spread(self, errors: FloatArray, z: FloatArray) -> FloatArray:
        """Return the deviations of values and noise levels from those of independent terms."""
        # Term −1 is the number 1, which has no error.
        every = np.concatenate([errors, np.zeros((len(errors), 1))], axis=1)[:, self.terms]
        parts = (every * self._products(z)[:, self.products] * self.factors) ** 2
        starts = np.flatnonzero(np.diff(self.places, prepend=-1))
        return np.asarray(np.sqrt(np.add.reduceat(parts, starts, axis=1)))

    def _products(self, z: FloatArray) -> FloatArray:
        """Return the products of observation parameters: (n, products)."""
        products = np.ones((len(z), len(self.powers)))
        with np.errstate(all="ignore"):
            for i, j in zip(*np.nonzero(self.powers), strict=True):
                products[:, i] *= z[:, j] ** self.powers[i, j]
        return products

    def _slope_of_product(self, z: FloatArray, i: int, j: int) -> FloatArray:
        """Compute the derivative of product i in observation parameter j: (n,)."""
        powers = self.powers[i]
        others = [k for k in np.flatnonzero(powers) if k != j]
        with np.errstate(all="ignore"):
            rest = np.prod(z[:, others] ** powers[others], axis=1)
            return np.asarray(powers[j] * z[:, j] ** (powers[j] - 1.0) * rest)

    def _in_parts(self, terms: FloatArray) -> FloatArray:
        """Return the term of each part: (n, terms) → (n, parts)."""
        # Term −1 is the last column: 1.
        every = np.concatenate([terms, np.ones((len(terms), 1))], axis=1)
        return np.asarray(every[:, self.terms])

    def pull_back(
        self, by_outputs: FloatArray, terms: FloatArray, z: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Turn derivatives in what `combine` returns into those in the terms and in z."""
        by_part = by_outputs[:, self.places] * self.factors
        in_terms, in_products = self._sums
        by_term = (in_terms @ (by_part * self._products(z)[:, self.products]).T).T
        by_product = (in_products @ (by_part * self._in_parts(terms)).T).T
        by_z = np.zeros(z.shape)
        for i, j in zip(*np.nonzero(self.powers), strict=True):
            by_z[:, j] += by_product[:, i] * self._slope_of_product(z, i, j)
        return np.asarray(by_term), by_z

    @cached_property
    def _sums(self) -> tuple[csr_array, csr_array]:
        """Matrices that sum parts by their terms and by their products; term −1 is left out."""
        return _sums_of(self.terms, len(self.floors)), _sums_of(self.products, len(self.powers))

    def table(self, outputs: FloatArray | None) -> tuple[Observations, FloatArray | None]:
        """Return the measurements as columns, a row for each time, and so the outputs.

        Outputs are terms, followed by the observation parameters.
        """
        if outputs is None:
            return self.measurements.table(None)
        count = len(self.floors)
        return self.measurements.table(self.combine(outputs[:, :count], outputs[:, count:]))


def _sums_of(places: IntArray, count: int) -> csr_array:
    """Make the matrix that sums columns by their places; those at −1 are left out."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

    kept = np.flatnonzero(places >= 0)
    return csr_array((np.ones(len(kept)), (places[kept], kept)), shape=(count, len(places)))


@register(arguments=("likelihood",))
@dataclass(frozen=True, eq=False)
class CombinedLikelihood:
    """Minus the mean log-likelihood of measurements that are combined from simulated terms."""

    likelihood: ResidualLoss
    """That of values and noise levels."""
    data: CombinedMeasurements | None = None
    """None in a store, which has them apart."""

    def __repr__(self) -> str:
        return f"{self.likelihood!r} of combined terms"

    @property
    def unbounded(self) -> str:
        """Reason why there is no certificate."""
        return self.likelihood.unbounded

    @property
    def in_words(self) -> str:
        """The loss as it is told in reports."""
        return str(getattr(self.likelihood, "in_words", self.likelihood))

    def for_data(self, data: CombinedMeasurements) -> CombinedLikelihood:
        """Return the loss with its data, which a store has apart."""
        return replace(self, data=data)

    def __call__(self, seen: FloatArray, z: FloatArray) -> FloatArray:
        """(n, terms) and (n, parameters) → (n,)."""
        assert self.data is not None
        outputs = self.data.combine(self.data.simulated(seen), z)
        return np.asarray(self.likelihood(self.data.measurements.residuals(outputs)))

    def slopes(self, seen: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Compute the derivatives in the terms, as they are emulated, and in z."""
        assert self.data is not None
        terms = self.data.simulated(seen)
        outputs, measurements = self.data.combine(terms, z), self.data.measurements
        by_residuals = self.likelihood.slopes(measurements.residuals(outputs))
        if by_residuals is None:
            return None
        by_outputs = by_residuals * measurements.slopes(outputs)
        by_term, by_z = self.data.pull_back(by_outputs, terms, z)
        return by_term * np.where(self.data.logarithmic, terms, 1.0), by_z
