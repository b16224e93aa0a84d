"""PAC-Bayes bounds as functions of the mean risk π[R] and of KL(π, prior).

Each holds with probability at least 1 − delta over n independent data, simultaneously for all
distributions π, when the risk of one datum lies in [0, ceiling].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import rel_entr

from supac.arrays import positive, whole
from supac.codec import register


class Bound(ABC):
    """A callable (mean_risk, kl) → bound, increasing in both.

    A bound for risks in [0, C] has C as its attribute `ceiling`; failed runs can then count as C.
    """

    @abstractmethod
    def __call__(self, mean_risk: float, kl: float) -> float:
        """The bound on the true risk."""


@register
@dataclass(frozen=True)
class Catoni(Bound):
    """π[R] + λ·KL + C²/(8λn) − λ log δ, with temperature λ and ceiling C.

    Without n and delta only the part that depends on π, π[R] + λ·KL, is computed: it has the
    same minimiser, but it bounds nothing.

    The bound holds for a λ that was fixed before the data were seen. `temperature="auto"` takes the
    best of a grid that is, `temperatures`, each λ of K with δ/K: all hold together, so that the
    data may choose.
    """

    temperature: float | Literal["auto"]
    n: int | None = None
    delta: float | None = None
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        positive(self.ceiling, "ceiling")
        if (self.n is None) != (self.delta is None):
            raise ValueError("n and delta go together: give both for the bound, neither for λ·KL")
        if self.n is not None and self.delta is not None:
            _check_data(self.n, self.delta, self.ceiling)
        if self.temperature == "auto":
            if self.n is None:
                raise ValueError('temperature="auto" needs n, the number of data, and delta')
        else:
            number = positive(self.temperature, "temperature")
            object.__setattr__(self, "temperature", number)

    def __call__(self, mean_risk: float, kl: float) -> float:
        """The bound, or the part of it that depends on π."""
        return min(self._at(each, mean_risk, kl) for each in self.temperatures)

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The temperatures that are compared: one, or a grid that is fixed by n, δ and C.

        λ = C/√(8n(KL + log 1/δ)) is the best for each KL. The grid goes from that of KL = 0, by
        factors of √2, to that of KL = 4n, beyond which the bound is vacuous.
        """
        if isinstance(self.temperature, int | float):
            return (self.temperature,)
        assert self.n is not None
        assert self.delta is not None
        floor = -float(np.log(self.delta))
        warmest = self.ceiling / np.sqrt(8.0 * self.n * floor)
        count = 1 + int(np.ceil(np.log2(1.0 + 4.0 * self.n / floor)))
        return tuple(float(warmest * 2.0 ** (-0.5 * k)) for k in range(count))

    def best_temperature(self, mean_risk: float, kl: float) -> float:
        """The temperature at which the bound is least."""
        return min(self.temperatures, key=lambda each: self._at(each, mean_risk, kl))

    def _at(self, temperature: float, mean_risk: float, kl: float) -> float:
        objective = mean_risk + temperature * kl
        if self.n is None or self.delta is None:
            return objective
        rest = self.ceiling**2 / (8.0 * temperature * self.n)
        return objective + rest - temperature * float(np.log(self.delta / len(self.temperatures)))


@dataclass(frozen=True)
class _SampleBound(Bound):
    """Bounds without a temperature, in the complexity (KL + log(2√n/δ))/n of risks in [0, 1]."""

    n: int
    delta: float
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        _check_data(self.n, self.delta, self.ceiling)

    def __call__(self, mean_risk: float, kl: float) -> float:
        """The bound; infinite where KL is."""
        # Surrogates may predict risks below 0, where these bounds are not defined.
        share = max(mean_risk / self.ceiling, 0.0)
        if not (np.isfinite(kl) and np.isfinite(share)):
            return float("inf")
        complexity = (max(kl, 0.0) + np.log(2.0 * np.sqrt(self.n) / self.delta)) / self.n
        return self.ceiling * self._unit(share, float(complexity))

    @abstractmethod
    def _unit(self, risk: float, complexity: float) -> float:
        """The bound for risks in [0, 1]."""


