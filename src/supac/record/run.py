"""Runs of the simulator: their rounds, their ids, and the risks of their outputs."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from supac.arrays import FloatArray, as_floats, frozen
from supac.families import Distribution
from supac.problem import Parameters, Planned, Role
from supac.problem.composite import as_composite
from supac.problem.evaluations import Jacobians
from supac.problem.jacobians import in_latent, of_residuals
from supac.record.status import LARGEST_RISK
from supac.record.status import Status as Status  # noqa: PLC0414 - the outcome of a run is found here
from supac.search.algorithm import Info

Purpose = Literal["search", "coarse", "validation", "certificate", "prediction", "check"]

_FOLDER = re.compile(r" \(in [^)]*\)")
_NUMBER = re.compile(  # not part of a name such as k1
    r"\s*(?<!\w)[-+]?(0x[0-9a-f]+|(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|(nan|inf)\b)\s*", re.IGNORECASE
)
_WRONG_LOSS = "loss must take {} and return n risks; for {} it {}"
_ROUNDING = 1e-12  # relative difference of points that are the same on another machine
_WORDS = 60  # characters of a message that identify its kind


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """One run of the simulator: its point, its status, and its risk or outputs."""

    id: int
    """Position among the requested runs of its task."""
    x: FloatArray
    """(dim,), latent if there are `Parameters`."""
    status: Status
    risk: float
    """NaN for a failed run."""
    outputs: FloatArray | None = None
    """(m,), of the simulator of a `Composite`; None for a failed run or a plain risk."""
    seconds: float = 0.0
    message: str = ""
    """Reason of a failure."""
    attempts: int = 1
    """Number of starts."""
    source: str = ""
    """Name of the table that the run was imported from; empty for runs made here."""
    purpose: Purpose = "search"
    """Only search runs, and in part validation runs, are used for fitting; "coarse" of a search
    are those of a coarse model, which count nowhere else."""
    task: int = 0
    """Index of the task in meta-learning."""
    role: Role = Role.DRAW
    """Reason why it was made."""
    step: int = -1
    """Number of rounds before it was planned: it tests the step of the last one; −1 for none."""
    expected: float = np.nan
    """Risk that was predicted when it was planned; NaN if none was."""
    level: int = 0
    """0 for the model that counts, 1 and more for coarser ones."""
    jacobian: FloatArray | None = None
    """Derivatives of the simulated outputs in the user's units, (m, dim); None if there are none.

    Without the parameters that enter after the simulator."""

    def __repr__(self) -> str:
        told = f"risk={self.risk:.4g}" if self.ok else f"{self.status.value}: {self.message[:60]!r}"
        outputs = "" if self.outputs is None else f", {len(self.outputs)} outputs"
        return f"Run({self.id}, {told}{outputs}, {self.purpose}, {self.seconds:.2g} s)"

    @property
    def ok(self) -> bool:
        """True if the run succeeded."""
        return self.status is Status.OK

    @property
    def failed(self) -> bool:
        """True if the run was made without success."""
        return self.status not in (Status.OK, Status.REFUSED)

    @property
    def planned(self) -> Planned:
        """Place and purpose, as they were planned."""
        return Planned(self.x, self.role, self.step, self.expected, self.level)

    def as_planned(self, planned: Planned) -> Run:
        """Return the run with the purpose of a planned one, whose point differs by rounding."""
        return replace(
            self,
            role=planned.role,
            step=planned.step,
            expected=planned.expected,
            level=planned.level,
        )


def by_kind(failures: Sequence[Run]) -> list[list[Run]]:
    """Group failed runs by kind, the most common kind first.

    A kind is a status and the beginning of the message without its numbers, since a message may
    name a point, a time or a folder.
    """
    kinds: dict[tuple[Status, str], list[Run]] = {}
    for run in failures:
        words = _NUMBER.sub("#", _FOLDER.sub("", run.message))[:_WORDS]
        kinds.setdefault((run.status, words), []).append(run)
    return sorted(kinds.values(), key=len, reverse=True)


def quoted(kind: Sequence[Run]) -> str:
    """Return the message of failed runs of a kind; "such as" one where messages differ."""
    alike = all(run.message == kind[0].message for run in kind)
    return kind[0].message if alike else f"such as {kind[0].message}"


@dataclass(frozen=True, eq=False)
class Round:
    """Runs passed to one `tell`, their proposal, and the diagnostics."""

    ids: tuple[int, ...]
    proposal: Distribution | None
    """Of the batch that was planned for it; None for a family of the user's own, in a file."""
    info: Info
    task: int = 0


