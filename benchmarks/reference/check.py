"""Is a likelihood that of its reference draws, and what is its evidence?"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from reference.target import Target
from supac.families import gaussian
from supac.shape import fit_mixture

KEPT = Path(__file__).parents[1] / "results" / "reference-evidence.json"
_DRAWS, _FITTED, _COMPONENTS = 4_000, 2_000, 8
_WIDER = 2.0  # standard deviations of a second part of the proposal, in those of the draws
_TAIL = 0.2


@dataclass(frozen=True)
class Known:
    """The evidence of a target by importance sampling with its true simulator."""

    log: float
    error: float
    effective: float
    """Share of effective draws; near 1 only if the likelihood is that of the reference."""
    away: float
    """Largest distance of means from those of the reference, in their standard deviations."""


def known_of(target: Target) -> Known:
    """Return the evidence, from a file once it has been computed."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if target.name not in kept:
        kept[target.name] = asdict(_sampled(target))
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return Known(**kept[target.name])


def _sampled(target: Target) -> Known:
    """Weigh draws of a mixture fitted to the reference draws by the true likelihood."""
    rng, prior = np.random.default_rng(5), target.parameters.prior
    draws = target.parameters.to_latent(target.reference())
    fitted = fit_mixture(rng.permutation(draws)[:_FITTED], _COMPONENTS, rng)
    wide = gaussian(draws.mean(axis=0), _WIDER**2 * np.atleast_2d(np.cov(draws.T)))
    x = np.concatenate([
        fitted.sample(int((1.0 - _TAIL) * _DRAWS), 1), wide.sample(int(_TAIL * _DRAWS), 2)
    ])  # fmt: skip
    proposal = np.logaddexp(
        np.log(1.0 - _TAIL) + fitted.log_prob(x), np.log(_TAIL) + wide.log_prob(x)
    )
    logs = prior.log_prob(x) - target.latent_energy(x) - proposal
    weights = np.exp(logs - logsumexp(logs))
    share = float(1.0 / (weights**2).sum() / len(x))
    mean = weights @ x
    away = float(np.abs((mean - draws.mean(axis=0)) / draws.std(axis=0)).max())
    error = float(np.sqrt((1.0 / share - 1.0) / len(x)))
    return Known(float(logsumexp(logs) - np.log(len(x))), error, share, away)
