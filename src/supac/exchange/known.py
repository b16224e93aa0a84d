"""Imported runs: from a table, or from an earlier search."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from supac.arrays import BoolArray, FloatArray, frozen
from supac.exchange.table import OUTPUT, columns_of, is_output
from supac.exchange.text_table import TextTable, places_of_outputs
from supac.guarantee.origin import COLUMN, Origin
from supac.guarantee.provenance import Provenance
from supac.problem import Evaluations, Measurements, Observations, Parameters
from supac.problem.coarse import COARSE, FINE
from supac.problem.data import as_observations
from supac.record.record import Record
from supac.record.run import Run, Status, outputs_as_rows

LEVEL = "level"
"""Column of a table that says by which model a run was made."""
_UNITS_OF_TIME = {"seconds": "s", "minutes": "min", "hours": "h", "days": "d"}


@dataclass(frozen=True, eq=False)
class KnownRuns:
    """Imported runs as columns."""

    x: FloatArray
    """(n, dim), in the user's units."""
    risk: FloatArray
    """(n,), NaN for a failed run."""
    outputs: FloatArray | None
    """(n, m) for a `Composite`; NaN for a failed run."""
    seconds: FloatArray
    statuses: tuple[Status, ...]
    messages: tuple[str, ...]
    sources: tuple[str, ...]
    """Name of the table or search that each comes from."""
    origin: Record | None = None
    """Record of the search that they come from: what was chosen after it may depend on its data."""
    names: tuple[str, ...] | None = None
    """Names of the columns of `x`, if they are known."""
    data: Observations | None = None
    """Data in whose order the outputs are, if they are known."""
    places: tuple[str, ...] = ()
    """File and line of each run, if they are from a table."""
    told_origin: Origin | None = None
    """Search that they come from, as a table of `supac export` says."""
    lost: Provenance = Provenance()
    """That a table does not say any more what its search has seen, if so."""
    levels: tuple[int, ...] = ()
    """0 for each run of the fine model, 1 for each of the coarse one; empty if all are fine."""

    @property
    def begun_from(self) -> Origin | None:
        """Search that the runs come from, if it is known."""
        return self.told_origin if self.origin is None else self.origin.origin

    @classmethod
    def of_arrays(
        cls,
        x: FloatArray,
        outputs: FloatArray | None = None,
        risk: FloatArray | None = None,
        source: str = "known",
        places: Sequence[str] = (),
        levels: Sequence[int] = (),
    ) -> KnownRuns:
        """Import points (n, dim) with outputs (n, m) or risks (n,); NaN for failed runs.

        A run that is there more than once, as in the history of an optimiser, counts once.
        """
        values = risk if outputs is None else outputs
        if values is None:
            raise ValueError("give outputs or risk")
        level = np.array(levels or [FINE] * len(x), dtype=np.float64)
        rows = np.column_stack([x, np.reshape(values, (len(x), -1)), level])
        once = sorted({row.tobytes(): i for i, row in reversed(list(enumerate(rows)))}.values())
        x, values = x[once], values[once]
        risk = None if risk is None else risk[once]
        outputs = None if outputs is None else values
        good = [bool(np.isfinite(row).any()) for row in values]
        return cls(
            frozen(np.array(x, dtype=np.float64)),
            np.full(len(x), np.nan) if risk is None else risk,
            outputs,
            np.zeros(len(x)),
            tuple(Status.OK if each else Status.INVALID for each in good),
            tuple("" if each else "failed before" for each in good),
            (source,) * len(x),
            places=tuple(places[i] for i in once) if places else (),
            levels=tuple(levels[i] for i in once) if levels else (),
        )

    @classmethod
    def of(cls, x: FloatArray, evaluations: Evaluations, source: str = "earlier runs") -> KnownRuns:
        """Import evaluations of another search, with points in the user's units."""
        ok = evaluations.ok
        return cls(
            x,
            np.where(ok, evaluations.risk, np.nan),
            evaluations.outputs,
            np.zeros(len(x)),
            tuple(Status.OK if each else Status.INVALID for each in ok),
            ("failed before",) * len(x),
            (source,) * len(x),
        )

    @classmethod
    def of_record(cls, record: Record, source: str = "earlier runs") -> KnownRuns:
        """Import all runs of a search and its validation, ended or not.

        Those of its coarse model, too, but for an earlier one that has changed.
        """
        record.check_runs()
        place = {i: k for k, i in enumerate(i for each in record.rounds for i in each.ids)}
        own = (*record.search_runs, *record.present_coarse_runs)
        light = sorted(own, key=lambda run: (place.get(run.id, len(place)), run.id))
        runs = list(record.iterate(light))
        outputs, data = outputs_as_rows(runs), record.settings.data
        # With outputs, the new search may have another loss or other data, and so other risks.
        return cls(
            record.points(runs),
            np.array([run.risk if run.ok and outputs is None else np.nan for run in runs]),
            outputs,
            np.zeros(len(runs)),
            tuple(Status.OK if run.outputs is not None else run.status for run in runs),
            tuple(run.message for run in runs),
            (source,) * len(runs),
            record,
            None if record.parameters is None else record.parameters.names,
            as_observations(data),
            levels=tuple(run.level for run in runs) if any(run.level for run in runs) else (),
        )

    def __len__(self) -> int:
        return len(self.x)

    def select(self, kept: Sequence[bool]) -> KnownRuns:
        """Return some of the runs."""
        if all(kept):
            return self
        rows = np.flatnonzero(kept)
        return replace(
            self,
            x=frozen(self.x[rows]),
            risk=self.risk[rows],
            outputs=None if self.outputs is None else self.outputs[rows],
            seconds=self.seconds[rows],
            statuses=tuple(self.statuses[i] for i in rows),
            messages=tuple(self.messages[i] for i in rows),
            sources=tuple(self.sources[i] for i in rows),
            places=tuple(self.places[i] for i in rows) if self.places else (),
            levels=tuple(self.levels[i] for i in rows) if self.levels else (),
        )

    @property
    def fine(self) -> KnownRuns:
        """Return the runs of the fine model alone."""
        return self.select([level == FINE for level in self.levels]) if self.levels else self

    def of_risk(self, risk: object) -> KnownRuns:
        """Return the runs without the risks of a table whose search had another loss or data."""
        told = self.told_origin
        if told is None or self.outputs is None or told.has_risk(risk):
            return self
        return replace(self, risk=np.full(len(self), np.nan))

    def in_order(self, names: Sequence[str]) -> KnownRuns:
        """Return the runs with their parameters in this order; ValueError if they are others."""
        if self.names is None or self.names == tuple(names):
            return self
        if set(self.names) != set(names):
            ours, theirs = ", ".join(names), ", ".join(self.names)
            raise ValueError(f"{self.sources[0]} has the parameters {theirs}, not {ours}")
        places = [self.names.index(name) for name in names]
        return replace(self, x=frozen(self.x[:, places]), names=tuple(names))

    def for_data(self, data: Observations, *, one_run: bool = False) -> KnownRuns:
        """Return the runs with outputs as these data have them, found by column and time.

        An experiment without a name stands for the only one of the other data; with `one_run`, for
        each of several that one run simulates. ValueError if a measurement is at a place that was
        not simulated, or in another unit.
        """
        if self.data is None or self.outputs is None or self.outputs.shape[1] == 0:
            return self
        _check_units(self.data, data, self.sources[0])
        theirs, ours = self.data.cells, data.cells
        many = [len(set(each.experiments or ("",))) > 1 for each in (self.data, data)]
        unnamed = self.data.experiments is None or data.experiments is None
        if unnamed and not many[0] and (one_run or not many[1]):
            theirs, ours = ([("", *cell[1:]) for cell in cells] for cells in (theirs, ours))
        if theirs == ours or self.outputs.shape[1] < len(theirs):
            return self
        known = {cell: place for place, cell in reversed(list(enumerate(theirs)))}
        places = np.array([known.get(cell, -1) for cell in ours])
        lost = np.flatnonzero(data.needed & (places < 0))
        if len(lost):
            experiment, column, time = ours[lost[0]]
            at = f"{'time' if data.times is not None else 'row'} {time:g}"
            where = f"{column}{f' of {experiment}' if experiment else ''} at {at}"
            named = list(dict.fromkeys(self.data.experiments or ("one without a name",)))
            of = f" (its experiments: {', '.join(named)})" if experiment else ""
            others = f", nor {len(lost) - 1} other data" if len(lost) > 1 else ""
            raise ValueError(
                f"{self.sources[0]}{of} has no simulated {where}{others}: runs can be used again "
                "for what they have simulated; rows with empty cells are simulated too, so that "
                "they can be filled in later"
            )
        outputs = np.where(places >= 0, self.outputs[:, places], np.nan)
        # Observation parameters follow what was simulated.
        outputs = np.concatenate([outputs, self.outputs[:, len(theirs) :]], axis=1)
        return replace(self, outputs=outputs, data=data, risk=np.full(len(self), np.nan))

    def latent(self, parameters: Parameters | None) -> FloatArray:
        """Return the latent points: (n, dim)."""
        if parameters is None:
            return self.x
        try:
            return parameters.to_latent(self.x)
        except ValueError:  # of which run?
            self._check_each(parameters)
            raise

    def _check_each(self, parameters: Parameters) -> None:
        """Raise ValueError with the place of the first run that is outside of the bounds."""
        for row, point in enumerate(self.x):
            try:
                parameters.to_latent(point[None])
            except ValueError as error:
                place = f"known run {row + 1} of {self.sources[row]}"
                place = self.places[row] if self.places else place
                fix = "correct it, leave out this run, or widen the prior"
                raise ValueError(f"{place}: {error}; {fix}") from error

    def to_runs(self, parameters: Parameters | None, needed: BoolArray | None) -> list[Run]:
        """Return the runs at latent points; `needed`, (m,), marks outputs that must be finite."""
        runs = []
        for row, point in enumerate(self.latent(parameters)):
            outputs = None if self.outputs is None else self.outputs[row]
            values = self.risk[row] if outputs is None else outputs
            if outputs is not None and needed is not None and len(needed) == len(outputs):
                values = outputs[needed]
            status, level = self.statuses[row], self.levels[row] if self.levels else FINE
            if status is Status.OK and not np.isfinite(values).all():
                status = Status.INVALID
            good = status is Status.OK
            runs.append(
                Run(
                    -1,
                    frozen(np.array(point)),
                    status,
                    float(self.risk[row]) if good and outputs is None else np.nan,
                    outputs if good else None,
                    float(self.seconds[row]),
                    "" if good else self.messages[row] or "no value",
                    source=self.sources[row],
                    purpose="coarse" if level else "search",
                    level=level,
                )
            )
        return runs

    def check_risks(self, runs: Sequence[Run]) -> None:
        """Raise ValueError if given risks contradict the loss of the outputs."""
        if self.outputs is None:
            return
        risks = {y.tobytes(): risk for y, risk in zip(self.outputs, self.risk, strict=True)}
        for run in runs:
            told = np.nan if run.outputs is None else risks.get(run.outputs.tobytes(), np.nan)
            if run.status is Status.OK and np.isfinite(told) and not np.isclose(run.risk, told):
                raise ValueError(
                    f"a known run of {run.source} has risk {told:.6g}, but its outputs have the "
                    f"loss {run.risk:.6g}: they are not outputs of this simulator and loss"
                )


