"""What the paper ran on ADM1, setting by setting, and our own algorithm beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
BALL, NESTEROV = "heavy ball", "Nesterov"
"""The authors' momentum, whose gradients are taken where it stands, and ours, taken ahead."""
# When the true objective is looked at: after the first step that has spent so many queries.
CE_LOOKS = (
    160, 192, 224, 256, 288, 448, 608, 768, 928, 1200, 1792, 2048, 4800, BUDGET,
)  # fmt: skip
DESCENT_LOOKS = (160, 480, 800, 1200, PRELIMINARY, 2400, 4800, BUDGET)
LOOK_DRAWS, END_DRAWS = 160, 1000
"""Fresh draws behind a true objective on the way, as in the paper, and at the end."""
OUR_LOOKS = tuple(range(20, 301, 20))


@dataclass(frozen=True)
class Setting:
    """Describe an algorithm with its budget of queries and its number of repeats."""

    name: str
    algorithm: Algorithm
    budget: int
    repeats: int
    looks: tuple[int, ...]
    composite: bool = False
    """True if it sees the simulator's outputs, False if it sees the risk alone."""

    @property
    def algorithm_is_ours(self) -> bool:
        """True for `SuPAC()`, which emulates what it sees."""
        return isinstance(self.algorithm, supac.SuPAC) and self.algorithm.estimator is None

    @property
    def end_draws(self) -> int:
        """Number of fresh draws for the true objective at the end; short descents have fewer."""
        return LOOK_DRAWS if self.budget == PRELIMINARY else END_DRAWS

    @property
    def descends(self) -> bool:
        """True for the paper's gradient baselines."""
        return isinstance(self.algorithm, supac.GradientDescent)


@dataclass(frozen=True)
class Scale:
    """Set budgets and repeats: those of the page, or few to see that everything works."""

    budget: int = BUDGET
    preliminary: int = PRELIMINARY
    repeats: int = 20
    preliminary_repeats: int = 30
    """Repeats of descents with few queries; the paper has 20."""
    our_repeats: int = 10
    grid_repeats: int = 3
    extreme_repeats: tuple[int, ...] = (8, 2, 2, 3)
    """The paper has 8 of each; two of them bear no claim, and the last takes a minute a run."""
    momentum_repeats: int = 8
    speed_repeats: int = 12
    """Repeats of the least and the largest momentum at the original size; the paper has 8."""
    ahead_repeats: int = 1
    """Repeats of Nesterov's momentum, which the paper did not run."""
    weight_draws: int = 40_000
    """Number of draws that the Voronoi weights are worth."""
    quick: bool = False


FULL = Scale()
QUICK = Scale(
    budget=960,
    preliminary=480,
    repeats=2,
    preliminary_repeats=2,
    our_repeats=2,
    grid_repeats=1,
    extreme_repeats=(1, 1, 1, 1),
    momentum_repeats=1,
    speed_repeats=1,
    ahead_repeats=1,
    weight_draws=1000,
    quick=True,
)


def ce(kl_max: float, alpha_max: float) -> str:
    """Return the name of SuPAC-CE with these limits: kl_max / alpha_max."""
    return f"SuPAC-CE {kl_max:g} / {alpha_max:g}"


def descent(batch: int, size: float, momentum: float = 0.0, kind: str = BALL) -> str:
    """Return the name of a descent, with its momentum if any: queries a step × size."""
    about = f"{kind} {momentum:g}" if momentum else "gradient descent"
    return f"{about} {batch} × {size:g}"


SCALAR, COMPOSITE = "SuPAC() on the risk", "SuPAC() on the outputs"
"""Ours, ten queries a round, none kept for validation."""


def settings(scale: Scale) -> list[Setting]:
    """List all settings."""
    return [*_ours(scale), *_supac_ce(scale), *_descents(scale), *_momenta(scale)]


def _supac_ce(scale: Scale) -> list[Setting]:
    grid = ((0.5, 0.25), STANDARD, (2.0, 0.75)) if scale.quick else GRID
    extremes = dict(zip(EXTREMES, scale.extreme_repeats, strict=True))
    if scale.quick:
        extremes = {limits: extremes[limits] for limits in (EXTREMES[0], EXTREMES[-1])}
    repeats = dict.fromkeys(grid, scale.grid_repeats) | extremes
    # The standard setting is also a cell of the grid, which takes the first of its repeats.
    repeats[STANDARD] = scale.repeats
    return [_ce(limits, scale, count) for limits, count in repeats.items()]


def _ce(limits: tuple[float, float], scale: Scale, repeats: int) -> Setting:
    kl_max, alpha_max = limits
    algorithm = supac.SuPAC.paper(kl_max=kl_max, alpha_max=alpha_max)
    weights = supac.ReusedVoronoi(scale.weight_draws, leave_one_out=False)
    algorithm = replace(algorithm, estimator=weights)
    return Setting(ce(*limits), algorithm, scale.budget, repeats, CE_LOOKS)


def _descents(scale: Scale) -> list[Setting]:
    return [
        Setting(
            descent(batch, size),
            supac.GradientDescent(size, batch),
            scale.budget if (batch, size) in SELECTED else scale.preliminary,
            scale.repeats if (batch, size) in SELECTED else scale.preliminary_repeats,
            DESCENT_LOOKS,
        )
        for batch, size in (SELECTED if scale.quick else DESCENTS)
    ]


def _momenta(scale: Scale) -> list[Setting]:
    """List the descents with momentum, whose steps are (1 − momentum) times the size."""
    momenta = MOMENTA[1:2] if scale.quick else MOMENTA
    return [
        Setting(
            descent(batch, times * size, momentum, kind),
            momentum_descent((1.0 - momentum) * times * size, batch, momentum),
            scale.budget,
            _repeats(scale, kind, times, momentum),
            DESCENT_LOOKS,
        )
        for kind, momentum_descent in ((BALL, supac.HeavyBall), (NESTEROV, supac.Nesterov))
        for batch, size in SELECTED
        for times in (1, 2)
        for momentum in momenta
    ]


def _repeats(scale: Scale, kind: str, times: int, momentum: float) -> int:
    if kind == NESTEROV:
        return scale.ahead_repeats
    return scale.speed_repeats if times == 1 and momentum != 0.9 else scale.momentum_repeats


def _ours(scale: Scale) -> list[Setting]:
    ours = supac.SuPAC(batch=10)
    return [
        Setting(COMPOSITE, ours, 120 if scale.quick else 240, scale.our_repeats, OUR_LOOKS, True),
        Setting(SCALAR, ours, 160 if scale.quick else 300, scale.our_repeats, OUR_LOOKS),
    ]
