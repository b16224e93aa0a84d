"""Prediction bands for new measurements, whose coverage rests on no distribution of the noise.

With held-out data, split conformal prediction: the band is the mean prediction of the ensemble plus
and minus the residual that the right share of the held-out ones do not exceed. Without them,
jackknife+ over blocks of data (Barber, Candès, Ramdas and Tibshirani, 2021). A search without block
b would have found a posterior that is proportional to Q(h)·exp(β(R̂(h) − R̂₋ᵦ(h))) where Q is the
Gibbs posterior ∝ P(h)·exp(−βR̂(h)); so the parameter sets are weighted by that factor, and no run is
made. Where blocks hold several measurements, each block has the same mass in the distribution of
the residuals, and one more lies at infinity (Lee, Barber and Willett, 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

from supac.arrays import FloatArray, IntArray, probability
from supac.guarantee.basis import CertificateError
from supac.guarantee.certificate import sizes_in_words
from supac.guarantee.dependence import warning_of_dependence
from supac.problem.data import Observations

Method = Literal["split conformal", "jackknife+"]
_MOST_FOLDS = 200  # above which whole blocks are left out several at a time
_LEAST_SETS = 2.0  # that an ensemble without a block must be worth
_CELLS = 4_000_000  # of a table that is sorted at a time
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Bands:
    """Limits between which a new measurement of a column lies with probability `coverage`."""

    centre: FloatArray
    """Mean prediction of the ensemble (of logarithms, the geometric mean): (rows · columns,)."""
    lower: FloatArray
    """NaN in columns that have too few measurements for a band: (rows · columns,)."""
    upper: FloatArray
    coverage: float
    method: Method
    blocks: Mapping[str, int]
    """Number of blocks of measurements behind the band of each column that has one."""
    in_units: Mapping[str, float]
    """Half the width in the unit of each such column, the median over its rows; of logarithms, the
    relative error."""
    unit: str = "measurements"
    """Name of the blocks."""

    def __repr__(self) -> str:
        each = sizes_in_words(self.in_units)
        return f"Bands({100.0 * self.coverage:g} % of new measurements: {each}; {self.method})"

    @property
    def statement(self) -> str:
        """The coverage and the widths in one sentence, rounded up."""
        each = sizes_in_words(self.in_units)
        least, most = min(self.blocks.values()), max(self.blocks.values())
        number = f"{least}" if least == most else f"{least} to {most}"
        return (
            f"a new measurement lies in its band with probability at least {self.coverage:g}: "
            f"{each} ({self.method}, {number} {self.unit} a column)"
        )

    @property
    def assumption(self) -> str:
        """Assumption of the coverage, in one sentence."""
        if self.method == "split conformal":
            return f"new {self.unit} are exchangeable with those that were held out"
        return (
            f"new {self.unit} are exchangeable with these, and the parameter sets, re-weighted to "
            "leave out some of the data, are like those of a search without these data (checked in "
            "benchmarks, not proven)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Summarise the bands for JSON, without their limits at each row."""
        return {
            "coverage": self.coverage,
            "method": self.method,
            "half_width": dict(self.in_units),
            "assumption": self.assumption,
        }


def conformal_bands(outputs: FloatArray, held_out: Observations, coverage: float = 0.9) -> Bands:
    """Compute split-conformal bands around the mean of an ensemble's outputs (K, m).

    The half-width of a column is the ⌈(n + 1)·coverage⌉-th smallest absolute residual of its n
    held-out measurements, which the ensemble has not seen, in noise standard deviations.
    """
    probability(coverage, "coverage")
    sets = _successful(outputs, held_out)
    _check_exchangeable(held_out, _residuals(held_out, sets))
    centre = _on_scale(held_out, sets).mean(axis=0)
    scores = np.abs(_residuals(held_out, _off_scale(held_out, centre)[None])[0])
    blocks = _blocks(held_out)
    width = np.full(len(centre), np.nan)
    for part, mine, masses in _columns(held_out, blocks, coverage, "held-out "):
        width[part] = _quantile(scores[mine, None], masses, coverage)[0]
    limits = centre - width * held_out.noise, centre + width * held_out.noise
    return _bands(held_out, blocks, centre, limits, coverage, "split conformal")


