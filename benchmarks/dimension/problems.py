"""The catalogue: every problem by its name, and what is known about its objective.

Those for development may be looked at while the search is changed; those for judgement are for the
table alone, and nothing is tuned on them. A name is the model, the number of parameters and, where
there are other data too, a letter.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from dimension import dynamics, physics, smoothing
from dimension.problem import WideProblem
from outside.problem import Role

BEST = Path(__file__).parents[1] / "results" / "dimension-best.json"


@dataclass(frozen=True)
class Known:
    """Objectives that tell how far a posterior has come."""

    prior: float
    best: float
    kl: float
    """KL of the best posterior, in nats."""
    how: str
    """How the best posterior was found."""

    def gap_left(self, objective: float) -> float:
        """Compute the share of the way from the prior's objective to the best that is left."""
        return (objective - self.best) / (self.prior - self.best)


def _sizes(
    model: Callable[..., WideProblem], name: str, sizes: tuple[int, ...]
) -> dict[str, Callable[..., WideProblem]]:
    return {f"{name}-{dim}": partial(model, dim=dim, seed=0) for dim in sizes}


DEVELOPMENT: dict[str, Callable[..., WideProblem]] = {
    "poisson-64": physics.poisson,
    **_sizes(smoothing.linear, "linear", (100,)),
    **_sizes(dynamics.lorenz96, "lorenz96", (100,)),
    **_sizes(physics.groundwater, "groundwater", (200,)),
    **_sizes(smoothing.sparse, "sparse", (200,)),
}
JUDGEMENT: dict[str, Callable[..., WideProblem]] = {
    **_sizes(smoothing.linear, "linear", (64, 200, 500)),
    "linear-100-b": partial(smoothing.linear, dim=100, seed=1),
    **_sizes(smoothing.nonlinear, "nonlinear", (64, 100, 200, 500)),
    **_sizes(smoothing.correlated, "correlated", (100, 200, 500)),
    **_sizes(smoothing.sparse, "sparse", (100, 500)),
    "sparse-200-b": partial(smoothing.sparse, dim=200, seed=1),
    **_sizes(physics.groundwater, "groundwater", (64, 100, 500)),
    "groundwater-200-b": partial(physics.groundwater, dim=200, seed=1),
    **_sizes(dynamics.lorenz96, "lorenz96", (64, 200, 500)),
    "lorenz96-100-b": partial(dynamics.lorenz96, dim=100, seed=1),
    "poisson-64-b": partial(physics.poisson_like, seed=1),
    "darcy-200": partial(physics.darcy, rows=20, columns=10, seed=0),
    "darcy-500": partial(physics.darcy, rows=25, columns=20, seed=0),
    "tomography-200": partial(physics.tomography, rows=20, columns=10, seed=0),
    "tomography-500": partial(physics.tomography, rows=25, columns=20, seed=0),
    **_sizes(dynamics.heat, "heat", (100, 500)),
    **_sizes(dynamics.epidemic, "epidemic", (64, 100)),
}
MAKERS = {**DEVELOPMENT, **JUDGEMENT}
ROLES: dict[str, Role] = {
    name: "judgement" if name in JUDGEMENT else "development" for name in MAKERS
}


@cache
def problem(name: str) -> WideProblem:
    """Return the problem of this name; FileNotFoundError where its data are not here."""
    if name not in MAKERS:
        raise KeyError(f"no problem is called {name!r}; there are {', '.join(MAKERS)}")
    return MAKERS[name](name=name, role=ROLES[name])


def known() -> dict[str, Known]:
    """Read the objectives of the priors and of the best posteriors known."""
    kept = json.loads(BEST.read_text()) if BEST.exists() else {}
    return {name: Known(**values) for name, values in kept.items()}
