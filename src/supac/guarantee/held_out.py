"""The certificate of held-out data: the ensemble never saw them, so there is no KL term to pay.

A run simulates all outputs, those of the test part too. With K parameter sets that do not depend on
the test data, the loss of each datum, averaged over the sets, lies in [0, C], and Chernoff's bound
limits its expectation: kl(mean, limit) ≤ log(1/δ)/n, for independent data of any distributions.
"""

from __future__ import annotations

import numpy as np

from supac.arrays import probability
from supac.guarantee.certificate import Certificate, Losses, certificate_of
from supac.guarantee.gate import CertificateError, Provenance
from supac.problem.bounds import MaurerLangfordSeeger, kl_inverse


def held_out_certificate(
    losses: Losses, *, delta: float, provenance: Provenance = Provenance()
) -> Certificate:
    """Compute the certificate of K parameter sets from their mean losses on the test data."""
    basis = losses.basis
    if basis.sequential:
        raise CertificateError(
            "a sequence depends on what came before, so that its test part is not independent of "
            "its training part: give blocks that are, without sequential"
        )
    share = probability(delta, "delta") * provenance.share
    # As for all bounds that rest on kl, the largest weight of a block counts.
    n = MaurerLangfordSeeger.data_in(basis.weights)

    def limit(loss: float) -> float:
        return basis.top * kl_inverse(loss / basis.top, -float(np.log(share)) / n)

    return certificate_of(
        losses,
        limit,
        provenance,
        assumptions=(
            "the held-out data are independent of those that the search has seen, and nobody has "
            "looked at them to choose prior, loss or settings",
        ),
        subject="held-out",
        bound="Chernoff",
        bounds={"Chernoff": basis.in_risk(limit(losses.mean))},
        kl=0.0,
        n=n,
        delta=delta,
        delta_selection=delta - share,
        delta_pac=share,
    )
