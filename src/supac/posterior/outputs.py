"""Names, times and units of predicted outputs, and the noise of their measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supac.arrays import BoolArray, FloatArray, finite, frozen, whole
from supac.codec import register
from supac.problem import MeasuredOutputs, Observations
from supac.problem.columns import ObservedCells
from supac.problem.data import as_observations

OTHER_NUMBER = "but the scenario has"
"""Words of a failed run with another number of outputs than those of the scenario."""


@dataclass(frozen=True, eq=False)
class AskedOutputs(Observations):
    """Outputs that a scenario asks for, of which nothing is measured."""

    def asks_for(self, rows: int) -> str:
        """Return the number of rows of a column as words of a message."""
        kind = "row" if self.times is None else "time"
        return f"{OTHER_NUMBER.removeprefix('but ')} {rows} {kind}{'s' * (rows != 1)}"


_EXACT, _SLACK = 1e-9, 1e-7  # relative to the largest noise of a column
_FEWEST = 3  # measurements that show a share of the value


@register(later=("observed", "experiments", "measured"))
@dataclass(frozen=True, eq=False)
class Outputs:
    """Columns of outputs, one after the other, each with one number a row.

    A measurement has the standard error noise + share·|output|; with `logarithmic`, its logarithm
    has the standard error `noise`. Noise levels of `observed` are factors of it.
    """

    columns: tuple[str, ...]
    rows: int
    times: FloatArray | None = None
    """(rows,)."""
    units: tuple[str, ...] | None = None
    """Unit of each column, "" for none."""
    time_label: str | None = None
    """Meaning of the times, such as "time (h)"."""
    noise: FloatArray | None = None
    """NaN in columns whose noise is not known: (columns,)."""
    share: FloatArray | None = None
    """(columns,); None for 0."""
    logarithmic: bool = False
    observed: ObservedCells | None = None
    """Parameters that make measured values of simulated ones, if there are any."""
    experiments: tuple[str, ...] | None = None
    """Name of the experiment of each row, if there are several."""
    measured: MeasuredOutputs | None = None
    """Values and noise as they follow from what is simulated, where each has its own formula."""

    def __post_init__(self) -> None:
        count = len(self.columns)
        whole(self.rows, "rows", least=1)
        if not count or len(set(self.columns)) < count:
            raise ValueError(f"outputs must be different names, not {list(self.columns)}")
        if self.times is not None:
            object.__setattr__(self, "times", frozen(finite(self.times, "times")))
            if np.shape(self.times) != (self.rows,):
                raise ValueError(
                    f"times must be {self.rows} numbers, not shape {np.shape(self.times)}"
                )
        if self.units is not None and len(self.units) != count:
            raise ValueError(f"units must be {count} texts, not {len(self.units)}")
        for name in ("noise", "share"):
            given = getattr(self, name)
            if given is None:
                continue
            values = np.broadcast_to(np.array(given, dtype=np.float64), (count,)).copy()
            if (values < 0.0).any():
                raise ValueError(f"{name} must not be below 0, as {values.tolist()} is")
            object.__setattr__(self, name, frozen(values))

    @classmethod
    def of(cls, given: Any, times: Any = None) -> Outputs:
        """Make a table of names, or of names with their units, at these times."""
        if isinstance(given, Outputs):
            if times is not None:
                raise ValueError("times are given twice: leave out times=, or those of outputs=")
            return given
        names = [given] if isinstance(given, str) else list(given)
        units = tuple(map(str, given.values())) if isinstance(given, Mapping) else None
        clock = None if times is None else np.atleast_1d(finite(times, "times"))
        rows = 1 if clock is None else len(clock)
        return cls(tuple(map(str, names)), rows, clock, units)

    @classmethod
    def plain(cls, width: int) -> Outputs:
        """Make a table of outputs of which only the number is known."""
        return cls(tuple(f"output_{i}" for i in range(width)), 1)

    @classmethod
    def of_simulation(cls, data: object) -> Outputs | None:
        """Make the table of what is simulated for these data; None if its names are not known."""
        observed = as_observations(data)
        if observed is not None:
            return cls.of_data(observed)
        names = getattr(data, "output_names", None)
        return None if names is None else cls(tuple(names), 1)

    @classmethod
    def of_measured(cls, data: object) -> Outputs | None:
        """Make the table of what would be measured; None if the names are not known."""
        measured = MeasuredOutputs.of(data)
        if measured is None:
            return cls.of_simulation(data)
        return cls(measured.names, 1, measured=measured)

    @classmethod
    def of_data(cls, data: Observations) -> Outputs:
        """Make the table of measured columns, with their noise if all rows follow one rule.

        That is the same noise, or a share of the measured value and a constant.
        """
        shape = (len(data.columns), data.rows)
        rules = [
            _rule_of_noise(*each)
            for each in zip(data.noise.reshape(shape), data.values.reshape(shape), strict=True)
        ]
        noise, share = np.array(rules).reshape(-1, 2).T
        return cls(
            data.columns,
            data.rows,
            data.times,
            data.units,
            data.time_label,
            noise,
            share if share.any() else None,
            logarithmic=data.logarithmic,
        )

    @property
    def width(self) -> int:
        """Number of outputs, as they are measured."""
        return len(self.columns) * self.rows

    @property
    def simulated_width(self) -> int:
        """Number of outputs of a run."""
        return self.width if self.measured is None else self.measured.simulated

    @property
    def logarithms(self) -> BoolArray:
        """True for outputs whose logarithm has the noise of a measurement: (width,)."""
        if self.measured is not None:
            return self.measured.logarithmic
        return np.full(self.width, self.logarithmic)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the columns with their units."""
        units = self.units or ("",) * len(self.columns)
        return tuple(f"{n} ({u})" if u else n for n, u in zip(self.columns, units, strict=True))

    @property
    def clock(self) -> FloatArray:
        """Times, or else numbers of rows from 1: (rows,)."""
        return np.arange(1.0, self.rows + 1.0) if self.times is None else self.times

    @property
    def cells(self) -> list[tuple[str, float]]:
        """Column and time of each output: (width,)."""
        return [(column, time) for column in self.columns for time in self.clock.tolist()]

    def places(self, column: str) -> slice:
        """Return the places of a column among all outputs."""
        if column not in self.columns:
            raise ValueError(f"there is no output {column!r}; they are {', '.join(self.columns)}")
        first = self.columns.index(column) * self.rows
        return slice(first, first + self.rows)

    def name(self, place: int) -> str:
        """Return the name of one output: its column, its time if there are several, its experiment.

        Such as "A at 3" or "A at 3 in warm".
        """
        column, time = self.cells[place]
        name = column if self.rows == 1 else f"{column} at {time:g}"
        return (
            name if self.experiments is None else f"{name} in {self.experiments[place % self.rows]}"
        )

    def with_noise_of(self, other: Outputs | None) -> Outputs:
        """Return the table with the noise of the same columns of another one, if it has none."""
        if self.noise is not None or other is None or other.noise is None:
            return self
        known = dict(zip(other.columns, zip(other.noise, other.shares, strict=True), strict=True))
        pairs = np.array([known.get(name, (np.nan, 0.0)) for name in self.columns])
        return replace(self, noise=pairs[:, 0], share=pairs[:, 1], logarithmic=other.logarithmic)

    @property
    def shares(self) -> FloatArray:
        """Share of each column: (columns,)."""
        return np.zeros(len(self.columns)) if self.share is None else self.share

    def as_observed(self, simulated: FloatArray, x: FloatArray) -> FloatArray:
        """Return simulated outputs (n, m) at points (n, dim) as they would be measured."""
        if self.measured is not None:
            return self.measured.outputs(simulated, x)
        return simulated if self.observed is None else self.observed.outputs(simulated, x)

    def noise_of_simulated(self, simulated: FloatArray, x: FloatArray) -> FloatArray | None:
        """Return the noise of each output at simulated ones (n, m); None if `deviations` knows."""
        return None if self.measured is None else self.measured.deviations(simulated, x)

    def deviations(self, outputs: FloatArray, x: FloatArray | None = None) -> FloatArray:
        """Compute standard errors of measurements of outputs (n, width); NaN if not known.

        Noise levels that are parameters need the points x (n, dim).
        """
        if self.noise is None:
            return np.full_like(outputs, np.nan)
        noise, share = np.repeat(self.noise, self.rows), np.repeat(self.shares, self.rows)
        known = np.asarray(noise + share * np.abs(outputs))
        if self.observed is None:
            return known
        if x is None:
            raise ValueError("x is missing: the noise depends on parameters, pass their values")
        return np.asarray(known * self.observed.level(x))

    def observations(self) -> Observations:
        """Return the columns as data without measurements, which say what is to be simulated."""
        empty = np.full(self.width, np.nan)
        return AskedOutputs(
            self.columns,
            empty,
            empty,
            times=self.times,
            units=self.units,
            time_label=self.time_label,
        )

    def flat(self, answer: Any) -> FloatArray:
        """Convert {column: values}, (rows, columns) or a vector to a vector."""
        if self.measured is not None:
            return np.asarray(answer, dtype=np.float64)
        return self.observations().flat(answer)


def _rule_of_noise(noise: FloatArray, values: FloatArray) -> tuple[float, float]:
    """Return the constant noise of a column and its share of the value; NaN and 0 if no rule fits.

    A share is recognised from three measurements or more: two fit any line.
    """
    known = noise[np.isfinite(noise)]
    if len(known) and np.ptp(known) <= _EXACT * known.max():
        return float(known.max()), 0.0
    both = np.isfinite(noise) & np.isfinite(values)
    size, wanted = np.abs(values[both]), noise[both]
    if len(np.unique(size)) < _FEWEST:
        return np.nan, 0.0
    line = np.column_stack([np.ones(len(size)), size])
    (constant, share), *_ = np.linalg.lstsq(line, wanted)
    off = np.abs(line @ [constant, share] - wanted).max()
    if off > _SLACK * wanted.max() or share <= 0.0 or constant < -_SLACK * wanted.max():
        return np.nan, 0.0
    return max(float(constant), 0.0), float(share)