@register
@dataclass(frozen=True)
class McAllester(_SampleBound):
    """π[R] + √(complexity / 2), complexity = (KL + log(2√n/δ))/n."""

    def _unit(self, risk: float, complexity: float) -> float:
        return risk + float(np.sqrt(0.5 * complexity))


@register
@dataclass(frozen=True)
class MaurerLangfordSeeger(_SampleBound):
    """The largest p with kl(π[R], p) ≤ complexity, kl the one between Bernoulli laws."""

    def _unit(self, risk: float, complexity: float) -> float:
        # Above 1 the bound is vacuous; it still grows, which tells a search where not to go.
        return max(risk, kl_inverse(min(risk, 1.0), complexity))


@register
@dataclass(frozen=True)
class TolstikhinSeldin(_SampleBound):
    """π[R] + √(2 π[R]·complexity) + 2·complexity: fast rate where the risk is small."""

    def _unit(self, risk: float, complexity: float) -> float:
        return risk + float(np.sqrt(2.0 * risk * complexity)) + 2.0 * complexity


@register
@dataclass(frozen=True)
class Thiemann(_SampleBound):
    """π[R]/(1 − λ/2) + complexity/(λ(1 − λ/2)), at the best λ in (0, 2) or at a given one.

    Quasi-convex in λ and valid for all λ at once, so minimising over it costs nothing.
    """

    trade_off: float | None = None

    def __post_init__(self) -> None:
        _check_data(self.n, self.delta, self.ceiling)
        if self.trade_off is not None and not 0.0 < self.trade_off < 2.0:
            raise ValueError(f"trade_off must lie between 0 and 2, not at {self.trade_off!r}")

    def _unit(self, risk: float, complexity: float) -> float:
        best = 2.0 / (float(np.sqrt(2.0 * risk / complexity + 1.0)) + 1.0)
        trade_off = best if self.trade_off is None else self.trade_off
        return (risk + complexity / trade_off) / (1.0 - 0.5 * trade_off)


def fixed_temperature(bound: Bound) -> float | None:
    """λ of a bound that is linear in the mean risk and in KL; None for all others."""
    if isinstance(bound, Catoni) and isinstance(bound.temperature, int | float):
        return float(bound.temperature)
    return None


def slopes(bound: Bound, mean_risk: float, kl: float) -> tuple[float, float]:
    """∂bound/∂mean_risk and ∂bound/∂kl, by central differences: any bound has them."""
    h, k = 1e-6 * max(abs(mean_risk), 1e-3), 1e-6 * max(kl, 1e-3)
    by_risk = (bound(mean_risk + h, kl) - bound(mean_risk - h, kl)) / (2.0 * h)
    by_kl = (bound(mean_risk, kl + k) - bound(mean_risk, max(kl - k, 0.0))) / (k + min(kl, k))
    return by_risk, by_kl


def worth_of_a_nat(bound: Bound, mean_risk: float, kl: float) -> float:
    """The difference of risk that is worth one nat of KL: λ for Catoni's bound."""
    temperature = fixed_temperature(bound)
    if temperature is not None:
        return temperature
    by_risk, by_kl = slopes(bound, mean_risk, kl)
    return by_kl / by_risk if by_risk > 0.0 else 0.0


def _check_data(n: int, delta: float, ceiling: float) -> None:
    whole(n, "n, the number of data,", least=1)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta, the probability of failure, must be in (0, 1), not {delta!r}")
    positive(ceiling, "ceiling")


def binary_kl(q: float, p: float) -> float:
    """KL between the Bernoulli laws of means q and p."""
    return float(rel_entr(q, p) + rel_entr(1.0 - q, 1.0 - p))


def kl_inverse(q: float, complexity: float) -> float:
    """The largest p in [q, 1] with binary_kl(q, p) ≤ complexity."""
    from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

    if q >= 1.0:
        return 1.0
    highest = 1.0 - 1e-15
    if binary_kl(q, highest) <= complexity:
        return 1.0
    return float(brentq(lambda p: binary_kl(q, p) - complexity, q, highest, xtol=1e-15))
