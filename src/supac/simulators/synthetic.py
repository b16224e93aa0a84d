"""The paper's synthetic risks: bounded, oscillating functions, and environments of them.

The paper's text and its code differ in two places; both variants are available. `Variant.CODE`
reproduces the published numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class Variant(StrEnum):
    """Definition of the risk."""

    CODE = "code"
    """tanh(((cos ωq − 1)/ω + q)/10), entries of A with standard deviation 0.1."""
    TEXT = "text"
    """tanh((cos ωq + ωq)/10), entries of A with standard deviation 0.05."""


@dataclass(frozen=True, eq=False)
class SyntheticRisk:
    """Function of q = |(x − minimum)A|² with its only global minimum at `minimum`."""

    minimum: FloatArray
    matrix: FloatArray
    frequency: float
    variant: Variant = Variant.CODE

    def __call__(self, x: FloatArray) -> FloatArray:
        """Compute the risk, in [0, 1): (n, dim) → (n,)."""
        return np.tanh(self._height(self._square(x)) / 10.0)

    def gradient(self, x: FloatArray) -> FloatArray:
        """Compute ∇R: (n, dim) → (n, dim)."""
        q = self._square(x)
        outer = (1.0 - np.tanh(self._height(q) / 10.0) ** 2) * self._slope(q) / 10.0
        return 2.0 * outer[:, None] * ((x - self.minimum) @ self.matrix @ self.matrix.T)

    def _square(self, x: FloatArray) -> FloatArray:
        return (((x - self.minimum) @ self.matrix) ** 2).sum(axis=-1)

    def _height(self, q: FloatArray) -> FloatArray:
        wave = np.cos(self.frequency * q)
        if self.variant is Variant.CODE:
            return (wave - 1.0) / self.frequency + q
        return wave + self.frequency * q

    def _slope(self, q: FloatArray) -> FloatArray:
        slope = 1.0 - np.sin(self.frequency * q)
        return slope if self.variant is Variant.CODE else self.frequency * slope


@dataclass(frozen=True, eq=False)
class Environment:
    """Distribution of related risks, with minima N(centre, root·rootᵀ)."""

    centre: FloatArray
    root: FloatArray
    variant: Variant = Variant.CODE

    @classmethod
    def draw(
        cls, rng: np.random.Generator, dim: int = 8, variant: Variant = Variant.CODE
    ) -> Environment:
        """Draw a centre on the sphere of radius 2; minima vary mainly in two directions."""
        from scipy.stats import ortho_group  # noqa: PLC0415 - slow to import

        direction = rng.standard_normal(dim)
        deviations = np.full(dim, 0.05)
        deviations[-2:] = np.exp(rng.uniform(-0.5, 0.5, 2))
        rotation = ortho_group(dim, seed=rng).rvs()
        return cls(2.0 * direction / np.linalg.norm(direction), rotation * deviations, variant)

    def draw_task(self, rng: np.random.Generator) -> SyntheticRisk:
        """Draw one risk of this environment."""
        dim = len(self.centre)
        noise = 0.1 if self.variant is Variant.CODE else 0.05
        return SyntheticRisk(
            minimum=self.centre + self.root @ rng.standard_normal(dim),
            matrix=np.eye(dim) + noise * rng.standard_normal((dim, dim)),
            frequency=float(rng.uniform(1.5 * np.pi, 2.5 * np.pi)),
            variant=self.variant,
        )


def example(seed: int = 0) -> SyntheticRisk:
    """Return one of the paper's 8-dimensional risks."""
    rng = np.random.default_rng(seed)
    return Environment.draw(rng).draw_task(rng)
