"""What the paper ran on ADM1, setting by setting, and our own algorithm beside it."""

from __future__ import annotations

from dataclasses import dataclass

import supac
from supac.search.algorithm import Algorithm

BUDGET, PRELIMINARY = 9600, 1600
TEMPERATURE = 0.002
STANDARD = (1.0, 0.5)
"""kl_max and alpha_max of the paper's experiment."""
GRID = tuple((kl_max, alpha_max) for kl_max in (0.5, 1.0, 2.0) for alpha_max in (0.25, 0.5, 0.75))
EXTREMES = ((0.01, 0.1), (0.1, 0.1), (5.0, 0.9), (10.0, 1.0))
DESCENTS = tuple((batch, size) for batch in (80, 160) for size in (0.025, 0.05, 0.07))
"""Queries a step and step size of gradient descent."""
SELECTED = ((80, 0.025), (160, 0.05))
"""The two that the paper went on with after the preliminary queries."""
MOMENTA = (0.5, 0.9, 0.95)
# When the true objective is looked at: after the first step that has spent so many queries.
CE_LOOKS = (
    160, 192, 224, 256, 288, 448, 608, 768, 928, 1200, 1792, 2048, 4800, BUDGET,
)  # fmt: skip
DESCENT_LOOKS = (160, 480, 800, 1200, PRELIMINARY, 2400, 3200, 4800, 6400, 8000, BUDGET)
OUR_LOOKS = tuple(range(20, 301, 20))


@dataclass(frozen=True)
class Setting:
    """One algorithm, how many queries it may make, and how often it is repeated."""

    name: str
    algorithm: Algorithm
    budget: int
    repeats: int
    looks: tuple[int, ...]
    composite: bool = False
    """Whether it sees the simulator's outputs, or the risk alone."""

    @property
    def descends(self) -> bool:
        """Whether it is one of the paper's gradient baselines."""
        return isinstance(self.algorithm, supac.GradientDescent | supac.Nesterov)


@dataclass(frozen=True)
class Scale:
    """How much is done: all of it, or enough to see that everything works."""

    budget: int = BUDGET
    preliminary: int = PRELIMINARY
    repeats: int = 20
    grid_repeats: int = 10
    extreme_repeats: int = 8
    weight_draws: int = 3000
    """Behind the Voronoi weights. The paper has 40,000."""
    quick: bool = False


FULL = Scale()
QUICK = Scale(
    budget=960,
    preliminary=480,
    repeats=5,
    grid_repeats=1,
    extreme_repeats=1,
    weight_draws=1000,
    quick=True,
)


def ce(kl_max: float, alpha_max: float) -> str:
    """The name of SuPAC-CE with these limits: kl_max / alpha_max."""
    return f"SuPAC-CE {kl_max:g} / {alpha_max:g}"


def descent(batch: int, size: float, momentum: float = 0.0) -> str:
    """The name of gradient descent, or Nesterov's: queries a step × size."""
    kind = f"Nesterov {momentum:g}" if momentum else "gradient descent"
    return f"{kind} {batch} × {size:g}"


SCALAR, COMPOSITE = "SuPAC() on the risk", "SuPAC() on the outputs"
"""Ours, ten queries a round, none kept for validation."""
MANY_DRAWS = "SuPAC-CE 1 / 0.5 with 40,000 draws"
"""The standard setting as the paper has it, which takes ten times as long."""


def settings(scale: Scale, many_draws: int = 0) -> list[Setting]:
    """All that is run, with so many repeats of the standard setting with the paper's weights."""
    found = [*_ours(scale), *_supac_ce(scale), *_descents(scale), *_nesterov(scale)]
    if many_draws:
        found.append(_ce(MANY_DRAWS, STANDARD, scale, many_draws, draws=40_000))
    return found


def _supac_ce(scale: Scale) -> list[Setting]:
    grid = ((0.5, 0.25), STANDARD, (2.0, 0.75)) if scale.quick else GRID
    extremes = (EXTREMES[0], EXTREMES[-1]) if scale.quick else EXTREMES
    repeats = dict.fromkeys(grid, scale.grid_repeats)
    repeats |= dict.fromkeys(extremes, scale.extreme_repeats)
    # The standard setting is also a cell of the grid, which takes the first of its repeats.
    repeats[STANDARD] = scale.repeats
    return [
        _ce(ce(*limits), limits, scale, count, draws=scale.weight_draws)
        for limits, count in repeats.items()
    ]


def _ce(
    name: str, limits: tuple[float, float], scale: Scale, repeats: int, *, draws: int
) -> Setting:
    kl_max, alpha_max = limits
    algorithm = supac.SuPAC.paper(kl_max=kl_max, alpha_max=alpha_max, draws=draws)
    return Setting(name, algorithm, scale.budget, repeats, CE_LOOKS)


def _descents(scale: Scale) -> list[Setting]:
    return [
        Setting(
            descent(batch, size),
            supac.GradientDescent(size, batch),
            scale.budget if (batch, size) in SELECTED else scale.preliminary,
            scale.repeats,
            DESCENT_LOOKS,
        )
        for batch, size in (SELECTED if scale.quick else DESCENTS)
    ]


def _nesterov(scale: Scale) -> list[Setting]:
    """Steps of (1 − momentum) times the size, as in the authors' code."""
    momenta = MOMENTA[1:2] if scale.quick else MOMENTA
    return [
        Setting(
            descent(batch, times * size, momentum),
            supac.Nesterov((1.0 - momentum) * times * size, batch, momentum),
            scale.budget,
            scale.extreme_repeats,
            DESCENT_LOOKS,
        )
        for batch, size in SELECTED
        for times in (1, 2)
        for momentum in momenta
    ]


def _ours(scale: Scale) -> list[Setting]:
    ours = supac.SuPAC(batch=10)
    return [
        Setting(COMPOSITE, ours, 120 if scale.quick else 240, scale.repeats, OUR_LOOKS, True),
        Setting(SCALAR, ours, 160 if scale.quick else 300, scale.repeats, OUR_LOOKS),
    ]
