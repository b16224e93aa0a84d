"""The evidence, from particles of the modelled minimiser and fresh runs of a posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Function
from supac.shape.particles import Particles


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Hold log E_prior exp(−risk/λ), at Catoni's temperature λ, and its standard error.

    Minus λ times that is the lowest value of mean risk + λ·KL over all distributions. Where
    exp(−risk/λ) is the likelihood of the data, up to a factor, it is the Bayesian evidence.
    """

    log: float
    error: float
    """NaN where no fresh run tells how wrong the model is."""
    temperature: float
    runs: int = 0
    """Number of fresh runs that corrected it."""


def estimate_evidence(
    particles: Particles,
    risk: Function,
    prior: Distribution,
    posterior: Distribution,
    x: FloatArray,
    measured: FloatArray,
) -> Evidence:
    """Correct the evidence of a modelled risk by measured risks of draws x of a posterior.

    The ratio of both evidences is the mean of exp(−β(measured − modelled)) under the modelled
    minimiser, to which self-normalised weights bring the draws. The model's error alone is left to
    chance, which is why few runs do.
    """
    beta, temperature = particles.beta, 1.0 / particles.beta
    if len(x) < 2:
        return Evidence(log=particles.log_evidence, error=np.nan, temperature=temperature)
    modelled = risk(x)
    log_weights = prior.log_prob(x) - beta * modelled - posterior.log_prob(x)
    # Truncated at √n times their mean (Ionides, 2008): one draw far out must not decide alone.
    log_weights = np.minimum(log_weights, logsumexp(log_weights) - 0.5 * np.log(len(x)))
    weights = np.exp(log_weights - logsumexp(log_weights))
    change = -beta * (measured - modelled)
    correction = float(logsumexp(change, b=weights))
    away = weights * np.expm1(change - correction)
    doubt = float(np.sqrt((away**2).sum() * len(x) / (len(x) - 1)))
    return Evidence(
        log=particles.log_evidence + correction,
        error=float(np.hypot(particles.error, doubt)),
        temperature=temperature,
        runs=len(x),
    )
