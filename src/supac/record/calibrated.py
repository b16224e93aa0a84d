"""What a result and a store's snapshot both tell, and which certificates are about it."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from supac.codec import fingerprint
from supac.families import Density, Distribution, Divergence
from supac.guarantee.certificate import Certificate
from supac.problem.parameters import Parameters

_ERRORS = 6.0  # standard errors by which estimates of one KL may differ


class Calibrated(Protocol):
    """What a result and a store's snapshot both tell."""

    @property
    def posterior(self) -> Distribution | None:
        """Latent where there are parameters."""

    @property
    def prior(self) -> Density | None:
        """Latent where there are parameters."""

    @property
    def parameters(self) -> Parameters | None:
        """None where they have no names."""

    @property
    def kl(self) -> float:
        """KL(posterior, prior); on the way, that of the posterior before."""

    @property
    def kl_error(self) -> float:
        """Its standard error."""

    @property
    def stop_reason(self) -> str | None:
        """None on the way."""

    @property
    def bound(self) -> object:
        """What is minimised."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known."""


def check_certificate(run: Calibrated, certificate: Certificate | None) -> None:
    """ValueError where a certificate is about another posterior, or about another prior.

    Its fingerprint tells, and where it or the run has none, KL.
    """
    if certificate is None:
        return
    if run.posterior is None or run.prior is None:
        kl = Divergence(run.kl, float(np.nan_to_num(run.kl_error)))
    else:
        kl = run.posterior.divergence(run.prior)
        mine = fingerprint(run.posterior, run.prior)
        if mine and certificate.fingerprint not in ("", mine):
            raise ValueError(
                "the certificate is about another posterior, or about another prior (its "
                f"fingerprint is {certificate.fingerprint}, this run's is {mine}): certify this "
                "run, and give that certificate"
            )
    # Where KL is estimated, a certificate holds an upper limit, of more draws than these.
    slack = max(_ERRORS * kl.error, 1e-6 * abs(kl.value), 1e-9)
    limit = kl.upper(certificate.delta_kl) if certificate.delta_kl else kl.value
    if not kl.value - slack <= certificate.kl <= limit + slack:
        about = f"{kl.value:.6g}" + (f" ± {kl.error:.1g}" if kl.error else "")
        raise ValueError(
            f"the certificate is about a posterior with KL {certificate.kl:.6g}, but this one's is "
            f"{about}: certify this run, and give that certificate"
        )
