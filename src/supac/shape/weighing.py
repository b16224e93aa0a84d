"""A posterior that is nearly the minimiser already, as weights of its own draws tell.

With log w = log prior − β·risk − log posterior, the nats that any other distribution can gain are
log E[w] − E[log w] over draws of the posterior, and half the variance of log w where that is
little. Particles cost a hundred times as many values of the risk.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from supac.families import Distribution
from supac.problem import Function
from supac.problem.bounds import Bound, fixed_temperature, trade_off
from supac.shape.particles import Particles, chosen_by_weight

_DRAWS = 1_000
_NEARLY = 0.05  # nats: half of what a shape must gain, for what such draws do not reach


def weigh_draws(
    risk: Function, prior: Distribution, bound: Bound, own: Distribution, rng: np.random.Generator
) -> Particles | None:
    """Return particles of the minimiser among draws of a posterior; None if it is another one."""
    x = own.sample(_DRAWS, rng)
    risks = risk(x)
    log_ratio = prior.log_prob(x) - own.log_prob(x)
    fixed = fixed_temperature(bound)
    if fixed is None:
        beta = trade_off(bound, float(np.median(risks)), max(-float(log_ratio.mean()), 0.0))
    else:
        beta = 1.0 / fixed
    log_weights = log_ratio - beta * risks
    log_evidence = float(logsumexp(log_weights) - np.log(_DRAWS))
    # Half the variance: of a wider minimiser these draws see less than the mean of its weights.
    gain = max(log_evidence - float(log_weights.mean()), 0.5 * float(log_weights.var()))
    if not gain < _NEARLY:
        return None
    weights = np.exp(log_weights - logsumexp(log_weights))
    chosen = chosen_by_weight(weights, rng)
    variance = float((weights**2).sum() - 1.0 / _DRAWS)
    return Particles(x[chosen], risks[chosen], beta, log_evidence, float(np.sqrt(variance)))
