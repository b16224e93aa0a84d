"""What is guaranteed of a posterior, with which probability, and under which assumptions.

Two things are uncertain: the mean risk π[R] on the data at hand, of which only some fresh draws of
the posterior are known, and the true risk, of which only the data are. Each gets its share of δ,

    P(π[R] > upper limit) ≤ δ_MC      over the draws, whatever the data,
    P(true risk > bound)  ≤ δ_PAC     over the data, for all posteriors at once,

and since every bound grows with π[R], bound(upper limit, KL) holds with probability 1 − δ. Where KL
itself is estimated, from draws that cost no run, it has an upper limit and a share of δ as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray, positive, whole
from supac.families import Divergence
from supac.problem.bounds import (
    Bound,
    Catoni,
    MaurerLangfordSeeger,
    McAllester,
    Thiemann,
    TolstikhinSeldin,
    fixed_temperature,
    kl_inverse,
)

_ASSUMPTIONS = (
    "the risk of a parameter is the mean, over n independent data of one law, of a loss of one "
    "datum in [0, {ceiling:g}]; the true risk is that loss's expectation",
    "the prior was chosen without looking at these data",
    "the draws that the upper limit rests on are independent of the search",
    "a run that fails counts as {ceiling:g}, on these data and on any others",
)
_FIXED = "the temperature {temperature:.4g} was fixed without looking at these data"
_NOT_GUARANTEED = (
    "the true risk of any single parameter: the bound is on the mean over the posterior",
    "that the posterior covers the true parameters: its ranges are no credible intervals",
    "data of another law than these n, such as another plant or another season",
)


_KL_SHARE = 0.01  # of δ, where KL is estimated
_KNOWN = (Catoni, McAllester, MaurerLangfordSeeger, TolstikhinSeldin, Thiemann)


_TEXTS = ("corrections", "assumptions", "not_guaranteed")


class CertificateError(ValueError):
    """No certificate can be given, and why."""


@dataclass(frozen=True)
class Certificate:
    """An upper limit on the posterior's true risk that holds with probability 1 − delta."""

    value: float
    bound: str
    """Which bound it is."""
    bounds: Mapping[str, float]
    """Each bound by its name, at the same upper limit and δ: any one of them holds, chosen before
    looking at the data."""
    mean_risk: float
    """Of the fresh draws, failed ones at the ceiling."""
    mean_risk_upper: float
    """Its upper confidence limit, the lesser of two that have half of δ_MC each."""
    mean_risk_limits: Mapping[str, float]
    """These two: by inversion of the binary kl, and by the empirical Bernstein inequality."""
    kl: float
    n: int
    ceiling: float
    draws: int
    failed: int
    delta: float
    delta_monte_carlo: float
    delta_kl: float
    """0 where KL is exact."""
    delta_pac: float
    """What each of the compared temperatures is given, times their number."""
    corrections: tuple[str, ...] = ()
    """What was done to keep it valid."""
    assumptions: tuple[str, ...] = ()
    not_guaranteed: tuple[str, ...] = field(default=_NOT_GUARANTEED)
    fingerprint: str = ""
    """Of the posterior and the prior; "" where they were not told, as by `certify_draws`."""

    @property
    def vacuous(self) -> bool:
        """Whether it says no more than that the risk is at most its ceiling."""
        return not self.value < self.ceiling

    def to_json(self) -> str:
        """For machines."""
        return json.dumps(asdict(self) | {"vacuous": self.vacuous}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate that `to_json` wrote; CertificateError where it is none."""
        try:
            told = json.loads(text)
            texts = {name: tuple(map(str, told[name])) for name in _TEXTS}
            told.setdefault("fingerprint", "")  # which older files do not have
            own = {each.name: told[each.name] for each in fields(cls)}
            return cls(**own | texts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CertificateError(f"this is no certificate: {error!r}") from error

    def __str__(self) -> str:
        vacuous = " It is vacuous: risks are never larger." if self.vacuous else ""
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
    """1 − δ with as many digits as δ needs: never 1."""
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
    """A certificate from the risks of fresh draws (m,), NaN for failed runs.

    Parameters
    ----------
    risk
        Of independent draws of the posterior that were not used to find it.
    kl
        KL(posterior, prior): exact, or with an upper limit that gets a hundredth of delta.
    bound
        Which of the bounds is wanted; its own n and delta, if any, are replaced.
    n
        Number of independent data behind each risk.
    delta
        Probability of failure, of both parts together.
    ceiling
        The largest possible risk; by default the bound's.
    monte_carlo
        The share of delta for the draws.
    temperatures_tried
        How many temperatures were compared on these data, for a `Catoni` with a fixed one: δ is
        divided among them. Infinite where it was optimised, for which there is no correction.
    prior_is_independent
        Whether the prior was chosen without these data.

    """
    whole(n, "n, the number of data,", least=1)
    _check_probability(delta, "delta")
    _check_probability(monte_carlo, "monte_carlo")
    top = positive(getattr(bound, "ceiling", 1.0) if ceiling is None else ceiling, "ceiling")
    if not prior_is_independent:
        raise CertificateError(
            "the prior was learnt on the same data, so that no PAC-Bayes bound holds for it: learn "
            "it on some of the data and certify with the others"
        )
    divergence = kl if isinstance(kl, Divergence) else Divergence(float(kl))
    delta_kl = 0.0 if divergence.spread == 0.0 else _KL_SHARE * delta
    nats = divergence.upper(delta_kl)
    if not (np.isfinite(nats) and nats > -1e-9):
        raise CertificateError(f"KL(posterior, prior) must be a number of nats, not {nats!r}")
    nats = max(nats, 0.0)
    if not isinstance(bound, _KNOWN):
        raise CertificateError(f"{bound!r} is no bound that is known to hold")
    risks, failed = _within(risk, top)
    delta_mc = monte_carlo * (delta - delta_kl)
    delta_pac = delta - delta_kl - delta_mc
    limits = {
        "kl inverse": top * kl_limit(risks / top, 0.5 * delta_mc),
        "empirical Bernstein": top * bernstein_limit(risks / top, 0.5 * delta_mc),
    }
    upper = min(limits.values())
    chosen, corrections, assumptions = _bound(bound, n, delta_pac, top, temperatures_tried)
    others = _all_bounds(n, delta_pac, top)
    if fixed_temperature(bound) is not None:
        others["Catoni"] = chosen
    if failed:
        corrections += (f"{failed} of {len(risks)} draws failed, and count as {top:g}",)
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
    """An upper confidence limit on the mean of values in [0, 1]: kl(mean, limit) ≤ log(1/δ)/m.

    Chernoff's bound, which holds for all laws on [0, 1] since the Bernoulli law is the worst.
    """
    return kl_inverse(float(shares.mean()), -float(np.log(delta)) / len(shares))


def bernstein_limit(shares: FloatArray, delta: float) -> float:
    """The same by Maurer and Pontil (2009): sharper where the values vary little."""
    m = len(shares)
    if m < 2:
        return 1.0
    deviation = float(shares.std(ddof=1))
    logarithm = float(np.log(2.0 / delta))
    slack = deviation * np.sqrt(2.0 * logarithm / m) + 7.0 * logarithm / (3.0 * (m - 1))
    return min(float(shares.mean() + slack), 1.0)


def _within(risk: FloatArray, top: float) -> tuple[FloatArray, int]:
    """The risks with failures at the ceiling, and how many these are."""
    risks = np.asarray(risk, dtype=np.float64)
    if risks.ndim != 1 or not len(risks):
        raise CertificateError("a certificate needs the risks of at least one fresh draw")
    failed = np.isnan(risks)
    known = risks[~failed]
    if len(known) and not (known.min() >= 0.0 and known.max() <= top):
        raise CertificateError(
            f"risks from {known.min():.4g} to {known.max():.4g} leave [0, {top:g}]: the bound does "
            "not hold. Give the ceiling that the loss really has, or cap the loss of each datum"
        )
    return np.where(failed, top, risks), int(failed.sum())


def _bound(
    bound: Bound, n: int, delta: float, top: float, tried: float
) -> tuple[Bound, tuple[str, ...], tuple[str, ...]]:
    """The bound with its data and δ, what was corrected, and what it assumes beside the others."""
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
            "the temperature was optimised on the same data, for which Catoni's bound does not "
            'hold: use Catoni("auto", n=…, delta=…), whose grid is paid for, or '
            "MaurerLangfordSeeger, which has no temperature"
        )
    count = whole(tried, "temperatures_tried", least=1)
    fixed = Catoni(temperature, n, delta / count, top)
    if count == 1:
        return fixed, (), (_FIXED.format(temperature=temperature),)
    note = f"{count} temperatures were tried on these data, each with δ/{count} (union bound)"
    return fixed, (note,), ()


def _all_bounds(n: int, delta: float, top: float) -> dict[str, Bound]:
    return {
        "MaurerLangfordSeeger": MaurerLangfordSeeger(n, delta, top),
        "McAllester": McAllester(n, delta, top),
        "TolstikhinSeldin": TolstikhinSeldin(n, delta, top),
        "Thiemann": Thiemann(n, delta, top),
        'Catoni("auto")': Catoni("auto", n, delta, top),
    }


def _check_probability(value: Any, name: str) -> None:
    if not (isinstance(value, int | float) and 0.0 < value < 1.0):
        raise ValueError(f"{name} must be between 0 and 1, not {value!r}")
