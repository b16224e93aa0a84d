"""The default search and its peers, all as (problem, seed, checkpoints) → Gaussian posteriors."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import scipy.optimize
import scipy.stats  # noqa: F401 - like the one above imported once, and no part of a round

import supac
from dimension.answer import EXTRA_RUNS, Answer, Method
from dimension.peers import PEERS
from dimension.problem import WideProblem
from outside.problem import Gaussian
from supac.arrays import FloatArray


def ours(problem: WideProblem, seed: int, checkpoints: Sequence[int]) -> Answer:
    """Run `minimize` with its defaults; the prior is its answer until the first batch has ended.

    No run is kept back for validation, so that all methods learn from as many.
    """
    answer = Answer(dict.fromkeys(checkpoints, problem.prior), dict.fromkeys(checkpoints, 0))
    simulating, last = 0.0, time.process_time()

    def simulate(x: FloatArray) -> FloatArray:
        nonlocal simulating
        start = time.process_time()
        residuals = problem.residuals(x)
        simulating += time.process_time() - start
        return residuals

    def look(event: supac.Iteration) -> None:
        nonlocal simulating, last
        answer.rounds.append(time.process_time() - last - simulating)
        found = event.next_posterior
        posterior = Gaussian(np.asarray(found.mean), np.asarray(found.covariance))
        for at in checkpoints:
            if event.queries <= at + EXTRA_RUNS:
                answer.posteriors[at], answer.runs[at] = posterior, event.queries
        simulating, last = 0.0, time.process_time()

    supac.minimize(
        supac.Composite(simulate, supac.MeanSquare()),
        supac.gaussian(problem.prior.mean, problem.covariance),
        problem.bound,
        budget=max(checkpoints) + EXTRA_RUNS,
        validation=0,
        seed=seed,
        callback=look,
        execution=supac.Execution(vectorized=True, progress=False),
    )
    return answer


METHODS: dict[str, Method] = {"ours": ours, **PEERS}