def _check_units(theirs: Observations, ours: Observations, name: str) -> None:
    """Raise ValueError if a column, or the times, have another unit, where both have one."""
    then, now = (
        {**dict(zip(each.columns, each.units or (), strict=False)), "time": _unit_of_time(each)}
        for each in (theirs, ours)
    )
    for column, unit in now.items():
        before = then.get(column)
        if unit and before and unit != before:
            raise ValueError(
                f"{column} is in {unit}, but in {before} where the runs of {name} were made, and "
                "nothing is converted: correct one of the units, or leave out known"
            )


def _unit_of_time(data: Observations) -> str:
    """Return the unit of the times, as in "time (h)" or "hours since 2024-03-01"; "" if unknown."""
    found = re.fullmatch(r"time \((.+)\)|(\w+) since .*", data.time_label or "")
    unit = "" if found is None else found[1] or found[2]
    return _UNITS_OF_TIME.get(unit, unit)


def read_csv(
    path: str | os.PathLike[str],
    names: Parameters | Sequence[str],
    *,
    source: str = "",
    data: Observations | Measurements | None = None,
) -> KnownRuns:
    """Read runs from a table with a column per parameter, and `risk` or `output_0`, `output_1`, ….

    Outputs may be named as those of the data are, `A@0.5` or `A_0`. An empty cell means a failed
    run. The columns `status`, `message`, `seconds`, `source`, `purpose`, `level` and `origin` are
    read if present, and no others; runs of a certificate are left out. `source` names the table, by
    default the file. Cells are separated by commas, semicolons or tabs; where not by commas,
    decimals may have one.
    """
    path = Path(path)
    wanted = list(names.names if isinstance(names, Parameters) else names)
    table = TextTable(path)
    header = table.header
    columns = zip(wanted, columns_of(wanted), strict=True)
    wanted = [column if column in header else name for name, column in columns]
    missing = [name for name in wanted if name not in header]
    outputs = None if missing else _columns_of_outputs(table, wanted, data)
    if missing or not (outputs or "risk" in header):
        named = names_in_table(data)
        like = f", or {named[0][0]}, …" if named else ""
        lacks = ", ".join(missing) or f"risk, or output_0, output_1, …{like}"
        raise ValueError(f"{path} has no column {lacks}; its columns are {', '.join(header)}")
    x = np.column_stack([table.numbers(name) for name in wanted])
    lines = table.lines
    if not np.isfinite(x).all():
        bad = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise ValueError(f"{path}, line {lines[bad]}: every parameter needs a finite value")
    own, count = source or path.name, len(lines)
    known = {status.value: status for status in Status}
    nothing = np.full(count, np.nan)

    def words(name: str) -> list[str]:
        return table.words(name) if name in header else [""] * count

    values = [nothing if name is None else table.numbers(name) for name in outputs or ()]
    told, lost = Origin.of_cells(words(COLUMN), path.name)
    seen = None if told is None or outputs is None or OUTPUT + "0" not in header else told.seen
    made = KnownRuns(
        x=frozen(x),
        risk=table.numbers("risk") if "risk" in header else nothing,
        outputs=np.column_stack(values) if outputs else None,
        seconds=np.nan_to_num(table.numbers("seconds")) if "seconds" in header else np.zeros(count),
        statuses=tuple(known.get(each or "ok", Status.INVALID) for each in words("status")),
        messages=tuple(words("message")),
        sources=tuple(f"{each}, by {own}" if each else own for each in words("source")),
        data=None if seen is None else seen.training,
        places=tuple(f"{path.name}, line {line}" for line in lines),
        told_origin=told,
        lost=lost,
        levels=_levels_in(table, [*wanted, *(outputs or ())]),
    )
    # Fresh sets of a certificate are learnt from by no search: another would draw them again.
    return made.select([each != "certificate" for each in words("purpose")])


