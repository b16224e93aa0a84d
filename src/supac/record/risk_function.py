"""Compute risks from the outputs of runs, and columns from runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from supac.arrays import FloatArray, as_floats
from supac.problem import Composite
from supac.record.run import Run, Status


class LossError(RuntimeError):
    """The loss cannot be computed: an error of the user's code, not of a run."""


class RiskFunction:
    """Convert simulator outputs to risks, and reject runs with another number of outputs.

    With `ceiling`, a failed run counts as at least that.
    """

    def __init__(self, risk: object, *, ceiling: float | None = None):
        self.composite = risk if isinstance(risk, Composite) else None
        self.width: int | None = None
        """Number of outputs of a run: that of the first successful one."""
        self._failed_width: int | None = None
        self._ceiling = ceiling

    @property
    def failure_loss(self) -> float:
        """Loss of a failed run, whose outputs are all NaN; NaN if the loss has no value for it."""
        width = self.width or self._failed_width
        if self.composite is None or width is None:
            return np.nan
        try:
            nothing = self.composite.residuals(np.full((1, width), np.nan))
            value = float(np.asarray(self.composite.loss(nothing))[0])
        except Exception:
            return np.nan
        if not np.isfinite(value):
            return np.nan
        return value if self._ceiling is None else max(value, self._ceiling)

    def note_failed_width(self, outputs: int | None) -> None:
        """Store the number of outputs of a failed run, for use until a run has succeeded."""
        self._failed_width = self._failed_width or outputs

    def evaluate(self, run: Run) -> Run:
        """Return the run with the risk of its outputs; LossError if the loss is unusable."""
        if self.composite is None or run.outputs is None:
            return run
        # Two equal rows reveal a loss that can only take one row.
        rows = np.stack([run.outputs, run.outputs])
        try:
            residuals = self.composite.residuals(rows)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            return replace(run, status=Status.RAISED, risk=np.nan, message=message)
        try:
            risk = as_floats(self.composite.loss(residuals))
        except Exception as error:
            raise LossError(_WRONG_LOSS.format(rows.shape, f"raised {error!r}")) from error
        if risk is None or risk.shape != (2,):
            found = "no numbers" if risk is None else f"shape {risk.shape}"
            raise LossError(_WRONG_LOSS.format(rows.shape, f"returned {found}"))
        if not np.isfinite(risk[0]):
            message = f"loss returned {risk[0]}"
            return replace(run, status=Status.INVALID, risk=np.nan, message=message)
        return replace(run, status=Status.OK, risk=float(risk[0]), message="")

    def reject_other_widths(self, runs: Sequence[Run]) -> list[Run]:
        """Mark runs as failed whose number of outputs differs from the first successful run's."""
        return [self._checked(run) for run in runs]

    def _checked(self, run: Run) -> Run:
        if run.outputs is None or not run.ok:
            return run
        self.width = self.width or len(run.outputs)
        if len(run.outputs) == self.width:
            return run
        words = f"simulate returned {len(run.outputs)} outputs, but {self.width} before"
        return replace(run, status=Status.INVALID, risk=np.nan, outputs=None, message=words)

    def columns(self, runs: Sequence[Run]) -> tuple[FloatArray, FloatArray | None]:
        """Return risks (n,) and residuals (n, k); failed runs as `failure_loss` and NaN."""
        failure_loss = self.failure_loss
        risk = np.array([run.risk if run.ok else failure_loss for run in runs])
        width = self.width or self._failed_width
        if self.composite is None or width is None:
            return risk, None
        return risk, residuals_of(runs, width, self.composite.residuals)


def residuals_of(
    runs: Sequence[Run], width: int, residuals: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Compute residuals of runs with `width` outputs: (n, k), NaN for failed ones."""
    rows = np.full((len(runs), width), np.nan)
    for i, run in enumerate(runs):
        if run.ok and run.outputs is not None:
            rows[i] = run.outputs
    return np.ascontiguousarray(residuals(rows))


_WRONG_LOSS = "loss must take residuals (n, k) and return n risks; for outputs {} it {}"
