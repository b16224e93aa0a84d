"""Check of the runs for modes of the risk that the posterior misses.

The optimal distribution for Catoni's bound has the density prior·exp(−R/λ), by which runs are
compared. A run is out of reach if the posterior would practically never draw its point.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtri

from supac.arrays import BoolArray
from supac.families import Distribution
from supac.problem import Evaluations, Problem
from supac.problem.bounds import worth_of_a_nat

_REMEDY = (
    "a mixture may follow them, with start=split_mixture(prior, 2) of minimize in Python; a "
    "problem file knows Gaussians alone"
)


def notes_on_modes(
    problem: Problem, runs: Evaluations, posterior: Distribution, mean_risk: float
) -> tuple[str, ...]:
    """Warn of good runs out of the posterior's reach, or of a mean risk far above the best."""
    good = runs.select(runs.ok)
    if len(good) < 2 or not np.isfinite(mean_risk):
        return ()
    worth = worth_of_a_nat(problem.bound, mean_risk, posterior.divergence(problem.prior).value)
    if not worth > 0.0:
        return ()
    beyond = _out_of_reach(good, posterior)
    quality = problem.prior.log_prob(good.x) - good.risk / worth
    # By how much the worst of twenty draws falls short of their median where all is Gaussian.
    slack = 0.5 * float(np.diff(chdtri(posterior.dim, [0.5, 0.05]))[0])
    usual = np.median(quality[~beyond]) if not beyond.all() else np.inf
    missed = beyond & (quality > usual - slack)
    if missed.any():
        count, best = int(missed.sum()), float(good.risk[missed].min())
        words = "a run is" if count == 1 else f"{count} runs are"
        return (
            f"{words} out of the posterior's reach and as good as those within (risk from "
            f"{best:.3g}): the risk may have other modes, which are missed; {_REMEDY}",
        )
    # A quadratic risk in so many dimensions costs half as many nats on average.
    best, allowed = float(good.risk.min()), 2.0 * posterior.dim * worth
    if posterior.family.is_gaussian and mean_risk - best > allowed:
        return (
            f"the mean risk, {mean_risk:.3g}, is far above that of the best run, {best:.3g}: the "
            f"posterior spreads over good and bad regions, perhaps over several modes; {_REMEDY}",
        )
    return ()


def _out_of_reach(runs: Evaluations, posterior: Distribution) -> BoolArray:
    """Mark runs twice as far below the median log-density as the furthest draw: (n,)."""
    own = posterior.log_prob(posterior.family.draws(posterior.theta))
    return posterior.log_prob(runs.x) < 2.0 * own.min() - np.median(own)
