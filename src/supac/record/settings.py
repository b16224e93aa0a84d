"""The settings of a search, with the names of parts that no file can make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from supac.codec import Named, Spec, from_spec_or_name
from supac.families import Density, Distribution, ParametricFamily, as_distribution
from supac.problem import Bound, Parameters
from supac.problem.composite import RESIDUALS, ResidualData
from supac.problem.data import Observations, as_observations
from supac.problem.problem import latent_of
from supac.search.algorithm import Algorithm

_PARTS = ("prior", "bound", "algorithm", "start", "loss", "data", "held_out")
_OF_TASKS = ("prior", "data", "seed", "timeout", "retries", "on_failure")
"""Settings that `meta_learn` shares with `minimize`; its data are a list, an item for each task."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Settings:
    """Arguments of `minimize`, as a record keeps them; None where a record has none.

    A part of a class of the user's own is `Named` in what is read from a file.
    """

    prior: Density | Parameters | Named | None = None
    bound: Bound | Named | None = None
    budget: int | None = None
    algorithm: Algorithm | Named | None = None
    start: Distribution | Named | None = None
    validation: int | None = None
    shape: str = "gaussian"
    tolerance: float | None = None
    seed: int = 0
    loss: Any = None
    """Loss of a `Composite`, a function of residuals, or `Named`."""
    data: Any = None
    """Measurements of a `Composite`, such as `Observations`, or `Named`."""
    held_out: Any = None
    """Measurements that the search does not see, or `Named`."""
    mode: str = "batch"
    timeout: float | None = None
    retries: int = 2
    on_failure: str = "raise"
    max_failures: float = 0.5
    vectorized: bool = False
    kind: str = "minimize"
    """"meta_learn" for the runs of many tasks, "runs" for runs outside a search."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Settings of those other kinds alone, such as the passes of `meta_learn`."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Settings:
        """Make settings of values by their names in files."""
        kind = values.get("kind", "minimize")
        own = _names_of(kind)
        known = {name: _part(name, value) for name, value in values.items() if name in own}
        apart = {*own, "kind"}
        others = {name: value for name, value in values.items() if name not in apart}
        return cls(**known, kind=kind, others=others)

    @classmethod
    def of_specs(cls, config: Mapping[str, Spec]) -> Settings:
        """Make settings of the configuration in a file."""
        return cls.of({name: from_spec_or_name(spec) for name, spec in config.items()})

    @property
    def stored(self) -> dict[str, Any]:
        """Values by their names in files."""
        return {name: getattr(self, name) for name in _names_of(self.kind)} | dict(self.others)

    @property
    def family(self) -> ParametricFamily | None:
        """Family of the posterior; None if only its name is known."""
        start = as_distribution(latent_of(self.start or self.prior))
        return None if start is None else start.family

    @property
    def observations(self) -> Observations | None:
        """The data, if they are a table of observed columns."""
        return as_observations(self.data)

    @property
    def outputs_are_residuals(self) -> bool:
        """True for a file of version 0.1, whose outputs are what the loss takes."""
        return self.data == Named(RESIDUALS) or isinstance(self.data, ResidualData)


def _names_of(kind: str) -> tuple[str, ...]:
    """Return the names of the fields that a kind of search has."""
    every = tuple(each.name for each in fields(Settings) if each.name not in ("kind", "others"))
    return _OF_TASKS if kind == "meta_learn" else every


def _part(name: str, value: Any) -> Any:
    """Return a part, or the name that result files of version 0.1 have in its place."""
    return Named(value) if name in _PARTS and isinstance(value, str) else value
