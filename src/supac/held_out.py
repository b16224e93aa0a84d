"""How good is a prior? Tasks that it was not learnt on, each from scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.arrays import FloatArray, whole
from supac.families import Distribution
from supac.fleet import Fleet, Place
from supac.minimize import minimize
from supac.parameters import Parameters
from supac.progress import SearchBar
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
    """Minimise a task's bound from a latent prior; the options are those of `minimize`."""
    return minimize(
        task.risk,
        prior if parameters is None else parameters.with_prior(prior),
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
    parameters: Parameters | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
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
    parameters
        Those that the priors were learnt with, where risks are functions of the user's units.
    seed
        Task i is searched with seed + i, under every prior.
    progress
        Show a progress bar; by default if the standard error is a terminal.
    options
        Of `minimize`: `algorithm`, `executor`, `on_failure` and so on.

    """
    whole(draws, "draws", least=0)
    searches = {"validation": 0} | options if draws else options
    rows: list[list[tuple[float, float, float, int]]] = []
    with SearchBar(len(priors) * len(tasks), progress) as bar:
        for prior in priors:
            rows.append([])
            for i, task in enumerate(tasks):
                result = solve(
                    task, prior, budget=budget, parameters=parameters, seed=seed + i,
                    progress=False, **searches,
                )  # fmt: skip
                mean_risk = result.mean_risk
                if draws:
                    x = result.posterior.sample(draws, np.random.default_rng([seed + i, draws]))
                    mean_risk = _mean_risk(task, x, parameters, options)
                bound = task.bound(mean_risk, result.kl)
                rows[-1].append((bound, mean_risk, result.kl, len(result.evaluations)))
                bar.advance(bound)
    table = np.array(rows, dtype=np.float64).reshape(len(priors), len(tasks), 4)
    return PriorScores(*(table[:, :, k] for k in range(4)))


def _mean_risk(
    task: Task, x: FloatArray, parameters: Parameters | None, options: Mapping[str, Any]
) -> float:
    """Of fresh runs, failed ones as `on_failure` wants it."""
    policy, ceiling = options.get("on_failure", "raise"), getattr(task.bound, "ceiling", None)
    place = Place(options.get("executor"), options.get("timeout"), options.get("retries", 2))
    fleet = Fleet(
        [(task.latent_risk(parameters), task.vectorized)],
        place,
        raising=policy == "raise",
        ceilings=[ceiling if policy == "penalise" else None],
    )
    try:
        risk = fleet.batch({0: x})[0].risk
    finally:
        fleet.close()
    if policy == "penalise" and ceiling is not None:
        risk = np.where(np.isnan(risk), max(ceiling, np.nanmax(risk, initial=ceiling)), risk)
    return float(np.nanmean(risk))
