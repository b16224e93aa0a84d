"""What every method is asked for: a posterior with a likelihood, and draws that are the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import supac
from supac.arrays import FloatArray
from supac.shape import sample_minimiser

_PARTICLES = 10_000


@dataclass(frozen=True, eq=False)
class Target:
    """A posterior ∝ prior · exp(−energy), the energy being minus the log-likelihood."""

    name: str
    parameters: supac.Parameters
    outputs: Callable[[FloatArray], FloatArray]
    """Parameters but for observation parameters (k, dim) → (k, m)."""
    loss: Callable[..., FloatArray] | None
    """Outputs → risks (k,); None where the only output is the energy itself."""
    temperature: float = 1.0
    """Of which the energy is the risk's multiple."""
    observation: int = 0
    """Number of parameters, the last ones, that only the loss sees."""
    known: Callable[[], FloatArray] | None = None
    """Reference draws, in the user's units; None for long runs of a sampler of our own."""
    in_latent: bool = False
    """Draws are compared in latent units, for which the user's have too long tails."""

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.parameters)

    @property
    def is_square(self) -> bool:
        """Return True if the outputs are residuals, and half their sum of squares the energy."""
        return isinstance(self.loss, supac.MeanSquare)

    def energy(self, x: FloatArray) -> FloatArray:
        """Compute minus the log-likelihood of points (k, dim), NaN or infinite where it is 0."""
        simulated = self.dim - self.observation
        made = self.outputs(x[:, :simulated])
        if self.loss is None:
            return made[:, 0]
        own = (x[:, simulated:],) if self.observation else ()
        return np.asarray(self.loss(made, *own)) / self.temperature

    @property
    def risk(self) -> Any:
        """Return what a search is told."""
        if self.loss is None:
            return lambda x: self.outputs(np.asarray(x)[None])[0, 0]
        return supac.Composite(
            lambda x: self.outputs(np.asarray(x)[None])[0], self.loss, observation=self.observation
        )

    @property
    def bound(self) -> supac.Catoni:
        """Return the bound whose minimiser over all distributions is the posterior."""
        return supac.Catoni(self.temperature)

    def latent_energy(self, u: FloatArray) -> FloatArray:
        """Compute the energies of latent points, infinite where the likelihood is 0."""
        with np.errstate(all="ignore"):
            found = self.energy(self.parameters.from_latent(u))
        return np.where(np.isfinite(found), found, np.inf)

    def compared(self, x: FloatArray) -> FloatArray:
        """Return draws in the units in which they are compared."""
        return self.parameters.to_latent(x) if self.in_latent else x

    def reference(self) -> FloatArray:
        """Return draws of the posterior (n, dim), in the user's units."""
        if self.known is not None:
            return self.known()
        prior, rng = self.parameters.prior, np.random.default_rng(99)
        one = supac.Catoni(1.0)
        found = sample_minimiser(self.latent_energy, prior, one, prior, _PARTICLES, rng)
        return self.parameters.from_latent(found.x)
