"""The default search and its peers, all as (problem, seed, checkpoints) → Gaussian posteriors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import supac
from outside.problem import Gaussian, OutsideProblem
from supac.arrays import FloatArray

Posteriors = dict[int, Gaussian]
"""The posterior after at most so many runs."""
Method = Callable[[OutsideProblem, int, Sequence[int]], Posteriors]


class SkippedError(Exception):
    """A method that cannot be run on a problem, or here."""


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
        progress=False,
        callback=look,
        execution=supac.Execution(on_failure="penalise" if problem.fails else "raise"),
    )
    return {at: [each for runs, each in seen if runs <= at][-1] for at in checkpoints}


def laplace(problem: OutsideProblem, mean: FloatArray, jacobian: FloatArray) -> Gaussian:
    """Return the Gauss–Newton approximation of the Gibbs posterior exp(−R/λ)·prior.

    R is taken as mean(r²)/square, with the residuals' `jacobian` (k, d) in latent parameters.
    """
    precision = np.linalg.inv(problem.prior.covariance)
    if np.isfinite(jacobian).all():
        weight = 2.0 / (len(jacobian) * problem.square * problem.temperature)
        precision = precision + weight * jacobian.T @ jacobian
    return Gaussian(mean, np.linalg.inv(precision))


METHODS: dict[str, Method] = {"ours": ours}