def jackknife_bands(
    outputs: FloatArray,
    data: Observations,
    loss: Callable[[FloatArray], Any],
    trade_off: float,
    coverage: float = 0.9,
) -> Bands:
    """Compute jackknife+ bands from the outputs (K, m) of an ensemble that was found on all data.

    `trade_off` is β = 1/λ, the nats of KL that a unit of risk is worth to the bound. The level is
    1 − (1 − coverage)/2, so that the worst case of jackknife+ still has the coverage.
    """
    level = 0.5 * (1.0 + probability(coverage, "coverage"))
    sets = _successful(outputs, data)
    residuals = _residuals(data, sets)
    _check_exchangeable(data, residuals)
    every = _blocks(data)
    blocks = every % _MOST_FOLDS
    parts = list(_columns(data, blocks, level, halved=True))
    weights = left_out_weights(residuals, blocks, loss, trade_off)
    scaled, observed = _on_scale(data, sets), _on_scale(data, data.values)[data.needed]
    centres = weights @ scaled
    own = centres[:, data.needed][blocks, np.arange(len(blocks))]
    scores = np.abs(observed - own) / data.noise[data.needed]
    # The ensemble does not tell what a search without such a block would have found.
    worth = 1.0 / (weights**2).sum(axis=1)
    scores[worth[blocks] < _LEAST_SETS] = np.inf
    lower, upper = np.full((2, scaled.shape[1]), np.nan)
    for part, mine, masses in parts:
        middle, noise = centres[:, part][blocks[mine]], data.noise[part]
        upper[part] = _spread(middle, scores[mine], noise, masses, level)
        lower[part] = -_spread(-middle, scores[mine], noise, masses, level)
    centre = scaled.mean(axis=0)
    return _bands(data, every, centre, (lower, upper), coverage, "jackknife+")


def within_data(bands: Bands, *measured: Observations | None) -> Bands:
    """Return the bands without those of rows before or after all measured times of their column.

    No measurement is like those that will be made there.
    """
    known = [each for each in measured if each is not None]
    lower, upper = bands.lower.copy(), bands.upper.copy()
    for k in range(len(known[0].columns)):
        times = known[0].times
        if times is None:
            return bands
        part = slice(k * len(times), (k + 1) * len(times))
        there = np.any([each.needed[part] for each in known], axis=0)
        if there.any():
            beyond = (times < times[there].min()) | (times > times[there].max())
            lower[part][beyond] = upper[part][beyond] = np.nan
    return replace(bands, lower=lower, upper=upper)


def left_out_weights(
    residuals: FloatArray,
    blocks: IntArray,
    loss: Callable[[FloatArray], Any],
    trade_off: float,
) -> FloatArray:
    """Weight K parameter sets as if each of B blocks of data had not been there: (B, K).

    w_bk ∝ exp(β(R̂(h_k) − R̂₋ᵦ(h_k))), from the residuals (K, measured) and the block of each.
    """
    try:
        whole = np.asarray(loss(residuals))
        without = [np.asarray(loss(residuals[:, blocks != b])) for b in range(blocks.max() + 1)]
        log_weights = trade_off * (whole - np.array(without))
    except Exception as error:  # of a loss of the user's
        raise CertificateError(f"no bands: the loss needs all residuals: {error}") from error
    return np.exp(log_weights - logsumexp(log_weights, axis=1, keepdims=True))


def _successful(outputs: FloatArray, data: Observations) -> FloatArray:
    """Return the outputs of the sets whose runs succeeded."""
    if outputs.shape[1] != len(data.values):
        raise CertificateError(
            f"no bands: the runs have {outputs.shape[1]} outputs, but the data {len(data.values)}"
        )
    sets = outputs[np.isfinite(outputs[:, data.needed]).all(axis=1)]
    if not len(sets):
        raise CertificateError("no bands: all runs of the ensemble failed")
    return sets


def _residuals(data: Observations, outputs: FloatArray) -> FloatArray:
    try:
        return data.residuals(outputs)
    except ValueError as error:  # such as the logarithm of a negative output
        raise CertificateError(f"no bands: the outputs cannot be compared: {error}") from error


def _on_scale(data: Observations, values: FloatArray) -> FloatArray:
    """Return values on the scale of the noise: logarithms, where these are compared."""
    if not data.logarithmic:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):  # where nothing was measured
        return np.log(values)


def _off_scale(data: Observations, values: FloatArray) -> FloatArray:
    return np.exp(values) if data.logarithmic else values


def check_declared(data: Observations, n: int | None) -> None:
    """Raise CertificateError if the n of a bound says that data without blocks are dependent."""
    if n is not None and n < data.measured and data.blocks is None and not data.sequential:
        raise CertificateError(
            f"no bands: n = {n} says that the {data.measured} data are dependent; give blocks of "
            "rows, which say how"
        )


