"""Measurements that simulated outputs are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.codec import register


class Data(Protocol):
    """Measurements that simulated outputs are compared with."""

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Compute the arguments of the loss: (n, m) → (n, k)."""


@register(later=("blocks", "sequential", "units", "time_label", "experiments"))
@dataclass(frozen=True, eq=False)
class Observations:
    """Measured columns, one after the other; NaN for missing measurements.

    A simulation returns as many outputs in the same order; its residuals are the differences from
    the measurements, divided by the noise.
    """

    noise_known: ClassVar[bool] = True
    columns: tuple[str, ...]
    """Names of the measured outputs."""
    values: FloatArray
    """Measurements, column after column: (rows · columns,)."""
    noise: FloatArray
    """Standard deviations of the errors: (rows · columns,), or one number for all."""
    logarithmic: bool = False
    """True to compare logarithms; `noise` is then that of the logarithms."""
    times: FloatArray | None = None
    """Time of each row: (rows,)."""
    blocks: FloatArray | None = None
    """Labels of independent blocks of rows, for certificates; by default each measurement is
    independent of all others: (rows,)."""
    sequential: bool | None = None
    """True if rows are in the order of time and may depend on earlier ones: then certificates are
    on the mean conditional risk, and rows (or blocks) need not be independent."""
    units: tuple[str, ...] | None = None
    """Unit of each column, "" for none; one text is that of all columns."""
    time_label: str | None = None
    """Meaning of the times, such as "days since 2024-03-01"."""
    experiments: tuple[str, ...] | None = None
    """Name of the experiment of each row: (rows,). Noise is NaN in columns that it lacks."""

    def __post_init__(self) -> None:
        given: Any = self.columns
        names = (given,) if isinstance(given, str) else tuple(given)
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 1 or not names or len(values) % len(names) or not values.size:
            raise ValueError(
                "values must be one vector, as many numbers for each column, column after column, "
                f"not an array of shape {values.shape} for {', '.join(names)}"
            )
        noise = np.array(self.noise, dtype=np.float64)
        noise = np.full(len(values), noise) if noise.ndim == 0 else noise
        fits = noise.shape == values.shape
        if not fits or (self.noise_known and not (noise[np.isfinite(values)] > 0.0).all()):
            raise ValueError("noise must be a positive number, or one for each of the values")
        made: dict[str, Any] = {"columns": names, "values": frozen(values), "noise": frozen(noise)}
        for name in ("times", "blocks"):
            given = getattr(self, name)
            array = None if given is None else frozen(np.array(given, dtype=np.float64))
            if array is not None and array.shape != (len(values) // len(names),):
                raise ValueError(f"{name} must hold one number a row, not shape {array.shape}")
            made[name] = array
        units: Any = self.units
        made["units"] = (units,) * len(names) if isinstance(units, str) else units
        made["experiments"] = self.experiments
        for name, count in (("units", len(names)), ("experiments", len(values) // len(names))):
            words = made[name]
            if words is not None and len(words) != count:
                raise ValueError(f"{name} must be {count} texts, not {len(words)}")
            made[name] = None if words is None else tuple(words)
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return len(self.values) // len(self.columns)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the columns with their units."""
        units = self.units or ("",) * len(self.columns)
        named = zip(self.columns, units, strict=True)
        return tuple(f"{name} ({unit})" if unit else name for name, unit in named)

    @property
    def present(self) -> BoolArray:
        """True for outputs of the columns that an experiment has: (rows · columns,)."""
        every = np.ones(len(self.values), dtype=bool)
        return every if self.experiments is None else np.isfinite(self.noise)

    @property
    def parts(self) -> list[tuple[str, int, IntArray]]:
        """Name of the experiment, or "", column and rows of each part of a column."""
        every = np.arange(self.rows)
        if self.experiments is None:
            return [("", column, every) for column in range(len(self.columns))]
        names, present = np.array(self.experiments), self.present.reshape(-1, self.rows)
        return [
            (name, column, rows)
            for column in range(len(self.columns))
            for name in dict.fromkeys(self.experiments)
            if len(rows := every[(names == name) & present[column]])
        ]

    @property
    def cells(self) -> list[tuple[str, str, float]]:
        """Experiment, column and time, or number of the row, of each output: (rows · columns,)."""
        times = np.arange(1.0, self.rows + 1.0) if self.times is None else self.times
        experiments = self.experiments or ("",) * self.rows
        rows = list(zip(experiments, times.tolist(), strict=True))
        return [(each, column, time) for column in self.columns for each, time in rows]

    @property
    def cell_names(self) -> list[str]:
        """Name of each output, `A@0.5`, or `A_0` by its row without times: (rows · columns,).

        Where experiments differ, that of the output's follows: `A@0.5 (warm)`; where a time is
        there more than once, a number: `A@0.5 #2`.
        """
        if self.times is None:
            return [f"{column}_{row}" for column in self.columns for row in range(self.rows)]
        return told_apart(
            f"{column}@{time:.12g}" + (f" ({experiment})" if experiment else "")
            for experiment, column, time in self.cells
        )

    def shared(self, other: Observations) -> list[tuple[int, int]]:
        """Return the places, here and there, of measurements that both have.

        Where one of them names no experiment, those of the other may be of any.
        """
        named = self.experiments is not None and other.experiments is not None
        theirs: dict[tuple[Any, ...], list[int]] = {}
        for j in np.flatnonzero(other.needed).tolist():
            cell = other.cells[j]
            theirs.setdefault((*cell[0 if named else 1 :], float(other.values[j])), []).append(j)
        cells = self.cells
        mine = [
            (i, theirs.get((*cells[i][0 if named else 1 :], float(self.values[i])), []))
            for i in np.flatnonzero(self.needed).tolist()
        ]
        return [(i, j) for i, places in mine for j in places]

    def of_rows(self, rows: IntArray) -> Observations:
        """Return the data of some rows, with the columns that are there."""
        shape = (len(self.columns), self.rows)
        columns = np.flatnonzero(self.present.reshape(shape)[:, rows].any(axis=1))

        def some(values: FloatArray) -> FloatArray:
            return values.reshape(shape)[np.ix_(columns, rows)].ravel()

        return replace(
            self,
            columns=tuple(self.columns[i] for i in columns),
            values=some(self.values),
            noise=some(self.noise),
            times=None if self.times is None else self.times[rows],
            blocks=None if self.blocks is None else self.blocks[rows],
            units=None if self.units is None else tuple(self.units[i] for i in columns),
            experiments=tuple(self.experiments[i] for i in rows) if self.experiments else None,
        )

    @property
    def needed(self) -> BoolArray:
        """True for outputs that have a measurement: (rows · columns,)."""
        return np.isfinite(self.values)

    @property
    def measured(self) -> int:
        """Number of measurements."""
        return int(self.needed.sum())

    @property
    def blocks_of_measured(self) -> FloatArray | None:
        """Labels of the blocks of the measurements: (measured,); None if each is its own.

        What is measured at once may depend on each other: rows are blocks of sequential data.
        """
        rows = np.arange(float(self.rows)) if self.sequential else None
        labels = rows if self.blocks is None else self.blocks
        return None if labels is None else np.tile(labels, len(self.columns))[self.needed]

    def series(self, residuals: FloatArray) -> list[FloatArray]:
        """Divide residuals (measured,) by column and experiment, in the order of the rows."""
        places = np.full(len(self.values), np.nan)
        places[self.needed] = residuals
        every = places.reshape(len(self.columns), self.rows)
        series = [every[column, rows] for _, column, rows in self.parts]
        return [each[np.isfinite(each)] for each in series]

    def in_units(self, residual: float) -> dict[str, float]:
        """Convert a residual in noise standard deviations to the unit of each column.

        The median noise of the column stands for all; for logarithms it is the relative error.
        """
        noise = np.where(self.needed, self.noise, np.nan).reshape(len(self.columns), self.rows)
        sizes = {
            name: residual * float(np.nanmedian(each))
            for name, each in zip(
                self.columns if self.logarithmic else self.labels, noise, strict=True
            )
            if np.isfinite(each).any()
        }
        if not self.logarithmic:
            return sizes
        return {f"{name} (relative)": float(np.expm1(size)) for name, size in sizes.items()}

    def split(self, test: Any) -> tuple[Observations, Observations]:
        """Divide the measurements into a training and a test part.

        `test` is True for the rows of the test part, (rows,), or names its columns.
        """
        chosen = np.asarray(test)
        if chosen.dtype == bool and chosen.shape == (self.rows,):
            mask = np.tile(chosen, len(self.columns))
        else:
            names = [test] if isinstance(test, str) else list(map(str, test))
            unknown = [name for name in names if name not in self.columns]
            if unknown:
                raise ValueError(
                    f"test must be a truth value for each of the {self.rows} rows, or names of "
                    f"columns ({', '.join(self.columns)}), not {test!r}"
                )
            mask = np.repeat([name in names for name in self.columns], self.rows)
        parts = [np.where(part, np.nan, self.values) for part in (mask, ~mask)]
        if any(np.isnan(part).all() for part in parts):
            raise ValueError("both the training and the test part need a measurement")
        train, held_out = (replace(self, values=part) for part in parts)
        cut = False
        if self.blocks is not None:
            rows = [np.isfinite(part).reshape(-1, self.rows).any(axis=0) for part in parts]
            cut = bool(np.isin(self.blocks[rows[0]], self.blocks[rows[1]]).any())
        if self.sequential or cut:
            raise ValueError(
                "the test part must be independent of the training part: hold out whole blocks of "
                "rows, and none of a sequence"
            )
        return train, held_out

    def flat(self, outputs: Any) -> FloatArray:
        """Convert {column: values}, (rows, columns) or a vector to a vector."""
        if isinstance(outputs, Mapping):
            missing = [name for name in self.columns if name not in outputs]
            if missing:
                raise ValueError(
                    f"the simulator returned {', '.join(map(str, outputs)) or 'nothing'}, but not "
                    f"{', '.join(missing)}, which the data have"
                )
            parts = [np.atleast_1d(np.asarray(outputs[name], float)) for name in self.columns]
            present = self.present.reshape(-1, self.rows)
            for name, part, there in zip(self.columns, parts, present, strict=True):
                if part.shape not in ((self.rows,), (there.sum(),)):
                    raise ValueError(
                        f"the simulator returned {part.size} numbers for {name}, but "
                        f"{self.asks_for(int(there.sum()))}"
                    )
            if all(len(part) == self.rows for part in parts):
                return np.concatenate(parts)
            short = [
                p[t] if len(p) == self.rows else p for p, t in zip(parts, present, strict=True)
            ]
            outputs = np.concatenate(short)
        values = np.asarray(outputs, dtype=np.float64)
        if values.shape == (self.present.sum(),) != self.values.shape:
            every = np.full(len(self.values), np.nan)
            every[self.present] = values
            values = every
        if values.ndim == 2 and values.shape == (self.rows, len(self.columns)):
            values = values.T.ravel()
        if values.shape != self.values.shape:
            raise ValueError(self._unfit(values))
        return values

    def asks_for(self, rows: int) -> str:
        """Return the number of rows of a column as words of a message."""
        return f"the data have {rows} rows"

    def _unfit(self, outputs: FloatArray) -> str:
        return (
            f"the simulator returned {_shape(outputs)}, but {self.asks_for(self.rows)} of "
            f"{', '.join(self.columns)}: return {self.present.sum()} numbers, column after column"
        )

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Compute residuals: (…, rows · columns) → (…, measured)."""
        if outputs.shape[-1:] != self.values.shape:
            raise ValueError(self._unfit(outputs))
        seen = self.needed
        simulated, observed = outputs[..., seen], self.values[seen]
        if not self.logarithmic:
            with np.errstate(over="ignore"):  # an infinite residual has no finite loss: it failed
                return np.asarray((simulated - observed) / self.noise[seen])
        if (simulated <= 0.0).any():
            raise ValueError('compare = "log" needs positive outputs, but some are not')
        return np.log(simulated / observed) / self.noise[seen]

    def tangents(self, outputs: FloatArray, changes: FloatArray) -> FloatArray:
        """Compute how residuals change with the outputs (m,): (n, m) → (n, measured)."""
        seen = self.needed
        scale = self.noise[seen] * (outputs[seen] if self.logarithmic else 1.0)
        return np.asarray(changes[:, seen] / scale)

    def outputs(self, residuals: FloatArray) -> FloatArray:
        """Compute outputs from residuals; NaN for missing measurements."""
        seen = self.needed
        simulated = np.full((*residuals.shape[:-1], len(self.values)), np.nan)
        shift = self.noise[seen] * residuals
        measured = self.values[seen]
        simulated[..., seen] = measured * np.exp(shift) if self.logarithmic else measured + shift
        return simulated


def told_apart(names: Iterable[str]) -> list[str]:
    """Return the names, with a number after those that are there more than once: `A@0.5 #2`."""
    found, seen = [], dict[str, int]()
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found


def _shape(values: FloatArray) -> str:
    if values.ndim == 0:
        return "one number"
    return f"{len(values)} numbers" if values.ndim == 1 else f"an array of shape {values.shape}"


def as_observations(data: object) -> Observations | None:
    """Return data that are a table of observed columns; None for any other."""
    return data if isinstance(data, Observations) else None
