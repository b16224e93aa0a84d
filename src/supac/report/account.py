"""The content of a report, from a store or from a result in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.guarantee.certificate import Certificate
from supac.problem.bounds import Bound
from supac.problem.parameters import Parameters, names_of
from supac.problem_file import Observations, observations_of, source_of, title_of
from supac.record.calibrated import Calibrated, check_certificate
from supac.record.diagnostics import note_on_the_budget, notes_on_failures
from supac.record.ending import Estimate, StopReason
from supac.record.parameter_change import ParameterChange, parameter_changes
from supac.record.record import Record
from supac.record.run import Run


@dataclass(frozen=True)
class Origin:
    """Origin of a search, as far as known: what is needed to repeat it."""

    store: str = ""
    problem_file: str = ""
    text: str = ""
    """Text of the problem file."""
    checksums: tuple[tuple[str, str], ...] = ()
    seed: int | None = None
    algorithm: str = ""
    created: str = ""
    made_with: str = ""


@dataclass(frozen=True)
class Misfit:
    """Residuals of fresh runs for one observed column, in units of the noise."""

    column: str
    measured: int
    """Number of measurements."""
    typical: float
    """Median over runs of the root mean square residual: near 1 is a good fit."""
    mean: float
    """Median over runs of the mean residual: far from 0 is a bias."""
    far: int
    """Number of measurements whose median residual exceeds 3."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Account(Estimate):
    """All data of a report on one search."""

    title: str
    parameters: Parameters | None
    prior: Distribution | None
    posterior: Distribution | None
    history: dict[str, FloatArray]
    bound: Bound | None
    stop_reason: StopReason | None
    running: bool
    made: int
    known: int
    budget: int | None
    seconds: float
    risks: FloatArray
    """Risks of the successful runs of the search and its validation."""
    failures: tuple[Run, ...]
    on_failure: str
    notes: tuple[str, ...]
    first: FloatArray | None = None
    """Outputs of the first batch, (n, m), if any."""
    fresh: FloatArray | None = None
    """Outputs of the validation runs, (n, m)."""
    observations: Observations | None = None
    certificate: Certificate | None = None
    origin: Origin = Origin()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, by default x0, x1, …."""
        known = self.posterior or self.prior
        return names_of(self.parameters, 0 if known is None else known.dim)

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters, by default ""."""
        return ("",) * len(self.names) if self.parameters is None else self.parameters.units

    @property
    def learnt(self) -> list[ParameterChange]:
        """Change of every parameter."""
        return parameter_changes(self.prior, self.posterior, self.parameters)

    @cached_property
    def misfits(self) -> tuple[Misfit, ...]:
        """Misfit of each observed column; empty without data or fresh runs."""
        seen, fresh = self.observations, self.fresh
        if seen is None or fresh is None or fresh.shape[1] != len(seen.values):
            return ()
        residuals = np.full((len(fresh), len(seen.values)), np.nan)
        residuals[:, np.isfinite(seen.values)] = seen.residuals(fresh)
        parts = residuals.reshape(len(fresh), len(seen.columns), seen.rows)
        return tuple(
            _misfit(name, parts[:, i][:, np.isfinite(parts[0, i])])
            for i, name in enumerate(seen.columns)
            if np.isfinite(parts[0, i]).any()
        )

    @property
    def posterior_kl(self) -> float:
        """KL(posterior, prior); before the end, `kl` is that of the previous posterior."""
        if self.prior is None or self.posterior is None:
            return self.kl
        same = self.prior.family == self.posterior.family
        return self.posterior.kl(self.prior) if same else self.kl

    @property
    def ceiling(self) -> float | None:
        """Largest possible risk; None if the bound guarantees nothing."""
        return None if self.data is None else float(getattr(self.bound, "ceiling", math.inf))

    @property
    def data(self) -> int | None:
        """Number of independent data of the bound; None if it guarantees nothing."""
        n = getattr(self.bound, "n", None)
        return None if n is None else int(n)

    @property
    def other_notes(self) -> tuple[str, ...]:
        """Notes other than those on failed runs and on the budget."""
        # The quoted message depends on the order in which runs ended.
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
    run: Calibrated, *, title: str = "", certificate: Certificate | None = None
) -> Account:
    """Return the data of a report; ValueError for a certificate of another posterior."""
    record = run.own_record
    record.check_search()
    prior = record.prior if isinstance(record.prior, Distribution) else None
    check_certificate(record.posterior, prior, record.estimate, certificate)
    seen, own = record.settings.get("data"), {run.id for run in record.made}
    seen = seen if isinstance(seen, Observations) else _observations_of(record)
    batches = ([i for i in each.ids if i in own] for each in record.rounds)
    first = next(filter(None, batches), [])
    fresh = () if record.ending is None else record.ending.fresh
    about = record.estimate
    return Account(
        **{each.name: getattr(about, each.name) for each in fields(Estimate)},
        title=title or _title(record),
        parameters=record.parameters,
        prior=prior,
        posterior=record.posterior,
        history=record.history,
        bound=record.bound,
        stop_reason=record.stop_reason,
        running=record.running,
        made=_made(record),
        known=record.known,
        budget=record.settings.get("budget"),
        seconds=record.seconds,
        risks=np.array([each.risk for each in record.search_runs if each.ok]),
        failures=record.failures,
        on_failure=str(record.settings["on_failure"]),
        notes=record.notes,
        first=_outputs(record, first, seen),
        fresh=_outputs(record, fresh, seen),
        observations=seen,
        certificate=certificate,
        origin=_origin(record),
    )


def _made(record: Record) -> int:
    """Number of runs behind the result; runs that validated an earlier posterior are left over."""
    if record.counts is not None or record.ending is None or not record.rounds:
        return record.queries
    return len(record.told_ids()) - record.known


def _title(record: Record) -> str:
    if record.path is None:
        return "A calibration"
    return title_of(record) or record.path.stem


def _observations_of(record: Record) -> Observations | None:
    """Read the data of a version 0.1 file, which kept only residuals."""
    return None if record.path is None else observations_of(record)


def _outputs(record: Record, ids: Iterable[int], seen: Observations | None) -> FloatArray | None:
    """Return the outputs of successful runs, (n, m), computed from residuals if needed."""
    ids = list(ids)
    found = record.outputs(ids) if ids and record.counts is None else None
    if found is not None and seen is not None and record.settings.get("data") == "residuals":
        return seen.outputs(found) if found.shape[1] == seen.measured else None
    return found


def _origin(record: Record) -> Origin:
    if record.path is None:
        return Origin()
    file, text, sums = source_of(record)
    return Origin(
        store=record.path.name,
        problem_file=file,
        text=text,
        checksums=tuple(sums.items()),
        seed=int(record.settings["seed"]),
        algorithm=str(record.settings["algorithm"]),
        created=record.created,
        made_with=record.made_with,
    )


def _misfit(column: str, residuals: FloatArray) -> Misfit:
    """Summarise residuals (runs, measured)."""
    return Misfit(
        column,
        residuals.shape[1],
        math.sqrt(float(np.median(np.mean(residuals**2, axis=1)))),
        float(np.median(residuals.mean(axis=1))),
        int((np.abs(np.median(residuals, axis=0)) > 3.0).sum()),
    )
