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

Where the loss of each datum is known, more can be said. Let F be the losses of all draws, pooled.
With Δ = n·KL_inf(F_h, R) and ξ = ξ_n (see `kl_inf`), which is jointly convex as well, follows form
A, KL_inf(F, mean R) ≤ (mean ρ + log ξ_n/δ)/n; it is never above Seeger's bound. Form M (see
`stakes`) stops before Jensen's inequality. Which of them a certificate has depends on the number of
draws and data alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from supac.arrays import FloatArray, probability, whole
from supac.families import Distribution
from supac.guarantee.basis import Bets, CertificateError
from supac.guarantee.certificate import Certificate, Losses, certificate_of
from supac.guarantee.gate import Limit, bets_on
from supac.guarantee.kl_inf import kl_inf_inverse, log_regret
from supac.guarantee.provenance import Provenance
from supac.guarantee.stakes import mixture_limit
from supac.problem.bounds import Bound

PASSED, FIRST, SECOND = 0.96, 0.02, 0.02
"""Shares of δ for the three samples that validation may report: all runs, where the posterior
passed; else those of the first posterior, or those of the second."""
_SOLVED_IN_A_SECOND = 200_000
"""Losses, draws times data, up to which form M is used; above, form A."""
STREAM = 0xCE27  # of random numbers that no search uses


def fresh_draws(posterior: Distribution, draws: int, seed: int = 0) -> FloatArray:
    """Return the points of a certificate with this number of draws: (draws, dim)."""
    rng = np.random.default_rng([whole(seed, "seed", least=0), STREAM])
    return posterior.sample(whole(draws, "draws", least=1), rng)


def seed_beginning_from(seed: int, x: FloatArray) -> int:
    """Return the seed of fresh draws after a search that began from known runs at x (n, dim).

    The runs may be the fresh draws of another posterior, to which this one is fitted: with the
    same seed, their normals would be drawn again.
    """
    told = sha256(f"{seed} ".encode() + np.ascontiguousarray(x).tobytes())
    return int.from_bytes(told.digest()[:8])


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
    given_by_seeger: bool = False,
) -> Certificate:
    """Compute the certificate of K draws from their losses and log density ratios (K,).

    Where the losses of each datum are known, bet on them; otherwise evaluate the bound at their
    means. `selection` is the share of δ of the sample that validation reported: that there were
    others to choose from is paid for whether or not they were needed. `given_by_seeger` says that
    an earlier version gave the certificate of this name: then the form that is never above it.
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
    bets = bets_on(bound, losses.bets, provenance)
    if bets is None:
        limit = Limit.of_bound(bound, basis, delta_pac, nats, provenance, mean=losses.mean)
    else:
        pooled = given_by_seeger or bets.losses.size > _SOLVED_IN_A_SECOND
        name, share = _limit(bets, log_ratio, delta_pac, pooled=pooled)
        limit = Limit.of_bets(name, share, basis, delta_pac, nats, mean=losses.mean)
    return certificate_of(
        losses,
        limit,
        provenance,
        assumptions=("the prior was chosen independently of these data",),
        subject="ensemble",
        kl=nats,
        delta=delta,
        delta_selection=delta - delta_pac,
        delta_pac=delta_pac,
    )


def _limit(bets: Bets, log_ratio: FloatArray, delta: float, *, pooled: bool) -> tuple[str, float]:
    """Return the name and the limit of form M, or of form A: of the losses of all draws pooled."""
    if not pooled:
        return "Betting", mixture_limit(bets.losses, bets.exponents, log_ratio, delta)
    n, many = bets.exponents.sum(), len(bets.losses)
    nats = float(np.mean(log_ratio)) + log_regret(n) - np.log(delta)
    weights = np.tile(bets.weights, many) / many
    return "PooledBetting", kl_inf_inverse(bets.losses.ravel(), weights, nats / n)
