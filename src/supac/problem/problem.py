"""The problem to solve: its parameters, and what is asked of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from supac.arrays import FloatArray, points
from supac.codec import register
from supac.families import Density, Distribution, as_distribution, gaussian
from supac.families.family import check_dim
from supac.problem.bounds import Bound
from supac.problem.fields import Field
from supac.problem.marginals import Marginal
from supac.problem.order import Course
from supac.problem.scales import UserScales

_NAMED = 12  # parameters that a line names

Function = Callable[[FloatArray], FloatArray]
"""(n, dim) → (n,)."""
Loss = Callable[[FloatArray], FloatArray]
"""Outputs (n, m) → risks (n,)."""


@register(arguments=("marginals", "blocks", "latent"), later=("latent",))
class Parameters:
    """Named parameters with their priors, and the pairs that may become correlated.

    Each parameter is a function of a latent standard normal u; the posterior is a Gaussian of u.
    A `Field` is a parameter at each point of a grid, with names such as `k[3,2]`.
    `blocks=None` allows all correlations, `blocks=[]` none, and lists of names those within a list;
    the points of a field, which its name stands for, stay together.
    `latent` replaces the standard normal prior of u, for instance by one learnt from other tasks.
    """

    def __init__(
        self,
        marginals: Mapping[str, Marginal | Field],
        blocks: Sequence[Sequence[str]] | None = None,
        latent: Distribution | None = None,
    ):
        if not isinstance(marginals, Mapping) or not marginals:
            raise ValueError(
                "marginals must be a dictionary of at least one parameter, such as "
                f'{{"k": Normal(0.0, 1.0)}}, not {marginals!r}'
            )
        for name, marginal in marginals.items():
            if not isinstance(marginal, Marginal | Field):
                raise TypeError(
                    f"the prior of {name!r} must be a marginal such as Normal(mean, sd) "
                    "or Uniform(lower, upper), and a distribution of SciPy within Of(…), "
                    f"not {marginal!r}"
                )
        self.marginals = dict(marginals)
        self.fields = {name: each for name, each in marginals.items() if isinstance(each, Field)}
        sizes = {name: math.prod(each.shape) for name, each in self.fields.items()}
        check_dim(sum(sizes.get(name, 1) for name in marginals), "number of parameters")
        ends = list(accumulate(sizes.get(name, 1) for name in marginals))
        begins = [0, *ends[:-1]]
        self._columns = dict(zip(marginals, map(slice, begins, ends), strict=True))
        self.transforms = self._transforms()
        self.names = tuple(self.transforms)
        self.blocks = blocks
        self.prior = self._prior(blocks) if latent is None else latent
        self.latent = latent
        if self.prior.dim != len(self.names):
            raise ValueError(f"latent has {self.prior.dim} coordinates, not {len(self.names)}")

    def _transforms(self) -> dict[str, Marginal]:
        """Return the prior of every single parameter, also of each point of a field."""
        single: list[tuple[str, Marginal]] = []
        for name, given in self.marginals.items():
            if isinstance(given, Field):
                single += [(each, given.prior) for each in given.names(name).ravel().tolist()]
            else:
                single.append((name, given))
        transforms = dict(single)
        if len(transforms) < len(single):
            raise ValueError("a parameter has the name of a point of a field: rename it")
        return transforms

    def __repr__(self) -> str:
        names = list(self.marginals)
        left = len(names) - _NAMED
        return (
            f"Parameters({', '.join([*names[:_NAMED], *([f'{left} more'] if left > 0 else [])])})"
        )

    def _repr_html_(self) -> str:
        from supac.report.notebook import html_of_parameters  # noqa: PLC0415

        return html_of_parameters(self)

    def __len__(self) -> int:
        return len(self.names)

    def with_prior(self, latent: Distribution) -> Parameters:
        """Return the same parameters with another latent prior."""
        return Parameters(self.marginals, self.blocks, latent)

    def _prior(self, blocks: Sequence[Sequence[str]] | None) -> Distribution:
        dim = len(self.names)
        if not blocks and blocks is not None and not self.fields:
            return gaussian(np.zeros(dim), np.ones(dim))
        covariance = np.eye(dim)
        for name, field in self.fields.items():
            covariance[self.columns(name), self.columns(name)] = field.correlation
        if blocks is None:
            return gaussian(np.zeros(dim), covariance)
        if isinstance(blocks, str) or any(isinstance(block, str) for block in blocks):
            raise ValueError(f'blocks must be lists of names, such as [["k", "K"]], not {blocks!r}')
        named = [name for block in blocks for name in block]
        unknown = sorted(set(named) - set(self.marginals))
        if unknown or len(set(named)) < len(named):
            raise ValueError(
                f"blocks must hold each of {', '.join(self.marginals)} at most once, not {blocks!r}"
            )
        alone = [[name] for name in self.fields if name not in named]
        indices = [
            [i for name in block for i in np.arange(dim)[self.columns(name)].tolist()]
            for block in [*blocks, *alone]
        ]
        return gaussian(np.zeros(dim), covariance, blocks=indices)

    def columns(self, name: str) -> slice:
        """Return the columns of a parameter in arrays of points: one, or those of a field."""
        if name not in self._columns:
            raise ValueError(f"name must be one of {', '.join(self._columns)}, not {name!r}")
        return self._columns[name]

    def by_name(self, x: Any) -> dict[str, FloatArray]:
        """Split points into parameters: (…, dim) → (…) each, (…, *shape) for a field."""
        points = np.asarray(x, dtype=np.float64)
        if points.shape[-1:] != (len(self),):
            raise ValueError(f"x must hold one point a row, (…, {len(self)}), not {points.shape}")
        found = {name: points[..., self.columns(name)] for name in self.marginals}
        shapes = {name: field.shape for name, field in self.fields.items()}
        return {
            name: each.reshape((*points.shape[:-1], *shapes.get(name, ())))
            for name, each in found.items()
        }

    @property
    def units(self) -> tuple[str, ...]:
        """Return the unit of each parameter, "" if none was given."""
        return tuple(marginal.unit for marginal in self.transforms.values())

    @cached_property
    def user_scales(self) -> UserScales | None:
        """Return the user's scale of parameters whose prior is not normal on it; None if all are.

        None too where a field is among them: its components are emulated.
        """
        return None if self.fields else UserScales.of(tuple(self.transforms.values()))

    @property
    def bounds(self) -> FloatArray:
        """Return lower and upper bound of each parameter: (dim, 2)."""
        return np.array([marginal.bounds for marginal in self.transforms.values()])

    def from_latent(self, u: FloatArray) -> FloatArray:
        """Convert latent points to the user's units: (n, dim) → (n, dim)."""
        columns = zip(self.transforms.values(), u.T, strict=True)
        return np.column_stack([marginal.from_latent(column) for marginal, column in columns])

    def to_latent(self, x: Any) -> FloatArray:
        """Convert points to latent ones: (n, dim) → (n, dim); ValueError on or outside a bound."""
        inside = points(x, "x", len(self))
        columns = []
        for (name, marginal), column in zip(self.transforms.items(), inside.T, strict=True):
            with np.errstate(invalid="ignore", divide="ignore"):
                latent = marginal.to_latent(column)
            if not np.isfinite(latent).all():
                bad = column[~np.isfinite(latent)][0]
                raise ValueError(f"{name} = {bad} is not inside its bounds {marginal.bounds}")
            columns.append(latent)
        return np.column_stack(columns)

    def log_jacobian(self, u: FloatArray) -> FloatArray:
        """Compute log |det dx/du|: (n, dim) → (n,)."""
        columns = zip(self.transforms.values(), u.T, strict=True)
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


