"""PAC-Bayes bounds as functions of the mean risk π[R] and of KL(π, prior).

Each holds with probability at least 1 − delta over n independent data, simultaneously for all
distributions π, if the loss of one datum lies in [0, ceiling].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import entr, rel_entr, xlogy

from supac.arrays import FloatArray, positive, whole
from supac.codec import register
from supac.problem.selectable import Selectable, option

_ROUNDING = 1e-9  # of sums of weights
_NEWTON_STEPS = 20


class Bound(Selectable, ABC):
    """Callable (mean_risk, kl) → bound on the true risk, increasing in both arguments.

    A bound for risks in [0, C] has C as its attribute `ceiling`; failed runs can then count as C.

    `class Mine(Bound, kind="mine", proof="Theorem 1 of …")` makes a dataclass with the fields n,
    delta and ceiling available to problem files (`kind`) and to certificates of posteriors
    (`proof`), with `of_draws=True` of ensembles too. A subclass inherits none of them: it may
    change the formula.
    """

    proof: ClassVar[str] = ""
    """Reference to the theorem; certificates refuse a bound without one."""
    of_draws: ClassVar[bool] = False
    """True if it also holds for the means over draws of a posterior, as certificates of ensembles
    need: it follows from a Δ, convex in the pair of risks, whose exponential has a bounded mean."""

    betting: ClassVar[bool] = False
    """True if certificates rest on betting instead, where the losses of each datum are known."""

    def __init_subclass__(
        cls, *, proof: str = "", of_draws: bool = False, betting: bool = False, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        cls.proof, cls.of_draws, cls.betting = proof, of_draws, betting

    @abstractmethod
    def __call__(self, mean_risk: float, kl: float) -> float:
        """Compute the bound on the true risk."""

    def values(self, mean_risk: FloatArray, kl: FloatArray) -> FloatArray:
        """Compute the bound for pairs of finite numbers, (k,) and (k,), to about nine digits."""
        pairs = zip(mean_risk.tolist(), kl.tolist(), strict=True)
        return np.array([self(*each) for each in pairs], dtype=np.float64)

    @classmethod
    def for_data(cls, n: int, delta: float, ceiling: float) -> Bound:
        """Return the bound for n data, its other options at their defaults."""
        make: Callable[..., Bound] = cls
        return make(n=n, delta=delta, ceiling=ceiling)

    sequential: ClassVar[bool] = False
    """True if it holds for dependent data in the order of time, for the mean conditional risk."""

    @classmethod
    def data_in(cls, weights: FloatArray, *, sequential: bool = False) -> int:
        """Return the n that independent blocks of these weights, which sum to 1, count for.

        For bounds that rest on kl it is 1/max w: n·kl is at most n·KL_inf, the log wealth of a
        gambler who bets on each block with an exponent n·w of at most 1.
        """
        return int(np.floor(1.0 / weights.max() + _ROUNDING))


@register
@dataclass(frozen=True)
class Catoni(
    Bound, kind="catoni", proof="Catoni (2007); Alquier (2024)", of_draws=True, betting=True
):
    """π[R] + λ·KL + C²/(8λn) − λ log δ, with temperature λ and ceiling C.

    Without n and delta, the value is π[R] + λ·KL: the same minimiser, but no bound.

    The bound holds for a λ chosen independently of the data. `temperature="auto"` takes the minimum
    over the K values of `temperatures`, a grid that does not depend on the data, each with δ/K
    (union bound).
    """

    temperature: float | Literal["auto"] = field(
        metadata=option(
            'the weight of KL, chosen before the data were seen; "auto" needs `n`',
            word="auto",
            default='"auto"',
        )
    )
    n: int | None = None
    delta: float | None = None
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        positive(self.ceiling, "ceiling")
        if (self.n is None) != (self.delta is None):
            raise ValueError("give both n and delta, or neither for π[R] + λ·KL")
        if self.n is not None and self.delta is not None:
            _check_data(self.n, self.delta, self.ceiling)
        if self.temperature == "auto":
            if self.n is None:
                raise ValueError('temperature="auto" needs n, the number of data, and delta')
        else:
            number = positive(self.temperature, "temperature")
            object.__setattr__(self, "temperature", number)

    def __call__(self, mean_risk: float, kl: float) -> float:
        """Compute the bound; π[R] + λ·KL without n and delta."""
        return float(self._at_each(mean_risk, kl).min())

    def values(self, mean_risk: FloatArray, kl: FloatArray) -> FloatArray:
        """Compute the bound for many pairs."""
        return np.asarray(self._at_each(mean_risk[:, None], kl[:, None]).min(axis=1))

    @classmethod
    def for_data(cls, n: int, delta: float, ceiling: float) -> Bound:
        """Return the bound minimised over the grid of temperatures."""
        return cls("auto", n, delta, ceiling)

    sequential = True  # Azuma's inequality is Hoeffding's lemma for martingale differences

    @classmethod
    def data_in(cls, weights: FloatArray, *, sequential: bool = False) -> int:
        """Return 1/Σw²: Hoeffding's lemma adds up the squares of the weights."""
        return int(np.floor(1.0 / float(weights @ weights) + _ROUNDING))

    @property
    def temperatures(self) -> tuple[float, ...]:
        """Return the given temperature, or the grid for "auto", which depends on n, δ and C only.

        The optimal λ for each KL is C/√(8n(KL + log 1/δ)). The grid runs from the one for KL = 0,
        in steps of √2, to the one for KL = 4n, above which the bound is vacuous.
        """
        if isinstance(self.temperature, int | float):
            return (self.temperature,)
        assert self.n is not None
        assert self.delta is not None
        return _temperatures(self.n, self.delta, self.ceiling)

    def best_temperature(self, mean_risk: float, kl: float) -> float:
        """Return the temperature that minimises the bound."""
        return self.temperatures[int(np.argmin(self._at_each(mean_risk, kl)))]

    def _at_each(self, mean_risk: float | FloatArray, kl: float | FloatArray) -> FloatArray:
        """Evaluate the objective with every temperature, on the last axis."""
        if self.temperature == "auto":  # risks lie in [0, C], though a surrogate's may be negative
            mean_risk = np.maximum(mean_risk, 0.0)
        temperatures = np.array(self.temperatures)
        objective = mean_risk + temperatures * kl
        if self.n is None or self.delta is None:
            return np.asarray(objective)
        rest = self.ceiling**2 / (8.0 * temperatures * self.n)
        return np.asarray(
            objective + rest - temperatures * float(np.log(self.delta / len(temperatures)))
        )


