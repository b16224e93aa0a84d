"""Record of a search: settings, runs, rounds and an ending, in memory or in one file."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from supac.arrays import FloatArray
from supac.codec import Named, Spec, function_identity, to_spec
from supac.families import Distribution, ParametricFamily, as_distribution
from supac.guarantee.certificate import Certificate
from supac.guarantee.origin import Origin
from supac.guarantee.provenance import Provenance
from supac.guarantee.seen import SeenData
from supac.problem import Batch, Evaluations
from supac.problem.bounds import Bound
from supac.problem.coarse import FINE
from supac.problem.composite import RESIDUALS, as_composite, loss_and_data, parts_of
from supac.problem.evaluations import Jacobians
from supac.problem.losses import reason_of_no_ceiling
from supac.problem.observation import ObservationLoss, observation_count, residuals_for
from supac.record.calibrated import Calibrated
from supac.record.coarse_use import COARSE_SINCE, CoarseUse
from supac.record.encoding import CoarseNumbers, certificate_to_spec, coarse_numbers, unpack
from supac.record.ending import Ending, Estimate, StopReason, ValidationBatch
from supac.record.parameter_change import ParameterChange, parameter_changes
from supac.record.run import Purpose, Round, Run, Status, by_kind, residuals_of
from supac.record.settings import Settings
from supac.record.simulator_versions import (
    SimulatorRuns,
    runs_by_simulator,
    version_numbers,
    versions_of,
)
from supac.record.store.file import (
    StoreError,
    is_being_written,
    raise_if_damaged,
    resolve_path,
    writer_of,
)
from supac.record.store.schema import reading
from supac.record.store.store import (
    Contents,
    Store,
    add_certificate,
    contents_of,
    jacobian_of,
    outputs_of,
    read_provenance,
    write_description,
)
from supac.record.timeline import Loss, Span, Spans
from supac.search.levels import is_on_coarse

if TYPE_CHECKING:
    from supac.record.result import Result

_T = TypeVar("_T")
Columns = Callable[[Sequence[Run]], tuple[FloatArray, FloatArray | None]]
"""Risks (n,) and residuals (n, k) of runs."""
JacobiansOf = Callable[[Sequence[Run]], Jacobians | None]
"""Derivatives of the residuals of runs; None if they have none."""


@dataclass(frozen=True)
class Counts:
    """Numbers of runs, for a result file without the runs themselves."""

    queries: int
    failed: int
    known: int
    seconds: float


class Record(Calibrated):
    """Settings, runs, rounds and an ending (or none yet) of one search.

    In memory, or in a file: then every run is on the disk when `add` returns, and outputs are read
    from there on demand. `read_store` reads the record in a file.
    """

    def __init__(
        self,
        settings: Settings,
        family: ParametricFamily | None,
        *,
        runs: Iterable[Run] = (),
        rounds: Iterable[Round] = (),
        ending: Ending | None = None,
        path: Path | None = None,
        counts: Counts | None = None,
    ):
        self.settings = settings
        """Arguments of `minimize`; of user-defined functions and classes only the names."""
        self.family, self.path, self.counts = family, path, counts
        # A simulator, or a user, may change the folder meanwhile.
        self._location = Path() if path is None else resolve_path(path)
        self.rounds, self.ending = list(rounds), ending
        self.description, self.created, self.made_with = "", "", ""
        self.observation = observation_count(settings.loss)
        """Number of parameters, the last ones, that enter after the simulator."""
        self.running = False
        """True while a process writes to the file."""
        self.writer = ""
        """Process that writes to the file: its number, host and since when."""
        self.state: Spec | None = None
        """State of the algorithm after the last round, as JSON; None without a file."""
        self._runs = {(run.task, run.id): run for run in runs}
        self._widths: dict[tuple[int, int], int] = {}  # of outputs that are only in the file
        self._slopes: dict[tuple[int, int], int] = {}  # rows of Jacobians that are only there
        self.provenance = Provenance()
        self.spend_all = False
        """True if another budget was given after a search had settled: it is spent whole."""
        self.batches: tuple[int, int] | None = None
        """Runs of the first and of each further batch, if they were chosen for many workers."""
        self.timeline: dict[tuple[int, int], Span] = {}
        """When and where runs were made, by task and id; those in progress have no end."""
        self.losses: list[Loss] = []
        """Runs that the machine took, each time that it did: none of them is a failure."""
        self._coarse: CoarseNumbers | CoarseUse | None = None
        self._store: Store | None = None
        self._latest: Distribution | None = None

    @classmethod
    def of_search(
        cls,
        path: str | os.PathLike[str] | None,
        settings: Settings,
        family: ParametricFamily,
        **words: Spec,
    ) -> Self:
        """Make the record of a search, or continue that in a file, which also keeps `words`."""
        if path is None:
            return cls(settings, family)
        config = {name: to_spec(value) for name, value in settings.stored.items()} | words
        store = Store(path, config, lambda _: family)
        record = cls._of(store.contents, settings, family, store.path, store)
        settled = record.stop_reason is StopReason.CONVERGED
        if settled and store.contents.config.get("budget") != settings.budget:
            record.spend_all = True
        # Whole: what a search learns from, and its result, must not depend on the file any more.
        try:
            whole = record.iterate(jacobians=True)
            record._runs = {(run.task, run.id): run for run in whole}
        except BaseException:
            store.close()
            raise
        record._widths.clear()
        record._slopes.clear()
        del record.light_runs  # of which these are the whole
        return record

    @classmethod
    def _of(
        cls,
        found: Contents,
        settings: Settings,
        family: ParametricFamily | None,
        path: Path,
        store: Store | None = None,
    ) -> Self:
        """Make a record of what was read from a file; `store` is its writer."""
        record = cls(
            settings, family, runs=found.runs, rounds=found.rounds, ending=found.ending, path=path
        )
        record.state, record._widths, record._store = found.state, found.widths, store
        record._slopes = found.slopes
        record.description, record.created = found.description, found.created
        record.made_with, record.provenance = found.made_with, found.provenance
        record.spend_all, record.batches = found.spend_all, found.batches
        record.timeline, record.losses = dict(found.timeline), list(found.losses)
        if found.holds_residuals:
            record.settings = replace(settings, data=Named(RESIDUALS))
        loss = found.config.get("loss")
        if isinstance(loss, dict) and loss.get("class") == ObservationLoss.__name__:
            record.observation = int(loss["count"])  # also where the loss is only a name
        return record

    @classmethod
    def of_runs(
        cls,
        risk: object,
        dim: int,
        path: str | os.PathLike[str] | None = None,
        purpose: Purpose = "certificate",
    ) -> Self:
        """Make a record for runs outside a search, or append them to the file of one.

        The file must have the loss and the data of `risk`, and earlier runs for the same purpose
        must be of the same function.
        """
        parts = loss_and_data(risk)
        settings = Settings(kind="runs", **parts)
        if path is None:
            return cls(settings, None)
        config = {"kind": "runs", "dim": dim, **{k: to_spec(v) for k, v in parts.items()}}
        store = Store(path, config, lambda kept: Settings.of_specs(kept).family)
        try:
            function = parts_of(risk).simulate
            store.check_function(purpose, function_identity(function))
        except BaseException:
            store.close()
            raise
        return cls._of(store.contents, settings, None, store.path, store)

    def risk_as_stored(self, risk: Any) -> Any:
        """Return the risk; with residuals as outputs for a version 0.1 file that stores those."""
        residuals = self.settings.outputs_are_residuals
        own = as_composite(risk)
        return own.in_residuals() if own is not None and residuals else risk

    @property
    def own_record(self) -> Record:
        """The record itself."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def __repr__(self) -> str:
        state = "running" if self.running else "not ended"
        state = state if self.stop_reason is None else f"ended: {self.stop_reason.value}"
        about, path = self.estimate, "" if self.path is None else f"{str(self.path)!r}, "
        of = f" of {self.budget}" if self.queries <= self.budget else ""
        made = f"{self.queries}{of} runs" if self.coarse_use is None else self.spent_words
        return (
            f"Record({path}{made}, "
            f"{state}, objective={about.objective:.4g}, mean_risk={about.mean_risk:.4g}, "
            f"kl={about.kl:.4g})"
        )

    def __getattr__(self, name: str) -> Any:
        if name in {each.name for each in fields(Estimate)}:
            warnings.warn(
                f"{name} of a store is estimate.{name} now", DeprecationWarning, stacklevel=2
            )
            return getattr(self.estimate, name)
        raise AttributeError(f"a record has no attribute {name!r}")

    # Writing

    def add(self, runs: Sequence[Run], spans: Spans = MappingProxyType({})) -> None:
        """Store completed runs, and when they were made; replace earlier ones with the same ids."""
        if not runs and not spans:  # a commit waits for the disk
            return
        if self._store is not None:
            self._store.add_runs(runs, spans)
        self.timeline.update(spans)
        for run in runs:
            self._runs[run.task, run.id] = run
            self._widths.pop((run.task, run.id), None)
            self._slopes.pop((run.task, run.id), None)
        self.__dict__.pop("light_runs", None)

    def note_begun(self, spans: Spans) -> None:
        """Store when and where runs began that are in progress, for those who watch."""
        if self._store is not None:
            self._store.add_spans(spans)
        self.timeline.update(spans)

    def keep_batches(self, batches: tuple[int, int]) -> None:
        """Store the sizes of batches that were chosen for the number of workers."""
        self.batches = batches
        if self._store is not None:
            self._store.write_batches(batches)

    def note_coarse(self, numbers: CoarseNumbers | CoarseUse | None) -> None:
        """Remember cost, missed share and use of a coarse model; a file has them in its state.

        Or all that a result in a file says of it.
        """
        self._coarse = numbers

    @property
    def coarse_use(self) -> CoarseUse | None:
        """Cost and savings of a coarse model; None without one."""
        numbers = self._coarse
        if isinstance(numbers, CoarseUse):
            return numbers
        if numbers is None and self.settings.kind == "minimize" and self.path is not None:
            numbers = None if self.state is None else self.read_state(coarse_numbers)
        if numbers is None:
            return None
        cost, differs, useful, settled = numbers
        coarse, own = self.coarse_runs, {run.id for run in self.made}
        known = sum(bool(run.source) for run in coarse)
        coarse = tuple(run for run in coarse if not run.source)
        failures = [run for run in coarse if run.failed]
        alone = [i for i, each in enumerate(self.rounds) if is_on_coarse(each.info)]
        first = self.rounds[: alone[-1] + 2] if alone else []
        return CoarseUse(
            cost=cost,
            useful=useful,
            differs=differs,
            fine=self.queries,
            runs=len(coarse),
            failed=len(failures),
            settled=settled,
            before=sum(i in own for each in first for i in each.ids),
            failure=failures[0].message if failures else "",
            known=known,
        )

    @property
    def spent(self) -> float:
        """Number of runs made; with a coarse model, their cost in fine ones."""
        return float(self.queries) if self.coarse_use is None else self.coarse_use.spent

    @property
    def spent_words(self) -> str:
        """Say how much of the budget is spent, in fine runs' worth where there is a coarse model.

        Such as "12 of 20 runs", or "12.4 of 20 fine runs' worth".
        """
        of = "" if self.settings.budget is None else f" of {self.budget:,}"
        if self.coarse_use is None:
            return f"{self.queries:,}{of} runs"
        return f"{self.spent:.3g}{of} fine runs' worth"

    def note_losses(self, losses: Sequence[Loss]) -> None:
        """Store that the machine took runs, which are made again."""
        self.losses += losses
        if self._store is not None:
            self._store.write_losses(self.losses)

    def add_rounds(
        self,
        rounds: Sequence[Round],
        state: Callable[[], Spec],
        posterior: Distribution | None = None,
    ) -> None:
        """Store rounds and the state after them, with its posterior, in one transaction."""
        self._latest = posterior
        if self._store is not None:
            self.state = state()
            self._store.add_rounds(rounds, self.state)
        self.rounds += rounds

    def finish(self, ending: Ending, evaluations: Evaluations) -> None:
        """Store the ending; `evaluations` are all runs as columns."""
        if self._store is not None:
            self._store.finish(ending, self.provenance)
        self.ending = ending
        self.__dict__["evaluations"] = evaluations

    def confirm(self, description: str | None = None) -> None:
        """Write the settings to the file, and remove the ending: the search continues."""
        self.ending = None
        self.description = self.description if description is None else description
        if self._store is not None:
            self._store.confirm(description, self.provenance, spend_all=self.spend_all)

    def describe(self, description: str) -> None:
        """Write a description of the runs to the file."""
        self.description = description
        if self._store is not None:
            self._store.describe(description)
        elif self.path is not None:
            write_description(self._location, description)

    # Runs

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs with their outputs, in the order of their ids."""
        return tuple(self.iterate())

    def iterate(
        self, runs: Iterable[Run] | None = None, *, jacobians: bool = False
    ) -> Iterator[Run]:
        """Yield `light_runs`, or some of them, with their outputs; from a file, one at a time.

        If `jacobians`, with their Jacobians, which are large.
        """
        light = self.light_runs if runs is None else list(runs)
        if self.path is None or not any((run.task, run.id) in self._widths for run in light):
            yield from light
            return
        with reading(self._location) as db:
            for run in light:
                width = self._widths.get((run.task, run.id))
                full = None if width is None else outputs_of(db, run, width)
                rows = self._slopes.get((run.task, run.id)) if jacobians else None
                slopes = run.jacobian if rows is None else jacobian_of(db, run, rows)
                yield run if full is None else replace(run, outputs=full, jacobian=slopes)

    @cached_property
    def light_runs(self) -> tuple[Run, ...]:
        """All runs in the order of their ids; those of a file that was read without outputs."""
        return tuple(run for _, run in sorted(self._runs.items()))

    @property
    def search_runs(self) -> tuple[Run, ...]:
        """Runs of the search and its validation, without outputs; imported ones included."""
        own = ("search", "validation")
        return tuple(run for run in self.light_runs if run.purpose in own)

    @property
    def made(self) -> tuple[Run, ...]:
        """Runs of the search and its validation, without outputs or imported runs."""
        return tuple(run for run in self.search_runs if not run.source)

    @property
    def counted_runs(self) -> tuple[Run, ...]:
        """`search_runs`; after the end only those of the rounds and of the last validation.

        A batch that was interrupted, or the validation of an earlier end, leaves others.
        """
        told = set() if self.ending is None else self.told_ids()
        return tuple(run for run in self.search_runs if not told or run.id in told)

    @property
    def coarse_runs(self) -> tuple[Run, ...]:
        """Runs of a coarse model, without outputs."""
        return tuple(run for run in self.light_runs if run.level)

    @property
    def present_coarse_runs(self) -> tuple[Run, ...]:
        """Runs of the present coarse model: all of them, unless it was changed."""
        since = self._coarse_since
        old = {i for each in self.rounds[:since] for i in each.ids}
        return tuple(run for run in self.coarse_runs if run.id not in old)

    @property
    def _coarse_since(self) -> int:
        """Rounds before the coarse model of a problem file changed; 0 if it has not."""
        try:
            return int(json.loads(self.description).get(COARSE_SINCE) or 0)
        except (ValueError, AttributeError):
            return 0

    @property
    def coarse_ids(self) -> set[int]:
        """Ids of these."""
        return {run.id for run in self.coarse_runs}

    @property
    def imported(self) -> tuple[Run, ...]:
        """Imported runs, without outputs."""
        return tuple(run for run in self.light_runs if run.source)

    @property
    def simulator_numbers(self) -> dict[int, int]:
        """Number of the simulator's version, from 1, that made each run, by id; imported ones not.

        Only stores of problem files tell versions apart; elsewhere all runs have number 1.
        """
        ids = self._own_ids
        numbers = version_numbers(versions_of(self.description), ids)
        return dict(zip(ids, numbers, strict=True))

    @property
    def simulators(self) -> list[SimulatorRuns]:
        """Versions of the simulator that made runs, more than one if it was changed on the way."""
        return runs_by_simulator(versions_of(self.description), self._own_ids)

    @property
    def _own_ids(self) -> list[int]:
        return [run.id for run in self.light_runs if run.task == 0 and not run.source]

    @property
    def failures_by_kind(self) -> list[tuple[Status, int, str]]:
        """Status, count and one message of each kind of failure, the most common kind first."""
        return [(runs[0].status, len(runs), runs[0].message) for runs in by_kind(self.failures)]

    @property
    def certificate(self) -> Certificate | None:  # type: ignore[override]
        """Certificate of the ensemble, if the search has ended with one."""
        return None if self.ending is None else self.ending.certificate

    @property
    def held_out(self) -> Certificate | None:
        """Certificate of the same ensemble on held-out data, if there is one."""
        return None if self.ending is None else self.ending.held_out

    @property
    def never_certified(self) -> str:
        """Reason why no certificate can be given with any further runs; "" if one can."""
        return reason_of_no_ceiling(self.settings.loss) or self.next_provenance().refusal

    def next_provenance(
        self, prior: object = None, bound: Bound | None = None, risk: object = None
    ) -> Provenance:
        """Return the provenance of a further result, with another prior, bound, loss or data.

        The same question as `Origin.next_provenance` asks.
        """
        if prior is bound is risk is None:
            seen, own = self._provenance_so_far(), self.seen_data
            return seen if own is None else seen.joined(Provenance(seen=(own,)))
        return self.origin.next_provenance(prior, bound, risk)

    @property
    def origin(self) -> Origin:
        """Search that a further result on these data begins from."""
        return Origin.of(
            prior=self.parameters,
            latent=self.prior,
            posterior=self.posterior,
            ended=self.ending is not None,
            loss=self.settings.loss,
            data=self.settings.data,
            seen=self.seen_data,
            bound=self.bound,
            provenance=self._provenance_so_far(),
        )

    def _provenance_so_far(self) -> Provenance:
        """Return the provenance, with what other processes have written to the file since."""
        if self.path is None:
            return self.provenance
        return read_provenance(self._location).joined(self.provenance)  # in the order of the file

    @property
    def seen_data(self) -> SeenData | None:
        """Measurements of the search and of its test; None if they are not known."""
        data = self.settings.observations
        return None if data is None else SeenData(data, self.held_out_data)

    def count_certificate(self, made: Certificate) -> Certificate:
        """Count a certificate on these data, in the file too if there is one, and return it.

        If the file cannot be written, the certificate says so.
        """
        self.provenance = self.provenance.after(made.name)
        try:
            if self.path is not None:
                add_certificate(self._location, made.name)
                self.provenance = read_provenance(self._location).joined(self.provenance)
        except StoreError as error:
            words = f"it could not be counted among the certificates on these data: {error}"
            return replace(made, warnings=(*made.warnings, words))
        return made

    def runs_of(self, ids: Iterable[int]) -> list[Run]:
        """Return the runs of a search with these ids, with their outputs."""
        by_id = {run.id: run for run in self.light_runs if run.task == 0}
        return list(self.iterate([by_id[each] for each in ids]))

    def check_runs(self) -> None:
        """Raise ValueError for a result file without runs."""
        if self.counts is not None:
            raise ValueError("the file was written without its runs: write it with runs=True")

    def told_ids(self, validation: Sequence[ValidationBatch] | None = None) -> set[int]:
        """Return the ids of the runs of all rounds and of the validation."""
        if validation is None:
            validation = () if self.ending is None else self.ending.validation
        told = {run for each in self.rounds for run in each.ids}
        return told | {run for each in validation for run in each.ids}

    @property
    def file(self) -> Path:
        """Path of the file; ValueError for a record in memory."""
        if self.path is None:
            raise ValueError("this search was not kept in a file")
        return self.path

    def read_state(self, convert: Callable[[Spec], _T]) -> _T:
        """Convert the state of a file; StoreDamagedError if it is invalid."""
        with raise_if_damaged(self.file, "its state"):
            return convert(self.state)

    def told(
        self, columns: Columns, task: int = 0, *, jacobians: JacobiansOf = lambda runs: None
    ) -> Evaluations:
        """Return the runs of all rounds of a task as columns."""
        mine = [(each.ids, each.proposal) for each in self.rounds if each.task == task]
        return self._told(mine, columns, task, jacobians)

    def _told(
        self,
        rounds: Sequence[tuple[Any, ...]],
        columns: Columns,
        task: int,
        jacobians: JacobiansOf = lambda runs: None,
    ) -> Evaluations:
        """Return rounds, (ids, proposal) each, as columns."""
        runs = list(self.iterate(self._runs[task, i] for ids, _ in rounds for i in ids))
        if not rounds:
            return Evaluations.none(self._dim)
        light, batches = iter(runs), []
        for ids, proposal in rounds:
            planned = [next(light).planned for _ in ids]
            batches.append(Batch.gathered(planned, proposal, self._dim))
            if (batches[-1].step >= len(batches)).any():
                raise ValueError(f"a run of round {len(batches)} was planned after it")
        return Evaluations.of_rounds(batches, *columns(runs), jacobians(runs))

    @property
    def _dim(self) -> int:
        return self.start.dim if self.family is None else self.family.dim

    @cached_property
    def evaluations(self) -> Evaluations:
        """Runs of all rounds, then those of the validation, as columns."""
        self.check_runs()
        batches: list[tuple[Any, ...]] = [(each.ids, each.proposal) for each in self.rounds]
        if self.ending is not None:
            if not self.rounds:  # a first batch that fails makes no round
                made = [run.id for run in self.light_runs if run.purpose == "search"]
                batches = [(made, self.start)] if made else []
            batches += [(each.ids, each.posterior) for each in self.ending.validation]
        every = self._told(batches, self._columns, 0)
        return every.select(every.level == FINE) if every.level.any() else every

    def _columns(self, runs: Sequence[Run]) -> tuple[FloatArray, FloatArray | None]:
        """Return risks and residuals; None for the latter if the settings lack data or loss."""
        failure_loss = np.nan if self.ending is None else self.ending.failure_loss
        risk = np.array([run.risk if run.ok else failure_loss for run in runs])
        loss, data = self.settings.loss, self.settings.data
        compute = getattr(data, "residuals", None)
        width = self.told_width()
        if width is None or not (compute or data is None or self.settings.outputs_are_residuals):
            return risk, None
        if compute:
            compute = partial(residuals_for, loss, compute)
        try:
            return risk, residuals_of(runs, width, compute or (lambda outputs: outputs))
        except ValueError:
            # A file has no more than the name of a function of observation parameters.
            if isinstance(loss, Named):
                return risk, None
            raise

    def told_width(self, task: int = 0) -> int | None:
        """Return the number of outputs of the first successful run of the rounds, if any."""
        told = (self._runs[task, i] for each in self.rounds if each.task == task for i in each.ids)
        return next((self.width_of(run) for run in told if run.ok and not run.level), None)

    def any_width(self, task: int = 0) -> int | None:
        """Return the number of outputs of the first successful run, also of one not told yet."""
        own = (run for run in self.light_runs if run.task == task and not run.level)
        good = (run for run in own if run.ok)
        return next((self.width_of(run) for run in good), None)

    def width_of(self, run: Run) -> int | None:
        """Return the number of outputs of a run, also where they are only in the file."""
        inside = None if run.outputs is None else len(run.outputs)
        return self._widths.get((run.task, run.id), inside)

    def points(self, runs: Sequence[Run]) -> FloatArray:
        """Return the points of runs in the user's units: (n, dim)."""
        x = np.array([run.x for run in runs]).reshape(len(runs), len(runs[0].x) if runs else 0)
        return x if self.parameters is None or not runs else self.parameters.from_latent(x)

    def outputs(self, ids: Iterable[int]) -> FloatArray | None:
        """Return the outputs of the successful runs among `ids`, (n, m); None if there are none."""
        wanted = set(ids)
        light = [run for run in self.light_runs if run.id in wanted and run.task == 0 and run.ok]
        rows = [run.outputs for run in self.iterate(light) if run.outputs is not None]
        return np.array(rows) if rows else None

    # The search

    @property
    def estimate(self) -> Estimate:
        """Estimate for the returned posterior; before the end, for the last proposal."""
        if self.ending is not None:
            return self.ending
        if not self.rounds:
            return Estimate()
        info = self.rounds[-1].info
        return Estimate(
            objective=info.objective,
            mean_risk=info.mean_risk,
            kl=info.kl,
            effective_size=info.effective_size,
        )

    @property
    def posterior(self) -> Distribution | None:
        """Returned posterior, or the latest one; None before the first step."""
        if self.ending is not None:
            return self.ending.posterior
        family = self.family
        if self.state is None or family is None:
            return self._latest
        return self.read_state(
            lambda spec: Distribution(family, unpack(spec["theta"])) if "theta" in spec else None
        )

    @property
    def posterior_kl(self) -> float:
        """KL(posterior, prior); before the end, the estimate's is that of the one before.

        NaN if it is not known.
        """
        posterior, prior = self.posterior, as_distribution(self.prior)
        if posterior is None or prior is None:
            return np.nan
        return posterior.kl(prior) if posterior.family == prior.family else np.nan

    @property
    def stop_reason(self) -> StopReason | None:
        """Reason why the search ended; None if it has not."""
        return None if self.ending is None else self.ending.stop_reason

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings to read before the result is used."""
        return () if self.ending is None else self.ending.notes

    @property
    def advice(self) -> tuple[str, ...]:
        """Choices that would have saved runs or time."""
        return () if self.ending is None else self.ending.advice

    @property
    def best_objective(self) -> float:
        """Lowest objective so far; NaN if there is none."""
        objective = np.append(self.history["objective"], self.estimate.objective)
        known = objective[np.isfinite(objective)]
        return float(known.min()) if len(known) else np.nan

    @property
    def parameter_changes(self) -> list[ParameterChange]:
        """Change of each named parameter; empty without names or posterior."""
        if self.parameters is None:
            return []
        check = None if self.ending is None else self.ending.range_check
        return parameter_changes(self.parameters.prior, self.posterior, self.parameters, check)

    # Settings

    def check_search(self) -> None:
        """Raise ValueError for a file of `meta_learn` or of runs alone."""
        kind = self.settings.kind
        if kind != "minimize":
            raise ValueError(
                f"{self.path} is a store of `{kind}`, not of one search; `supac export` writes its "
                "runs"
            )

    @property
    def budget(self) -> int:
        """Largest number of runs."""
        return int(self.settings.budget or self.queries)

    # For users

    def result(self) -> Result:
        """Return the result of `minimize`; ValueError if the search has not ended."""
        from supac.record.result import Result  # noqa: PLC0415 - it is made of records

        return Result.of(self)

    def to_dict(self) -> dict[str, Any]:
        """Summarise the search for JSON; None for unknown numbers."""
        self.check_search()
        estimates = ("objective", "mean_risk", "mean_risk_error", "kl")
        numbers = {name: getattr(self.estimate, name) for name in estimates}
        numbers["best_objective"] = self.best_objective
        numbers["posterior_kl"] = self.posterior_kl  # as the parameters: of the latest posterior
        bands = self.usual_bands()
        return {
            "store": None if self.path is None else str(self.path),
            "running": self.running,
            "writer": self.writer,
            "stop_reason": None if self.stop_reason is None else self.stop_reason.value,
            **{name: getattr(self, name) for name in ("budget", "queries", "failed")},
            "refused": len(self.refused),
            "lost": len(self.losses),
            "failures": [
                {"status": status.value, "count": count, "message": message}
                for status, count, message in self.failures_by_kind
            ],
            **{name: value if np.isfinite(value) else None for name, value in numbers.items()},
            "validated": self.estimate.validated,
            "seconds": self.seconds,
            "bound": str(self.settings.bound),
            "seed": self.settings.seed,
            "created": self.created,
            "made_with": self.made_with,
            "simulators": [asdict(each) for each in self.simulators],
            "notes": list(self.notes),
            "advice": list(self.advice),
            "certificate": certificate_to_spec(self.certificate),
            "held_out": certificate_to_spec(self.held_out),
            "uncertified": "" if self.ending is None else self.ending.uncertified,
            "bands": None if isinstance(bands, str) else bands.to_dict(),
            "parameters": [each.to_dict() for each in self.parameter_changes],
        }


def read_store(path: str | os.PathLike[str]) -> Record:
    """Read the record of a search from its file, also while another process writes to it."""
    path = Path(path)
    running = is_being_written(path)
    with reading(path) as db:
        found = contents_of(db, lambda config: Settings.of_specs(config).family)
    settings = Settings.of_specs(found.config)
    record = Record._of(found, settings, settings.family, path)
    record.running, record.writer = running, writer_of(path) if running else ""
    return record
