"""The losses that a risk is a mean of: of which data, in which blocks, between which limits.

A PAC-Bayes bound speaks of a mean, over independent data, of a loss in [0, C]. The same function
decides for Python and for problem files whether a risk is one, and how many data it counts for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from supac.arrays import BoolArray, FloatArray, positive, whole
from supac.problem.bounds import Bound, Declared, MaurerLangfordSeeger
from supac.problem.composite import parts_of
from supac.problem.losses import ResidualLoss, as_residual_loss
from supac.problem.observation import as_observation_loss, residual_loss_of

_FAR = 1e6  # noise standard deviations
_ROUNDING = 1e-12


class CertificateError(ValueError):
    """No certificate can be given, for the reason in the message."""


@dataclass(frozen=True, eq=False)
class Bets:
    """Losses of independent data, or blocks, of several runs, and what each counts for."""

    losses: FloatArray
    """Shares of the largest loss, of failed runs 1: (runs, n)."""
    exponents: FloatArray
    """Each at most 1, in proportion to the weights in the risk: (n,)."""

    @property
    def weights(self) -> FloatArray:
        """Exponents divided by their sum."""
        return self.exponents / self.exponents.sum()


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
    labels: FloatArray | None = None
    """Labels of the blocks of the measurements, (measured,); None if each is its own."""

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
        capped, failed = self._capped(risk, residuals), np.isnan(risk)
        if capped is not None:
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

    def _capped(self, risk: FloatArray, residuals: FloatArray | None) -> FloatArray | None:
        """Return the loss of each datum, before a root: (n, measured); None if it is not known."""
        if self.loss is None or residuals is None:
            return None
        losses = self.loss.each(residuals)
        assert losses is not None
        unknown = np.isnan(risk)[:, None] | np.isnan(losses)
        self._check(losses, unknown, risk)
        return np.minimum(np.where(unknown, self.top, losses), self.top)

    def bets(self, risk: FloatArray, residuals: FloatArray | None) -> Bets | None:
        """Return what can be bet on: the losses of independent blocks; None if they are unknown.

        Where n says that there are fewer independent stretches than data, nobody says which: the
        wealth of bets on each datum, with fractional exponents, is at most that on the stretches.
        """
        losses = None if self.sequential else self._capped(risk, residuals)
        if losses is None:
            return None
        shares = losses / self.top
        if self.labels is not None:
            _, block, sizes = np.unique(self.labels, return_inverse=True, return_counts=True)
            means = np.zeros((len(shares), len(sizes)))
            np.add.at(means.T, block, shares.T)
            shares = means / sizes
        count = shares.shape[1]
        weights = self.weights if len(self.weights) == count else np.full(count, 1.0 / count)
        return Bets(np.clip(shares, 0.0, 1.0), self.number(MaurerLangfordSeeger) * weights)

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
    declared = Declared.by(bound)
    count = declared.n if n is None else whole(n, "n, the number of data,", least=1)
    known = (each for each in (ceiling, declared.ceiling, 1.0) if each is not None)
    top = positive(next(known), "ceiling")
    loss, data = parts_of(risk).loss, parts_of(risk).data
    for own in (as_observation_loss(loss), as_residual_loss(loss)):
        if own is not None and own.unbounded:
            raise CertificateError(own.unbounded)
    residual = residual_loss_of(loss)
    if residual is not None and type(residual).each is ResidualLoss.each:
        raise CertificateError(
            f"{residual!r} does not say what it is a mean of: give it a method `each`, or choose a "
            "loss that has one, such as Welsch()"
        )
    if residual is None and count is None:
        raise CertificateError(
            "n, the number of independent data behind the risk, is not known: give the bound n "
            "and delta, or give the risk as Composite(simulate, Welsch(), Observations(…))"
        )
    if data is None and residual is None:
        assert count is not None
        return Basis(top, np.full(count, 1.0 / count))
    labels = getattr(data, "blocks_of_measured", None)
    weights, words = _weights(labels, getattr(data, "measured", measured), count)
    sequential = bool(getattr(data, "sequential", False))
    words = "rows of data" if sequential and getattr(data, "blocks", None) is None else words
    if residual is not None:
        kept = None if labels is None else np.asarray(labels, dtype=np.float64)
        return Basis(
            residual.ceiling or top,
            weights,
            residual,
            words,
            sequential,
            declared_n=count,
            labels=kept,
        )
    return Basis(top, weights, None, words, sequential, declared_n=count)


def losses_are_known(risk: object) -> bool:
    """Return True if a run of this risk has a loss of each independent datum, to bet on."""
    parts = parts_of(risk)
    sequential = getattr(parts.data, "sequential", False)
    return not sequential and residual_loss_of(parts.loss) is not None


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
