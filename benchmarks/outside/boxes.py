"""Problems of the catalogue under priors that most users write: uniform and log-uniform ones.

Each reaches two standard deviations to both sides of the prior that it replaces; correlations of
that are left out. Simulators, data, losses and temperatures are those of the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

import supac
from outside import development, gr4j, life, physics
from outside.problem import OutsideProblem
from supac import marginals

_REACH = 2.0  # standard deviations


def boxed(make: Callable[[], OutsideProblem], *, logarithmic: bool = False) -> OutsideProblem:
    """Return a problem under uniform priors, `logarithmic` where it was log-normal."""
    problem = make()
    priors = {
        name: _box(marginal, logarithmic)
        for name, marginal in problem.parameters.transforms.items()
    }
    parameters = supac.Parameters(priors)
    truth = problem.parameters.from_latent(problem.reference[None])
    return replace(
        problem,
        name=f"{problem.name}_box",
        source=f"{problem.source}; {'log-' if logarithmic else ''}uniform priors",
        parameters=parameters,
        reference=parameters.to_latent(truth)[0],
    )


def _box(marginal: supac.Marginal, logarithmic: bool) -> supac.Marginal:
    lower, upper = marginal.from_latent(np.array([-_REACH, _REACH])).tolist()
    if logarithmic and isinstance(marginal, marginals.LogNormal):
        return marginals.LogUniform(lower, upper)
    return marginals.Uniform(lower, upper)


DEVELOPMENT: dict[str, Callable[[], OutsideProblem]] = {
    "chemostat_box": partial(boxed, development.chemostat),
    "lv_fail_box": partial(boxed, development.lotka_volterra),
    "fhn_box": partial(boxed, development.fitzhugh_nagumo),
    "goodwin_box": partial(boxed, development.goodwin, logarithmic=True),
    "ring20_box": partial(boxed, development.ring, logarithmic=True),
}
JUDGEMENT: dict[str, Callable[[], OutsideProblem]] = {
    "theophylline_box": partial(boxed, life.theophylline),
    "robertson_box": partial(boxed, life.robertson, logarithmic=True),
    "ice_age_box": partial(boxed, physics.ice_age),
    "stirred_tank_box": partial(boxed, physics.stirred_tank),
    "catchment_box": partial(boxed, gr4j.PROBLEMS["catchment"], logarithmic=True),
}
