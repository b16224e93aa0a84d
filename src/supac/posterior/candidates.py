"""Measurements that could be made next, and the draws that tell what they are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np

from supac.arrays import FloatArray, whole
from supac.posterior.emulation import EmulatedOutputs
from supac.posterior.outputs import Outputs
from supac.posterior.prediction import Prediction, identity_of
from supac.problem import MeasuredOutputs, names_of
from supac.record.calibrated import Calibrated
from supac.search.algorithm import one_thread

Quantity = str | Callable[[FloatArray], FloatArray]
"""A parameter, a field (its mean), an output such as "A at 3", or a function of points (n, dim) →
(n,)."""
_DRAWS = 4_000
_FEWEST = 50
_NAMED = 12  # parameters, or outputs, that a message names


@dataclass(frozen=True)
class Measurement:
    """One number that could be measured."""

    output: str
    """Column of the outputs."""
    time: float | None = None
    """None for a column with one row."""
    noise: float | None = None
    """Standard error; by default that of the column in the data."""
    experiment: str = ""
    """Name of the experiment, if there are several."""

    @property
    def words(self) -> str:
        """Name of what is measured."""
        when = "" if self.time is None else f" at {self.time:g}"
        return self.output + when + (f" in {self.experiment}" if self.experiment else "")


@dataclass(frozen=True)
class Candidate:
    """Measurements that would be made together."""

    measurements: tuple[Measurement, ...]
    name: str = ""

    @classmethod
    def of(cls, given: Any) -> Candidate:
        """Make a candidate of itself, of a `Measurement`, or of ("A", 3.0) or ("A", 3.0, 0.1)."""
        if isinstance(given, Candidate):
            return given
        if isinstance(given, Measurement):
            return cls((given,))
        if isinstance(given, str):
            return cls((Measurement(given),))
        if isinstance(given, tuple) and 1 <= len(given) <= 3 and isinstance(given[0], str):
            time, noise = (*(float(each) for each in given[1:]), None, None)[:2]
            return cls((Measurement(given[0], time, noise),))
        raise TypeError(
            f'a candidate must be a Candidate, or (output, time, noise) such as ("A", 3.0, 0.1), '
            f"not {given!r}"
        )

    @property
    def words(self) -> str:
        """Its name, or what is measured."""
        return self.name or " and ".join(each.words for each in self.measurements)

    @property
    def output(self) -> str:
        """Columns that are measured."""
        return " and ".join(dict.fromkeys(each.output for each in self.measurements))

    @property
    def time(self) -> float | None:
        """Time of all of them; None if they have none, or several."""
        times = {each.time for each in self.measurements}
        return times.pop() if len(times) == 1 else None


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of a posterior, with outputs of one or two tables of them."""

    x: FloatArray
    """In the user's units: (n, dim)."""
    names: tuple[str, ...]
    """Of the parameters."""
    tables: tuple[tuple[Outputs, FloatArray, FloatArray], ...]
    """Of each table its outputs and the standard deviations of their errors, (n, m) both."""
    fields: Mapping[str, slice] = field(default_factory=dict)
    """Columns of the points of each field."""
    units: tuple[str, ...] = ()
    """Of the parameters, if they are known."""
    noise: tuple[FloatArray | None, ...] = ()
    """Usual noise of the outputs of each table, (m,), where the table itself does not tell."""

    @classmethod
    def of(
        cls, posterior: Calibrated, prediction: Prediction | None, count: int | None, seed: int
    ) -> Draws:
        """Emulate the outputs of the search at draws, or at those of a prediction."""
        record = posterior.own_record
        parameters, over = record.parameters, record.known_posterior()
        tables, noise = [], list[FloatArray | None]()
        if prediction is None:
            rng = np.random.default_rng([whole(seed, "seed", least=0), 0x4E58])
            latent = over.sample(
                whole(_DRAWS if count is None else count, "draws", least=_FEWEST), rng
            )
            x = latent if parameters is None else parameters.from_latent(latent)
        else:
            _check(prediction, identity_of(record))
            x, made = prediction.x, prediction.outputs
            latent = x if parameters is None else parameters.to_latent(x)
            tables.append((prediction.columns, made, np.zeros_like(made)))
            noise.append(_usual_noise(prediction))
        with one_thread():
            emulated = EmulatedOutputs.of(record, over)
            outputs, errors = emulated.predict(latent)
        every, table = emulated.every(errors), emulated.table
        wrong = np.where(np.isfinite(emulated.constant), 0.0, every)
        simulated, usual = emulated.every(outputs), None
        measured = MeasuredOutputs.of(record.settings.data)
        if measured is not None and table.width == measured.simulated:
            table = Outputs(measured.names, 1, measured=measured)
            wrong = measured.errors(wrong, x)
            usual = np.median(measured.standard_errors(simulated, x), axis=0)
        elif table.observed is not None:
            wrong = wrong * np.abs(table.observed.scale(x))
        tables.append((table, table.as_observed(simulated, x), wrong))
        noise.append(usual)
        names = () if parameters is None else parameters.fields
        fields = {} if parameters is None else {each: parameters.columns(each) for each in names}
        units = () if parameters is None else parameters.units
        return cls(x, names_of(parameters, x.shape[1]), tuple(tables), fields, units, tuple(noise))

    def output(self, wanted: Measurement) -> tuple[FloatArray, FloatArray, float]:
        """Return an output (n,), the errors of its emulation (n,), and the noise of measuring it.

        Of a column that is compared by its logarithm, these are of the logarithm.
        """
        for number, (table, outputs, errors) in enumerate(self.tables):
            place = _place(table, wanted)
            if place is None or not np.isfinite(outputs[:, place]).all():
                continue
            values, wrong = outputs[:, place], errors[:, place]
            noise = wanted.noise
            if noise is None:
                noise = float(self.deviations(number)[place])
            if table.logarithms[place]:
                values, wrong = _logarithms(values, wrong, wanted.words)
            if not (np.isfinite(noise) and noise > 0.0):
                raise ValueError(f"the noise of measuring {wanted.words} is not known: give it")
            return values, wrong, noise
        raise ValueError(f"{wanted.words} is no output of the runs; {self._known()}")

    def deviations(self, number: int) -> FloatArray:
        """Return the usual noise of each output of a table: at medians of outputs and levels."""
        known = self.noise[number] if self.noise else None
        if known is not None:
            return known
        table, outputs, _ = self.tables[number]
        middle, x = (np.median(each, axis=0)[None] for each in (outputs, self.x))
        return table.deviations(middle, x)[0]

    def _known(self) -> str:
        words = []
        for table, *_ in self.tables:
            if table.measured is not None:
                words.append(f"there are {_in_words(table.measured)}")
                continue
            clock = table.clock
            when = f" from {clock.min():g} to {clock.max():g}" if table.rows > 1 else ""
            times = f" at {table.rows} times{when}" if table.rows > 1 else ""
            words.append(f"there are {', '.join(table.columns)}{times}")
        return (
            f"{'; '.join(dict.fromkeys(words))}. For other times, predict at these first, and name "
            "the scenario: --scenario scenario.toml, or prediction=… from Python"
        )

    def quantity(self, wanted: Quantity) -> FloatArray:
        """Return the values of a quantity of interest: (n,)."""
        if callable(wanted):
            values = np.asarray(wanted(self.x), dtype=np.float64)
            if values.shape != (len(self.x),):
                raise ValueError(
                    f"the quantity must be one number a point, ({len(self.x)},), not {values.shape}"
                )
            return values
        if wanted in self.names:
            return self.x[:, self.names.index(wanted)]
        if wanted in self.fields:
            return np.asarray(self.x[:, self.fields[wanted]].mean(axis=1))
        one = self._asked(wanted)
        for table, outputs, _ in self.tables:
            place = _place(table, one)
            if place is not None and np.isfinite(outputs[:, place]).all():
                return outputs[:, place]
        close = get_close_matches(wanted, [*self.names, *self.fields], 1, cutoff=0.7)
        if close:
            words = f"{wanted!r} is neither a parameter nor an output; did you mean {close[0]!r}?"
            raise ValueError(words)
        raise ValueError(
            f"{wanted!r} is neither a parameter nor an output: {self._parameters_in_words()}; of "
            f"outputs {self._known()}.{self._how_to_write()} For several, give each by itself"
        )

    def unit(self, wanted: Quantity) -> str:
        """Return the unit of a quantity of interest; "" if it has none or is a function."""
        if callable(wanted):
            return ""
        if wanted in self.fields:
            return self.units[self.fields[wanted].start]
        if wanted in self.names:
            return self.units[self.names.index(wanted)] if self.units else ""
        one = self._asked(wanted)
        for table, *_ in self.tables:
            if table.units is not None and _place(table, one) is not None:
                return table.units[table.columns.index(one.output)]
        return ""

    def _parameters_in_words(self) -> str:
        """Name the parameters, the first of many, and the fields."""
        more = f" and {len(self.names) - _NAMED} more" if len(self.names) > _NAMED else ""
        means = f"; fields, of which it is the mean, are {', '.join(self.fields)}"
        return f"parameters are {', '.join(self.names[:_NAMED])}{more}{means * bool(self.fields)}"

    def _how_to_write(self) -> str:
        """Show how an output is named with its time; "" where no output has several."""
        found = [(table, outputs) for table, outputs, _ in self.tables if table.rows > 1]
        if not found:
            return ""  # what is measured in rows is listed with its names
        table, outputs = found[0]
        column = table.columns[0]
        there = np.flatnonzero(np.isfinite(outputs[:, table.places(column)]).all(axis=0))
        row = int(there[-1]) if len(there) else table.rows - 1
        every = table.experiments or ("",)
        within = f" in {every[row]}" if len(set(every)) > 1 else ""
        asks = "its time and experiment" if within else "its time"
        return f" An output is written with {asks}, '{column} at {table.clock[row]:g}{within}'."

    def _asked(self, words: str) -> Measurement:
        """Return the output that words such as "A", "A at 3" or "A at 3 in warm" mean."""
        known = [name for table, *_ in self.tables for name in table.experiments or ()]
        within = next((name for name in known if words.endswith(f" in {name}")), "")
        asked = words.removesuffix(f" in {within}") if within else words
        column, _, time = asked.rpartition(" at ")
        try:
            return Measurement(column or asked, float(time) if column else None, None, within)
        except ValueError:
            return Measurement(words)


