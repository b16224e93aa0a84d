"""Other places to descend from: narrow posteriors around the best runs.

The objective of a wide posterior is an average. Where the loss is flat for most of the prior, that
says little of where to go, and a trust region creeps. A run that is good by itself says more: a
narrow posterior around it, which the emulator knows best, may promise more than all that is in
reach of the present one, for all its KL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from supac.arrays import BoolArray
from supac.families import Distribution
from supac.problem import Evaluations, Problem
from supac.search.restart import log_posterior
from supac.search.steps import Descent, SurrogateBound

_RUNS = 3  # the best ones, around which a posterior may begin
_WIDTHS = (0.1, 0.2, 0.4)  # of such a posterior, in standard deviations of the start
_REACH = 2.0  # standard deviations of the present posterior within which a run is no other place
_PROMISING = 20.0  # nats above the present end from which no descent is worth its time
_CLEARLY = 10.0  # nats by which another place must be better


def best_descent(
    descend: Callable[[Distribution], Descent],
    here: Descent,
    starts: Iterator[Distribution],
    nat: float,
) -> Descent:
    """Return the descent that promises most, from here or from one of the other `starts`.

    Another one must be better by several nats, since few runs are there yet. What it gains is told
    relative to where the search is.
    """
    for start in starts:
        other = descend(start)
        if other.last.objective + _CLEARLY * nat < here.last.objective:
            here = replace(other, first=here.first, settled=here.settled)
    return here


def narrow_starts(
    problem: Problem,
    bound: SurrogateBound,
    runs: Evaluations,
    outliers: BoolArray,
    here: Descent,
    nat: float,
) -> Iterator[Distribution]:
    """Yield posteriors around the best runs that are not in reach of where a descent has ended.

    Each as wide as the bound on the modelled risk likes best.
    """
    start, whitening = problem.start, here.last.posterior.whiten()
    away = (whitening.points(runs.x) ** 2).sum(axis=1) > _REACH**2 * start.dim
    usable = runs.select(runs.ok & ~outliers & away)
    _, covariance = start.family.moments(start.theta)
    order = np.argsort(-log_posterior(problem, usable, nat), kind="stable")
    for x in usable.x[order[:_RUNS]]:
        visits = [
            bound.at(start.at(start.exponential.from_moments(x, width**2 * covariance)), 0.0)
            for width in _WIDTHS
        ]
        best = min(visits, key=lambda each: each.objective)
        if best.objective < here.last.objective + _PROMISING * nat:
            yield best.posterior
