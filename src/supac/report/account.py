"""What a report tells of, whether it comes from a store or from a result in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.guarantee.certificate import Certificate
from supac.problem.bounds import Bound
from supac.problem.parameters import Parameters, names_of
from supac.problem_file import Observations, observations_of, source_of, title_of
from supac.record.calibrated import check_certificate
from supac.record.diagnostics import note_on_the_budget, notes_on_failures
from supac.record.history import StopReason
from supac.record.learnt import Learnt, learnt
from supac.record.result import Result
from supac.record.run import Run, Status
from supac.record.snapshot import Snapshot


@dataclass(frozen=True)
class Origin:
    """Where a run comes from, as far as is known: what it takes to make it again."""

    store: str = ""
    problem_file: str = ""
    text: str = ""
    """Of the problem file."""
    checksums: tuple[tuple[str, str], ...] = ()
    seed: int | None = None
    algorithm: str = ""
    created: str = ""
    made_with: str = ""


@dataclass(frozen=True)
class Misfit:
    """How far fresh runs are from one observed column, in units of the noise."""

    column: str
    measured: int
    """How many numbers of it."""
    typical: float
    """Root mean square of a run's residuals, at the median of the runs: near 1 is a good fit."""
    mean: float
    """Mean of a run's residuals, at the median of the runs: far from 0 is a bias."""
    far: int
    """How many data are more than three noises off, at the median of the runs."""