@cache
def _temperatures(n: int, delta: float, ceiling: float) -> tuple[float, ...]:
    """Return the grid of `Catoni.temperatures`."""
    floor = -float(np.log(delta))
    warmest = ceiling / np.sqrt(8.0 * n * floor)
    count = 1 + int(np.ceil(np.log2(1.0 + 4.0 * n / floor)))
    return tuple(float(warmest * 2.0 ** (-0.5 * k)) for k in range(count))


@dataclass(frozen=True)
class _SampleBound(Bound):
    """Base of the bounds in the complexity (KL + log(2√n/δ))/n, for risks in [0, 1]."""

    n: int
    delta: float
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        _check_data(self.n, self.delta, self.ceiling)

    def __call__(self, mean_risk: float, kl: float) -> float:
        """Compute the bound; infinite if KL is."""
        # Surrogates may predict risks below 0, where these bounds are not defined.
        share = max(mean_risk / self.ceiling, 0.0)
        if not (np.isfinite(kl) and np.isfinite(share)):
            return float("inf")
        return self.ceiling * float(self._unit(share, self._complexity(kl)))

    def values(self, mean_risk: FloatArray, kl: FloatArray) -> FloatArray:
        """Compute the bound for many pairs."""
        shares = np.maximum(mean_risk / self.ceiling, 0.0)
        return np.asarray(self.ceiling * self._unit(shares, self._complexity(kl)))

    def _complexity(self, kl: Any) -> Any:
        return (np.maximum(kl, 0.0) + np.log(2.0 * np.sqrt(self.n) / self.delta)) / self.n

    @abstractmethod
    def _unit(self, risk: Any, complexity: Any) -> Any:
        """Compute the bound for risks in [0, 1]: of two numbers, or of two arrays (k,)."""


