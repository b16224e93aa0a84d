"""The certificate of held-out data: the ensemble never saw them, so there is no KL term to pay.

A run simulates all outputs, those of the test part too. With K parameter sets that do not depend on
the test data, the loss of each datum, averaged over the sets, lies in [0, C], and Chernoff's bound
limits its expectation: kl(mean, limit) ≤ log(1/δ)/n, for independent data of any distributions.
"""

from __future__ import annotations

import numpy as np

from supac.arrays import FloatArray, probability
from supac.guarantee.certificate import Certificate
from supac.guarantee.gate import Basis, CertificateError, Provenance, failures_counted
from supac.problem.bounds import MaurerLangfordSeeger, kl_inverse


def held_out_certificate(
    means: FloatArray,
    failed: int,
    basis: Basis,
    *,
    delta: float,
    provenance: Provenance = Provenance(),
    fingerprint: str = "",
) -> Certificate:
    """Compute the certificate of K parameter sets from their mean losses on the test data (K,)."""
    if basis.sequential:
        raise CertificateError(
            "a sequence depends on what came before, so that its test part is not independent of "
            "its training part: give blocks that are, without sequential"
        )
    share = probability(delta, "delta") * provenance.share
    # As for all bounds that rest on kl, the largest weight of a block counts.
    n, mean = MaurerLangfordSeeger.data_in(basis.weights), float(np.mean(means))
    limit = basis.top * kl_inverse(mean / basis.top, -float(np.log(share)) / n)
    value = basis.in_risk(limit)
    return Certificate(
        subject="held-out",
        value=value,
        bound="Chernoff",
        bounds={"Chernoff": value},
        mean_risk=basis.in_risk(mean),
        mean_risk_upper=basis.in_risk(mean),
        without_draws=value,
        kl=0.0,
        n=n,
        ceiling=basis.ceiling,
        capped=basis.capped,
        draws=len(means),
        failed=failed,
        delta=delta,
        delta_selection=delta - share,
        delta_pac=share,
        corrections=failures_counted(failed, len(means), basis),
        assumptions=(
            *basis.assumptions,
            "the held-out data are independent of those that the search has seen, and nobody has "
            "looked at them to choose prior, loss or settings",
        ),
        fingerprint=fingerprint,
    )