@dataclass(frozen=True, eq=False)
class Account:
    """A run as a report tells it."""

    title: str
    parameters: Parameters | None
    prior: Distribution | None
    posterior: Distribution | None
    history: dict[str, FloatArray]
    bound: Bound | None
    stop_reason: StopReason | None
    running: bool
    objective: float
    mean_risk: float
    mean_risk_error: float
    kl: float
    validated: int
    made: int
    known: int
    budget: int | None
    seconds: float
    risks: FloatArray
    """Of all runs that did not fail."""
    failures: tuple[Run, ...]
    on_failure: str
    notes: tuple[str, ...]
    first: FloatArray | None = None
    """Outputs of the first batch, (n, m), where there are any."""
    fresh: FloatArray | None = None
    """Outputs of the runs that `mean_risk` is the mean of, (n, m)."""
    observations: Observations | None = None
    certificate: Certificate | None = None
    origin: Origin = Origin()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters; x0, x1, … where they have none."""
        known = self.posterior or self.prior
        return names_of(self.parameters, 0 if known is None else known.dim)

    @property
    def units(self) -> tuple[str, ...]:
        """Of the parameters, "" where there is none."""
        return ("",) * len(self.names) if self.parameters is None else self.parameters.units

    @property
    def learnt(self) -> list[Learnt]:
        """Every parameter before and after."""
        return learnt(self.prior, self.posterior, self.parameters)

    @cached_property
    def misfits(self) -> tuple[Misfit, ...]:
        """By observed column; none where there are no data, or no fresh runs to compare."""
        # Outputs that are no residuals of these data cannot be compared with them.
        seen, fresh = self.observations, self.fresh
        if seen is None or fresh is None or fresh.shape[1] != seen.measured:
            return ()
        residuals = np.full((len(fresh), len(seen.values)), np.nan)
        residuals[:, np.isfinite(seen.values)] = fresh
        parts = residuals.reshape(len(fresh), len(seen.columns), seen.rows)
        return tuple(
            _misfit(name, parts[:, i][:, np.isfinite(parts[0, i])])
            for i, name in enumerate(seen.columns)
            if np.isfinite(parts[0, i]).any()
        )

    @property
    def posterior_kl(self) -> float:
        """KL(posterior, prior); on the way, `kl` is that of the posterior before."""
        if self.prior is None or self.posterior is None:
            return self.kl
        same = self.prior.family == self.posterior.family
        return self.posterior.kl(self.prior) if same else self.kl

    @property
    def ceiling(self) -> float | None:
        """The largest possible risk, where the bound says so and is one."""
        return None if self.data is None else float(getattr(self.bound, "ceiling", math.inf))

    @property
    def data(self) -> int | None:
        """Of how many independent data the objective is a bound; None where it bounds nothing."""
        n = getattr(self.bound, "n", None)
        return None if n is None else int(n)

    @property
    def other_notes(self) -> tuple[str, ...]:
        """The notes that say more than how many runs failed and that the budget was short."""
        # Which of the messages is the example depends on the order in which runs ended.
        told = [
            each.partition(" with: ")[0]
            for each in notes_on_failures(self.failures, left_out=False)
        ]
        falling = note_on_the_budget(self.history)
        return tuple(
            note
            for note in self.notes
            if note not in falling and not any(note.startswith(each) for each in told)
        )


def account_of(
    run: Snapshot | Result, *, title: str = "", certificate: Certificate | None = None
) -> Account:
    """What a report tells of a run; ValueError where the certificate is about another one."""
    check_certificate(run, certificate)
    if isinstance(run, Snapshot):
        return _of_store(run, title, certificate)
    return _of_result(run, title, certificate)


def _of_store(run: Snapshot, title: str, certificate: Certificate | None) -> Account:
    made, by_id = run.made, {each.id: each for each in run.runs}
    batches = ([by_id[i] for i in ids if i in by_id] for ids in run.rounds)
    own = ([each for each in batch if not each.source] for batch in batches)
    file, text, sums = source_of(run)
    return Account(
        title=title or title_of(run) or run.path.stem,
        parameters=run.parameters,
        prior=run.prior,
        posterior=run.posterior,
        history=run.history,
        bound=run.bound,
        stop_reason=run.stop_reason,
        running=run.running,
        objective=run.objective,
        mean_risk=run.mean_risk,
        mean_risk_error=run.mean_risk_error,
        kl=run.kl,
        validated=run.validated,
        made=len(made),
        known=len(run.runs) - len(made),
        budget=run.budget,
        seconds=run.seconds,
        risks=np.array([each.risk for each in run.runs if each.status is Status.OK]),
        failures=run.failures,
        on_failure=str(run.settings["on_failure"]),
        notes=run.notes,
        first=_outputs(next(filter(None, own), [])),
        fresh=_outputs([by_id[i] for i in run.fresh if i in by_id]),
        observations=observations_of(run),
        certificate=certificate,
        origin=Origin(
            store=run.path.name,
            problem_file=file,
            text=text,
            checksums=tuple(sums.items()),
            seed=int(run.settings["seed"]),
            algorithm=str(run.settings["algorithm"]),
            created=run.created,
            made_with=run.made_with,
        ),
    )


def _of_result(run: Result, title: str, certificate: Certificate | None) -> Account:
    told = run.evaluations
    latent = run.prior if isinstance(run.prior, Distribution) else None
    every = [
        Run(i, x, Status.OK if ok else Status.INVALID, float(risk), None if y is None else y)
        for i, (x, ok, risk, y) in enumerate(
            zip(
                told.x,
                told.ok,
                told.risk,
                [None] * len(told) if told.outputs is None else told.outputs,
                strict=True,
            )
        )
    ]
    begun = told.iteration[run.known] if len(told) > run.known else 0
    first = [each for each, i in zip(every, told.iteration, strict=True) if i == begun]
    return Account(
        title=title or "A calibration",
        parameters=run.parameters,
        prior=latent,
        posterior=run.posterior,
        history=run.history,
        bound=run.bound,
        stop_reason=run.stop_reason,
        running=False,
        objective=run.objective,
        mean_risk=run.mean_risk,
        mean_risk_error=run.mean_risk_error,
        kl=run.kl,
        validated=run.validated,
        made=len(told) - run.known,
        known=run.known,
        budget=None,
        seconds=run.seconds,
        risks=told.risk[told.ok],
        failures=run.failures,
        on_failure=run.on_failure,
        notes=run.notes,
        first=_outputs(first),
        fresh=run.fresh_outputs,
        certificate=certificate,
    )


def _misfit(column: str, residuals: FloatArray) -> Misfit:
    """Of residuals (runs, measured)."""
    return Misfit(
        column,
        residuals.shape[1],
        math.sqrt(float(np.median(np.mean(residuals**2, axis=1)))),
        float(np.median(residuals.mean(axis=1))),
        int((np.abs(np.median(residuals, axis=0)) > 3.0).sum()),
    )


def _outputs(runs: Sequence[Run]) -> FloatArray | None:
    known = [run.outputs for run in runs if run.outputs is not None and run.status is Status.OK]
    return np.array(known) if known else None
