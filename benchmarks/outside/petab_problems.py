"""Five problems of the PEtab benchmark collection, with real data.

The prior has a standard deviation of half a decade in each parameter, and its centre lies as far
from the published parameters. The risk is the mean square of the residuals in units of the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import supac
from outside.problem import OutsideProblem, Role
from supac import marginals
from supac.arrays import FloatArray
from supac.simulators import petab

FOLDER = Path(__file__).parents[3] / "shared" / "reference" / "petab"
SD, LARGEST = 0.5, 100.0
"""In decades; the largest residual, which all those of a failed run have."""


def petab_problem(name: str, folder: str, role: Role, centre: int) -> OutsideProblem:
    """Return the problem in `folder`, whose prior is centred by the seed `centre`."""
    path = FOLDER / folder / f"{folder}.yaml"
    if not path.exists():
        raise FileNotFoundError(f"the PEtab collection is not at {FOLDER}")
    every = petab.load(path)
    used = every.noise_parameters
    rows = [
        each
        for each in every.description.parameters
        if each.estimated and each.id not in used and each.scale == "log10"
    ]
    free = [each.id for each in rows]
    published = np.log10([each.nominal for each in rows])
    lower, upper = np.log10([(each.lower, each.upper) for each in rows]).T
    shift = SD * np.random.default_rng(centre).standard_normal(len(free))
    middle = np.clip(published + shift, lower, upper)
    # All others, those of the noise among them, have their published values.
    priors = {each: every.parameters.transforms[each] for each in free}
    model = petab.load(path, priors, observation=False)
    data, run = model.measurements, model.risk.simulate

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        residuals = (data.scaled(run(10.0**x)) - data.scaled(data.values)) / data.noise
        return np.clip(residuals, -LARGEST, LARGEST)

    return OutsideProblem(
        name=name,
        role=role,
        source=f"{folder}, PEtab benchmark collection",
        parameters=supac.Parameters(
            {each: marginals.Normal(float(at), SD) for each, at in zip(free, middle, strict=True)}
        ),
        simulate=simulate,
        loss=supac.MeanSquare(),
        temperature=2.0 / data.measured,
        reference=(published - middle) / SD,
        failure_risk=LARGEST**2,
        fails=True,
        logarithmic=True,
        draws=256,
    )


DEVELOPMENT: dict[str, Callable[[], OutsideProblem]] = {
    "fiedler": partial(petab_problem, "fiedler", "Fiedler_BMCSystBiol2016", "development", 0),
    "bruno": partial(petab_problem, "bruno", "Bruno_JExpBot2016", "development", 0),
}
JUDGEMENT: dict[str, Callable[[], OutsideProblem]] = {
    "boehm": partial(petab_problem, "boehm", "Boehm_JProteomeRes2014", "judgement", 0),
    # The prior's centre, and most of its runs, fail.
    "crauste": partial(petab_problem, "crauste", "Crauste_CellSystems2017", "judgement", 1),
    "zheng": partial(petab_problem, "zheng", "Zheng_PNAS2012", "judgement", 0),
}
