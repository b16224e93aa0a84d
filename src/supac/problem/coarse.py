"""A cheaper model of the same outputs, such as a coarse mesh or a large time step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from supac.arrays import FloatArray

FINE = 0
"""Level of the model that counts."""
COARSE = 1
"""Level of the coarse model."""


@dataclass(frozen=True)
class Coarse:
    """A coarse model beside the fine one: `Composite(simulate, loss, data, coarse=Coarse(…))`.

    Only runs of the fine model count: they alone are validated, certified and returned. The coarse
    model says where to make them, and its outputs are corrected by theirs.

    Parameters
    ----------
    simulate
        As `simulate` of the `Composite`, with the same parameters and the same outputs.
    cost
        Cost of one of its runs in runs of the fine model, such as 0.05. Measured by the first
        four runs of each if it is not given: then the result depends on how long they took.

    """

    simulate: Callable[[FloatArray], Any]
    cost: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.simulate):
            raise TypeError(f"simulate of Coarse must be a function, not {self.simulate!r}")
        if self.cost is None:
            return
        if isinstance(self.cost, bool) or not isinstance(self.cost, int | float):
            raise TypeError(f"cost must be a number such as 0.05, not {self.cost!r}")
        if not 0.0 < self.cost < 1.0:
            raise ValueError(
                f"cost = {self.cost!r} must be between 0 and 1, the cost of a fine run: a coarse "
                "model that costs as much saves nothing"
            )


def check_coarse(coarse: object, observation: int, *, has_jacobian: bool) -> None:
    """Raise if this is no coarse model, or none that works with the rest of a `Composite`."""
    if coarse is None:
        return
    if isinstance(coarse, tuple | list):
        raise TypeError(
            f"coarse must be one Coarse(simulate, cost=…), not {len(coarse)} of them: pass the one "
            "that is cheapest for what it says"
        )
    if not isinstance(coarse, Coarse):
        raise TypeError(f"coarse must be such as Coarse(simulate, cost=0.05), not {coarse!r}")
    if observation:
        raise ValueError(
            "coarse= does not work with observation parameters yet: leave out coarse=, or "
            "observation="
        )
    if has_jacobian:
        raise ValueError(
            "coarse= does not work with jacobian= yet: leave out the one that saves less; below "
            "twenty parameters that is mostly jacobian="
        )
