"""What an answer of the simulator is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from supac.arrays import FloatArray
from supac.problem.composite import Composite
from supac.record.run import Run, Status
from supac.record.store import columns
from supac.running.answer import as_floats


class LossError(RuntimeError):
    """The loss cannot be computed: no fault of the simulator, and no use in going on."""


class Judge:
    """Turns outputs into risks, and finds those that do not fit the others."""

    def __init__(self, risk: object, width: int | None, ceiling: float | None = None):
        self._loss = risk.loss if isinstance(risk, Composite) else None
        self._width, self._ceiling = width, ceiling
        self._nan_width: int | None = None

    @property
    def composite(self) -> bool:
        """Whether runs have outputs."""
        return self._loss is not None

    @property
    def width(self) -> int | None:
        """How many outputs a run has, as far as is known; a failed run is believed last."""
        return self._width or self._nan_width

    def saw_nan(self, outputs: int) -> None:
        """A failed run had so many outputs."""
        self._nan_width = self._nan_width or outputs

    @property
    def failure_loss(self) -> float:
        """What the loss makes of a failed run: NaN where it has no value for them.

        Never less than the ceiling, where failures count as that.
        """
        if self._loss is None or self.width is None:
            return np.nan
        try:
            value = float(np.asarray(self._loss(np.full((1, self.width), np.nan)))[0])
        except Exception:
            return np.nan
        if not np.isfinite(value):
            return np.nan
        return value if self._ceiling is None else max(value, self._ceiling)

    def risk(self, run: Run) -> Run:
        """A run with outputs, and the risk that they mean; LossError where that is nothing."""
        if self._loss is None or run.outputs is None:
            return run
        # Twice the same row: a loss that can take but one is met before it is needed.
        rows = np.stack([run.outputs, run.outputs])
        try:
            risk = as_floats(self._loss(rows))
        except Exception as error:
            raise LossError(_WRONG_LOSS.format(rows.shape, f"raised {error!r}")) from error
        if risk is None or risk.shape != (2,):
            found = "no numbers" if risk is None else f"shape {risk.shape}"
            raise LossError(_WRONG_LOSS.format(rows.shape, f"returned {found}"))
        if not np.isfinite(risk[0]):
            message = f"loss returned {risk[0]}"
            return replace(run, status=Status.INVALID, risk=np.nan, message=message)
        return replace(run, status=Status.OK, risk=float(risk[0]), message="")

    def settle(self, runs: Sequence[Run]) -> list[Run]:
        """The same runs, in the order of their ids, without those of another length as good ones.

        The first good run says how many outputs there are, whichever ended first.
        """
        settled = []
        for run in runs:
            if run.outputs is not None and run.status is Status.OK:
                self._width = self._width or len(run.outputs)
                if len(run.outputs) != self._width:
                    message = (
                        f"simulate returned {len(run.outputs)} outputs, but {self._width} before"
                    )
                    run = replace(  # noqa: PLW2901
                        run, status=Status.INVALID, risk=np.nan, outputs=None, message=message
                    )
            settled.append(run)
        return settled

    def columns(self, runs: Sequence[Run]) -> tuple[FloatArray, FloatArray | None]:
        """Risks (n,) and outputs (n, m) of runs, failed ones with NaN or what their loss says."""
        return columns(runs, self.width if self.composite else None, self.failure_loss)


_WRONG_LOSS = "loss must take outputs (n, m) and return n risks; for {} it {}"
