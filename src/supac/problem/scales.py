"""Parameters on the user's scale: functions of their latent values, tabulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.problem.marginals import Marginal

_END, _PER_UNIT = 8.0, 64  # a cubic on such intervals is right to about ten digits
_HEAVY = 0.05  # growth of a tail, 1/ν of Student's t, from which x itself is no scale to emulate on
_KNOTS = np.linspace(-_END, _END, 2 * int(_END) * _PER_UNIT + 1)


@dataclass(frozen=True, eq=False)
class UserScales:
    """Tabulate x, or log x, of the parameters of which neither is normal, by their latent values.

    Cubic between the knots, linear beyond the last ones.
    """

    places: IntArray
    """Parameters that are tabulated: (k,)."""
    values: FloatArray
    """Their values at the knots: (k, knots)."""
    slopes: FloatArray
    """Derivatives of these in the latent values: (k, knots)."""

    @classmethod
    def of(cls, marginals: Sequence[Marginal]) -> UserScales | None:
        """Tabulate the marginals that are not normal on their own scale; None if all are."""
        found = [(i, table) for i, each in enumerate(marginals) if (table := _table(each))]
        if not found:
            return None
        places, tables = zip(*found, strict=True)
        values, slopes = (np.array(each) for each in zip(*tables, strict=True))
        return cls(np.array(places, dtype=np.intp), values, slopes)

    def standardised(self, mean: FloatArray, covariance: FloatArray) -> UserScales:
        """Return them with the standard deviations of latent values of a mean and covariance."""
        deviation = np.sqrt(np.diag(covariance))[self.places]
        weight = np.exp(-0.5 * ((_KNOTS - mean[self.places, None]) / deviation[:, None]) ** 2)
        weight /= weight.sum(axis=1, keepdims=True)
        centred = self.values - (weight * self.values).sum(axis=1, keepdims=True)
        unit = (deviation / np.sqrt((weight * centred**2).sum(axis=1)))[:, None]
        return UserScales(self.places, unit * centred, unit * self.slopes)

    def only(self, rows: BoolArray) -> UserScales:
        """Return some of them."""
        return UserScales(self.places[rows], self.values[rows], self.slopes[rows])

    def see(self, x: FloatArray) -> FloatArray:
        """Return latent points with the tabulated parameters on their scales: (n, dim)."""
        u = x[:, self.places]
        flat, share, inside = self._cells(u)
        low, *steps = self._steps(flat)
        rise, up, down = steps
        bend = 3.0 * rise - 2.0 * up - down + share * (up + down - 2.0 * rise)
        found = x.copy()
        found[:, self.places] = low + share * (up + share * bend)
        beyond = u - inside
        if beyond.any():
            found[:, self.places] += beyond * _derivative(rise, up, down, share)
        return found

    def slope(self, x: FloatArray) -> FloatArray:
        """Compute the derivatives of `see`, 1 of what is not tabulated: (n, dim)."""
        flat, share, _ = self._cells(x[:, self.places])
        found = np.ones_like(x)
        found[:, self.places] = _derivative(*self._steps(flat)[1:], share)
        return found

    def _cells(self, u: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the places of knots in the table, the shares of the way on, and u within it."""
        inside = np.clip(u, -_END, _END)
        place = (inside + _END) * _PER_UNIT
        left = np.minimum(place.astype(np.intp), len(_KNOTS) - 2)
        return left + len(_KNOTS) * np.arange(len(self.places)), place - left, inside

    def _steps(self, flat: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the values at knots, their rises to the next, and the slopes at both."""
        low, up, down = self.values.take(flat), self.slopes.take(flat), self.slopes.take(flat + 1)
        return low, self.values.take(flat + 1) - low, up / _PER_UNIT, down / _PER_UNIT


def _derivative(
    rise: FloatArray, up: FloatArray, down: FloatArray, share: FloatArray
) -> FloatArray:
    """Compute the derivative of a cubic that rises by `rise`, with slopes at both ends."""
    bent = share * (6.0 * rise - 4.0 * up - 2.0 * down + 3.0 * share * (up + down - 2.0 * rise))
    return np.asarray((up + bent) * _PER_UNIT)


def _table(marginal: Marginal) -> tuple[FloatArray, FloatArray] | None:
    """Return values and derivatives at the knots; None if the scale is normal, or has no end."""
    if marginal.is_normal:
        return None
    heavy = marginal.growth > _HEAVY
    logarithmic = marginal.is_logarithmic or (heavy and marginal.bounds[0] >= 0.0)
    if heavy and not logarithmic:
        return None
    with np.errstate(all="ignore"):
        x = np.asarray(marginal.from_latent(_KNOTS), dtype=np.float64)
        log_slope = np.asarray(marginal.log_slope(_KNOTS), dtype=np.float64)
        values = np.log(x) if logarithmic else x
        slopes = np.exp(log_slope - values) if logarithmic else np.exp(log_slope)
    usable = np.isfinite(values).all() and np.isfinite(slopes).all() and np.ptp(values) > 0.0
    return (values, slopes) if usable else None