def _check_exchangeable(data: Observations, residuals: FloatArray) -> None:
    """Raise CertificateError where new measurements cannot be exchangeable with these."""
    if data.sequential:
        raise CertificateError(
            "no bands: each row of a sequence depends on earlier ones, so that a new one is not "
            "exchangeable with them; give blocks that are independent, without sequential"
        )
    if data.blocks is not None:
        return
    series = data.series(np.median(residuals, axis=0))
    for words in warning_of_dependence(series, data.measured):
        raise CertificateError(f"no bands: {words}")


def _blocks(data: Observations) -> IntArray:
    """Return the block of each measurement, 0 …: (measured,)."""
    labels = data.blocks_of_measured
    if labels is None:
        return np.arange(data.measured)
    return np.unique(labels, return_inverse=True)[1]


def _columns(
    data: Observations, blocks: IntArray, level: float, kind: str = "", *, halved: bool = False
) -> Iterator[tuple[slice, IntArray, FloatArray]]:
    """Yield the place of each column with enough blocks, its measurements, and their masses.

    All of a block's measurements together have the mass 1/(B + 1), which leaves as much for a
    new block. CertificateError if no column has enough. `halved`: half of 1 − level is for the
    worst case.
    """
    owner = np.repeat(np.arange(len(data.columns)), data.rows)[data.needed]
    most = 0
    least = int(np.ceil(level / (1.0 - level) - _ROUNDING))
    for column in range(len(data.columns)):
        mine = np.flatnonzero(owner == column)
        sizes = np.bincount(blocks[mine], minlength=1)
        count = int(np.count_nonzero(sizes))
        most = max(most, count)
        if count >= least:
            part = slice(column * data.rows, (column + 1) * data.rows)
            yield part, mine, 1.0 / ((count + 1) * sizes[blocks[mine]])
    if most < least:
        possible = (most - 1) / (most + 1) if halved else most / (most + 1)
        lower = f", of at most {np.floor(100.0 * possible) / 100.0:g}" if possible > 0.0 else ""
        raise CertificateError(
            f"bands of this coverage need at least {least} {kind}{_unit(data)} of a column, not "
            f"{most}: ask for a lower one{lower}"
        )


def _unit(data: Observations) -> str:
    return "measurements" if data.blocks is None else "blocks"


def _quantile(values: FloatArray, masses: FloatArray, level: float) -> FloatArray:
    """Return the least value of each column with the mass `level` up to it; inf if there is none.

    (n, m), (n,) → (m,).
    """
    order = np.argsort(values, axis=0)
    reached = np.cumsum(masses[order], axis=0) >= level - _ROUNDING
    ordered = np.take_along_axis(values, order, axis=0)
    found = ordered[reached.argmax(axis=0), np.arange(values.shape[1])]
    return np.where(reached[-1], found, np.inf)


def _spread(
    middle: FloatArray, scores: FloatArray, noise: FloatArray, masses: FloatArray, level: float
) -> FloatArray:
    """Return the quantile of middle (n, m) + scores (n,) · noise (m,) in each column: (m,)."""
    step = max(_CELLS // len(scores), 1)
    return np.concatenate(
        [
            _quantile(
                middle[:, begin : begin + step] + np.outer(scores, noise[begin : begin + step]),
                masses,
                level,
            )
            for begin in range(0, len(noise), step)
        ]
    )


def _bands(
    data: Observations,
    blocks: IntArray,
    centre: FloatArray,
    limits: tuple[FloatArray, FloatArray],
    coverage: float,
    method: Method,
) -> Bands:
    """Return bands of limits on the scale of the noise; CertificateError if none is finite."""
    shape = (len(data.columns), data.rows)
    lower, upper = (np.where(np.isfinite(each), each, np.nan) for each in limits)
    labels = np.full(len(data.values), -1)
    labels[data.needed] = blocks
    half = 0.5 * (upper - lower).reshape(shape)
    counts, widths = {}, {}
    named = zip(data.columns, data.labels, half, labels.reshape(shape), strict=True)
    for name, unit, row, mine in named:
        if np.isfinite(row).any():
            width = float(np.nanmedian(row))
            counts[name] = len(np.unique(mine[mine >= 0]))
            label = f"{name} (relative)" if data.logarithmic else unit
            widths[label] = float(np.expm1(width)) if data.logarithmic else width
    if not widths:
        raise CertificateError(
            "no bands: for too many blocks of data the parameter sets do not tell what a search "
            "without them would have found, because the posterior is narrow; hold data out"
        )
    centre, lower, upper = (_off_scale(data, each) for each in (centre, lower, upper))
    return Bands(centre, lower, upper, coverage, method, counts, widths, _unit(data))
