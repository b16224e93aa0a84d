"""The certificate of held-out data: the ensemble never saw them, so there is no KL term to pay.

A run simulates all outputs, those of the test part too. With K parameter sets that do not depend on
the test data, the loss of each datum, averaged over the sets, lies in [0, C]. Where only their mean
is known, Chernoff's bound limits its expectation: kl(mean, limit) ≤ log(1/δ)/n, for independent
data of any distributions. Where each is, a gambler bets on them, with most of the wealth on the
stake of Chernoff's bound: see `stakes`.
"""

from __future__ import annotations

import numpy as np

from supac.arrays import probability
from supac.guarantee.basis import CertificateError
from supac.guarantee.certificate import Certificate, Losses, certificate_of
from supac.guarantee.gate import Limit
from supac.guarantee.provenance import Provenance
from supac.guarantee.stakes import held_out_limit
from supac.problem.bounds import MaurerLangfordSeeger, kl_inverse


def held_out_certificate(
    losses: Losses,
    *,
    delta: float,
    provenance: Provenance = Provenance(),
    given_by_chernoff: bool = False,
) -> Certificate:
    """Compute the certificate of K parameter sets from their losses on the test data.

    By bets on the loss of each datum, averaged over the sets, where it is known; by Chernoff's
    bound otherwise, or if an earlier version gave the certificate of this name.
    """
    basis = losses.basis
    if basis.sequential:
        raise CertificateError(
            "a sequence depends on what came before, so that its test part is not independent of "
            "its training part: give blocks that are, without sequential"
        )
    share = probability(delta, "delta") * provenance.share
    # As for all bounds that rest on kl, the largest weight of a block counts.
    n, bets = MaurerLangfordSeeger.data_in(basis.weights), losses.bets
    limits = {"Chernoff": kl_inverse(losses.mean / basis.top, -float(np.log(share)) / n)}
    name = "Chernoff"
    if bets is not None and not given_by_chernoff:
        name = "Betting"
        limits[name] = held_out_limit(bets.losses.mean(axis=0), bets.exponents, share)
    top = basis.top
    limit = Limit(
        name, top * limits[name], {each: basis.in_risk(top * x) for each, x in limits.items()}, n
    )
    return certificate_of(
        losses,
        limit,
        provenance,
        assumptions=(
            "the held-out data are independent of those that the search has seen, and nobody has "
            "looked at them to choose prior, loss or settings",
        ),
        subject="held-out",
        kl=0.0,
        delta=delta,
        delta_selection=delta - share,
        delta_pac=share,
    )
