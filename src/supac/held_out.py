"""How good is a prior? Tasks that it was not learnt on, each from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.algorithm import Algorithm
from supac.arrays import FloatArray, whole
from supac.families import Distribution
from supac.fleet import Fleet, Place
from supac.minimize import minimize
from supac.parameters import Parameters
from supac.result import Result
from supac.task import Task


@dataclass(frozen=True, eq=False)
class PriorScores:
    """The bounds that tasks reach from several priors: one row a prior, one column a task."""

    objective: FloatArray
    mean_risk: FloatArray
    kl: FloatArray
    queries: FloatArray
    """Spent by the search, without the fresh draws."""

    @property
    def mean(self) -> FloatArray:
        """Mean bound of each prior: (priors,)."""
        return self.objective.mean(axis=1)

    def quantiles(self, *levels: float) -> FloatArray:
        """Quantiles over tasks of each prior: (levels, priors)."""
        return np.quantile(self.objective, levels, axis=1)


def solve(
    task: Task,
    prior: Distribution,
    *,
    budget: int,
    parameters: Parameters | None = None,
    **options: Any,
) -> Result:
    """Minimise a task's bound from a latent prior; the result's points and posterior are latent.

    The options are those of `minimize`.
    """
    return minimize(
        task.latent_risk(parameters),
        prior,
        task.bound,
        budget=budget,
        vectorized=task.vectorized,
        **options,
    )


def evaluate_priors(
    priors: Sequence[Distribution],
    tasks: Sequence[Task],
    *,
    budget: int = 150,
    draws: int = 10_000,
    algorithm: Algorithm | None = None,
    parameters: Parameters | None = None,
    executor: Executor | int | str | None = None,
    seed: int = 0,
) -> PriorScores:
    """Optimise each task from scratch under each prior, and judge the posterior by fresh draws.

    Parameters
    ----------
    priors
        Such as `MetaResult.priors`.
    tasks
        That the priors have not been learnt on.
    budget
        Queries of each search.
    draws
        Fresh runs of each posterior from which its mean risk is computed; none of them is learnt
        from. 0 trusts the search's own estimate, which spends a part of the budget on it.
    algorithm, executor, seed
        As for `minimize`.
    parameters
        Those that the priors were learnt with, where risks are functions of the user's units.

    """
    whole(draws, "draws", least=0)
    rows: list[list[tuple[float, float, float, int]]] = []
    for prior in priors:
        row = []
        for i, task in enumerate(tasks):
            options: dict[str, Any] = {"algorithm": algorithm, "executor": executor}
            if draws:
                options["validation"] = 0
            result = solve(
                task, prior, budget=budget, parameters=parameters, seed=seed + i, progress=False,
                **options,
            )  # fmt: skip
            mean_risk = result.mean_risk
            if draws:
                risk = task.latent_risk(parameters)
                mean_risk = _fresh(task, risk, result.posterior, draws, executor, seed + i)
            bound = task.bound(mean_risk, result.kl)
            row.append((bound, mean_risk, result.kl, len(result.evaluations)))
        rows.append(row)
    table = np.array(rows, dtype=np.float64)
    return PriorScores(*(table[:, :, k] for k in range(4)))


def _fresh(
    task: Task, risk: Any, posterior: Distribution, draws: int, executor: Any, seed: int
) -> float:
    """Mean risk of so many draws."""
    fleet = Fleet([(risk, task.vectorized)], Place(executor), ceilings=[None])
    try:
        x = posterior.sample(draws, np.random.default_rng([seed, draws]))
        return float(fleet.batch({0: x})[0].risk.mean())
    finally:
        fleet.close()
