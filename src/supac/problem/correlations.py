"""Correlations of a discrepancy over time, given where it is known to be nothing, or flat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.problem.fields import COVARIANCES

_ROOT3, _ROOT5 = np.sqrt(3.0), np.sqrt(5.0)
_NOTHING = 1e-10  # added to the variances of what is known, which may say the same twice

SLOPES: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "exponential": lambda r: -np.exp(-r),
    "matern32": lambda r: -3.0 * r * np.exp(-_ROOT3 * r),
    "matern52": lambda r: -5.0 / 3.0 * r * (1.0 + _ROOT5 * r) * np.exp(-_ROOT5 * r),
    "squared-exponential": lambda r: -r * np.exp(-0.5 * r**2),
}
"""Derivatives of the correlations in distance over length."""
BENDS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "matern32": lambda r: -3.0 * (1.0 - _ROOT3 * r) * np.exp(-_ROOT3 * r),
    "matern52": lambda r: -5.0 / 3.0 * (1.0 + _ROOT5 * r - 5.0 * r**2) * np.exp(-_ROOT5 * r),
    "squared-exponential": lambda r: (r**2 - 1.0) * np.exp(-0.5 * r**2),
}
"""Second derivatives, of those that have slopes."""


@dataclass(frozen=True)
class Correlation:
    """Correlations ρ(|t − t'|/ℓ) of b, given b(c) = 0 and b'(c) = 0 at some times c.

    With the correlations k(t) of b(t) with what is known, and K within it, they are
    ρ − k(t)ᵀK⁻¹k(t').
    """

    name: str
    zero_at: tuple[float, ...] = ()
    flat_at: tuple[float, ...] = ()

    @property
    def is_free(self) -> bool:
        """Return True if nothing is known."""
        return not self.zero_at and not self.flat_at

    def between(self, t: FloatArray, s: FloatArray, length: float) -> FloatArray:
        """Return the correlations of b(t) and b(s): (n,) and (m,) → (n, m)."""
        found = COVARIANCES[self.name](np.abs(t[:, None] - s) / length)
        if self.is_free:
            return found
        first, second = self._with_known(t, length), self._with_known(s, length)
        return np.asarray(found - first @ np.linalg.solve(self._known(length), second.T))

    def variance(self, t: FloatArray, length: float) -> FloatArray:
        """Return the correlation of each b(t) with itself, from 0 to 1: (n,)."""
        if self.is_free:
            return np.ones(len(t))
        first = self._with_known(t, length)
        explained = first @ np.linalg.inv(self._known(length))
        return np.maximum(1.0 - np.einsum("ij,ij->i", explained, first), 0.0)

    def _with_known(self, t: FloatArray, length: float) -> FloatArray:
        """Return the correlations of b(t) with b and ℓ·b' where they are known: (n, known)."""
        plain = COVARIANCES[self.name](np.abs(t[:, None] - np.array(self.zero_at)) / length)
        apart = (t[:, None] - np.array(self.flat_at)) / length
        return np.concatenate([plain, -SLOPES[self.name](np.abs(apart)) * np.sign(apart)], axis=1)

    def _known(self, length: float) -> FloatArray:
        """Return the correlations within what is known."""
        zero, flat = np.array(self.zero_at), np.array(self.flat_at)
        made = np.eye(len(zero) + len(flat)) * _NOTHING
        made[: len(zero)] += self._with_known(zero, length)
        made[len(zero) :, : len(zero)] += self._with_known(zero, length)[:, len(zero) :].T
        if len(flat):
            apart = np.abs(flat[:, None] - flat) / length
            made[len(zero) :, len(zero) :] -= BENDS[self.name](apart)
        return made
