"""Certificates: an upper limit on a posterior's true risk, its probability and its assumptions.

Two quantities are estimated: the mean risk π[R] on the data, from fresh draws of the posterior, and
the true risk, from the data. Each gets a share of δ,

    P(π[R] > upper limit) ≤ δ_MC      over the draws, for any data,
    P(true risk > bound)  ≤ δ_PAC     over the data, for all posteriors simultaneously,

and because every bound increases with π[R], bound(upper limit, KL) holds with probability 1 − δ. If
KL is estimated as well, from draws that need no simulator run, its upper limit gets a share of δ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray, positive, whole
from supac.families import Divergence
from supac.problem.bounds import Bound, Catoni, fixed_temperature, kl_inverse

_ASSUMPTIONS = (
    "the risk of a parameter vector is the mean, over n independent and identically distributed "
    "data, of a loss per datum in [0, {ceiling:g}]; the true risk is the expectation of that loss",
    "the prior was chosen independently of these data",
    "the draws behind the upper limit are independent of the search",
    "a failed run counts as {ceiling:g}, on these data and on new data",
)
_FIXED = "the temperature {temperature:.4g} was chosen independently of these data"
_NOT_GUARANTEED = (
    "the true risk of any single parameter vector: the bound is on the mean over the posterior",
    "that the posterior contains the true parameters: its ranges are not credible intervals",
    "data from another distribution than these n, such as another plant or another season",
)
_KL_SHARE = 0.01  # of δ, for an estimated KL
_TEXTS = ("corrections", "assumptions", "not_guaranteed")


class CertificateError(ValueError):
    """No certificate can be given, for the reason in the message."""


@dataclass(frozen=True)
class Certificate:
    """Upper limit on the posterior's true risk that holds with probability 1 − delta."""

    value: float
    bound: str
    """Class name of the bound."""
    bounds: Mapping[str, float]
    """Value of every bound at the same upper limit and δ; valid for one of them, if it was chosen
    before looking at the data."""
    mean_risk: float
    """Mean over the fresh draws, failed runs at the ceiling."""
    mean_risk_upper: float
    """Upper confidence limit of `mean_risk`: the smaller of two, each with δ_MC/2."""
    mean_risk_limits: Mapping[str, float]
    """Both limits: by inversion of the binary kl, and by the empirical Bernstein inequality."""
    kl: float
    n: int
    ceiling: float
    draws: int
    failed: int
    delta: float
    delta_monte_carlo: float
    delta_kl: float
    """0 if KL is exact."""
    delta_pac: float
    """Sum over the compared temperatures."""
    corrections: tuple[str, ...] = ()
    """Corrections that keep the limit valid, such as union bounds."""
    assumptions: tuple[str, ...] = ()
    not_guaranteed: tuple[str, ...] = field(default=_NOT_GUARANTEED)
    fingerprint: str = ""
    """Fingerprint of posterior and prior; "" if unknown, as in `certify_draws`."""

    @property
    def vacuous(self) -> bool:
        """True if the limit is not below the largest possible risk."""
        return not self.value < self.ceiling

    def to_json(self) -> str:
        """Return the certificate as JSON text."""
        return json.dumps(asdict(self) | {"vacuous": self.vacuous}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read what `to_json` wrote; raise CertificateError for anything else."""
        try:
            told = json.loads(text)
            texts = {name: tuple(map(str, told[name])) for name in _TEXTS}
            told.setdefault("fingerprint", "")  # missing in older files
            own = {each.name: told[each.name] for each in fields(cls)}
            return cls(**own | texts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CertificateError(f"not a certificate: {error!r}") from error

    def __str__(self) -> str:
        vacuous = " This limit is vacuous: no risk is larger." if self.vacuous else ""
        lines = [
            f"With probability at least {_one_minus(self.delta)}, the mean true risk of the "
            f"posterior is at most {min(self.value, self.ceiling):.4g} ({self.bound}).{vacuous}",
            f"  mean risk on the {self.n:,} data: {self.mean_risk:.4g} from {self.draws:,} fresh "
            f"draws ({self.failed} failed), at most {self.mean_risk_upper:.4g}",
            f"  KL(posterior, prior): {self.kl:.4g}",
            f"  δ = {self.delta:g}: {self.delta_monte_carlo:g} for the draws, "
            f"{f'{self.delta_kl:g} for KL, ' if self.delta_kl else ''}"
            f"{self.delta_pac:g} for the data",
            *(f"  corrected: {each}" for each in self.corrections),
            "This assumes that",
            *(f"  - {each}" for each in self.assumptions),
            "It does not guarantee",
            *(f"  - {each}" for each in self.not_guaranteed),
        ]
        return "\n".join(lines)


def _one_minus(delta: float) -> str:
    """Format 1 − δ with enough digits to differ from 1."""
    digits = max(4, 1 - int(np.floor(np.log10(delta))))
    return f"{1.0 - delta:.{digits}g}" if digits < 16 else f"1 − {delta:g}"


def certify_draws(
    risk: FloatArray,
    kl: float | Divergence,
    bound: Bound,
    *,
    n: int,
    delta: float,
    ceiling: float | None = None,
    monte_carlo: float = 0.2,
    temperatures_tried: int = 1,
    prior_is_independent: bool = True,
) -> Certificate:
    """Compute a certificate from the risks (m,) of fresh draws, NaN for failed runs.

    Parameters
    ----------
    risk
        Risks of independent draws of the posterior that the search did not use.
    kl
        KL(posterior, prior): exact, or an estimate whose upper limit gets 1 % of delta.
    bound
        The bound to evaluate; its own n and delta, if any, are replaced.
    n
        Number of independent data behind each risk.
    delta
        Total probability of failure.
    ceiling
        Largest possible risk; by default that of the bound.
    monte_carlo
        Share of delta for the draws.
    temperatures_tried
        Number of temperatures compared on these data, for `Catoni` with a fixed temperature: δ is
        divided by it. Infinite if the temperature was optimised: then the bound does not hold.
    prior_is_independent
        True if the prior was chosen independently of these data.

    """
    whole(n, "n, the number of data,", least=1)
    _check_probability(delta, "delta")
    _check_probability(monte_carlo, "monte_carlo")
    top = positive(getattr(bound, "ceiling", 1.0) if ceiling is None else ceiling, "ceiling")
    if not prior_is_independent:
        raise CertificateError(
            "the prior was learnt on the same data, so no PAC-Bayes bound holds: learn it on one "
            "part of the data and certify with the other"
        )
    divergence = kl if isinstance(kl, Divergence) else Divergence(float(kl))
    return _certificate(
        *_within(risk, top), divergence, bound, n, delta, top, monte_carlo, temperatures_tried
    )


def _certificate(
    risks: FloatArray,
    failed: int,
    divergence: Divergence,
    bound: Bound,
    n: int,
    delta: float,
    top: float,
    monte_carlo: float,
    tried: float,
) -> Certificate:
    """Split δ, evaluate every bound at the upper limits, and write down what was corrected."""
    delta_kl = 0.0 if divergence.spread == 0.0 else _KL_SHARE * delta
    nats = divergence.upper(delta_kl)
    if not (np.isfinite(nats) and nats > -1e-9):
        raise CertificateError(f"KL(posterior, prior) must be a number of nats, not {nats!r}")
    nats = max(nats, 0.0)
    delta_mc = monte_carlo * (delta - delta_kl)
    delta_pac = delta - delta_kl - delta_mc
    limits = {
        "kl inverse": top * kl_limit(risks / top, 0.5 * delta_mc),
        "empirical Bernstein": top * bernstein_limit(risks / top, 0.5 * delta_mc),
    }
    upper = min(limits.values())
    chosen, corrections, assumptions = _bound(bound, n, delta_pac, top, tried)
    others = _proven_bounds(n, delta_pac, top)
    if fixed_temperature(bound) is not None:
        others["Catoni"] = chosen
    if failed:
        corrections += (f"{failed} of {len(risks)} draws failed and count as {top:g}",)
    if delta_kl:
        corrections += (
            f"KL was estimated as {divergence.value:.4g} from {divergence.draws:,} draws; its "
            f"upper limit is used, with {delta_kl:g} of δ",
        )
    return Certificate(
        value=float(chosen(upper, nats)),
        bound=type(bound).__name__,
        bounds={name: float(each(upper, nats)) for name, each in others.items()},
        mean_risk=float(risks.mean()),
        mean_risk_upper=upper,
        mean_risk_limits=limits,
        kl=nats,
        n=n,
        ceiling=top,
        draws=len(risks),
        failed=failed,
        delta=delta,
        delta_monte_carlo=delta_mc,
        delta_kl=delta_kl,
        delta_pac=delta_pac,
        corrections=corrections,
        assumptions=(*(each.format(ceiling=top) for each in _ASSUMPTIONS), *assumptions),
    )


def kl_limit(shares: FloatArray, delta: float) -> float:
    """Compute an upper confidence limit on the mean of values in [0, 1].

    kl(mean, limit) ≤ log(1/δ)/m, Chernoff's bound. It holds for all distributions on
    [0, 1], of which Bernoulli's is the worst case.
    """
    return kl_inverse(float(shares.mean()), -float(np.log(delta)) / len(shares))


def bernstein_limit(shares: FloatArray, delta: float) -> float:
    """Compute the limit of Maurer and Pontil (2009), which is sharper for a small variance."""
    m = len(shares)
    if m < 2:
        return 1.0
    deviation = float(shares.std(ddof=1))
    logarithm = float(np.log(2.0 / delta))
    slack = deviation * np.sqrt(2.0 * logarithm / m) + 7.0 * logarithm / (3.0 * (m - 1))
    return min(float(shares.mean() + slack), 1.0)


def _within(risk: FloatArray, top: float) -> tuple[FloatArray, int]:
    """Return the risks with failures set to the ceiling, and the number of failures."""
    risks = np.asarray(risk, dtype=np.float64)
    if risks.ndim != 1 or not len(risks):
        raise CertificateError("a certificate needs the risks of at least one fresh draw")
    failed = np.isnan(risks)
    known = risks[~failed]
    if len(known) and not (known.min() >= 0.0 and known.max() <= top):
        raise CertificateError(
            f"risks from {known.min():.4g} to {known.max():.4g} are outside [0, {top:g}], so the "
            "bound does not hold: give the ceiling of the loss, or cap the loss of each datum"
        )
    return np.where(failed, top, risks), int(failed.sum())


def _bound(
    bound: Bound, n: int, delta: float, top: float, tried: float
) -> tuple[Bound, tuple[str, ...], tuple[str, ...]]:
    """Return the bound for n data and δ, the corrections made and the additional assumptions."""
    if not getattr(bound, "proof", ""):
        raise CertificateError(
            f"{bound!r} cites no proof, so it guarantees nothing: use one of supac's bounds, or "
            'name the theorem where yours is defined, class Mine(Bound, proof="…")'
        )
    if isinstance(bound, Catoni) and bound.temperature == "auto":
        ready = replace(bound, n=n, delta=delta, ceiling=top)
        count = len(ready.temperatures)
        note = f"the temperature was chosen among {count}, each with δ/{count} (union bound)"
        return ready, (note,), ()
    temperature = fixed_temperature(bound)
    if temperature is None:
        return replace(bound, n=n, delta=delta, ceiling=top), (), ()  # type: ignore[type-var]
    if not np.isfinite(tried):
        raise CertificateError(
            "the temperature was optimised on the same data, so Catoni's bound does not hold: use "
            'Catoni("auto", n=…, delta=…) or MaurerLangfordSeeger'
        )
    count = whole(tried, "temperatures_tried", least=1)
    fixed = Catoni(temperature, n, delta / count, top)
    if count == 1:
        return fixed, (), (_FIXED.format(temperature=temperature),)
    note = f"{count} temperatures were tried on these data, each with δ/{count} (union bound)"
    return fixed, (note,), ()


def _proven_bounds(n: int, delta: float, top: float) -> dict[str, Bound]:
    """Return every bound that problem files can name and that cites a proof."""
    kinds = [kind for kind in Bound.kinds.values() if kind.proof]
    return {
        'Catoni("auto")' if kind is Catoni else kind.__name__: kind.for_data(n, delta, top)
        for kind in kinds
    }


def _check_probability(value: Any, name: str) -> None:
    if not (isinstance(value, int | float) and 0.0 < value < 1.0):
        raise ValueError(f"{name} must be between 0 and 1, not {value!r}")
