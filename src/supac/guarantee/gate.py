"""The gate in front of every certificate: what the risk is a mean of, and what has seen the data.

A PAC-Bayes bound speaks of a mean, over independent data, of a loss in [0, C]. The same function
decides for Python and for problem files whether a risk is one, and how many data it counts for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace

import numpy as np

from supac.arrays import BoolArray, FloatArray, positive, whole
from supac.problem.bounds import (
    Bound,
    Catoni,
    MaurerLangfordSeeger,
    McAllester,
    fixed_temperature,
)
from supac.problem.composite import Composite
from supac.problem.losses import ResidualLoss
from supac.problem.observation import ObservationLoss

_FAR = 1e6  # noise standard deviations
_ROUNDING = 1e-12


class CertificateError(ValueError):
    """No certificate can be given, for the reason in the message."""


@dataclass(frozen=True)
class Provenance:
    """Dependence of prior, loss and temperature on the data, and the certificates given."""

    prior_is_independent: bool = True
    """False if the prior was learnt on these data: then no bound holds."""
    temperatures_tried: float = 1
    """Number of temperatures compared on these data; infinite if one was optimised."""
    earlier: int = 0
    """Number of certificates of the same kind that were given on these data elsewhere."""
    loss_is_independent: bool = True
    """False if the loss, or the ceiling that caps it, was chosen after a result on these data."""
    given: tuple[str, ...] = ()
    """Names of the certificates that were given before, in order, each beginning with its kind."""

    @property
    def refusal(self) -> str:
        """Reason why no certificate can be given, whatever is certified; "" if there is none."""
        if not self.prior_is_independent:
            return (
                "the prior was learnt on the same data, or was chosen or changed after a result on "
                "the same data, so no PAC-Bayes bound holds: learn it on one part of the data and "
                "certify with the other"
            )
        if not self.loss_is_independent:
            return (
                "the loss, or the ceiling that caps it, was chosen or changed after a result on "
                "the same data, so no bound holds for it: hold out data, or certify by the loss of "
                "the first search"
            )
        return ""

    @property
    def share(self) -> float:
        """Share of δ for this certificate: 0.95, 0.04, then a fifth of the one before."""
        return 0.95 if self.earlier == 0 else 0.2 * 0.2**self.earlier

    def before(self, name: str) -> Provenance:
        """Return the provenance of the certificate of this name, which may be one of those given.

        Those of its kind that came before it count as earlier. Ensembles and posteriors are
        counted apart: they are two statements, each at its own δ.
        """
        kind = name.partition(" ")[0]
        same = [each for each in self.given if each.partition(" ")[0] == kind]
        number = same.index(name) if name in same else len(same)
        return replace(self, earlier=self.earlier + number, given=())

    def after(self, name: str) -> Provenance:
        """Return the provenance after the certificate of this name was given."""
        return self if name in self.given else replace(self, given=(*self.given, name))

    def joined(self, other: Provenance) -> Provenance:
        """Return what holds if both are true."""
        return Provenance(
            self.prior_is_independent and other.prior_is_independent,
            max(self.temperatures_tried, other.temperatures_tried),
            max(self.earlier, other.earlier),
            self.loss_is_independent and other.loss_is_independent,
            tuple(dict.fromkeys((*self.given, *other.given))),
        )


@dataclass(frozen=True, eq=False)
class Basis:
    """The losses that a risk is the mean of, or the root of the mean."""

    ceiling: float
    """Largest possible loss of one datum, in the unit of the risk."""
    weights: FloatArray
    """Weights of independent blocks of data in the mean; they sum to 1."""
    loss: ResidualLoss | None = None
    """Loss of each datum; None for a risk of which only the mean is known."""
    blocks: str = "data"
    """The independent units, in words."""
    sequential: bool = False
    """True if each block may depend on earlier ones."""
    compared: bool = True
    """True if the risks of runs are of the same data as the residuals."""
    declared_n: int | None = None
    """Number of independent data that the user declares, which may be fewer than the blocks."""

    @property
    def declared(self) -> bool:
        """True if n and ceiling are the user's word."""
        return self.loss is None

    @property
    def capped(self) -> bool:
        """True if the loss of a datum is capped, because it has no ceiling of its own."""
        return self.loss is not None and self.loss.ceiling is None

    @property
    def root(self) -> bool:
        """True if the risk is the root of a mean."""
        return self.loss is not None and self.loss.root

    @property
    def top(self) -> float:
        """Largest possible loss of one datum, before a root is taken."""
        return self.ceiling**2 if self.root else self.ceiling

    def number(self, bound: type[Bound]) -> int:
        """Return the n that a bound may count: the blocks, fewer where they are unequal."""
        n = bound.data_in(self.weights, sequential=self.sequential)
        return n if self.declared_n is None else min(n, self.declared_n)

    def means(self, risk: FloatArray, residuals: FloatArray | None) -> FloatArray:
        """Return the mean loss of each run, before a root: (n,); a failed run counts as `top`."""
        failed = np.isnan(risk)
        if self.loss is not None and residuals is not None:
            losses = self.loss.each(residuals)
            assert losses is not None
            unknown = failed[:, None] | np.isnan(losses)
            self._check(losses, unknown, risk)
            capped = np.minimum(np.where(unknown, self.top, losses), self.top)
            return capped.mean(axis=1)
        inside = risk[~failed]
        if len(inside) and not (inside.min() >= 0.0 and inside.max() <= self.top):
            raise CertificateError(
                f"risks from {inside.min():.4g} to {inside.max():.4g} are outside [0, "
                f"{self.top:g}], the range that was declared: no bound holds. Cap the loss of each "
                "datum at a ceiling that is chosen without looking at these data, or use a loss "
                "that has one, such as Welsch()"
            )
        return np.where(failed, self.top, risk)

    def _check(self, losses: FloatArray, unknown: BoolArray, risk: FloatArray) -> None:
        """Raise CertificateError if losses are out of range, or not what the risk is a mean of."""
        assert self.loss is not None
        known = losses[~unknown]
        if known.size and known.min() < 0.0:
            raise CertificateError(f"{self.loss!r} has negative losses, down to {known.min():.4g}")
        if self.loss.ceiling is not None and known.size and known.max() > self.top * (1 + 1e-9):
            raise CertificateError(
                f"{self.loss!r} has losses up to {known.max():.4g}, above its ceiling {self.top:g}"
            )
        whole = ~unknown.any(axis=1)
        told = np.array([self.in_risk(float(each)) for each in losses[whole].mean(axis=1)])
        if self.compared and not np.allclose(told, risk[whole], rtol=1e-6, atol=1e-9 * self.top):
            raise CertificateError(
                f"{self.loss!r} is not the {'root of the ' if self.root else ''}mean of its `each`"
            )

    def in_risk(self, mean: float) -> float:
        """Convert a mean loss to the unit of the risk; by Jensen an upper limit stays one."""
        return float(np.sqrt(mean)) if self.root else mean

    def residual(
        self, risk: float, noises: Callable[[float], FloatArray] | None = None
    ) -> float | None:
        """Return the constant residual that has this risk; None if it is not known or has none.

        `noises` gives the residuals of data that are all so many noises off, where these are not
        that number itself.
        """
        from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

        if self.loss is None:
            return None
        target = risk**2 if self.root else risk

        def excess(residual: float) -> float:
            every = np.array([residual]) if noises is None else noises(residual)
            return float(np.mean(self.loss.each(every[None]))) - target  # type: ignore[arg-type, union-attr]

        if excess(0.0) > 0.0 or not excess(_FAR) > 0.0:
            return None
        return float(brentq(excess, 0.0, _FAR))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions about the data, in sentences."""
        each = f"[0, {self.ceiling:g}]"
        if self.declared:
            first = (
                f"as declared, the risk of a parameter vector is the mean of a loss in {each} over "
                f"{len(self.weights):,} independent {self.blocks}"
            )
        else:
            kind = "root of the mean square" if self.root else "mean loss"
            capped = ", each capped," if self.capped else ""
            independent = (
                "each depend on nothing but earlier ones" if self.sequential else "are independent"
            )
            first = (
                f"the {len(self.weights):,} {self.blocks} {independent}; the risk is the {kind} "
                f"of their residuals{capped} in {each}"
            )
        if self.sequential:
            return (
                f"{first}; the true risk is the mean of the conditional expectations, each given "
                "what was measured before",
            )
        if np.ptp(self.weights) > _ROUNDING:
            return (
                f"{first}; blocks of unequal size are identically distributed (for bounds that "
                "rest on kl); the true risk is the expectation for new blocks of the same design",
            )
        return (
            f"{first}; they need not be identically distributed: the true risk is the expectation "
            "for new measurements of the same design",
        )


def basis_of(
    risk: object,
    bound: Bound,
    *,
    n: int | None = None,
    ceiling: float | None = None,
    measured: int | None = None,
) -> Basis:
    """Return the basis of a risk; CertificateError if it has none.

    A `Composite` knows its losses and how many numbers were measured (`measured` where it has no
    data); for any other risk the bound's n and ceiling are the user's declaration. A given n is the
    number of independent stretches of equal size, at most the number of data.
    """
    count = getattr(bound, "n", None) if n is None else whole(n, "n, the number of data,", least=1)
    top = positive(getattr(bound, "ceiling", 1.0) if ceiling is None else ceiling, "ceiling")
    loss = getattr(risk, "loss", None) if isinstance(risk, Composite) else None
    data = risk.data if isinstance(risk, Composite) else None
    if isinstance(loss, ResidualLoss | ObservationLoss) and loss.unbounded:
        raise CertificateError(loss.unbounded)
    if isinstance(loss, ObservationLoss):
        loss = loss.residual_loss or loss
    known = isinstance(loss, ResidualLoss)
    if isinstance(loss, ResidualLoss) and type(loss).each is ResidualLoss.each:
        raise CertificateError(
            f"{loss!r} does not say what it is a mean of: give it a method `each`, or choose a "
            "loss that has one, such as Welsch()"
        )
    if not known and count is None:
        raise CertificateError(
            "n, the number of independent data behind the risk, is not known: give the bound n "
            "and delta, or give the risk as Composite(simulate, Welsch(), Observations(…))"
        )
    if data is None and not known:
        assert count is not None
        return Basis(top, np.full(count, 1.0 / count))
    labels = getattr(data, "blocks_of_measured", None)
    weights, words = _weights(labels, getattr(data, "measured", measured), count)
    sequential = bool(getattr(data, "sequential", False))
    words = "rows of data" if sequential and getattr(data, "blocks", None) is None else words
    if isinstance(loss, ResidualLoss):
        return Basis(loss.ceiling or top, weights, loss, words, sequential, declared_n=count)
    return Basis(top, weights, None, words, sequential, declared_n=count)


def _weights(
    labels: FloatArray | None, measured: int | None, count: int | None
) -> tuple[FloatArray, str]:
    """Return the weights of independent blocks, and what they are."""
    if labels is not None:
        sizes = np.unique(labels, return_counts=True)[1]
        if count is not None and count > len(sizes):
            raise CertificateError(f"n = {count}, but the data are {len(sizes)} independent blocks")
        return sizes / sizes.sum(), "blocks of data"
    if measured is None and count is None:
        raise CertificateError("n, the number of independent data, is not known: give it")
    measured = count if measured is None else measured
    assert measured is not None
    if count is not None and count > measured:
        raise CertificateError(
            f"n = {count}, but {measured} numbers were measured: n counts independent data"
        )
    if count is None or count == measured:
        return np.full(measured, 1.0 / measured), "data"
    return np.full(count, 1.0 / count), "stretches of data of equal length"


def _check_proof(bound: Bound, *, of_draws: bool) -> None:
    if not (getattr(bound, "proof", "") and is_dataclass(type(bound))):
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


def _check_independence(provenance: Provenance) -> None:
    if provenance.refusal:
        raise CertificateError(provenance.refusal)


def admitted(
    bound: Bound, basis: Basis, delta: float, provenance: Provenance, *, of_draws: bool = False
) -> tuple[Bound, tuple[str, ...], tuple[str, ...]]:
    """Return the bound for these data and δ, the corrections made and the further assumptions.

    Raise CertificateError for a prior, a loss or a temperature that has seen the data, or an
    unproven bound; with `of_draws`, for one that is not known to hold for draws of a posterior.
    """
    _check_proof(bound, of_draws=of_draws)
    _check_independence(provenance)
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
    if fixed_temperature(bound) is None or not (basis.root or getattr(bound, "n", None) is None):
        return bound
    kind = McAllester if basis.sequential else MaurerLangfordSeeger
    return kind(basis.number(kind), 0.05, basis.ceiling)


def every_value(
    chosen: Bound, basis: Basis, delta: float, mean: float, nats: float, *, of_draws: bool = False
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
    if fixed_temperature(chosen) is not None:
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
