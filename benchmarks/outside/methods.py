"""The default search and its peers, all as (problem, seed, checkpoints) → Gaussian posteriors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import supac
from outside.peers import PEERS
from outside.posteriors import Posteriors
from outside.problem import Gaussian, OutsideProblem

Method = Callable[[OutsideProblem, int, Sequence[int]], Posteriors]


@dataclass(frozen=True)
class Moment:
    """The posterior of a search after so many runs, rounds and seconds."""

    runs: int
    rounds: int
    seconds: float
    posterior: Gaussian
    tested: bool = False
    """The runs of this round have tested a step."""


def trace(
    problem: OutsideProblem, seed: int, budget: int, risk: Any = None, **options: Any
) -> list[Moment]:
    """Run `minimize` and return the posterior after each round, first of all the prior.

    No run is kept back for validation, so that all methods learn from as many. `options` are those
    of `minimize`, and `workers` and `mode` of its `Execution`; `clock` tells the seconds.
    """
    clock = options.pop("clock", time.perf_counter)
    seen, start = [Moment(0, 0, 0.0, problem.prior)], clock()

    def look(event: supac.Iteration) -> None:
        posterior = event.next_posterior
        found = Gaussian(np.asarray(posterior.mean), np.asarray(posterior.covariance))
        tested = bool(np.isfinite(event.info.ratio))
        seen.append(Moment(event.queries, len(seen), clock() - start, found, tested))

    where = {name: options.pop(name) for name in ("workers", "mode") if name in options}
    supac.minimize(
        problem.composite(seed) if risk is None else risk,
        problem.parameters,
        problem.bound,
        budget=budget,
        validation=0,
        seed=seed,
        callback=look,
        execution=supac.Execution(
            on_failure="penalise" if problem.fails else "raise", progress=False, **where
        ),
        **options,
    )
    return seen


def at(moments: Sequence[Moment], runs: int) -> Moment:
    """Return the last moment with no more runs."""
    return [each for each in moments if each.runs <= runs][-1]


def ours(problem: OutsideProblem, seed: int, checkpoints: Sequence[int]) -> Posteriors:
    """Run `minimize` with its defaults; the prior is its answer until the first batch has ended."""
    moments = trace(problem, seed, max(checkpoints))
    return {runs: at(moments, runs).posterior for runs in checkpoints}


METHODS: dict[str, Method] = {"ours": ours, **PEERS}
