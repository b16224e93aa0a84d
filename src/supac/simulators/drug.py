"""Target-mediated drug disposition: a calibration problem of twelve rates with synthetic data.

With an indirect response: a dose is absorbed from a depot A into plasma C, which exchanges with a
peripheral compartment P; drug binds its target R, the complex X is internalised and inhibits the
formation of the effect E:

    A' = −ka·A                                             b = kon·C·R − koff·X
    C' = (ka·A − CL·C − Q·(C − P)) / V1 − b
    P' = Q·(C − P) / V2
    R' = kdeg·(R0 − R) − b
    X' = b − kint·X
    E' = kout·(1 / (1 + X/IC50) − E)

from A = dose, R = R0, E = 1, the others 0. A is an amount (nmol), E relative to its baseline, the
others are concentrations (nM); time is in hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from supac.families import Distribution
from supac.problem import Composite, Parameters
from supac.problem.losses import Welsch
from supac.problem.marginals import LogNormal

FloatArray = npt.NDArray[np.float64]

DOSES = np.array([3.0, 30.0, 150.0])
TIMES = np.array([0.5, 1, 2, 4, 8, 12, 24, 36, 48, 72, 96, 120, 144, 168])

# True value, offset of the prior's median in standard deviations of log x, unit.
PARAMETERS = {
    "ka": (0.8, 1.2, "1/h"), "CL": (0.25, -0.8, "L/h"), "V1": (3.0, 0.7, "L"),
    "Q": (0.5, -1.3, "L/h"), "V2": (4.0, 0.6, "L"), "kon": (0.5, 1.4, "1/(nM h)"),
    "koff": (0.05, -0.9, "1/h"), "kint": (0.08, 1.0, "1/h"), "kdeg": (0.05, -1.1, "1/h"),
    "R0": (10.0, 0.9, "nM"), "kout": (0.15, -0.7, "1/h"), "IC50": (2.0, 1.3, "nM"),
}  # fmt: skip
TRUTH = np.array([value for value, _, _ in PARAMETERS.values()])
LOG_SD = 0.7

_NOISE, _OUTLIERS, _OUTLIER = 0.15, 0.04, 1.5
_WELSCH = 0.5  # the residual above which the loss flattens
_SMALL = 1e-3  # outputs far below it count as zero
_GAMMA = 1.0 - 1.0 / np.sqrt(2.0)  # makes the method L-stable
_CHUNK = 1024  # rows whose states fit in the processor's cache


class _Interval:
    """Steps of one length h, by ROS2 (Verwer et al., 1999): second order, L-stable.

    Each of the two stages solves (I − γhJ)k = f with the exact Jacobian J. Only binding couples C,
    R and X, so one unknown remains after elimination: the linearised binding γh·∇b·k. All pivots
    are sums of positive terms.
    """

    def __init__(self, x: FloatArray, h: float) -> None:
        """Precompute the coefficients of a step of length h: x is (12, n)."""
        self.h = h
        s = _GAMMA * h
        self.ka, cl, v1, q, v2, self.kon, self.koff, kint, kdeg, self.r0, kout, self.ic50 = x
        self.absorbed, self.out, self.q1, self.q2 = self.ka / v1, (cl + q) / v1, q / v1, q / v2
        self.kint, self.kdeg, self.kout = kint, kdeg, kout
        # Inverse diagonal after the elimination of P, and the multipliers.
        self.over_a = 1.0 / (1.0 + s * self.ka)
        self.over_p = 1.0 / (1.0 + s * self.q2)
        self.over_c = 1.0 / (1.0 + s * (cl / v1 + self.q1 * self.over_p))
        self.over_r = 1.0 / (1.0 + s * kdeg)
        self.over_x = 1.0 / (1.0 + s * kint)
        self.over_e = 1.0 / (1.0 + s * kout)
        self.a_to_c, self.p_to_c, self.c_to_p = s * self.absorbed, s * self.q1, s * self.q2
        self.r_binds = s * self.kon * self.over_c
        self.c_binds = s * self.kon * self.over_r
        self.unbinds = s * self.koff * self.over_x
        self.x_to_e = s * kout / self.ic50

    def advance(self, y: FloatArray) -> FloatArray:
        """Advance the state (6, doses, n) by one step; negative values become zero."""
        relief = self._relief(y)
        first = self._solve(y, relief, self._slopes(y, relief))
        ahead = y + self.h * first
        slopes = self._slopes(ahead, self._relief(ahead))
        slopes -= 2.0 * first
        second = self._solve(y, relief, slopes)
        first *= 1.5 * self.h
        second *= 0.5 * self.h
        return np.maximum(y + first + second, 0.0)

    def _relief(self, y: FloatArray) -> FloatArray:
        """Compute the fraction of the formation that is not inhibited: (doses, n)."""
        return self.ic50 / (self.ic50 + y[4])

    def _slopes(self, y: FloatArray, relief: FloatArray) -> FloatArray:
        """Compute the right-hand side f: (6, doses, n)."""
        a, c, p, r, x, e = y
        binding = self.kon * c * r - self.koff * x
        slopes = np.empty_like(y)
        slopes[0] = -self.ka * a
        slopes[1] = self.absorbed * a - self.out * c + self.q1 * p - binding
        slopes[2] = self.q2 * (c - p)
        slopes[3] = self.kdeg * (self.r0 - r) - binding
        slopes[4] = binding - self.kint * x
        slopes[5] = self.kout * (relief - e)
        return slopes

    def _solve(self, y: FloatArray, relief: FloatArray, f: FloatArray) -> FloatArray:
        """Solve (I − γhJ)k = f with the Jacobian J at y: (6, doses, n)."""
        k = np.empty_like(f)
        k[0] = f[0] * self.over_a
        # Without binding, and with P eliminated, C, R and X are uncoupled.
        free_p = f[2] * self.over_p
        free_c = f[1] + self.a_to_c * k[0] + self.p_to_c * free_p
        by_r, by_c = self.r_binds * y[3], self.c_binds * y[1]
        binding = by_r * free_c + by_c * f[3] - self.unbinds * f[4]
        binding /= 1.0 + self.unbinds + by_r + by_c
        k[1] = (free_c - binding) * self.over_c
        k[2] = free_p + self.c_to_p * self.over_p * k[1]
        k[3] = (f[3] - binding) * self.over_r
        k[4] = (f[4] + binding) * self.over_x
        k[5] = (f[5] - self.x_to_e * relief * relief * k[4]) * self.over_e
        return k


def states(x: FloatArray, *, steps: int = 12) -> FloatArray:
    """Simulate (A, C, P, R, X, E) at `TIMES` after each dose: (n, 12) → (n, doses, times, 6).

    There are `steps` equal steps between successive times, twice as many before the first, where
    the solution is steep. Rows are independent; one that overflows has NaN or infinite values.
    """
    if x.ndim != 2 or x.shape[1] != len(PARAMETERS):
        raise ValueError(f"x must have a row of {len(PARAMETERS)} rates a run, not shape {x.shape}")
    found = np.empty((len(x), len(DOSES), len(TIMES), 6))
    with np.errstate(all="ignore"):
        for start in range(0, len(x), _CHUNK):
            rows = slice(start, start + _CHUNK)
            _integrate(np.ascontiguousarray(x[rows].T), steps, found[rows])
    return found


def _integrate(x: FloatArray, steps: int, found: FloatArray) -> None:
    """Fill `found` (n, doses, times, 6) for x (12, n)."""
    y = np.zeros((6, len(DOSES), x.shape[1]))
    y[0], y[3], y[5] = DOSES[:, None], x[9], 1.0
    for i, length in enumerate(np.diff(TIMES, prepend=0.0)):
        count = steps if i else 2 * steps
        interval = _Interval(x, float(length) / count)
        for _ in range(count):
            y = interval.advance(y)
        found[:, :, i] = y.transpose(2, 1, 0)


def outputs(x: FloatArray) -> FloatArray:
    """Simulate the logarithms of plasma drug, total target and effect: (n, 12) → (n, 126).

    Ordered by dose, then time, then quantity.
    """
    y = states(x)
    with np.errstate(all="ignore"):
        seen = np.stack([y[..., 1], y[..., 3] + y[..., 4], y[..., 5]], axis=-1)
        return np.log(seen + _SMALL).reshape(len(x), seen[0].size)


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Calibration problem; x (n, 12) is in the user's units.

    `observed` are the observed values of `outputs`: (126,).
    """

    observed: FloatArray

    def __repr__(self) -> str:
        return f"Problem({len(self.observed)} observations, {len(self.parameters)} parameters)"

    @cached_property
    def parameters(self) -> Parameters:
        """Return the twelve rates; all pairs may be correlated."""
        return Parameters(
            {
                name: LogNormal(value * float(np.exp(LOG_SD * offset)), LOG_SD, unit=unit)
                for name, (value, offset, unit) in PARAMETERS.items()
            }
        )

    @property
    def prior(self) -> Distribution:
        """Return the latent prior; pass `parameters` to `minimize`, for the user's units."""
        return self.parameters.prior

    @property
    def composite(self) -> Composite:
        """Return the risk as simulator and loss."""
        return Composite(self.simulate, self.loss)

    def simulate(self, x: FloatArray) -> FloatArray:
        """Compute predicted minus observed logarithms: (n, 12) → (n, 126), NaN for a failure."""
        residuals = outputs(x) - self.observed
        residuals[~np.isfinite(residuals).all(axis=1)] = np.nan
        return residuals

    def loss(self, residuals: FloatArray) -> FloatArray:
        """Compute Welsch's loss, the mean of 1 − exp(−r²/2c²) with c = 0.5: (n, 126) → (n,).

        At most 1, which is also the loss of a failed run.
        """
        with np.errstate(over="ignore", under="ignore"):
            mean = Welsch(_WELSCH)(residuals)
        return np.where(np.isnan(mean), 1.0, mean)

    def risk(self, x: FloatArray) -> FloatArray:
        """Compute the risk, between 0 and 1: (n, 12) → (n,)."""
        return self.loss(self.simulate(x))


def example(seed: int = 3) -> Problem:
    """Return a problem with data from `TRUTH`, 15 % noise and about 4 % upward outliers."""
    rng = np.random.default_rng(seed)
    observed = outputs(TRUTH[None])[0]
    observed += _NOISE * rng.standard_normal(observed.size)
    observed[rng.random(observed.size) < _OUTLIERS] += _OUTLIER
    return Problem(observed)
