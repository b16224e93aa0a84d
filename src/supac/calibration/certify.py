"""Certify a posterior with fresh runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from supac.arrays import FloatArray, whole
from supac.calibration.fresh import Path, run_fresh
from supac.calibration.old_keywords import OldKeywords, with_old
from supac.codec import fingerprint
from supac.families import Distribution
from supac.guarantee.certificate import Certificate
from supac.guarantee.gate import Basis, CertificateError, Provenance, basis_of
from supac.guarantee.posterior import posterior_certificate
from supac.problem import Bound, Composite, Parameters
from supac.record.run import Run
from supac.running.execution import Execution

_STREAM = 0xCE27  # of random numbers that no search uses
_KL_DRAWS = 100_000


def certify(
    posterior: Distribution,
    prior: Distribution | Parameters,
    risk: Callable[[FloatArray], Any],
    bound: Bound,
    *,
    n: int | None = None,
    delta: float | None = None,
    draws: int = 1_000,
    ceiling: float | None = None,
    temperatures_tried: float = 1,
    execution: Execution | Any = None,
    store: Path | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **old: Unpack[OldKeywords],
) -> Certificate:
    """Run the simulator at `draws` fresh draws of the posterior, and certify its mean risk.

    Parameters
    ----------
    posterior, prior, risk, bound, execution, progress
        As in `minimize`; a failed run counts as the ceiling.
    n
        Number of independent data of each risk; by default the bound's.
    delta
        Probability that the certificate fails; by default the bound's, or else 0.05.
    draws
        Number of fresh runs: fewer certify a higher risk.
    ceiling, temperatures_tried
        As in `certify_draws`.
    store
        File that keeps every run as it ends, such as the store of the search; an interrupted
        certificate continues from it.
    seed
        Seed of the draws.

    """
    where, rest = with_old(execution, old, "monte_carlo", "prior_is_independent")
    delta = delta if delta is not None else getattr(bound, "delta", None) or 0.05
    latent = prior.prior if isinstance(prior, Parameters) else prior
    kl = _divergence(posterior, latent, seed)
    rng = np.random.default_rng([whole(seed, "seed", least=0), _STREAM])
    x = posterior.sample(whole(draws, "draws", least=1), rng)
    runs = run_fresh(
        x, risk, replace(where, on_failure="drop"), "certificate",
        parameters=prior if isinstance(prior, Parameters) else None, store=store,
        progress=progress,
    )  # fmt: skip
    if not any(run.ok for run in runs):
        raise CertificateError(f"all {draws} runs failed, the first with: {runs[0].message}")
    means, basis = losses_of(runs, risk, bound, n=n, ceiling=ceiling)
    certificate = posterior_certificate(
        means, sum(not run.ok for run in runs), kl, bound, basis, delta=delta,
        monte_carlo=rest.get("monte_carlo", 0.2),
        provenance=Provenance(rest.get("prior_is_independent", True), temperatures_tried),
    )  # fmt: skip
    return replace(certificate, fingerprint=fingerprint(posterior, latent))


def losses_of(
    runs: Sequence[Run], risk: object, bound: Bound, *, n: int | None, ceiling: float | None = None
) -> tuple[FloatArray, Basis]:
    """Return the mean loss of each run, before a root (m,), and what it is the mean of."""
    risks = np.array([run.risk if run.ok else np.nan for run in runs])
    residuals = None
    if isinstance(risk, Composite) and any(run.outputs is not None for run in runs):
        width = next(len(run.outputs) for run in runs if run.outputs is not None)
        known = [np.full(width, np.nan) if run.outputs is None else run.outputs for run in runs]
        compared = risk.residuals(np.array(known)[np.isfinite(risks)])
        residuals = np.full((len(runs), compared.shape[1]), np.nan)
        residuals[np.isfinite(risks)] = compared
    measured = None if residuals is None else residuals.shape[1]
    basis = basis_of(risk, bound, n=n, ceiling=ceiling, measured=measured)
    return basis.means(risks, residuals), basis


def _divergence(posterior: Distribution, prior: Distribution, seed: int) -> Any:
    """Compute KL(posterior, prior); CertificateError if it has no upper limit."""
    # Not the draws of the search, to which the posterior may be fitted.
    draws = [whole(seed, "seed", least=0), _STREAM, 1]
    kl = posterior.divergence(prior, draws)
    if 0.0 < kl.spread < np.inf:
        kl = posterior.divergence(prior, draws, _KL_DRAWS)
    if not np.isfinite(kl.spread):
        raise CertificateError(
            f"KL from a member of {posterior.family} to this prior is only known from draws that "
            "may be arbitrarily large: no certificate can rest on it. For Gaussians, mixtures of "
            "them and Student-t with more than two degrees of freedom any Gaussian prior will do"
        )
    return kl