@register
@dataclass(frozen=True)
class McAllester(
    _SampleBound,
    kind="mcallester",
    proof="McAllester (1999); Maurer (2004)",
    of_draws=True,
    betting=True,
):
    """π[R] + √(complexity / 2), complexity = (KL + log(2√n/δ))/n."""

    sequential = True

    @classmethod
    def data_in(cls, weights: FloatArray, *, sequential: bool = False) -> int:
        """Return n for independent blocks of equal weights, else 1/Σw² − 1.

        A mean that is sub-Gaussian as if of n data has E exp(2(n − 1)(R − R̂)²) ≤ √n, and
        log √n/(n − 1) is at most the bound's log 2√m/m with m = n − 1.
        """
        spread = int(np.floor(1.0 / float(weights @ weights) + _ROUNDING))
        equal = np.ptp(weights) < _ROUNDING / len(weights) and not sequential
        return max(spread if equal else spread - 1, 1)

    def _unit(self, risk: Any, complexity: Any) -> Any:
        return risk + np.sqrt(0.5 * complexity)


@register
@dataclass(frozen=True)
class MaurerLangfordSeeger(
    _SampleBound,
    kind="maurer-langford-seeger",
    proof="Langford and Seeger (2001); Maurer (2004)",
    of_draws=True,
    betting=True,
):
    """Largest p with kl(π[R], p) ≤ complexity, kl between Bernoulli distributions."""

    def _unit(self, risk: Any, complexity: Any) -> Any:
        # Vacuous above 1, but still increasing, so that the search has a slope to follow.
        inverse = kl_inverses if np.ndim(risk) else kl_inverse
        return np.maximum(risk, inverse(np.minimum(risk, 1.0), complexity))


@register
@dataclass(frozen=True)
class TolstikhinSeldin(
    _SampleBound,
    kind="tolstikhin-seldin",
    proof="Tolstikhin and Seldin (2013)",
    of_draws=True,
    betting=True,
):
    """π[R] + √(2 π[R]·complexity) + 2·complexity: fast rate for small risks."""

    def _unit(self, risk: Any, complexity: Any) -> Any:
        return risk + np.sqrt(2.0 * risk * complexity) + 2.0 * complexity


