"""Scores of priors on tasks that they were not learnt from."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from supac.arrays import FloatArray, whole
from supac.calibration.fresh import run_fresh
from supac.calibration.old_keywords import OldKeywords, with_old
from supac.calibration.search import Search
from supac.families import Distribution
from supac.meta.task import Task, check_tasks
from supac.problem import Parameters
from supac.record.ending import StopReason
from supac.record.run import RiskFunction
from supac.running.execution import Execution
from supac.running.interrupt import Interrupt
from supac.running.terminal import Bar
from supac.search.algorithm import Algorithm


@dataclass(frozen=True, eq=False)
class PriorScores:
    """Bounds of tasks under several priors: one row per prior, one column per task.

    These are measurements: no bound on the mean over tasks that are still to come.
    """

    objective: FloatArray
    mean_risk: FloatArray
    kl: FloatArray
    queries: FloatArray
    """Runs of the search, without the fresh draws."""
    notes: tuple[str, ...] = ()
    """Reason of each score that is NaN."""

    @property
    def mean(self) -> FloatArray:
        """Mean bound of each prior: (priors,)."""
        return self.objective.mean(axis=1)

    def quantiles(self, *levels: float) -> FloatArray:
        """Compute quantiles over tasks for each prior: (levels, priors)."""
        return np.quantile(self.objective, levels, axis=1)


def evaluate_priors(
    priors: Sequence[Distribution | Callable[[Task], Distribution]],
    tasks: Sequence[Task],
    *,
    budget: int = 150,
    draws: int = 10_000,
    parameters: Parameters | None = None,
    algorithm: Algorithm | None = None,
    execution: Execution | Any = None,
    store: str | os.PathLike[str] | None = None,
    seed: int = 0,
    **old: Unpack[OldKeywords],
) -> PriorScores:
    """Optimise each task from scratch under each prior, and estimate its bound by fresh draws.

    A search that stops because too many of its runs fail scores NaN, with a note.

    Parameters
    ----------
    priors, tasks
        Priors, or functions of a task such as `MetaResult.prior_of`, and tasks not learnt from.
    budget, draws
        Numbers of runs of each search, and of fresh runs for the mean risk of its posterior; 0
        draws uses the search's own estimate, which takes a part of the budget.
    parameters
        Parameters that the priors were learnt with, if risks are functions of the user's units.
    algorithm, execution
        As in `minimize`.
    store
        Folder, made if there is none, that keeps the runs of each search in a file of its own; an
        interrupted call continues from it.
    seed
        Task i is searched with seed + i, under every prior.

    """
    _check(priors, tasks)
    whole(draws, "draws", least=0)
    where, _ = with_old(execution, old)
    scores: list[_Score] = []
    with Interrupt() as interrupt, Bar(len(priors) * len(tasks), where.progress) as bar:
        for (k, prior), (i, task) in product(enumerate(priors), enumerate(tasks)):
            own = prior if isinstance(prior, Distribution) else prior(task)
            search = Search(
                task.risk,
                own if parameters is None else parameters.with_prior(own),
                task.bound,
                budget,
                algorithm=algorithm,
                execution=replace(task.execution(where), progress=False),
                store=None if store is None else _file(store, k, i),
                validation=0 if draws else None,
                seed=seed + i,
            )
            scores.append(_score(search, task, draws, interrupt))
            bar.draw(len(scores), f"searches, objective {scores[-1].objective:.4g}")
    return _table(scores, len(priors))


def _file(folder: str | os.PathLike[str], prior: int, task: int) -> Path:
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder, f"prior-{prior}-task-{task}.supac")


class _Score(NamedTuple):
    """Outcome of one search."""

    objective: float
    mean_risk: float
    kl: float
    queries: int


def _table(scores: Sequence[_Score], priors: int) -> PriorScores:
    columns = np.array(scores, dtype=np.float64).reshape(priors, -1, len(_Score._fields))
    objective, mean_risk, kl, queries = np.moveaxis(columns, 2, 0)
    notes = [
        f"task {i} has no score under prior {k}: too many of its runs fail"
        for k, i in np.argwhere(np.isnan(mean_risk))
    ]
    return PriorScores(objective, mean_risk, kl, queries, tuple(notes))


def _score(search: Search, task: Task, draws: int, interrupt: Interrupt) -> _Score:
    """Search, and estimate the bound of the posterior with fresh draws; NaN without a posterior."""
    result = search.run()
    if interrupt.requested:
        raise KeyboardInterrupt
    mean_risk = result.mean_risk
    if result.stop_reason is StopReason.FAILURES:
        mean_risk = np.nan
    elif draws:
        x = result.posterior.sample(draws, np.random.default_rng([search.seed, draws]))
        mean_risk = fresh_mean_risk(
            task, x, result.parameters, search.execution, store=search.store
        )
    objective = np.nan if np.isnan(mean_risk) else task.bound(mean_risk, result.kl)
    return _Score(objective, mean_risk, result.kl, len(result.evaluations))


def fresh_mean_risk(
    task: Task,
    x: FloatArray,
    parameters: Parameters | None,
    execution: Execution,
    *,
    store: str | os.PathLike[str] | None = None,
) -> float:
    """Compute the mean risk of fresh runs at latent points x; NaN if no run counts."""
    ceiling = execution.failure_risk(task.bound)
    runs = run_fresh(
        x,
        task.risk,
        task.execution(execution),
        "certificate",
        parameters=parameters,
        store=store,
        ceiling=ceiling,
    )
    function = RiskFunction(task.risk, ceiling=ceiling)
    function.reject_other_widths(runs)
    risk, _ = function.columns(runs)
    if ceiling is not None:
        risk = np.where(np.isnan(risk), np.nanmax(risk, initial=ceiling), risk)
    good = risk[~np.isnan(risk)]
    return float(good.mean()) if len(good) else np.nan


def _check(priors: Sequence[Any], tasks: Sequence[Any]) -> None:
    if not len(priors) or not all(isinstance(p, Distribution) or callable(p) for p in priors):
        raise TypeError(
            "priors must be one distribution or more, or functions of a task, not "
            f"{priors!r:.80}; of a prior that depends on features give [learnt.prior_of]"
        )
    check_tasks(tasks)