def _leading_digits(x: FloatArray) -> bytes:
    return x.astype(np.float32).tobytes()


def _imported(run: Run) -> tuple[str, int, bytes]:
    """Return what tells an imported run from others."""
    return run.source, run.level, run.x.tobytes()


class RunIndex:
    """Assign ids to the runs of a task, and find those of an earlier process by their points.

    The oldest come first; those of `rounds` have been used.
    """

    def __init__(self, runs: Iterable[Run], rounds: Iterable[Round], task: int = 0):
        told = {run for each in rounds if each.task == task for run in each.ids}
        mine = [run for run in runs if run.task == task]
        self.task = task
        untold = [run for run in mine if run.id not in told]
        self._untold: dict[tuple[Purpose, bytes], deque[Run]] = {}
        self._near: dict[tuple[Purpose, bytes], deque[Run]] = {}
        for run in untold:
            if not run.source:
                runs = self._untold.setdefault((run.purpose, run.x.tobytes()), deque())
                runs.append(run)
                self._near[run.purpose, _leading_digits(run.x)] = runs
        self._adopted = [run for run in untold if run.source]
        self._imported = {_imported(run) for run in mine if run.source}
        self._used = {run.id for run in mine}
        self._highest = max(self._used, default=-1)
        self._next = len(told)

    def find(self, x: FloatArray, purpose: Purpose) -> Run | None:
        """Take an unused run of an earlier process with this point and purpose, if there is one.

        Another machine may have rounded the point's last digits otherwise. Like those of
        `take_searches` and `adopt`, the run may lack its outputs: see `Record.iterate`.
        """
        runs = self._untold.get((purpose, x.tobytes())) or self._find_near(x, purpose)
        if not runs:
            return None
        self._next += 1
        return runs.popleft()

    def forget(self, purpose: Purpose) -> None:
        """Take no run of this purpose of an earlier process."""
        for runs in (self._untold, self._near):
            for key in [key for key in runs if key[0] == purpose]:
                del runs[key]

    def _find_near(self, x: FloatArray, purpose: Purpose) -> deque[Run] | None:
        """Return unused runs whose point differs from x by rounding."""
        runs = self._near.get((purpose, _leading_digits(x)))
        same = runs and np.allclose(runs[0].x, x, rtol=_ROUNDING, atol=0.0)
        return runs if same else None

    def take_searches(self) -> list[Run]:
        """Take all unused search runs of an earlier process, in the order of their ids."""
        mine = [key for key in self._untold if key[0] == "search"]
        runs = [run for key in mine for run in self._untold.pop(key)]
        return sorted(runs, key=lambda run: run.id)

    def reserve(self) -> int:
        """Return the id of the next requested run."""
        number = self._next
        if number in self._used:  # by a run of the same file under another budget
            number = self._highest + 1
        self._used.add(number)
        self._highest = max(self._highest, number)
        self._next += 1
        return number

    def adopt(self, imported: Iterable[Run]) -> list[Run]:
        """Return imported runs that no round has used: recorded ones, then new ones with ids."""
        runs, self._adopted = self._adopted, []
        for run in imported:
            if _imported(run) not in self._imported:
                runs.append(replace(run, id=self.reserve(), task=self.task))
        return runs


class LossError(RuntimeError):
    """The loss cannot be computed: an error of the user's code, not of a run."""


