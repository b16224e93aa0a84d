"""The problem to solve: its parameters, what is asked, and the runs that answer it, as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen, points
from supac.codec import register
from supac.families import Density, Distribution, gaussian
from supac.families.family import ParametricFamily, check_dim
from supac.problem.bounds import Bound
from supac.problem.fields import Field
from supac.problem.marginals import Marginal

_COLUMNS = ("x", "risk", "iteration", "drawn", "ok")
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
                    f"or Uniform(lower, upper), not {marginal!r}"
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
    scale: Distribution | None = None
    """The scales on which parameters vary, where they are not the prior's: that may change."""

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
        latent = prior.prior if isinstance(prior, Parameters) else prior
        return cls(latent, bound, latent, failure_risk=failure_risk, loss=loss)

    @property
    def variation(self) -> Distribution:
        """Return the distribution whose covariance has the scales on which parameters vary."""
        prior = self.prior if isinstance(self.prior, Distribution) else self.start
        return self.scale or prior


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Immutable columns, one row per run.

    Row i was drawn from `proposals[iteration[i]]` if `drawn[i]`, else chosen deterministically. A
    failed run is not `ok`; its risk is NaN, or the value that the loss gives to a failure.
    """

    x: FloatArray
    risk: FloatArray
    iteration: IntArray
    drawn: BoolArray
    ok: BoolArray
    proposals: tuple[Distribution, ...]
    outputs: FloatArray | None = None
    """Arguments of the loss of a `Composite`, (n, k): residuals, or the simulator's outputs if
    there are no data; NaN for failed runs."""

    @classmethod
    def none(cls, dim: int) -> Evaluations:
        """Return empty columns."""
        nothing = np.empty(0, dtype=bool)
        return cls(np.empty((0, dim)), np.empty(0), np.empty(0, np.intp), nothing, nothing, ())

    def __len__(self) -> int:
        return len(self.risk)

    @cached_property
    def families(self) -> tuple[ParametricFamily, ...]:
        """Return the families of the proposals, as different objects: mostly one."""
        return tuple({id(each.family): each.family for each in self.proposals}.values())

    @property
    def failed(self) -> int:
        """Return the number of failed runs."""
        return int((~self.ok).sum())

    def append(
        self,
        x: FloatArray,
        risk: FloatArray,
        proposal: Distribution,
        outputs: FloatArray | None = None,
        drawn: BoolArray | None = None,
    ) -> Evaluations:
        """Return the columns with one more iteration: points from `proposal`, risks and outputs."""
        if len(self) and (outputs is None) != (self.outputs is None):
            raise ValueError("give outputs for every batch or for none")
        new = Evaluations.of_batches(x, risk, [(len(risk), proposal, drawn)], outputs)
        new = replace(new, iteration=new.iteration + len(self.proposals))
        shared = _COLUMNS if self.outputs is None or outputs is None else (*_COLUMNS, "outputs")
        columns: dict[str, Any] = {
            name: _joined(getattr(self, name), getattr(new, name)) for name in shared
        }
        return replace(new, **columns, proposals=(*self.proposals, proposal))

    @classmethod
    def of_batches(
        cls,
        x: FloatArray,
        risk: FloatArray,
        batches: Sequence[tuple[int, Distribution, BoolArray | None]],
        outputs: FloatArray | None = None,
    ) -> Evaluations:
        """Make columns of several iterations at once: (size, proposal, drawn) each.

        `drawn` None means all.
        """
        sizes = [size for size, _, _ in batches]
        ok = np.isfinite(risk)
        if outputs is not None:
            ok = ok & np.isfinite(outputs).all(axis=1)
            outputs = frozen(outputs)
        drawn = [np.ones(n, dtype=bool) if given is None else given for n, _, given in batches]
        iteration = np.repeat(np.arange(len(batches), dtype=np.intp), sizes)
        return cls(
            frozen(x),
            frozen(risk),
            frozen(iteration),
            frozen(np.concatenate(drawn)),
            frozen(ok),
            tuple(proposal for _, proposal, _ in batches),
            outputs,
        )

    def select(self, rows: BoolArray | IntArray | slice) -> Evaluations:
        """Return some of the runs."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        outputs = None if self.outputs is None else self.outputs[rows]
        return replace(self, **columns, outputs=outputs)

    def latest(self, n: int) -> Evaluations:
        """Return the last n runs."""
        return self if len(self) <= n else self.select(slice(len(self) - n, None))

    def usable(self, failure_risk: float | None) -> Evaluations:
        """Return the runs to learn from: NaN risks become `failure_risk`, or are left out for None.

        At least the largest risk of a successful run, so that failing is never better.
        """
        unknown = np.isnan(self.risk)
        if not unknown.any():
            return self
        if failure_risk is None:
            return self.select(~unknown)
        worst = max(failure_risk, self.risk[~unknown].max(initial=-np.inf))
        return replace(self, risk=np.where(unknown, worst, self.risk))

    def minus(self, known: FloatArray) -> Evaluations:
        """Subtract `known` from the risks; drop the outputs, which explain the full risks."""
        return replace(self, risk=self.risk - known, outputs=None)


def _joined(first: Any, second: Any) -> Any:
    """Return both arrays as one, read-only."""
    both = np.concatenate([first, second])
    both.flags.writeable = False
    return both