def _levels_in(table: TextTable, others: Sequence[str | None]) -> tuple[int, ...]:
    """Return the levels of the runs of a table, unless the column is one of others."""
    if LEVEL not in table.header or LEVEL in others:
        return ()
    return levels_of(table.numbers(LEVEL), table.path.name, table.lines)


def levels_of(cells: FloatArray, name: str, lines: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the levels in a column of a table, empty if all runs are of the fine model.

    ValueError for another number than 0 and 1.
    """
    levels = np.nan_to_num(cells, nan=float(FINE))
    wrong = np.flatnonzero((levels != FINE) & (levels != COARSE))
    if len(wrong):
        place = f"{name}, line {lines[wrong[0]]}" if lines else f"row {wrong[0] + 1} of {name}"
        raise ValueError(
            f"{place}: {LEVEL} must be {FINE} for a run of the fine model, or {COARSE} for one of "
            f"the coarse model, not {levels[wrong[0]]:g}"
        )
    return tuple(int(each) for each in levels) if levels.any() else ()


def _columns_of_outputs(
    table: TextTable, wanted: Sequence[str], data: Observations | Measurements | None
) -> list[str | None] | None:
    """Return the column of each output of a table, None for outputs that nobody needs."""
    numbered = sorted(
        (name for name in set(table.header) - set(wanted) if is_output(name)),
        key=lambda name: int(name.removeprefix(OUTPUT)),
    )
    if numbered:
        return list(numbered)
    observed = as_observations(data)
    needed = None if observed is None else observed.needed.tolist()
    others = [name for name in table.header if name not in wanted]
    return places_of_outputs(others, names_in_table(data), needed, str(table.path))


def names_in_table(data: object) -> list[list[str]]:
    """Return the ways in which a table may name the outputs of these data."""
    observed = as_observations(data)
    if observed is not None:
        by_row = [f"{name}_{row}" for name in observed.columns for row in range(observed.rows)]
        return [observed.cell_names, by_row]
    return [data.output_names] if isinstance(data, Measurements) else []
