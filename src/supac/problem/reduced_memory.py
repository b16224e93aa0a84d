"""The quadratic form of autoregressive errors, u = B f, at times with few different steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from supac.arrays import FloatArray, IntArray

_STEPS = 12
"""Different steps of time beyond which nothing is gained."""
_FLAT = 1e-9  # of 1 − φ², for measurements at the same time


def correlation_of_steps(gaps: FloatArray, memory: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return φ = exp(−Δt/τ) for steps Δt and memories τ (n,), and dφ/dτ: (n, steps)."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        tau = np.maximum(memory, 1e-300)[:, None]
        phi = np.minimum(np.exp(-gaps / tau), np.sqrt(1.0 - _FLAT))
        return phi, np.nan_to_num(phi * gaps / tau**2)


class MemoryTerms(NamedTuple):
    """Expected uᵀC⁻¹u + log|C|, and its derivatives."""

    value: FloatArray
    by_features: FloatArray
    by_variance: FloatArray
    by_memory: FloatArray


def _different(times: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the different steps between times, and which of them each step is."""
    whole = float(np.ptp(times)) or 1.0
    found: tuple[FloatArray, IntArray] = np.unique(
        np.round(np.diff(np.sort(times)) / whole, 12), return_inverse=True
    )
    return found


def few_steps(times: FloatArray) -> bool:
    """Return True if there are few enough different steps for sums to be worth it."""
    return len(times) < 2 or len(_different(times)[0]) <= _STEPS


@dataclass(frozen=True, eq=False)
class ReducedMemory:
    """Sums of products of the rows of B, for each different step of time."""

    first: FloatArray
    """B₀ᵀB₀, of the first measurement."""
    steps: FloatArray
    """The different steps: (g,)."""
    counts: FloatArray
    """Number of each: (g,)."""
    products: FloatArray
    """Σ BᵢᵀBᵢ, Σ (Bᵢᵀ Bᵢ₋₁ + its transpose)/2 and Σ Bᵢ₋₁ᵀBᵢ₋₁ for each: (g, 3, features, …)."""

    @classmethod
    def of(cls, times: FloatArray, matrix: FloatArray) -> Self:
        """Return the sums for rows in the order of time."""
        gaps = np.diff(times)
        steps, kind = _different(times)
        products = []
        for i in range(len(steps)):
            late, early = matrix[1:][kind == i], matrix[:-1][kind == i]
            both = late.T @ early
            products.append([late.T @ late, 0.5 * (both + both.T), early.T @ early])
        usual = np.array([gaps[kind == i].mean() for i in range(len(steps))])
        counts = np.bincount(kind, minlength=len(steps)).astype(np.float64)
        return cls(np.outer(matrix[0], matrix[0]), usual, counts, np.array(products))

    def terms(self, f: FloatArray, variance: FloatArray, k: int, memory: FloatArray) -> MemoryTerms:
        """Compute the terms at features f (n, ·), the first k with errors of a variance (n,)."""
        along = f @ self.first
        wide = float(np.trace(self.first[:k, :k]))
        value, by_f = np.einsum("ij,ij->i", along, f) + variance * wide, 2.0 * along
        by_variance, by_memory = np.full(len(f), wide), np.zeros(len(f))
        for step, count, products in zip(self.steps, self.counts, self.products, strict=True):
            phi, rise = correlation_of_steps(np.array([step]), memory)
            phi, rise = phi[:, 0], rise[:, 0]
            rest = 1.0 - phi**2
            # uᵢ − φ uᵢ₋₁ squared is u·(late − 2φ both + φ² early)·u.
            weights = np.column_stack([np.ones(len(f)), -2.0 * phi, phi**2])
            slopes = np.column_stack([np.zeros(len(f)), np.full(len(f), -2.0), 2.0 * phi])
            moved = [f @ each for each in products]
            traces = np.trace(products[:, :k, :k], axis1=1, axis2=2)
            sums = np.column_stack([np.einsum("ij,ij->i", each, f) for each in moved])
            sums += variance[:, None] * traces
            total = np.einsum("ij,ij->i", weights, sums)
            value += total / rest + count * np.log(rest)
            by_variance += weights @ traces / rest
            for i, each in enumerate(moved):
                by_f += (2.0 * weights[:, i] / rest)[:, None] * each
            bend = np.einsum("ij,ij->i", slopes, sums) / rest
            bend += 2.0 * phi * (total / rest - count) / rest
            by_memory += bend * rise
        return MemoryTerms(value, by_f, by_variance, by_memory)
