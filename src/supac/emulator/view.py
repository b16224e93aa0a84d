"""The outputs as the loss sees them, which is how they are emulated.

One process with one amplitude and one noise serves all outputs, and principal components follow
whatever has the largest numbers. So each output is first divided by what a change of it means to
the loss, and compressed where it is so large that the loss, or all that matters of it, is flat:

    t = s·asinh(w·(y − c)/s).

The loss is averaged over emulated t, turned back into outputs, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.emulator.tuning import DEFAULT, ViewTuning
from supac.problem import Loss
from supac.problem.columns import as_column_loss
from supac.problem.losses import SquareLoss, as_residual_loss
from supac.problem.observation import as_observation_loss

_FARTHEST = 8.0  # asinh of the largest residual, in units of s: a guard against overflow
_LARGEST = np.sinh(_FARTHEST)
_HUGE = 1e100  # its square is finite
_AT_A_TIME = 2_000_000  # numbers that a loss is given at once
_CACHE = 2**15  # numbers of an array of which a core's cache holds several


@dataclass(frozen=True, eq=False)
class View:
    """Map outputs y to t = s·asinh(w·(y − c)/s), and back; linear if s is infinite."""

    centre: FloatArray
    weight: FloatArray
    scale: float

    @classmethod
    def of(
        cls,
        rows: FloatArray,
        risk: FloatArray,
        loss: Loss,
        known: int = 0,
        misfit: Callable[[FloatArray], float] | None = None,
        tuning: ViewTuning = DEFAULT.view,
        *,
        linear: bool = False,
    ) -> View | None:
        """Choose the view by the best of the runs; None if outputs are emulated as they are.

        The last `known` numbers of a row are arguments of the loss that are not emulated. Where
        nothing says from which size on a loss is flat, `misfit`, minus the log-evidence of emulated
        numbers (n, m), may ask for more compression; and where the last numbers are such arguments,
        it must ask for any. There is none if the view is to be `linear`.
        """
        count = max(int(tuning.best * len(risk)), min(tuning.fewest, len(risk)))
        best = np.argsort(risk, kind="stable")[:count]
        outputs = rows[:, : rows.shape[1] - known]
        near = _bounded(outputs[best])
        centre, weight = np.zeros(outputs.shape[1]), np.ones(outputs.shape[1])
        residual = as_residual_loss(loss)
        width = None if residual is None else residual.flat_from
        if width is None and not isinstance(loss, SquareLoss):
            centre = np.median(near, axis=0)
            known_too = rows[best, len(centre) :]
            weight = _weights(near, _bounded(outputs), loss, known_too, tuning, one=linear)
        if linear:
            return cls(centre, weight, np.inf)
        if width is not None:
            scale = limit = tuning.flat * width
        else:
            usual = _size(near, centre, weight)
            if usual == 0.0:  # such as of residuals that only count beyond a limit
                usual = _size(_bounded(outputs), centre, weight)
            scale = tuning.usual * usual + 1e-300
            limit = tuning.bearable * scale
        farthest = np.maximum(outputs.max(axis=0) - centre, centre - outputs.min(axis=0))
        bearable = (farthest * weight <= limit).all()
        view = cls(centre, weight, np.inf if bearable else scale)
        if width is None and misfit is not None:
            if known and not bearable:
                # The best runs of a search that has settled are so alike that its first ones seem
                # huge beside them; that alone does not make them worse to emulate as they are.
                view = replace(view, scale=np.inf)._closer(outputs, (scale,), misfit, tuning)
            scales = [share * scale for share in tuning.closer]
            view = view._closer(outputs, scales, misfit, tuning)
        return None if (weight == 1.0).all() and np.isinf(view.scale) else view

    def _closer(
        self,
        outputs: FloatArray,
        scales: Iterable[float],
        misfit: Callable[[FloatArray], float],
        tuning: ViewTuning,
    ) -> View:
        """Return the view with the largest evidence of the outputs, or this one if none clearly.

        What compression does to their density counts: otherwise the strongest would always win.
        """
        some = slice(None, None, max(outputs.shape[1] // tuning.outputs, 1))
        r = (_bounded(outputs[:, some]) - self.centre[some]) * self.weight[some]
        views = [self, *(replace(self, scale=scale) for scale in scales)]
        values = [misfit(each._compress(r)) + each._log_compression(r) for each in views]
        best = int(np.argmin(values))
        return views[best] if values[best] < values[0] - tuning.clearly * r.size else self

    def see(self, y: FloatArray) -> FloatArray:
        """Convert outputs: (n, m) → (n, m)."""
        return self._compress((y - self.centre) * self.weight)

    def _compress(self, r: FloatArray) -> FloatArray:
        if not np.isfinite(self.scale):
            return r
        return self.scale * np.arcsinh(np.clip(r / self.scale, -_LARGEST, _LARGEST))

    def _log_compression(self, r: FloatArray) -> float:
        """Compute minus the sum of the logarithms of the slopes of the compression."""
        if not np.isfinite(self.scale):
            return 0.0
        return 0.5 * float(np.log1p((r / self.scale) ** 2).sum())

    def back(self, t: FloatArray) -> FloatArray:
        """Return the outputs, none further away than the furthest that `see` tells apart."""
        if np.isfinite(self.scale):
            t = self.scale * np.sinh(np.clip(t / self.scale, -_FARTHEST, _FARTHEST))
        return self.centre + t / self.weight

    def stretch(self, t: FloatArray) -> FloatArray:
        """Compute the derivative of `back`."""
        if not np.isfinite(self.scale):
            return np.broadcast_to(1.0 / self.weight, t.shape)
        r = t / self.scale
        return np.where(np.abs(r) < _FARTHEST, np.cosh(np.clip(r, -_FARTHEST, _FARTHEST)), 0.0) / (
            self.weight
        )


@dataclass(frozen=True, eq=False)
class SeenLoss:
    """The loss of outputs in a view, or as they are."""

    loss: Loss
    view: View | None
    worst: float
    """Risk of outputs that the loss cannot judge, such as negative ones if it takes logarithms."""

    def __call__(self, t: FloatArray, x: FloatArray) -> FloatArray:
        """Return the risks of outputs t (n, m) at points x (n, dim)."""
        with np.errstate(all="ignore"):
            return self._risk(self._outputs(t), x)

    def slopes(self, t: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Compute the derivatives in t (n, m) and in the observation parameters among x (n, k).

        None if the loss has none.
        """
        with np.errstate(all="ignore"):
            return self._slopes(t, self._outputs(t), x)

    def risk_and_slopes(
        self, t: FloatArray, x: FloatArray
    ) -> tuple[FloatArray, tuple[FloatArray, FloatArray] | None]:
        """Return the risk and its slopes, from one computation of the outputs.

        Of many outputs a few rows at a time, which stay in the processor's cache.
        """
        step = max(1, _CACHE // max(t.shape[1], 1))
        with np.errstate(all="ignore"):
            if len(t) <= step:
                return self._risk_and_slopes(t, x)
            risk, slopes = np.empty(len(t)), np.empty(t.shape)
            by_own: list[FloatArray] = []
            for first in range(0, len(t), step):
                rows = slice(first, first + step)
                risk[rows], found = self._risk_and_slopes(t[rows], x[rows])
                if found is None:
                    return self._risk(self._outputs(t), x), None
                slopes[rows] = found[0]
                by_own.append(found[1])
            return risk, (slopes, np.concatenate(by_own))

    def _risk_and_slopes(
        self, t: FloatArray, x: FloatArray
    ) -> tuple[FloatArray, tuple[FloatArray, FloatArray] | None]:
        outputs = self._outputs(t)
        return self._risk(outputs, x), self._slopes(t, outputs, x)

    def _outputs(self, t: FloatArray) -> FloatArray:
        return t if self.view is None else self.view.back(t)

    def _risk(self, outputs: FloatArray, x: FloatArray) -> FloatArray:
        observed = as_observation_loss(self.loss)
        if observed is not None:
            outputs = observed.rows(outputs, x)
        risk = np.asarray(self.loss(outputs))
        return np.where(np.abs(risk) < _HUGE, risk, self.worst)

    def _slopes(
        self, t: FloatArray, outputs: FloatArray, x: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        observed, residual = as_observation_loss(self.loss), as_residual_loss(self.loss)
        slopes, by_own = None, np.empty((len(t), 0))
        if observed is not None:
            slopes, by_own = observed.slopes(outputs, x) or (None, by_own)
        elif residual is not None:
            slopes = residual.slopes(outputs)
        if slopes is None:
            return None
        if self.view is not None:
            slopes = slopes * self.view.stretch(t)
        finite = np.isfinite(slopes), np.isfinite(by_own)
        return np.where(finite[0], slopes, 0.0), np.where(finite[1], by_own, 0.0)


def _bounded(outputs: FloatArray) -> FloatArray:
    """Return outputs none of which is so large that its square is infinite."""
    return np.clip(outputs, -_HUGE, _HUGE)


def _size(outputs: FloatArray, centre: FloatArray, weight: FloatArray) -> float:
    """Compute the root mean square of weight·(outputs − centre); overwrite the outputs.

    They may be megabytes, and fresh memory costs more than the arithmetic.
    """
    outputs -= centre
    outputs *= weight
    return float(np.sqrt(np.square(outputs, out=outputs).mean()))


def _weights(
    near: FloatArray,
    outputs: FloatArray,
    loss: Loss,
    known: FloatArray,
    tuning: ViewTuning,
    *,
    one: bool,
) -> FloatArray:
    """Compute √(effect of a usual change of each output) per unit of the change: (m,).

    `known` (n, k) follow the outputs `near` (n, m) where the loss takes more than these.

    A change is usual among the best runs, or among all if it is constant there. Multiplying an
    output by a factor divides its weight by it. Outputs of which each has `one` part of a
    likelihood are moved at once, and not in turn.
    """
    spread = _spread(near)
    spread = np.where(spread > 0.0, spread, _spread(outputs))
    used = np.flatnonzero(spread > 0.0)
    weight = np.ones(near.shape[1])
    if not len(used):
        return weight
    rows = np.concatenate([near, known], axis=1)
    effects = _effect_of_each if one else _effect
    effect = sum(effects(row, used, spread, loss, tuning) for row in rows[: tuning.references])
    felt = np.sqrt(np.where(np.isfinite(effect), effect, 0.0))
    usual = float(np.sqrt(np.mean(felt**2))) or 1.0
    weight[used] = np.maximum(felt / usual, tuning.least) / spread[used]
    return weight


def _spread(outputs: FloatArray) -> FloatArray:
    return np.asarray(np.abs(outputs - np.median(outputs, axis=0)).mean(axis=0))


def _effect(
    row: FloatArray, used: IntArray, spread: FloatArray, loss: Loss, tuning: ViewTuning
) -> FloatArray:
    """Compute the change of the loss with each used output: mostly its second difference."""
    here = float(np.asarray(loss(row[None]))[0])
    effects = []
    for part in np.array_split(used, max(len(row) * len(used) // _AT_A_TIME, 1)):
        step = np.zeros((len(part), len(row)))
        step[np.arange(len(part)), part] = spread[part]
        with np.errstate(all="ignore"):
            up, down = (np.asarray(loss(moved)) - here for moved in (row + step, row - step))
        effects.append(0.5 * np.abs(up + down) + 0.5 * tuning.slope * (np.abs(up) + np.abs(down)))
    return np.concatenate(effects)


def _effect_of_each(
    row: FloatArray, used: IntArray, spread: FloatArray, loss: Loss, tuning: ViewTuning
) -> FloatArray:
    """Compute the same for a likelihood of independent errors, half a mean of squares."""
    own, observed = as_column_loss(loss), as_observation_loss(loss)
    assert own is not None
    assert observed is not None
    here, z = row[None, : -observed.count], row[None, -observed.count :]
    parts = [0.5 * own.residuals(here + sign * spread, z) ** 2 for sign in (0.0, 1.0, -1.0)]
    middle, above, below = (part[0, used] for part in parts)
    up, down = (above - middle) / here.shape[1], (below - middle) / here.shape[1]
    return np.asarray(0.5 * np.abs(up + down) + 0.5 * tuning.slope * (np.abs(up) + np.abs(down)))
