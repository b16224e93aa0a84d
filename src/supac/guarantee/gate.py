"""The gate in front of every certificate: which bound is evaluated, and what forbids it."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace

import numpy as np

from supac.arrays import whole
from supac.guarantee.basis import Basis, Bets, CertificateError
from supac.guarantee.provenance import Provenance
from supac.problem.bounds import (
    Bound,
    Catoni,
    Declared,
    MaurerLangfordSeeger,
    McAllester,
    fixed_temperature,
)


def _check_proof(bound: Bound, *, of_draws: bool) -> None:
    if not (bound.proof and is_dataclass(type(bound))):
        raise CertificateError(
            f"{bound!r} cites no proof, so it guarantees nothing: use one of supac's bounds, or "
            'name the theorem where yours is defined, class Mine(Bound, proof="…")'
        )
    if of_draws and not bound.of_draws:
        raise CertificateError(
            f"the theorem of {type(bound).__name__} is about the mean over a posterior, not over "
            "draws of it: certify the posterior, use one of supac's bounds, or, if yours follows "
            'from such a Δ as theirs, say so: class Mine(Bound, proof="…", of_draws=True)'
        )


def check_independence(provenance: Provenance) -> None:
    """Raise CertificateError for a prior or a loss that has seen the data."""
    if provenance.refusal:
        raise CertificateError(provenance.refusal)


def bets_on(bound: Bound, bets: Bets | None, provenance: Provenance) -> Bets | None:
    """Return the losses to bet on, or None if the theorem of the bound is to be used.

    That depends on the problem alone: on the kind of the bound, and on whether the losses of each
    datum are known and independent. Raise CertificateError for what has seen the data.
    """
    check_independence(provenance)
    return bets if type(bound).betting else None


def admitted(
    bound: Bound, basis: Basis, delta: float, provenance: Provenance, *, of_draws: bool = False
) -> tuple[Bound, tuple[str, ...], tuple[str, ...]]:
    """Return the bound for these data and δ, the corrections made and the further assumptions.

    Raise CertificateError for a prior, a loss or a temperature that has seen the data, or an
    unproven bound; with `of_draws`, for one that is not known to hold for draws of a posterior.
    """
    _check_proof(bound, of_draws=of_draws)
    check_independence(provenance)
    if basis.sequential and not bound.sequential:
        raise CertificateError(
            f"{type(bound).__name__} needs independent data: for a sequence use McAllester or "
            "Catoni, or blocks of data that are independent"
        )
    temperature, n = fixed_temperature(bound), basis.number(type(bound))
    if isinstance(bound, Catoni) and bound.temperature == "auto":
        ready = replace(bound, n=n, delta=delta, ceiling=basis.top)
        count = len(ready.temperatures)
        return ready, (f"the temperature was chosen among {count}, each with δ/{count}",), ()
    if temperature is None:
        return replace(bound, n=n, delta=delta, ceiling=basis.top), (), ()  # type: ignore[type-var]
    if not np.isfinite(provenance.temperatures_tried):
        raise CertificateError(
            "the temperature was optimised on the same data, so Catoni's bound does not hold: use "
            'Catoni("auto", n=…, delta=…) or MaurerLangfordSeeger'
        )
    tried = whole(provenance.temperatures_tried, "temperatures_tried", least=1)
    fixed = Catoni(temperature, n, delta / tried, basis.top)
    if tried == 1:
        words = f"the temperature {temperature:.4g} was chosen independently of these data"
        return fixed, (), (words,)
    return fixed, (f"{tried} temperatures were tried on these data, each with δ/{tried}",), ()


def bound_to_certify(bound: Bound, basis: Basis) -> Bound:
    """Return the bound of a search, or Seeger's (McAllester's) where that is no bound on a mean.

    π[R] + λ·KL without n is an objective, and where R is the root of a mean, λ belongs to another
    scale. The choice depends on neither the data nor the runs.
    """
    if fixed_temperature(bound) is None or not (basis.root or Declared.by(bound).n is None):
        return bound
    kind = McAllester if basis.sequential else MaurerLangfordSeeger
    return kind(basis.number(kind), 0.05, basis.ceiling)


def every_value(
    chosen: Bound | None,
    basis: Basis,
    delta: float,
    mean: float,
    nats: float,
    *,
    of_draws: bool = False,
) -> dict[str, float]:
    """Evaluate the chosen bound and all proven ones of problem files at the same loss, KL and δ.

    With `of_draws`, only those that hold for draws of a posterior.
    """
    every = {
        'Catoni("auto")' if kind is Catoni else kind.__name__: kind.for_data(
            basis.number(kind), delta, basis.top
        )
        for kind in Bound.kinds.values()
        if kind.proof
        and (kind.sequential or not basis.sequential)
        and (kind.of_draws or not of_draws)
    }
    if chosen is not None and fixed_temperature(chosen) is not None:
        every["Catoni"] = chosen
    return {name: basis.in_risk(float(each(mean, nats))) for name, each in every.items()}


def certificates_counted(provenance: Provenance) -> tuple[str, ...]:
    """Say which number a certificate has, if there were others before."""
    if not provenance.earlier:
        return ()
    number = provenance.earlier + 1
    return (f"this is certificate number {number} of its kind on these data: all of them share δ",)


def failures_counted(failed: int, draws: int, basis: Basis) -> tuple[str, ...]:
    """Say that failed runs count as the ceiling, if any did."""
    if not failed:
        return ()
    return (
        f"{failed} of {draws} draws failed and count as {basis.ceiling:g}, on these data and on "
        "new data",
    )


@dataclass(frozen=True)
class Limit:
    """Limit of a mean true loss, by a theorem."""

    theorem: str
    """Class name of the bound, or the form of betting."""
    value: float
    """Before a root."""
    bounds: dict[str, float]
    """Limits of the risk by every theorem that could have been used."""
    n: int
    without_draws: float | None = None
    corrections: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @classmethod
    def of_bound(
        cls,
        bound: Bound,
        basis: Basis,
        delta: float,
        nats: float,
        provenance: Provenance,
        *,
        mean: float,
        upper: float | None = None,
    ) -> Limit:
        """Evaluate a bound at the mean loss of draws; for a posterior, at its upper limit."""
        worst, of_draws = mean if upper is None else upper, upper is None
        chosen, *words = admitted(bound, basis, delta, provenance, of_draws=of_draws)
        every = every_value(chosen, basis, delta, worst, nats, of_draws=of_draws)
        value, without = (float(chosen(each, nats)) for each in (worst, mean))
        return cls(type(bound).__name__, value, every, basis.number(type(bound)), without, *words)

    @classmethod
    def of_bets(
        cls,
        theorem: str,
        share: float,
        basis: Basis,
        delta: float,
        nats: float,
        *,
        mean: float,
        upper: float | None = None,
    ) -> Limit:
        """Return the limit by betting, a share of the largest loss, beside those by all bounds."""
        worst, of_draws = mean if upper is None else upper, upper is None
        every = every_value(None, basis, delta, worst, nats, of_draws=of_draws)
        value = basis.top * share
        every[theorem] = basis.in_risk(value)
        return cls(theorem, value, every, basis.number(MaurerLangfordSeeger))
