"""The limit that can be hoped for with a prior, a loss and so many data, long before the end.

Of all posteriors with the same mean risk on the data, that proportional to prior · exp(−β·risk)
has the least KL. So the best limit depends on the distribution of the risk under the prior alone
(arXiv 2503.08231), which an emulator knows after the first runs: it is the least along this ray.
Before any run, only the number of data and the loss of residuals that are all noise are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri

from supac.arrays import FloatArray
from supac.families import Distribution, as_distribution
from supac.guarantee.basis import Basis, CertificateError, basis_of
from supac.guarantee.ensemble import PASSED
from supac.guarantee.kl_inf import kl_inf_inverse, log_regret
from supac.guarantee.provenance import Provenance
from supac.guarantee.stakes import held_out_limit, mixture_limit
from supac.posterior.emulation import EmulatedOutputs
from supac.problem import Composite
from supac.problem.bounds import Bound, Declared, MaurerLangfordSeeger
from supac.problem.composite import parts_of
from supac.problem.losses import CappedSquare, ResidualLoss, Welsch, as_residual_loss
from supac.record.record import Record
from supac.search.algorithm import one_thread
from supac.shape import MOST_PARAMETERS, sample_ray

_SHARE = PASSED * Provenance().share
_PARTICLES = 300
_STEPS = range(-2, 8)
"""Powers of two, times n, of the inverse temperatures that are compared."""
_NATS = 2.0  # that a parameter which the data determine usually costs
_SETS = 20  # of which form M's limit is computed
_POOLED = 20_000  # losses, at most, of which a limit is computed
_MOST_DATA = 5_000
_SEED = 0xBE57
MORE, HALF, WIDER, KNOWN = (
    "twice the data", "half of the data held out", "a loss twice as wide",
    "a prior that knows as much from elsewhere",
)  # fmt: skip


@dataclass(frozen=True)
class Attainable:
    """Limit that can be hoped for, and those that other choices would allow."""

    limit: float
    nats: float
    """KL at which it is reached."""
    n: int
    others: Mapping[str, float] = field(default_factory=dict)
    """Limits with another choice, in words."""
    emulated: bool = True
    """False before the first run: then the limit is that of residuals that are all noise."""

    @property
    def sentence(self) -> str:
        """The limit and what would lower it most, in words."""
        lower = sorted((value, name) for name, value in self.others.items() if value < self.limit)
        told = ", ".join(f"{value:.2g} with {name}" for value, name in lower)
        after = f"; about {told}" if told else ""
        if not self.emulated:
            return (
                f"about {self.limit:.2g} can be hoped for with {self.n:,} independent data if the "
                f"model fits them and costs {self.nats:.2g} nats{after}"
            )
        return (
            f"with this prior, this loss and {self.n:,} independent data, a limit of about "
            f"{self.limit:.2g} can be hoped for, at {self.nats:.2g} nats{after}"
        )


def attainable_before(risk: object, bound: Bound, dim: int) -> Attainable | None:
    """Return the limit to hope for before any run; None if no losses of residuals are known.

    The residuals are quantiles of standard normal noise, and each parameter costs two nats.
    """
    parts = parts_of(risk)
    loss = as_residual_loss(parts.loss)
    if loss is None:
        return None
    try:
        basis = basis_of(risk, bound)
    except CertificateError:
        return None
    if basis.sequential:
        return None
    n, delta = basis.number(MaurerLangfordSeeger), _delta(bound)
    few = ndtri((np.arange(n) + 0.5) / n)[None]
    losses = _shares(basis, loss, few)
    nats = _NATS * dim

    def limit(times: int, nats: float) -> float:
        return basis.in_risk(basis.top * _pooled(losses, nats, times * n, delta))

    others = {MORE: limit(2, nats + 0.5 * dim * np.log(2.0)), KNOWN: limit(1, 0.0)}
    if parts.held_out is None and n > 1:
        others[HALF] = basis.in_risk(basis.top * _of_half(losses[0], n, delta, dim, fitted=False))
    return Attainable(limit(1, nats), nats, n, others, emulated=False)


def attainable(record: Record) -> Attainable | None:
    """Return the limit to hope for from the runs of a search; None if outputs cannot be emulated.

    None also where the loss of each datum or the prior's density is not known, or for many data.
    """
    prior, posterior, bound = as_distribution(record.prior), record.posterior, record.bound
    loss, data = as_residual_loss(record.settings.loss), record.settings.observations
    if posterior is None or prior is None or not prior.family.is_gaussian:
        return None
    if loss is None or type(loss).each is ResidualLoss.each or data is None or bound is None:
        return None
    if prior.dim > MOST_PARAMETERS or data.sequential or data.measured > _MOST_DATA:
        return None
    try:
        emulated = EmulatedOutputs.of(record, posterior)
        basis = basis_of(Composite(_nothing, loss, data), bound)
    except (ValueError, CertificateError):
        return None

    def residuals(x: FloatArray) -> FloatArray:
        outputs = emulated.every(emulated.predict(x)[0])
        return data.residuals(np.maximum(outputs, 1e-300) if data.logarithmic else outputs)

    with one_thread():
        return _along_the_ray(
            residuals, loss, basis, prior, _delta(bound), held_out=record.held_out_data is not None
        )


def _along_the_ray(
    residuals: Callable[[FloatArray], FloatArray],
    loss: ResidualLoss,
    basis: Basis,
    prior: Distribution,
    delta: float,
    *,
    held_out: bool,
) -> Attainable:
    """Return the least limits along the ray, with this loss and one that is twice as wide."""
    n = basis.number(MaurerLangfordSeeger)
    ray = _ray(residuals, loss, basis, prior, n)
    limit, nats = _best(ray, n, delta)
    least = {MORE: _best(ray, n, delta, times=2)[0], KNOWN: _best(ray, n, delta, known=True)[0]}
    if n > 1 and not held_out:
        best = min((losses.mean(axis=0) for losses, _ in ray), key=lambda each: each.mean())
        least[HALF] = _of_half(best, n, delta, prior.dim)
    wide = _wider(loss)
    if wide is not None:
        least[WIDER] = _best(_ray(residuals, wide, basis, prior, n), n, delta)[0]
    others = {name: basis.in_risk(basis.top * each) for name, each in least.items()}
    return Attainable(basis.in_risk(basis.top * limit), nats, n, others)


def _best(
    ray: Sequence[tuple[FloatArray, FloatArray]],
    n: int,
    delta: float,
    *,
    times: int = 1,
    known: bool = False,
) -> tuple[float, float]:
    """Return the least limit along the ray with so many times the data, and its KL.

    `known` says that nothing has to be paid for what was learnt.
    """
    kls = [0.0 if known else float(ratio.mean()) for _, ratio in ray]
    limits = [_pooled(each, kl, times * n, delta) for (each, _), kl in zip(ray, kls, strict=True)]
    k = int(np.argmin(limits))
    losses, ratio = (each[:: _PARTICLES // _SETS] for each in ray[k])
    exponents = np.full(losses.shape[1], times * n / losses.shape[1])
    form_m = mixture_limit(losses, exponents, (not known) * ratio, delta * _SHARE)
    return min(limits[k], form_m), kls[k]


def _ray(
    residuals: Callable[[FloatArray], FloatArray],
    loss: ResidualLoss,
    basis: Basis,
    prior: Distribution,
    n: int,
) -> list[tuple[FloatArray, FloatArray]]:
    """Return losses (particles, data) along the ray, and log density ratios (particles,)."""

    def mean_loss(x: FloatArray) -> FloatArray:
        return np.asarray(_shares(basis, loss, residuals(x)).mean(axis=1))

    betas = [n * 2.0**k for k in _STEPS]
    rng = np.random.default_rng(_SEED)
    return [
        (_shares(basis, loss, residuals(each.x)), -each.beta * each.risk - each.log_evidence)
        for each in sample_ray(mean_loss, prior, prior, betas, _PARTICLES, rng)
    ]


def _shares(basis: Basis, loss: ResidualLoss, residuals: FloatArray) -> FloatArray:
    losses = loss.each(residuals)
    assert losses is not None
    return np.clip(np.nan_to_num(losses, nan=basis.top) / basis.top, 0.0, 1.0)


def _pooled(losses: FloatArray, nats: float, n: int, delta: float) -> float:
    """Return form A's limit, of at most so many of the losses."""
    every = np.sort(losses.ravel())
    every = every[:: max(len(every) // _POOLED, 1)]
    price = max(nats, 0.0) + log_regret(n) - float(np.log(delta * _SHARE))
    return kl_inf_inverse(every, np.full(len(every), 1.0 / len(every)), price / n)


def _of_half(losses: FloatArray, n: int, delta: float, dim: int, *, fitted: bool = True) -> float:
    """Return the limit of held-out data with such losses (m,), half of δ for it.

    Each parameter that is fitted to n data takes 1/n of the losses away there, and adds as much on
    others; with half of the data twice as much.
    """
    half, share = max(n // 2, 1), min(dim, n // 4) / n
    more = (1.0 + 2.0 * share) / (1.0 - share if fitted else 1.0)
    every = np.quantile(np.minimum(more * losses, 1.0), (np.arange(half) + 0.5) / half)
    return held_out_limit(every, np.ones(half), 0.5 * delta * Provenance().share)


def _wider(loss: ResidualLoss) -> ResidualLoss | None:
    """Return the loss with twice its width; None if it has none."""
    if isinstance(loss, Welsch):
        return replace(loss, width=2.0 * loss.width)
    return replace(loss, cap=2.0 * loss.cap) if isinstance(loss, CappedSquare) else None


def _delta(bound: Bound) -> float:
    return float(Declared.by(bound).delta or 0.05)


def _nothing(x: FloatArray) -> FloatArray:
    return x
