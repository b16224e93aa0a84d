"""Certificates: an upper limit on a true risk, its probability and its assumptions.

There are two kinds. That of the *ensemble* is about the K parameter sets that were drawn to
validate a posterior, and needs no further run. That of the *posterior* is about the mean over all
of it, which has to be estimated from fresh draws first: see `ensemble` and `posterior`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, Literal, get_args

import numpy as np

from supac.arrays import FloatArray
from supac.guarantee.basis import Basis, Bets, CertificateError
from supac.guarantee.gate import Limit, certificates_counted, failures_counted
from supac.guarantee.provenance import Provenance

Subject = Literal["posterior", "ensemble", "held-out"]
_DATA = "data from another distribution than these, such as another plant or another season"
_SINGLE = "that each single prediction is that close: the limit is on a mean loss"
_BOTH = (
    "that the limits of posterior and ensemble hold together: each has its own δ, so report one of "
    "them, chosen beforehand, or both with the sum"
)
_ENSEMBLE = (
    "the true risk of one of these parameter sets: the bound is on their mean",
    _SINGLE,
    "that one of them is near the true parameters: their ranges are not credible intervals",
    "other draws of the same posterior",
)
_NOT_GUARANTEED: Mapping[Subject, tuple[str, ...]] = {
    "posterior": (
        "the true risk of any single parameter vector: the bound is on the mean over the posterior",
        _SINGLE,
        "that the posterior contains the true parameters: its ranges are not credible intervals",
        _BOTH,
        _DATA,
    ),
    "ensemble": (*_ENSEMBLE, _DATA),
    "held-out": (*_ENSEMBLE, _DATA),
}
_TEXTS = ("warnings", "corrections", "assumptions", "not_guaranteed")
HARDLY = 0.9
"""Share of the ceiling above which a limit says next to nothing."""
_PLAIN = 1e6  # below which a number is written without a power of ten
_CLOSE = 2.0  # noises: losses that are capped below this are those of usual misfits
_FAR = 3.0  # times the mean risk from which on a limit needs a word of explanation


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate:
    """Upper limit on a true risk that holds with probability 1 − delta."""

    value: float
    subject: Subject = "posterior"
    """The mean over the whole posterior, or over the parameter sets of an ensemble."""
    bound: str
    """Class name of the bound; "Betting" and "PooledBetting" are not chosen by name, and rest on
    the losses of each datum."""
    bounds: Mapping[str, float]
    """Value of every bound at the same risk, KL and δ; valid for one of them, if it was chosen
    before looking at the data."""
    mean_risk: float
    """Mean over the draws, failed runs at the ceiling; of a root-mean-square risk, the root of the
    mean square over all draws."""
    mean_risk_upper: float
    """Upper confidence limit of `mean_risk` over the posterior; equal to it for an ensemble. Bets
    on the losses of each datum do without it."""
    without_draws: float | None = None
    """Value if `mean_risk` were known exactly: about the least that more draws can give."""
    kl: float
    """KL(posterior, prior), or the mean log density ratio of the draws for an ensemble."""
    n: int
    """Number of independent data that the bound counts."""
    ceiling: float
    draws: int
    failed: int
    delta: float
    delta_monte_carlo: float = 0.0
    """Share for the draws behind `mean_risk_upper`."""
    delta_kl: float = 0.0
    """Share for an estimated KL."""
    delta_selection: float = 0.0
    """Share that is spent on posteriors and certificates that could have been reported instead."""
    delta_pac: float
    """Share for the data; sum over the compared temperatures."""
    capped: bool = False
    """True if the loss of a datum has no ceiling of its own, and is capped at `ceiling`."""
    residual: float | None = None
    """Constant residual, in noise standard deviations, with which the data would have the mean loss
    `value`; None if the loss of a datum is not known, or never so large."""
    cap: float | None = None
    """Residual, in noise standard deviations, above which losses are capped; None if none is."""
    in_units: Mapping[str, float] = field(default_factory=dict)
    """That residual in the unit of each observed column; of logarithms, the relative error."""
    warnings: tuple[str, ...] = ()
    """Signs that an assumption does not hold."""
    corrections: tuple[str, ...] = ()
    """Corrections that keep the limit valid, such as union bounds."""
    assumptions: tuple[str, ...] = ()
    not_guaranteed: tuple[str, ...] = ()
    earlier: int = 0
    """Number of certificates of its kind on these data before it, with which it shares δ."""
    name: str = ""
    """Name by which it is counted; "" if it is not, as in `certify_draws`."""
    fingerprint: str = ""
    """Fingerprint of posterior and prior; "" if unknown, as in `certify_draws`."""

    def __post_init__(self) -> None:
        if self.subject not in get_args(Subject):
            raise CertificateError(f"not a certificate: {self.subject!r} is not known")
        if not self.not_guaranteed:
            object.__setattr__(self, "not_guaranteed", _NOT_GUARANTEED[self.subject])

    @property
    def vacuous(self) -> bool:
        """True if the limit is not below the largest possible risk."""
        return not self.value < self.ceiling

    @property
    def statement(self) -> str:
        """The guarantee in one sentence, its limit rounded up."""
        sets = f"these {self.draws} parameter sets" if self.draws > 1 else "this parameter set"
        of = "the posterior" if self.subject == "posterior" else sets
        if self.subject == "held-out":
            of += " on data like the held-out ones"
        if self.capped:
            of += f" (each loss capped at {self.ceiling:g})"
        return (
            f"With probability at least {_one_minus(self.delta)}, the mean true risk of {of} "
            f"is at most {rounded_up(min(self.value, self.ceiling))}"
        )

    @property
    def in_words(self) -> str:
        """The limit as a residual, in noise standard deviations and in the users' units."""
        if self.residual is None:
            return ""
        each, size = sizes_in_words(self.in_units, sign=""), rounded_up(self.residual, 3)
        return (
            f"equivalent misfit, a constant residual with that loss: {size} noise standard "
            f"deviations{f', {each}' if each else ''}"
            f"{f' ({self.cap_in_words})' if self.cap else ''}"
        )

    @property
    def cap_in_words(self) -> str:
        """Residuals that are not told apart, because their losses are capped; "" if none are."""
        if self.cap is None:
            return ""
        return f"residuals above {self.cap:.3g} times the noise count as that, however large"

    @property
    def weakness(self) -> str:
        """Reason why the limit says little, as a clause; "" if it does not."""
        if self.vacuous:
            return "it is vacuous, since no risk is larger"
        if self.value > HARDLY * self.ceiling:
            return f"it says next to nothing: no risk counts as more than {self.ceiling:.4g}"
        if self.cap is not None and self.cap < _CLOSE:
            return f"it says less than it seems: {self.cap_in_words}"
        return ""

    @property
    def price(self) -> str:
        """Reason why the limit is several times the mean risk, as a clause; "" if it is not."""
        if not self.mean_risk > 0.0 or self.vacuous or self.value < _FAR * self.mean_risk:
            return ""
        learnt = "" if self.subject == "held-out" else " and for how much was learnt from them"
        return (
            f"it is {self.value / self.mean_risk:.2g} times the mean risk on these data: it pays "
            f"for how few they are ({self.n:,}){learnt}"
        )

    @property
    def earlier_in_words(self) -> str:
        """Reason for a higher limit than that of a first certificate; "" if it is the first."""
        if not self.earlier:
            return ""
        return (
            f"it is certificate {self.earlier + 1} on these data, with a smaller share of δ and so "
            "a higher limit than a first one"
        )

    def to_json(self) -> str:
        """Return the certificate as JSON text."""
        return json.dumps(asdict(self) | {"vacuous": self.vacuous}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read what `to_json` wrote, in this or an earlier version; otherwise CertificateError."""
        try:
            told = json.loads(text)
            texts = {name: tuple(map(str, told.get(name, ()))) for name in _TEXTS}
            own = {
                each.name: told[each.name]
                for each in fields(cls)
                if each.name in told
                or (each.default is MISSING and each.default_factory is MISSING)
            }
            return cls(**own | texts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CertificateError(f"not a certificate: {error!r}") from error

    def __repr__(self) -> str:
        vacuous = ", vacuous" if self.vacuous else ""
        return (
            f"Certificate({self.subject}, true risk at most {rounded_up(self.value)}{vacuous} with "
            f"probability {_one_minus(self.delta)}, {self.bound}, n={self.n})"
        )

    def _repr_html_(self) -> str:
        from supac.report.notebook import html_of_certificate  # noqa: PLC0415

        return html_of_certificate(self)

    def __str__(self) -> str:
        weakness = f" Take care: {self.weakness}." if self.weakness else ""
        posterior = self.subject == "posterior"
        shares = {
            "the draws": self.delta_monte_carlo,
            "KL": self.delta_kl,
            "selection": self.delta_selection,
            "the data": self.delta_pac,
        }
        limit = f", at most {rounded_up(self.mean_risk_upper)}" if posterior else ""
        ratio = "KL(posterior, prior)" if posterior else "mean log density ratio"
        lines = [
            f"{self.statement} ({self.bound}).{weakness}",
            *([f"  {self.in_words}"] if self.in_words and not self.vacuous else []),
            *([f"  {self.price}"] if self.price else []),
            *(f"  warning: {each}" for each in self.warnings),
            f"  mean risk on the data (n = {self.n:,}): {self.mean_risk:.4g} from "
            f"{self.draws:,} fresh draws ({self.failed} failed){limit}",
            *([] if self.subject == "held-out" else [f"  {ratio}: {self.kl:.4g}"]),
            f"  δ = {self.delta:g}: "
            + ", ".join(f"{share:.4g} for {what}" for what, share in shares.items() if share),
            *(f"  corrected: {each}" for each in self.corrections),
            "This assumes that",
            *(f"  - {each}" for each in self.assumptions),
            "It does not guarantee",
            *(f"  - {each}" for each in self.not_guaranteed),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Losses:
    """Mean losses of fresh draws, and what they are means of."""

    means: FloatArray
    """Mean loss of each draw, before a root; of a failed one the largest possible: (m,)."""
    basis: Basis
    failed: int = 0
    """Number of failed draws."""
    bets: Bets | None = None
    """Losses of each independent datum, where they are known."""

    @property
    def mean(self) -> float:
        """Mean over the draws."""
        return float(np.mean(self.means))


def certificate_of(
    losses: Losses,
    limit: Limit,
    provenance: Provenance,
    *,
    upper: float | None = None,
    corrections: tuple[str, ...] = (),
    assumptions: tuple[str, ...] = (),
    **others: Any,
) -> Certificate:
    """Make a certificate of draws from the limit of their mean true loss.

    `upper` is the limit of their mean loss on the data; `others` are further fields.
    """
    basis, failed, draws = losses.basis, losses.failed, len(losses.means)
    counted = certificates_counted(provenance) + failures_counted(failed, draws, basis)
    without = limit.value if limit.without_draws is None else limit.without_draws
    return Certificate(
        value=basis.in_risk(limit.value),
        bound=limit.theorem,
        bounds=limit.bounds,
        n=limit.n,
        mean_risk=basis.in_risk(losses.mean),
        mean_risk_upper=basis.in_risk(losses.mean if upper is None else upper),
        without_draws=basis.in_risk(without),
        ceiling=basis.ceiling,
        capped=basis.capped,
        earlier=provenance.earlier,
        draws=draws,
        failed=failed,
        corrections=limit.corrections + corrections + counted,
        assumptions=(*basis.assumptions, *assumptions, *limit.assumptions),
        **others,
    )


def rounded_up(value: float, digits: int = 4) -> str:
    """Format an upper limit with so many digits, rounded up: the printed number holds too."""
    if not np.isfinite(value):
        return f"{value:g}"
    up = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value))))
    text = f"{float(up):.{digits}g}"
    return f"{float(up):,.0f}" if "e+" in text and abs(value) < _PLAIN else text


def sizes_in_words(sizes: Mapping[str, float], sign: str = "± ") -> str:
    """Format the sizes of columns, rounded up: equal ones together, relative ones in percent."""
    columns: dict[str, list[str]] = {}
    for name, value in sizes.items():
        column, relative, _ = name.partition(" (relative)")
        size = f"{rounded_up(100.0 * value, 3)} %" if relative else rounded_up(value, 3)
        columns.setdefault(size, []).append(column)
    return ", ".join(f"{_listed(names)} {sign}{size}" for size, names in columns.items())


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _one_minus(delta: float) -> str:
    """Format 1 − δ with enough digits to differ from 1."""
    digits = max(4, 1 - int(np.floor(np.log10(delta))))
    return f"{1.0 - delta:.{digits}g}" if digits < 16 else f"1 − {delta:g}"
