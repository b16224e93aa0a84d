"""Standard normal draws with less variance than independent ones."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from supac.arrays import FloatArray


def latin_hypercube(n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Draw a normal Latin hypercube: one draw per coordinate in each of n slices: (n, dim)."""
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import

    uniform = qmc.LatinHypercube(dim, rng=rng).random(n)
    return np.asarray(ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12)))


def orthogonal(n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Draw normal pairs ±z, in groups of up to `dim` mutually orthogonal pairs: (n, dim)."""
    blocks = []
    left = n
    while left > 0:
        pairs = min((left + 1) // 2, dim)
        basis, triangle = np.linalg.qr(rng.standard_normal((dim, dim)))
        basis *= np.sign(np.diag(triangle))  # without it the rotation would not be uniform
        z = basis[:pairs] * np.sqrt(rng.chisquare(dim, size=(pairs, 1)))
        blocks += [z, -z]
        left -= 2 * pairs
    return np.concatenate(blocks)[:n]
