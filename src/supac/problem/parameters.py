"""Named parameters: priors, units and the latent Gaussian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from supac.arrays import FloatArray, points
from supac.codec import register
from supac.families import Distribution, gaussian
from supac.families.family import check_dim
from supac.problem.marginals import Marginal


@register(arguments=("marginals", "blocks", "latent"), later=("latent",))
class Parameters:
    """Named parameters with their priors, and the pairs that may become correlated.

    Each parameter is a function of a latent standard normal u; the posterior is a Gaussian of u.
    `blocks=None` allows all correlations, `blocks=[]` none, and lists of names those within a list.
    `latent` replaces the standard normal prior of u, for instance by one learnt from other tasks.
    """

    def __init__(
        self,
        marginals: Mapping[str, Marginal],
        blocks: Sequence[Sequence[str]] | None = None,
        latent: Distribution | None = None,
    ):
        if not isinstance(marginals, Mapping) or not marginals:
            raise ValueError(
                "marginals must be a dictionary of at least one parameter, such as "
                f'{{"k": Normal(0.0, 1.0)}}, not {marginals!r}'
            )
        for name, marginal in marginals.items():
            if not isinstance(marginal, Marginal):
                raise TypeError(
                    f"the prior of {name!r} must be a marginal such as Normal(mean, sd) "
                    f"or Uniform(lower, upper), not {marginal!r}"
                )
        check_dim(len(marginals), "number of parameters")
        self.marginals = dict(marginals)
        self.names = tuple(marginals)
        self.blocks = blocks
        self.prior = self._prior(blocks) if latent is None else latent
        self.latent = latent
        if self.prior.dim != len(self.names):
            raise ValueError(f"latent has {self.prior.dim} coordinates, not {len(self.names)}")

    def __repr__(self) -> str:
        return f"Parameters({', '.join(self.names)})"

    def __len__(self) -> int:
        return len(self.names)

    def with_prior(self, latent: Distribution) -> Parameters:
        """Return the same parameters with another latent prior."""
        return Parameters(self.marginals, self.blocks, latent)

    def _prior(self, blocks: Sequence[Sequence[str]] | None) -> Distribution:
        dim = len(self.names)
        if blocks is None:
            return gaussian(np.zeros(dim), np.eye(dim))
        if not blocks:
            return gaussian(np.zeros(dim), np.ones(dim))
        if isinstance(blocks, str) or any(isinstance(block, str) for block in blocks):
            raise ValueError(f'blocks must be lists of names, such as [["k", "K"]], not {blocks!r}')
        named = [name for block in blocks for name in block]
        unknown = sorted(set(named) - set(self.names))
        if unknown or len(set(named)) < len(named):
            raise ValueError(
                f"blocks must hold each of {', '.join(self.names)} at most once, not {blocks!r}"
            )
        indices = [[self.names.index(name) for name in block] for block in blocks]
        return gaussian(np.zeros(dim), np.eye(dim), blocks=indices)

    @property
    def units(self) -> tuple[str, ...]:
        """Return the unit of each parameter, "" if none was given."""
        return tuple(marginal.unit for marginal in self.marginals.values())

    @property
    def bounds(self) -> FloatArray:
        """Return lower and upper bound of each parameter: (dim, 2)."""
        return np.array([marginal.bounds for marginal in self.marginals.values()])

    def from_latent(self, u: FloatArray) -> FloatArray:
        """Convert latent points to the user's units: (n, dim) → (n, dim)."""
        columns = zip(self.marginals.values(), u.T, strict=True)
        return np.column_stack([marginal.from_latent(column) for marginal, column in columns])

    def to_latent(self, x: Any) -> FloatArray:
        """Convert points to latent ones: (n, dim) → (n, dim); ValueError on or outside a bound."""
        inside = points(x, "x", len(self))
        columns = []
        for (name, marginal), column in zip(self.marginals.items(), inside.T, strict=True):
            with np.errstate(invalid="ignore", divide="ignore"):
                latent = marginal.to_latent(column)
            if not np.isfinite(latent).all():
                bad = column[~np.isfinite(latent)][0]
                raise ValueError(f"{name} = {bad} is not inside its bounds {marginal.bounds}")
            columns.append(latent)
        return np.column_stack(columns)

    def log_jacobian(self, u: FloatArray) -> FloatArray:
        """Compute log |det dx/du|: (n, dim) → (n,)."""
        columns = zip(self.marginals.values(), u.T, strict=True)
        return np.sum([marginal.log_slope(column) for marginal, column in columns], axis=0)

    def sample(self, latent: Distribution, n: int, rng: np.random.Generator | int) -> FloatArray:
        """Draw from a latent distribution, in the user's units: (n, dim)."""
        return self.from_latent(latent.sample(n, rng))

    def log_prob(self, latent: Distribution, x: Any) -> FloatArray:
        """Compute a latent distribution's log-density in the user's units: (n, dim) → (n,)."""
        u = self.to_latent(x)
        return latent.log_prob(u) - self.log_jacobian(u)


def names_of(parameters: Parameters | None, dim: int) -> tuple[str, ...]:
    """Return the names of the parameters; x0, x1, … without `Parameters`."""
    return tuple(f"x{i}" for i in range(dim)) if parameters is None else parameters.names
