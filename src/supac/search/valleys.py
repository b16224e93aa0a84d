"""Other places to descend from: narrow posteriors around the best runs.

The objective of a wide posterior is an average. Where the loss is flat for most of the prior, that
says little of where to go, and a trust region creeps. A run that is good by itself says more: a
narrow posterior around it, which the emulator knows best, may promise more than all that is in
reach of the present one, although its KL is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from supac.families import Distribution
from supac.problem import Evaluations, Problem
from supac.problem.composite import ResidualLoss
from supac.search.restart import log_posterior
from supac.search.steps import Descent, SurrogateBound
from supac.surrogate.estimator import MANY_PARAMETERS, NOISY

_RUNS = 3  # the best ones, around which a posterior may begin
_WIDTHS = (0.1, 0.2, 0.4)  # of such a posterior, in standard deviations of the start
_REACH = 2.0  # standard deviations a parameter within which a run is no other place
_PROMISING = 20.0  # nats above the present end from which no descent is worth its time
_CLEARLY, _CLEARLY_FROM_START = 10.0, 3.0  # nats by which a descent from elsewhere must be better


def best_descent(
    descend: Callable[[Distribution], Descent],
    here: Descent,
    bound: SurrogateBound,
    runs: Evaluations,
    nat: float,
    *,
    looked: bool,
) -> Descent:
    """Return the descent that promises most: this one, or clearly more from elsewhere.

    That is from the best runs far away, and after a look around the start also from there. Where
    there are few runs yet, several nats are clear. What is gained is told relative to where the
    search is.
    """
    places = [(each, _CLEARLY) for each in narrow_starts(bound, runs, here, nat)]
    if looked:
        places.append((bound.problem.start, _CLEARLY_FROM_START))
    others = [(descend(start), clearly) for start, clearly in places]
    better = [
        other
        for other, clearly in others
        if other.last.objective + clearly * nat < here.last.objective
    ]
    if not better:
        return here
    best = min(better, key=lambda each: each.last.objective)
    return replace(best, first=here.first, settled=here.settled)


def narrow_starts(
    bound: SurrogateBound, runs: Evaluations, here: Descent, nat: float
) -> Iterator[Distribution]:
    """Yield posteriors around the best runs that are out of reach of where a descent has ended.

    Each has the width with the lowest bound on the modelled risk.
    """
    problem, labels = bound.problem, getattr(bound.model, "state", None)
    if labels is None or not _are_told_apart(problem, getattr(bound.model, "noise", np.nan)):
        return
    start, whitening = problem.start, here.last.posterior.whiten()
    away = (whitening.points(runs.x) ** 2).sum(axis=1) > _REACH**2 * start.dim
    usable = runs.select(runs.ok & ~labels.outliers & away)
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


def _are_told_apart(problem: Problem, noise: float) -> bool:
    """Return True if a good run says more of where to go than the average of a posterior.

    A loss that is steep far away says it by its average, and the best of noisy runs is lucky.
    """
    start = problem.start
    if start.dim > MANY_PARAMETERS or not start.family.is_gaussian or noise > NOISY:
        return False
    return isinstance(problem.loss, ResidualLoss) and problem.loss.flat_from is not None