def joined(words: Sequence[str], most: int = 40) -> str:
    """Return words with commas between them; of more than `most`, the first and a count."""
    left = len(words) - most
    return ", ".join(words if left <= 0 else [*words[:most], f"and {left} more"])


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise bound(π[R], KL(π, prior)) over the family of `start`."""

    prior: Density
    bound: Bound
    start: Distribution
    proxy: Function | None = None
    """A cheap approximation of the risk, (n, dim) → (n,)."""
    failure_risk: float | None = None
    """Risk of a failed run; None leaves it out."""
    loss: Loss | None = None
    """From the simulator's outputs to risks, where `tell` is told the outputs."""
    jacobian_cost: float | None = None
    """Cost of a Jacobian, in runs; None if none is to be expected of the simulator."""
    scale: Distribution | None = None
    """The scales on which parameters vary, where they are not the prior's: that may change."""
    user_scales: UserScales | None = None
    """The user's scales of parameters, where the latent one is another."""
    course: Course | None = None
    """The order of the data, if it is known and the loss can be shortened."""

    @classmethod
    def within(
        cls,
        prior: Distribution | Parameters,
        bound: Bound,
        *,
        loss: Loss | None = None,
        failure_risk: float | None = None,
    ) -> Problem:
        """The usual case: the posterior is sought in the prior's family, from the prior on.

        The points of `Parameters` are latent: `parameters.from_latent(x)` has the user's units.
        """
        latent, scales = latent_of(prior), user_scales_of(prior)
        return cls(latent, bound, latent, failure_risk=failure_risk, loss=loss, user_scales=scales)

    @property
    def variation(self) -> Distribution:
        """Return the distribution whose covariance has the scales on which parameters vary."""
        return self.scale or as_distribution(self.prior) or self.start


def parameters_of(prior: object) -> Parameters | None:
    """Return a prior that has named parameters; None for any other."""
    return prior if isinstance(prior, Parameters) else None


def latent_of(prior: Any) -> Any:
    """Return the prior of latent points; a prior without named parameters is that itself."""
    named = parameters_of(prior)
    return prior if named is None else named.prior


def user_scales_of(prior: object) -> UserScales | None:
    """Return the user's scales of a prior's parameters; None where they are the latent ones."""
    named = parameters_of(prior)
    return None if named is None else named.user_scales
