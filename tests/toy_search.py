"""The search that the fault tests break, on the toy simulator."""

from __future__ import annotations

import numpy as np

import supac
from toy import Toy

PRIOR = supac.gaussian(np.zeros(3), np.eye(3))
BOUND = supac.Catoni(0.02, ceiling=1.0)
BUDGET = 70


def minimize(toy: Toy, **options: object) -> supac.Result:
    """The run that all tests break."""
    settings: dict[str, object] = {"budget": BUDGET, "seed": 3, **options}
    return supac.minimize(toy, PRIOR, BOUND, **settings)  # type: ignore[arg-type]
