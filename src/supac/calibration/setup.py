"""Check the arguments of a search, and make the problem."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from supac.arrays import FloatArray, whole
from supac.exchange.known import KnownRuns
from supac.families import Density, Distribution, as_distribution
from supac.problem import Bound, Function, Loss, Parameters, Problem
from supac.problem.composite import parts_of
from supac.problem.observation import as_observation_loss
from supac.problem.problem import latent_of, parameters_of, user_scales_of
from supac.running.execution import Execution
from supac.search.algorithm import Algorithm
from supac.search.levels import CoarseFirst
from supac.search.supac import SuPAC
from supac.surrogate.regime import MANY_PARAMETERS


def make_problem(
    prior: Density | Parameters,
    bound: Bound,
    start: Distribution | None,
    proxy: Function | None,
    execution: Execution,
    loss: Loss | None,
) -> Problem:
    """Return the problem to solve; errors name the wrong argument."""
    if not isinstance(bound, Bound):
        raise TypeError(f"bound must be a bound such as Catoni(temperature=0.01), not {bound!r}")
    failure_risk = execution.failure_risk(bound)
    density: Density = latent_of(prior)
    if start is None:
        if isinstance(density, Mapping):
            raise TypeError("prior must be Parameters, not a dict: supac.Parameters({…})")
        if not isinstance(density, Distribution):
            raise TypeError(
                f"prior must be a Distribution, such as gaussian(mean, covariance), or Parameters, "
                f"not {density!r}; any other with a log_prob needs start=, the first posterior"
            )
        start = density
    if not isinstance(start, Distribution):
        raise TypeError(f"start must be a Distribution, the first posterior, not {start!r}")
    known = as_distribution(density)
    if known is not None and known.dim != start.dim:
        raise ValueError(f"start has {start.dim} coordinates, but the prior has {known.dim}")
    if start.family.exponential is None:
        _check_score(start)
    x = start.sample(3, 0)
    _check_function(density.log_prob, x, "prior.log_prob")
    if proxy is not None:
        parameters = parameters_of(prior)
        if parameters is not None:
            proxy = _in_units(proxy, parameters)
        _check_function(proxy, x, "proxy")
    observed = as_observation_loss(loss)
    if observed is not None:
        count = observed.count
        if count >= start.dim:
            raise ValueError(
                f"observation = {count} leaves none of the {start.dim} parameters to simulate"
            )
        loss = observed.within(parameters_of(prior))
    scales = user_scales_of(prior)
    return Problem(density, bound, start, proxy, failure_risk, loss, user_scales=scales)


def _check_score(start: Distribution) -> None:
    """Compare the score with differences of the log-density in a random direction."""
    family, theta, rng = start.family, start.theta, np.random.default_rng(0)
    x, direction = start.sample(20, rng), rng.standard_normal(family.size)
    score = np.asarray(family.score(theta, x))
    if score.shape != (len(x), family.size):
        raise ValueError(
            f"score of {family} must have one row a point and one column an entry of theta, "
            f"({len(x)}, {family.size}), not {score.shape}"
        )
    # In units of each entry's own effect: θ may have any scale.
    scale = np.sqrt((score**2).mean(axis=0))
    h = 1e-4 * direction / np.where(scale > 0.0, scale, np.inf)
    while not (family.contains(theta + h) and family.contains(theta - h)):
        h = 0.5 * h
    change = 0.5 * (family.log_prob(theta + h, x) - family.log_prob(theta - h, x))
    slope = change / max(float(np.linalg.norm(scale * h)), 1e-300)
    gap = float(np.abs(score @ h - change).max()) / max(float(np.linalg.norm(scale * h)), 1e-300)
    if not gap <= 0.01 * (1.0 + float(np.abs(slope).max())):
        raise ValueError(
            f"score of {family} is not the derivative of its log_prob in theta: along a random "
            f"direction they differ by {gap:.3g} where the derivative is {np.abs(slope).max():.3g}"
        )


def _in_units(function: Function, parameters: Parameters) -> Function:
    """Convert a function of the user's units to one of latent points."""
    return lambda u: function(parameters.from_latent(u))


def _check_function(function: Function, x: FloatArray, name: str) -> None:
    """Call a function once to check the shape of its values."""
    try:
        values = np.asarray(function(x), dtype=np.float64)
        problem = "" if values.shape == (len(x),) else f"returned an array of shape {values.shape}"
    except Exception as error:
        problem = f"raised {type(error).__name__}: {error}"
    if problem:
        raise ValueError(
            f"{name} must take an array of points, shape (n, {x.shape[1]}), and return n numbers; "
            f"it {problem} for n = {len(x)}"
        )


def check_known(known: KnownRuns | None, algorithm: Algorithm, problem: Problem) -> None:
    """Raise if known runs have another dimension, or if the algorithm cannot use them."""
    if known is None:
        return
    dim = problem.start.dim
    if known.x.shape[1] != dim:
        raise ValueError(f"known has points of {known.x.shape[1]} coordinates, not {dim}")
    if not algorithm.uses_known(problem):
        raise ValueError(
            f"known runs are of no use to {algorithm!r}, which weighs runs by how they were drawn; "
            "use SuPAC() or SuPAC.paper(), or an estimator whose plan has uses_known=True"
        )


def reserve_for_validation(
    validation: int | None, algorithm: Algorithm, budget: int, first: int
) -> int:
    """Return the number of runs of the budget to reserve for validation."""
    if validation is None:
        reserve = min(algorithm.validation(budget), budget - first)
        return reserve if reserve > 1 else 0
    if whole(validation, "validation", least=0) + first > budget:
        raise ValueError(
            f"validation = {validation} leaves too little of the budget of {budget} for the first "
            f"batch of {first} queries"
        )
    return validation


def checked_algorithm(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm; TypeError if it is none."""
    if not isinstance(algorithm, Algorithm):
        raise TypeError(
            "algorithm must be one such as SuPAC(), or of a subclass of Algorithm of your own, not "
            f"{algorithm!r}"
        )
    return algorithm


def check_coarse_search(
    risk: object,
    algorithm: Algorithm,
    problem: Problem,
    execution: Execution,
) -> None:
    """Raise if the risk has a coarse model that this search cannot use, and say what to do."""
    if parts_of(risk).coarse is None:
        return
    usual = isinstance(algorithm, SuPAC) and algorithm.estimator is None
    several = not problem.start.family.is_gaussian
    refused = {
        'mode="async"': (execution.mode == "async", 'leave out mode="async"'),
        "proxy=": (problem.proxy is not None, "leave out proxy="),
        "an algorithm or estimator of its own": (not usual, "leave out algorithm="),
        "a start that is not Gaussian": (several, "begin with gaussian(mean, covariance)"),
        f"more than {MANY_PARAMETERS} parameters": (
            problem.start.dim > MANY_PARAMETERS,
            "describe them by fewer numbers",
        ),
    }
    for what, (found, advice) in refused.items():
        if found:
            raise ValueError(
                f"coarse= does not work with {what} yet: {advice}, or leave out coarse="
            )


def with_coarse(risk: object, algorithm: Algorithm, since: int | None = None) -> Algorithm:
    """Return the algorithm, with a coarse model beside the fine one if the risk has one.

    The coarse model has changed after so many rounds as `since` says.
    """
    coarse = parts_of(risk).coarse
    if coarse is None or not isinstance(algorithm, SuPAC):
        return algorithm
    return CoarseFirst(algorithm, coarse.cost, since)
