"""Rules of the default search, each switched off by one number of its tuning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from math import inf
from types import NoneType
from typing import Any, get_args, get_type_hints

import supac
from outside import boxes, variants
from outside.problem import OutsideProblem
from outside.variants import Variant
from supac.search.tuning import DEFAULT, Tuning

NUMBERS: dict[str, Any] = {
    "batches.opening": 0.0,
    "screening.passes": 1,
    "probes.useless": 1.0,
    "average.powers": (),
    "view.closer": (),
    "units.concentrated": 0.0,
    "trend.outputs": 0,
    "hyperprior.powers": (0.0,),
    "draws.noisy": 0.0,
    "moving.gain": inf,
    "moving.observed_runs": 0,
    "placement.far_side": 1.0,
    "placement.stretch": 1.0,
    "placement.inside": 0.0,
    "placement.ahead_gain": inf,
    "trust.grow": 1.0,
    "trust.shrink": 1.0,
    "trust.farther": 1.0,
    "trust.rise": inf,
    "trust.excluded": 0.0,
    "descent.observed_updates": 0,
    "restart.learnt": 0.0,
    "restart.failing": 1.0,
    "valleys.doubted": inf,
    "stop.unchanged": 0.0,
}
"""Values that switch a rule off, of numbers whose type does not say so."""
SUSPECTS = (
    "batches.opening",
    "screening.early",
    "screening.passes",
    "screening.two_classes",
    "warp.deviations",
    "placement.ahead_gain",
    "placement.far_side",
)
"""Rules that are thought to be worth least; they are measured first."""
OF_MANY = (
    "schedule.confirmed",
    "trend.outputs",
    "trend.usual",
    "placement.new_directions",
    "placement.stretch",
)
"""Rules of more than 40 parameters, which no problem here has: `make bench-dimension`."""
OF_OBSERVED = ("moving.observed_runs", "descent.observed_updates")
"""Rules of observation parameters, which no problem here has: `make bench-observation`."""
OF_ORDER = ("valleys.doubted",)
"""Rules of data in the order of time, which no problem here has: `make bench-valleys`."""
OF_RISK = ("warp.deviations",)
"""Rules of searches that see the risk alone."""
OF_SCALES = ("units.user_scale",)
"""Rules of parameters whose prior is not normal on the user's scale."""
BOXES = {**boxes.DEVELOPMENT, **boxes.JUDGEMENT}.keys()
"""Problems that only concern them."""
ALL, ALL_OF_RISK = "all", "all, risk alone"
"""Names of the searches with all rules."""
_FROM_DIMENSION = {
    "batches.opening": 10,
    "units.concentrated": 11,
    "hyperprior.powers": 11,
}
"""Least number of parameters of a problem that a rule concerns."""


@dataclass(frozen=True)
class Rule:
    """A rule, by the path of its switch in the tuning; of the emulators' part, within that."""

    name: str
    path: str
    off: Any

    @property
    def risk_alone(self) -> bool:
        """Whether it concerns searches that see no outputs."""
        return self.name in OF_RISK

    @property
    def suspect(self) -> bool:
        """Whether it is measured first."""
        return self.name in SUSPECTS

    def concerns(self, problem: OutsideProblem) -> bool:
        """Return False if a search of the problem is the same without the rule."""
        if self.name in OF_SCALES:
            return problem.parameters.user_scales is not None
        if problem.name in BOXES:  # which are there for these rules
            return False
        return problem.dim >= _FROM_DIMENSION.get(self.name, 0)

    @property
    def variant(self) -> Variant:
        """Return the search without the rule."""
        return _search(without(DEFAULT, self.path, self.off), risk_alone=self.risk_alone)


def all_rules_of(name: str) -> str:
    """Return the name of the searches with all rules that one without a rule is compared with."""
    return ALL_OF_RISK if name in OF_RISK else ALL


def baseline(*, risk_alone: bool) -> Variant:
    """Return the search with all rules."""
    return _search(DEFAULT, risk_alone=risk_alone)


def rules() -> list[Rule]:
    """Return all rules that can be switched off, the suspects first."""
    found = [
        Rule(short(path), path, off)
        for path, off in switches(DEFAULT)
        if short(path) not in OF_MANY + OF_OBSERVED + OF_ORDER
    ]
    return sorted(found, key=lambda rule: not rule.suspect)


def short(path: str) -> str:
    """Return the name of a rule: the path of its switch, of the emulators' part within that."""
    return path.removeprefix("emulator.")


def switches(tuning: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path of each switch, and the value of it that is off.

    A switch is a field that is true, that may be None, or that `NUMBERS` names.
    """
    hints = get_type_hints(type(tuning))
    for each in fields(tuning):
        value, name = getattr(tuning, each.name), f"{path}{each.name}"
        if is_dataclass(value):
            yield from switches(value, f"{name}.")
        elif short(name) in NUMBERS:
            yield name, NUMBERS[short(name)]
        elif value is True:
            yield name, False
        elif NoneType in get_args(hints[each.name]):
            yield name, None


def without(tuning: Any, path: str, off: Any) -> Any:
    """Return a tuning with another value at a path."""
    name, _, rest = path.partition(".")
    return replace(tuning, **{name: without(getattr(tuning, name), rest, off) if rest else off})


def _search(tuning: Tuning, *, risk_alone: bool) -> Variant:
    risk: Callable[[OutsideProblem, int], Any] | None = variants.scalar if risk_alone else None
    return Variant({"algorithm": supac.SuPAC(tuning=tuning)}, risk=risk)
