"""The certificate of a posterior: of the mean over all of it, estimated from fresh draws.

Two quantities are estimated: the mean risk π[R] on the data, from fresh draws of the posterior, and
the true risk, from the data. Each gets a share of δ,

    P(π[R] > upper limit) ≤ δ_MC      over the draws, for any data and any number of draws,
    P(true risk > bound)  ≤ δ_PAC     over the data, for all posteriors simultaneously,

and because every bound increases with π[R], bound(upper limit, KL) holds with probability 1 − δ.
Where the losses of each datum are known, the second statement is that of KL_inf, and a gambler bets
on the draws that it fails, with the first share of δ: see `betting.posterior_limit`. If KL is
estimated as well, from draws that need no simulator run, its upper limit gets a share of δ.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supac.arrays import FloatArray, probability
from supac.families import Divergence
from supac.guarantee.basis import Bets, CertificateError, basis_of
from supac.guarantee.betting import betting_limit, posterior_limit
from supac.guarantee.certificate import Certificate, Losses, certificate_of
from supac.guarantee.gate import Limit, bets_on
from supac.guarantee.kl_inf import kl_inf_inverse, log_regret
from supac.guarantee.provenance import Provenance
from supac.problem.bounds import Bound

_KL_SHARE = 0.01  # of δ, for an estimated KL
_MOST_DATA = 5_000  # on which bets take seconds with a thousand draws
_INDEPENDENT = (
    "the prior was chosen independently of these data",
    "the draws are independent of the search",
)


def certify_draws(
    risk: FloatArray,
    kl: float | Divergence,
    bound: Bound,
    *,
    n: int,
    delta: float,
    ceiling: float | None = None,
    monte_carlo: float = 0.2,
    temperatures_tried: float = 1,
    prior_is_independent: bool = True,
) -> Certificate:
    """Compute a certificate from the risks (m,) of fresh draws, NaN for failed runs.

    Parameters
    ----------
    risk
        Risks of independent draws of the posterior that the search did not use. Each is declared to
        be the mean of n losses in [0, ceiling]; a root of a mean is not.
    kl
        KL(posterior, prior): exact, or an estimate whose upper limit gets 1 % of delta.
    bound
        The bound to evaluate; its own n and delta, if any, are replaced.
    n
        Number of independent data behind each risk.
    delta
        Total probability of failure.
    ceiling
        Largest possible loss of one datum; by default that of the bound.
    monte_carlo
        Share of delta for the draws.
    temperatures_tried
        Number of temperatures compared on these data, for `Catoni` with a fixed temperature: δ is
        divided by it. Infinite if the temperature was optimised: then the bound does not hold.
    prior_is_independent
        True if the prior was chosen independently of these data.

    """
    risks = np.asarray(risk, dtype=np.float64)
    if risks.ndim != 1 or not len(risks):
        raise CertificateError("a certificate needs the risks of at least one fresh draw")
    divergence = kl if isinstance(kl, Divergence) else Divergence(float(kl))
    basis = basis_of(None, bound, n=n, ceiling=ceiling)
    provenance = Provenance(prior_is_independent, temperatures_tried)
    return posterior_certificate(
        Losses(basis.means(risks, None), basis, int(np.isnan(risks).sum())),
        divergence,
        bound,
        delta=delta,
        monte_carlo=monte_carlo,
        provenance=provenance,
    )


def posterior_certificate(
    losses: Losses,
    divergence: Divergence,
    bound: Bound,
    *,
    delta: float,
    monte_carlo: float = 0.2,
    share: float = 1.0,
    provenance: Provenance = Provenance(),
    given_by_seeger: bool = False,
) -> Certificate:
    """Split δ, and bet on losses and draws; or evaluate the bound at the limits of loss and KL.

    `share` of δ is for this certificate, the rest for others on the same data; `given_by_seeger`
    says that an earlier version gave the certificate of this name, by the bound.
    """
    probability(monte_carlo, "monte_carlo")
    own = share * probability(delta, "delta")
    delta_kl = 0.0 if divergence.spread == 0.0 else _KL_SHARE * own
    nats = divergence.upper(delta_kl)
    if not (np.isfinite(nats) and nats > -1e-9):
        raise CertificateError(f"KL(posterior, prior) must be a number of nats, not {nats!r}")
    nats = max(nats, 0.0)
    delta_mc = monte_carlo * (own - delta_kl)
    delta_pac = own - delta_kl - delta_mc
    basis = losses.basis
    upper = basis.top * betting_limit(losses.means / basis.top, delta_mc)
    bets = bets_on(bound, losses.bets, provenance)
    if bets is None or given_by_seeger or bets.losses.shape[1] > _MOST_DATA:
        limit = Limit.of_bound(
            bound, basis, delta_pac, nats, provenance, mean=losses.mean, upper=upper
        )
    else:
        value, without = _limits(bets, nats, delta_mc, delta_pac)
        limit = Limit.of_bets(
            "PooledBetting", value, basis, delta_pac, nats, mean=losses.mean, upper=upper
        )
        limit = replace(limit, without_draws=basis.top * without)
    estimated = (
        f"KL was estimated as {divergence.value:.4g} from {divergence.draws:,} draws; its "
        f"upper limit is used, with {delta_kl:g} of δ",
    )
    return certificate_of(
        losses,
        limit,
        provenance,
        upper=upper,
        corrections=estimated if delta_kl else (),
        assumptions=_INDEPENDENT,
        kl=nats,
        delta=delta,
        delta_monte_carlo=delta_mc,
        delta_kl=delta_kl,
        delta_selection=delta - own,
        delta_pac=delta_pac,
    )


def _limits(bets: Bets, nats: float, delta_mc: float, delta_pac: float) -> tuple[float, float]:
    """Return the limit by bets on data and draws, and that if all draws had these losses."""
    n, many = bets.exponents.sum(), len(bets.losses)
    price = nats + log_regret(n) - float(np.log(delta_pac))
    pooled = np.tile(bets.weights, many) / many
    without = kl_inf_inverse(bets.losses.ravel(), pooled, price / n)
    return posterior_limit(bets.losses, bets.exponents, price, delta_mc), without
