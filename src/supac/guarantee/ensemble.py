"""The certificate of an ensemble: K draws of a posterior, already simulated. No further run.

Let P be the prior, Q a posterior found on data S, ρ(h) = log dQ/dP(h), and Δ(h, S) a function with
E_S E_{h∼P} exp Δ(h, S) ≤ ξ. Let h_1 … h_K be drawn from Q. With probability 1 − δ over data and
draws

    (1/K) Σ Δ(h_k, S) ≤ (1/K) Σ ρ(h_k) + log(ξ/δ):

W = (1/K) Σ exp(Δ(h_k) − ρ(h_k)) has mean at most ξ, so W ≤ ξ/δ with probability 1 − δ (Markov), and
mean(Δ − ρ) ≤ log W (Jensen). Every bound of this package follows from such a Δ that is convex
in the pair of risks, n·kl(R̂, R) with ξ = 2√n or (R − R̂)/λ − C²/(8λ²n) with ξ = 1. So each holds
for the mean true risk of the K sets, with their own mean risk and mean log density ratio in place
of π[R] and KL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray, probability, whole
from supac.families import Distribution
from supac.guarantee.certificate import Certificate, Losses, certificate_of
from supac.guarantee.gate import (
    CertificateError,
    Provenance,
    admitted,
    every_value,
)
from supac.problem.bounds import Bound

PASSED, FIRST, SECOND = 0.96, 0.02, 0.02
"""Shares of δ for the three samples that validation may report: all runs, where the posterior
passed; else those of the first posterior, or those of the second."""
STREAM = 0xCE27  # of random numbers that no search uses


def fresh_draws(posterior: Distribution, draws: int, seed: int = 0) -> FloatArray:
    """Return the points of a certificate with this number of draws: (draws, dim)."""
    rng = np.random.default_rng([whole(seed, "seed", least=0), STREAM])
    return posterior.sample(whole(draws, "draws", least=1), rng)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Parameter sets drawn from a posterior, with their runs: to predict with, and certified."""

    x: FloatArray
    """In the user's units: (K, dim)."""
    risk: FloatArray
    """NaN for a failed run: (K,)."""
    log_ratio: FloatArray
    """log posterior − log prior: (K,)."""
    outputs: FloatArray | None = None
    """Simulated outputs (K, m), NaN for a failed run; None for a scalar risk."""

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} parameter sets, mean risk {np.nanmean(self.risk):.4g})"


def ensemble_certificate(
    losses: Losses,
    log_ratio: FloatArray,
    bound: Bound,
    *,
    delta: float,
    selection: float = PASSED,
    provenance: Provenance = Provenance(),
) -> Certificate:
    """Compute the certificate of K draws from their mean losses and log density ratios (K,).

    `selection` is the share of δ of the sample that validation reported: that there were others
    to choose from is paid for whether or not they were needed.
    """
    probability(delta, "delta")
    if not len(losses.means):
        raise CertificateError("a certificate needs at least one fresh draw of the posterior")
    nats = float(np.mean(log_ratio))
    if not np.isfinite(nats):
        raise CertificateError(
            f"the mean log density ratio of the draws is {nats}: the prior excludes some of them"
        )
    delta_pac, basis = delta * selection * provenance.share, losses.basis
    chosen, corrections, assumptions = admitted(bound, basis, delta_pac, provenance, of_draws=True)
    return certificate_of(
        losses,
        lambda loss: float(chosen(loss, nats)),
        provenance,
        corrections=corrections,
        assumptions=("the prior was chosen independently of these data", *assumptions),
        subject="ensemble",
        bound=type(bound).__name__,
        bounds=every_value(chosen, basis, delta_pac, losses.mean, nats, of_draws=True),
        kl=nats,
        n=basis.number(type(bound)),
        delta=delta,
        delta_selection=delta - delta_pac,
        delta_pac=delta_pac,
    )
