"""Measurements of sums and products of simulated terms and observation parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.codec import register
from supac.problem.composite import Observations, ResidualLoss
from supac.problem.likelihood import Measurements


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
    def loss(self) -> CombinedLikelihood:
        """Minus the mean log-likelihood of a measurement, of terms and observation parameters."""
        return CombinedLikelihood(self.measurements.loss, self)

    @cached_property
    def _logarithmic(self) -> BoolArray:
        return self.floors > 0.0

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Return the terms as they are emulated: (…, terms) → (…, terms)."""
        if outputs.shape[-1] != len(self.floors):
            wanted = len(self.floors)
            raise ValueError(f"the simulator returned {outputs.shape[-1]} numbers, not {wanted}")
        seen = np.array(outputs, dtype=np.float64)
        chosen = self._logarithmic
        seen[..., chosen] = np.log(np.maximum(seen[..., chosen], self.floors[chosen]))
        return seen

    def simulated(self, seen: FloatArray) -> FloatArray:
        """Return the terms, given as they are emulated: the inverse of `residuals`."""
        terms = np.array(seen, dtype=np.float64)
        terms[..., self._logarithmic] = np.exp(terms[..., self._logarithmic])
        return terms

    def combine(self, terms: FloatArray, z: FloatArray) -> FloatArray:
        """Return values and noise levels: (n, terms) and (n, parameters) → (n, rows + levels)."""
        products = np.ones((len(z), len(self.powers)))
        with np.errstate(all="ignore"):
            for i, j in zip(*np.nonzero(self.powers), strict=True):
                products[:, i] *= z[:, j] ** self.powers[i, j]
        # Term −1 is the last column: 1.
        every = np.concatenate([terms, np.ones((len(terms), 1))], axis=1)
        parts = every[:, self.terms] * products[:, self.products] * self.factors
        starts = np.flatnonzero(np.diff(self.places, prepend=-1))
        return np.asarray(np.add.reduceat(parts, starts, axis=1))

    def table(self, outputs: FloatArray | None) -> tuple[Observations, FloatArray | None]:
        """Return the measurements as columns, a row for each time, and so the outputs.

        Outputs are terms, followed by the observation parameters.
        """
        if outputs is None:
            return self.measurements.table(None)
        count = len(self.floors)
        return self.measurements.table(self.combine(outputs[:, :count], outputs[:, count:]))


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

    def __call__(self, seen: FloatArray, z: FloatArray) -> FloatArray:
        """(n, terms) and (n, parameters) → (n,)."""
        assert self.data is not None
        outputs = self.data.combine(self.data.simulated(seen), z)
        return np.asarray(self.likelihood(self.data.measurements.residuals(outputs)))
