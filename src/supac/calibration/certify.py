"""Certify a posterior with fresh runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from supac.arrays import FloatArray, whole
from supac.calibration.fresh import Path, run_fresh
from supac.calibration.old_keywords import OldKeywords, with_old
from supac.codec import fingerprint
from supac.families import Distribution
from supac.guarantee.certificate import Certificate, CertificateError, certify_draws
from supac.problem import Bound, Parameters
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
    n, delta = _data_and_delta(bound, n, delta)
    latent = prior.prior if isinstance(prior, Parameters) else prior
    kl = _divergence(posterior, latent, seed)
    rng = np.random.default_rng([whole(seed, "seed", least=0), _STREAM])
    x = posterior.sample(whole(draws, "draws", least=1), rng)
    runs = run_fresh(
        x, risk, replace(where, on_failure="drop"), "certificate",
        parameters=prior if isinstance(prior, Parameters) else None, store=store,
        progress=progress,
    )  # fmt: skip
    risks = np.array([run.risk if run.ok else np.nan for run in runs])
    if np.isnan(risks).all():
        raise CertificateError(f"all {draws} runs failed, the first with: {runs[0].message}")
    certificate = certify_draws(
        risks, kl, bound, n=n, delta=delta, ceiling=ceiling,
        temperatures_tried=temperatures_tried,  # type: ignore[arg-type]
        **rest,
    )  # fmt: skip
    return replace(certificate, fingerprint=fingerprint(posterior, latent))


def _data_and_delta(bound: Bound, n: int | None, delta: float | None) -> tuple[int, float]:
    """Return n and δ, by default the bound's; δ is 0.05 where it has none."""
    n = getattr(bound, "n", None) if n is None else n
    if n is None:
        raise ValueError(f"n, the number of independent data, is needed: {bound!r} has none")
    known = getattr(bound, "delta", None)
    return n, delta if delta is not None else 0.05 if known is None else float(known)


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
