"""The default search and its peers, all as (problem, seed, checkpoints) → Gaussian posteriors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import supac
from outside.peers import PEERS
from outside.posteriors import Posteriors
from outside.problem import Gaussian, OutsideProblem

Method = Callable[[OutsideProblem, int, Sequence[int]], Posteriors]


def ours(problem: OutsideProblem, seed: int, checkpoints: Sequence[int]) -> Posteriors:
    """Run `minimize` with its defaults; the prior is its answer until the first batch has ended.

    No run is kept back for validation, so that all methods learn from as many.
    """
    seen = [(0, problem.prior)]

    def look(event: supac.Iteration) -> None:
        posterior = event.next_posterior
        found = Gaussian(np.asarray(posterior.mean), np.asarray(posterior.covariance))
        seen.append((event.queries, found))

    supac.minimize(
        problem.composite(seed),
        problem.parameters,
        problem.bound,
        budget=max(checkpoints),
        validation=0,
        seed=seed,
        callback=look,
        execution=supac.Execution(
            on_failure="penalise" if problem.fails else "raise", progress=False
        ),
    )
    return {at: [each for runs, each in seen if runs <= at][-1] for at in checkpoints}


METHODS: dict[str, Method] = {"ours": ours, **PEERS}