def _check(prediction: Prediction, posterior: str) -> None:
    """Refuse a prediction of another posterior, or of too few draws."""
    if prediction.posterior != posterior:
        raise ValueError(
            f"prediction {prediction.title!r} is one of another posterior: the search has gone on, "
            "or it is another search. Predict again from this one"
        )
    if len(prediction.x) < _FEWEST:
        raise ValueError(
            f"prediction {prediction.title!r} has {len(prediction.x)} draws, and at least "
            f"{_FEWEST} are needed: `supac predict --draws {_FEWEST}`, or n={_FEWEST} in Python"
        )


def _logarithms(values: FloatArray, wrong: FloatArray, name: str) -> tuple[FloatArray, FloatArray]:
    """Return logarithms of outputs (n,), and the standard deviations of their errors.

    An emulator may be at or below 0 where an output is small: of an output below its error, it
    only tells that it is not above that. Errors are those of log-normal outputs.
    """
    positive = values[values > 0.0]
    if not len(positive):
        raise ValueError(
            f"{name} is compared by its logarithm, and no emulated one is above 0: more runs are "
            "needed, or a prediction with this output"
        )
    least = np.maximum(wrong, 1e-6 * np.median(positive))
    above = np.maximum(values, least)
    return np.log(above), np.sqrt(np.log1p((wrong / above) ** 2))


