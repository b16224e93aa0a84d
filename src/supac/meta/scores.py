"""How good is a prior? Tasks that it was not learnt on, each from scratch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from supac.arrays import FloatArray, whole
from supac.calibration.minimize import minimize
from supac.families import Distribution
from supac.meta.progress import SearchBar
from supac.meta.task import Task
from supac.problem.parameters import Parameters
from supac.record.history import StopReason
from supac.record.result import Result
from supac.running.fleet import Fleet, Place
from supac.running.interrupt import Interrupt, Interrupted
from supac.search.algorithm import Algorithm


@dataclass(frozen=True, eq=False)
class PriorScores:
    """The bounds that tasks reach from several priors: one row a prior, one column a task."""

    objective: FloatArray
    mean_risk: FloatArray
    kl: FloatArray
    queries: FloatArray
    """Spent by the search, without the fresh draws."""
    notes: tuple[str, ...] = ()
    """A sentence for each score that is NaN."""

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


def evaluate_priors(  # noqa: PLR0913 - one argument a thing that a user decides, all but two by keyword
    priors: Sequence[Distribution | Callable[[Task], Distribution]],
    tasks: Sequence[Task],
    *,
    budget: int = 150,
    draws: int = 10_000,
    parameters: Parameters | None = None,
    algorithm: Algorithm | None = None,
    executor: Executor | int | str | None = None,
    timeout: float | None = None,
    retries: int = 2,
    on_failure: Literal["raise", "penalise", "drop"] = "raise",
    max_failures: float = 0.5,
    seed: int = 0,
    progress: bool | None = None,
) -> PriorScores:
    """Optimise each task from scratch under each prior, and judge the posterior by fresh draws.

    A search that ends early because too many of its runs fail has no score: NaN, and a note.
    Ctrl-C raises KeyboardInterrupt.

    Parameters
    ----------
    priors
        Such as `MetaResult.priors`; or functions of a task, such as `MetaResult.prior_of`.
    tasks
        That the priors have not been learnt on.
    budget
        Queries of each search.
    draws
        Fresh runs of each posterior from which its mean risk is computed; none of them is learnt
        from. 0 trusts the search's own estimate, which spends a part of the budget on it.
    parameters
        Those that the priors were learnt with, where risks are functions of the user's units.
    algorithm, executor, timeout, retries, on_failure, max_failures
        As for `minimize`.
    seed
        Task i is searched with seed + i, under every prior.
    progress
        Show a progress bar; by default if the standard error is a terminal.

    """
    _check(priors, tasks)
    whole(draws, "draws", least=0)
    options = {
        "algorithm": algorithm, "executor": executor, "timeout": timeout, "retries": retries,
        "on_failure": on_failure, "max_failures": max_failures,
        "validation": 0 if draws else None,
    }  # fmt: skip
    place = Place(executor, timeout, whole(retries, "retries", least=0))
    rows: list[tuple[float, float, float, int]] = []
    notes: list[str] = []
    with Interrupt() as interrupt, SearchBar(len(priors) * len(tasks), progress) as bar:
        for (k, prior), (i, task) in product(enumerate(priors), enumerate(tasks)):
            own = prior if isinstance(prior, Distribution) else prior(task)
            result = solve(
                task, own, budget=budget, parameters=parameters, seed=seed + i, progress=False,
                **options,
            )  # fmt: skip
            if interrupt.requested:
                raise KeyboardInterrupt
            mean_risk = result.mean_risk
            if result.stop_reason is StopReason.FAILURES:
                mean_risk = np.nan
            elif draws:
                x = result.posterior.sample(draws, np.random.default_rng([seed + i, draws]))
                judge = _Judge(task.latent_risk(parameters), task, place, on_failure, interrupt)
                mean_risk = judge.mean_risk(x)
            if np.isnan(mean_risk):
                notes.append(f"task {i} has no score under prior {k}: too many of its runs fail")
            bound = np.nan if np.isnan(mean_risk) else task.bound(mean_risk, result.kl)
            rows.append((bound, mean_risk, result.kl, len(result.evaluations)))
            bar.advance(bound)
    table = np.array(rows, dtype=np.float64).reshape(len(priors), len(tasks), 4)
    objective, means, kl, queries = (table[:, :, k] for k in range(4))
    return PriorScores(objective, means, kl, queries, tuple(notes))


def _check(priors: Sequence[Any], tasks: Sequence[Any]) -> None:
    if not len(priors) or not all(isinstance(p, Distribution) or callable(p) for p in priors):
        raise TypeError(
            "priors must be one distribution or more, or functions of a task, not "
            f"{priors!r:.80}; of a prior that depends on features give [learnt.prior_of]"
        )
    if not tasks or not all(isinstance(each, Task) for each in tasks):
        raise TypeError(f"tasks must be one Task or more, not {tasks!r:.80}")


@dataclass(frozen=True, eq=False)
class _Judge:
    """Fresh runs of one task."""

    risk: Callable[[FloatArray], Any]
    """Of latent points."""
    task: Task
    place: Place
    policy: str
    interrupt: Interrupt

    def mean_risk(self, x: FloatArray) -> float:
        """Failed runs as `on_failure` wants it; NaN where all have failed and are left out."""
        ceiling = getattr(self.task.bound, "ceiling", None) if self.policy == "penalise" else None
        fleet = Fleet(
            [(self.risk, self.task.vectorized)],
            self.place,
            raising=self.policy == "raise",
            ceilings=[ceiling],
            interrupt=self.interrupt,
        )
        try:
            risk = fleet.batch({0: x})[0].risk
        except Interrupted as error:
            raise KeyboardInterrupt from error
        finally:
            fleet.close()
        if ceiling is not None:
            risk = np.where(np.isnan(risk), np.nanmax(risk, initial=ceiling), risk)
        good = risk[~np.isnan(risk)]
        return float(good.mean()) if len(good) else np.nan