@register
@dataclass(frozen=True)
class Thiemann(
    _SampleBound,
    kind="thiemann",
    proof="Thiemann et al. (2017)",
    of_draws=True,
    betting=True,
):
    """π[R]/(1 − λ/2) + complexity/(λ(1 − λ/2)), with the optimal λ in (0, 2) or a given one.

    The bound holds for all λ simultaneously, so minimising over λ needs no correction.
    """

    trade_off: float | None = field(
        default=None, metadata=option("λ of the bound", below=2.0, default="the optimal λ")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trade_off is not None and not 0.0 < self.trade_off < 2.0:
            raise ValueError(f"trade_off must be between 0 and 2, not {self.trade_off!r}")

    def _unit(self, risk: Any, complexity: Any) -> Any:
        best = 2.0 / (np.sqrt(2.0 * risk / complexity + 1.0) + 1.0)
        trade_off = best if self.trade_off is None else self.trade_off
        return (risk + complexity / trade_off) / (1.0 - 0.5 * trade_off)


class Declared(NamedTuple):
    """Numbers that a bound declares, each None where it does not."""

    n: int | None = None
    """Number of independent data."""
    delta: float | None = None
    """Probability of failure."""
    ceiling: float | None = None
    """Largest possible risk."""

    @classmethod
    def by(cls, bound: object) -> Declared:
        """Return what a bound has declared; one of the user's own may have no such attributes."""
        return cls(*(getattr(bound, name, None) for name in cls._fields))


def fixed_temperature(bound: Bound) -> float | None:
    """Return λ of a bound π[R] + λ·KL + constant; None for other bounds."""
    if isinstance(bound, Catoni) and isinstance(bound.temperature, int | float):
        return float(bound.temperature)
    return None


def slopes(bound: Bound, mean_risk: float, kl: float) -> tuple[float, float]:
    """Compute ∂bound/∂mean_risk and ∂bound/∂kl by central differences."""
    ceiling = Declared.by(bound).ceiling or 1.0
    h, k = 1e-6 * max(abs(mean_risk), 1e-3 * ceiling), 1e-6 * max(kl, 1e-3)
    by_risk = (bound(mean_risk + h, kl) - bound(mean_risk - h, kl)) / (2.0 * h)
    by_kl = (bound(mean_risk, kl + k) - bound(mean_risk, max(kl - k, 0.0))) / (k + min(kl, k))
    return by_risk, by_kl


def trade_off(bound: Bound, mean_risk: float, kl: float) -> float:
    """Compute β = ∂bound/∂mean_risk ÷ ∂bound/∂kl: 1/λ for Catoni's bound.

    Where a vacuous bound does not grow with KL any more, use McAllester's, which always does.
    """
    by_risk, by_kl = slopes(bound, mean_risk, kl)
    n, delta, ceiling = Declared.by(bound)
    if by_kl != 0.0 or n is None or delta is None:
        return by_risk / by_kl
    substitute = McAllester(n, delta, ceiling or 1.0)
    by_risk, by_kl = slopes(substitute, max(mean_risk, 0.1), kl)
    return by_risk / by_kl


def worth_of_a_nat(bound: Bound, mean_risk: float, kl: float) -> float:
    """Compute the change of mean risk that offsets one nat of KL: λ for Catoni's bound."""
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
    """Compute KL between the Bernoulli distributions with means q and p."""
    return float(rel_entr(q, p) + rel_entr(1.0 - q, 1.0 - p))


def kl_inverse(q: float, complexity: float) -> float:
    """Compute the largest p in [q, 1] with binary_kl(q, p) ≤ complexity."""
    from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

    if q >= 1.0 or complexity <= 0.0:
        return min(q, 1.0)
    # The unknown is the difference p − q, which keeps its digits where it is tiny.
    most = (1.0 - q) * (1.0 - np.finfo(float).eps)
    if _kl_above(q, most) <= complexity:
        return 1.0
    return q + float(brentq(lambda h: _kl_above(q, h) - complexity, 0.0, most, xtol=1e-300))


def kl_inverses(q: FloatArray, complexity: FloatArray) -> FloatArray:
    """Compute `kl_inverse` for many pairs in q ≤ 1 and complexity > 0, to about nine digits.

    With t = −log(1 − p), kl(q, p) = −q log(1 − e^(−t)) + (1 − q)t − H(q) is convex and increasing:
    Newton's method from above, where two bounds on p are known, descends to the root.
    """
    entropy = entr(q) + entr(1.0 - q)
    with np.errstate(all="ignore"):  # q = 1, or Pinsker's bound above 1
        pinsker = -np.log1p(-np.minimum(q + np.sqrt(0.5 * complexity), 1.0))
        t = np.fmin(pinsker, (complexity + entropy) / (1.0 - q))
        for _ in range(_NEWTON_STEPS):
            p = -np.expm1(-t)
            excess = (1.0 - q) * t - xlogy(q, p) - entropy - complexity
            step = excess * p / (p - q)
            t = t - np.where(step > 0.0, step, 0.0)
            if not (step > 1e-12 * t).any():
                break
    return np.where(q < 1.0, np.maximum(-np.expm1(-t), q), 1.0)


def _kl_above(q: float, h: float) -> float:
    """Compute binary_kl(q, q + h) without the cancellation of its terms of first order."""
    below = q * _log1p_rest(h / q) if q > 1e-300 else -h  # h/q may overflow
    return -below - (1.0 - q) * _log1p_rest(-h / (1.0 - q))


def _log1p_rest(x: float) -> float:
    """Compute log(1 + x) − x."""
    if abs(x) > 0.005:
        return float(np.log1p(x)) - x
    return -x * x * (1 / 2 - x * (1 / 3 - x * (1 / 4 - x * (1 / 5 - x * (1 / 6 - x / 7)))))