class RiskFunction:
    """Convert simulator outputs to risks, and reject runs with another number of outputs.

    With `ceiling`, a failed run counts as at least that.
    """

    def __init__(
        self, risk: object, *, ceiling: float | None = None, parameters: Parameters | None = None
    ):
        self._parameters = parameters
        self.composite = as_composite(risk)
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
            with np.errstate(over="ignore"):  # what is too large is named below
                risk = as_floats(self.composite.loss(residuals))
        except Exception as error:
            raise self._wrong_loss(rows, f"raised {error!r}") from error
        if risk is None or risk.shape != (2,):
            found = "no numbers" if risk is None else f"shape {risk.shape}"
            raise self._wrong_loss(rows, f"returned {found}")
        if not np.abs(risk[0]) < LARGEST_RISK:
            message = f"loss returned {risk[0]}"
            return replace(run, status=Status.INVALID, risk=np.nan, message=message)
        return replace(run, status=Status.OK, risk=float(risk[0]), message="")

    def _wrong_loss(self, rows: FloatArray, what: str) -> LossError:
        count = 0 if self.composite is None else self.composite.observation
        if not count:
            return LossError(_WRONG_LOSS.format("residuals (n, k)", f"outputs {rows.shape}", what))
        takes = f"residuals (n, k) and the {count} observation parameters (n, {count})"
        given = (
            f"outputs {(len(rows), rows.shape[1] - count)} and their values {(len(rows), count)}"
        )
        return LossError(_WRONG_LOSS.format(takes, given, what))

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

    def jacobians(self, runs: Sequence[Run]) -> Jacobians | None:
        """Return derivatives of the residuals in latent points, (k, dim) each; None without any.

        Those of data whose residuals cannot be computed for a run are left out.
        """
        if self.composite is None:
            return None
        return jacobians_of(runs, self.composite.data, self._parameters)

    def columns(self, runs: Sequence[Run]) -> tuple[FloatArray, FloatArray | None]:
        """Return risks (n,) and residuals (n, k); failed runs as `failure_loss` and NaN."""
        failure_loss = self.failure_loss
        risk = np.array([run.risk if run.ok else failure_loss for run in runs])
        width = self.width or self._failed_width
        if self.composite is None or width is None:
            return risk, None
        return risk, residuals_of(runs, width, self.composite.residuals)


def outputs_as_rows(runs: Sequence[Run]) -> FloatArray | None:
    """Return outputs as rows, (n, m), NaN for runs without all m; None if no run has any."""
    width = max((len(run.outputs) for run in runs if run.outputs is not None), default=0)
    rows = np.full((len(runs), width), np.nan)
    for row, run in zip(rows, runs, strict=True):
        if run.outputs is not None and len(run.outputs) == width:
            row[:] = run.outputs
    return rows if width else None


def jacobians_of(runs: Sequence[Run], data: Any, parameters: Parameters | None) -> Jacobians | None:
    """Compute derivatives of residuals in latent points, (k, dim) each; None if no run has any."""
    if all(run.jacobian is None for run in runs):
        return None
    return tuple(_jacobian_of(run, data, parameters) for run in runs)


def _jacobian_of(run: Run, data: Any, parameters: Parameters | None) -> FloatArray | None:
    if run.jacobian is None or run.outputs is None or not run.ok:
        return None
    simulated = run.outputs[: len(run.jacobian)]
    latent = in_latent(run.jacobian, run.x, parameters)
    found = of_residuals(data, simulated, latent)
    return frozen(found) if np.isfinite(found).all() else None


def residuals_of(
    runs: Sequence[Run], width: int, residuals: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Compute residuals of runs with `width` outputs: (n, k), NaN for failed ones."""
    rows = np.full((len(runs), width), np.nan)
    for i, run in enumerate(runs):
        if run.ok and run.outputs is not None:
            rows[i] = run.outputs
    return np.ascontiguousarray(residuals(rows))