def _usual_noise(prediction: Prediction) -> FloatArray | None:
    """Return the median noise of each predicted output; None if the table tells it."""
    measured = prediction.columns.measured
    if prediction.noise is None or measured is None:
        return None
    usual: FloatArray = np.median(prediction.noise, axis=0)
    return usual * np.where(measured.laplace, np.sqrt(2.0), 1.0)


def _in_words(measured: MeasuredOutputs) -> str:
    """Name what is measured in rows, and show how it is written."""
    cells = measured.cells
    series = dict.fromkeys(name for name, _ in cells)
    more = f" and {len(series) - _NAMED} more" if len(series) > _NAMED else ""
    listed = f"{', '.join(list(series)[:_NAMED])}{more}"
    (name, time), full = cells[-1], measured.names[-1]
    if time is None:
        return listed
    return f"{listed}, written as {full!r} or '{name} at {time:g}' (output and time of a candidate)"


def _place(table: Outputs, wanted: Measurement) -> int | None:
    """Return the place of an output in a table; None if it is not there."""
    if table.measured is not None:
        return table.measured.place(wanted.output, wanted.time, wanted.experiment)
    if wanted.output not in table.columns:
        return None
    first = table.places(wanted.output).start
    if wanted.time is None:
        return first if table.rows == 1 else None
    near = np.flatnonzero(np.isclose(table.clock, wanted.time, rtol=1e-9, atol=1e-12))
    if table.experiments is None:
        return None if wanted.experiment or not len(near) else first + int(near[0])
    among = [table.experiments[row] for row in near]
    if not wanted.experiment and len(set(among)) > 1:
        raise ValueError(
            f"{wanted.words} is measured in several experiments, {', '.join(dict.fromkeys(among))}:"
            f' say in which one, such as "{wanted.words} in {among[0]}", or experiment = … of a '
            "candidate"
        )
    here = [row for row, name in zip(near, among, strict=True) if wanted.experiment in ("", name)]
    return first + int(here[0]) if here else None


def columns_left_out(candidates: Iterable[Candidate], draws: Draws) -> tuple[str, ...]:
    """Return the columns of the outputs of which no candidate measures anything."""
    measured = {each.output for one in candidates for each in one.measurements}
    table = draws.tables[0][0]
    every = table.columns if table.measured is None else [name for name, _ in table.measured.cells]
    return tuple(name for name in dict.fromkeys(every) if name not in measured)


def candidates_of(given: Iterable[Any] | None, draws: Draws) -> list[Candidate]:
    """Return the candidates; by default every output whose noise is known, once more."""
    if given is not None:
        found = [Candidate.of(each) for each in given]
        if not found:
            raise ValueError("there is no candidate to choose from")
        return found
    table, outputs, _ = draws.tables[0]
    noise = draws.deviations(0)
    there = np.isfinite(outputs).all(axis=0) & (noise > 0.0)
    cells: Sequence[tuple[str, float | None]] = table.cells
    if table.measured is not None:
        cells = table.measured.cells
    elif table.rows == 1:
        cells = [(column, None) for column in table.columns]
    experiments = (table.experiments or ("",) * table.rows) * len(table.columns)
    every = [
        Candidate((Measurement(column, time, experiment=experiment),))
        for (column, time), experiment, known in zip(cells, experiments, there, strict=True)
        if known
    ]
    found = list(dict.fromkeys(every))  # a number that is measured again is one candidate
    if not found:
        raise ValueError("the noise of no output is known: give candidates with their noise")
    return found
