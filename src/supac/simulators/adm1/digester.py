"""Data of a digester: volumes, temperatures, feed, initial state and observations."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from supac.simulators.adm1 import model

FloatArray = npt.NDArray[np.float64]
Table = dict[str, FloatArray]

OUTPUTS = ("S_va", "S_bu", "S_pro", "S_ac", "S_IN", "q_gas", "q_ch4", "p_ch4", "p_co2")
OUTPUT_UNITS = dict(
    zip(OUTPUTS, 4 * ["kg COD/m³"] + ["kmol/m³", "m³/d", "m³/d", "bar", "bar"], strict=True)
)
FEED_COLUMNS = ("time", *model.LIQUID, "Q")
INITIAL_FIELDS = ("time", *model.LIQUID, "pH", *model.GAS)


class UnitsWarning(UserWarning):
    """A value was interpreted in another unit than that of its field."""


class DigesterError(ValueError):
    """The data of a digester are incomplete or impossible."""


@dataclass(frozen=True, eq=False, repr=False)
class Digester:
    """Data of one digester.

    A row of the feed describes the time since the previous row. Observations are daily: that of day
    k is a value at the end of day k, or a total of that day; NaN for missing ones. Times in days,
    volumes in m³, temperatures in K, Q in m³/d.
    """

    V_liq: float
    V_gas: float
    T_ad: float
    T_op: float
    feed: Table
    initial: Mapping[str, float]
    observations: Table

    def __post_init__(self) -> None:
        _check_reactor(self)
        _check_initial(self.initial)
        _check_feed(self.feed, float(self.initial["time"]))
        _check_observations(self.observations, self.days)

    def __repr__(self) -> str:
        return f"Digester({self.V_liq:g} m³, {len(self.days)} days)"

    @property
    def S_H(self) -> float:  # noqa: N802 - the paper's name
        """Return the initial H⁺ concentration in kmol/m³, from pH or given instead of it."""
        pH = float(self.initial["pH"])
        return pH if _is_concentration(pH) else 10.0**-pH

    @property
    def days(self) -> FloatArray:
        """Return the days of the outputs of a simulation."""
        first = int(whole_days(self.initial["time"])) + 1
        return np.arange(first, int(whole_days(self.feed["time"][-1])) + 1, dtype=np.float64)

    @property
    def observed(self) -> FloatArray:
        """Return the observations of the outputs, NaN for missing ones: (days, 9)."""
        values = np.full((len(self.days), len(OUTPUTS)), np.nan)
        rows = np.round(self.observations["time"] - self.days[0]).astype(int)
        start = float(self.initial["time"])
        partial = start - whole_days(start) > 1e-6  # nothing is known about a part of a day
        known = (rows >= int(partial)) & (rows < len(self.days))
        for k, name in enumerate(OUTPUTS):
            if name in self.observations:
                values[rows[known], k] = self.observations[name][known]
        return values

    @classmethod
    def read(cls, folder: str | Path) -> Digester:
        """Read dig_info.json, init_state.json, feed.csv and obs.csv (the latter in train_data/)."""
        root = Path(folder)
        part = root / "train_data" if (root / "train_data").is_dir() else root
        try:
            info = _read_json(root / "dig_info.json", ("V_liq", "V_gas", "T_ad"))
            initial = _read_json(part / "init_state.json", INITIAL_FIELDS)
            if _is_concentration(initial["pH"]):
                warnings.warn(
                    f"{part / 'init_state.json'}: pH = {initial['pH']:g} cannot be a pH; it is "
                    "taken as the concentration of H⁺ in kmol/m³, that is pH "
                    f"{-np.log10(initial['pH']):.2f}",
                    UnitsWarning,
                    stacklevel=3,
                )
            return cls(
                **{name: info[name] for name in ("V_liq", "V_gas", "T_ad")},
                T_op=info.get("T_op", info["T_ad"]),
                feed=_read_csv(part / "feed.csv", FEED_COLUMNS),
                initial=initial,
                observations=_read_csv(part / "obs.csv", ("time",), OUTPUTS),
            )
        except DigesterError as error:
            raise DigesterError(f"{root}: {error}") from error

    def write(self, folder: str | Path) -> None:
        """Write the four files that `read` reads."""
        root = Path(folder)
        part = root / "train_data"
        part.mkdir(parents=True, exist_ok=True)
        info = {"V_liq": self.V_liq, "V_gas": self.V_gas, "T_ad": self.T_ad, "T_op": self.T_op}
        (root / "dig_info.json").write_text(json.dumps(info, indent=1) + "\n")
        (part / "init_state.json").write_text(json.dumps(dict(self.initial), indent=1) + "\n")
        _write_csv(part / "feed.csv", self.feed)
        _write_csv(part / "obs.csv", self.observations)


def whole_days(time: Any) -> Any:
    """Return the days completed at a time, which may have rounding errors."""
    return np.floor(np.asarray(time) + 1e-6).astype(int)


def _is_concentration(pH: float) -> bool:
    """Return True for a value below 0.1, which is no pH of a digester but an H⁺ concentration."""
    return 0.0 < pH < 0.1


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise DigesterError(message)


def _check_reactor(digester: Digester) -> None:
    for name in ("V_liq", "V_gas"):
        _require(getattr(digester, name) > 0.0, f"{name} must be a positive volume in m³")
    for name in ("T_ad", "T_op"):
        value = getattr(digester, name)
        hint = f"; {value:g} °C is {value + 273.15:g} K" if 0.0 < value < 100.0 else ""
        _require(250.0 < value < 400.0, f"{name} = {value:g} is no temperature in kelvin{hint}")


def _check_initial(initial: Mapping[str, float]) -> None:
    for name in INITIAL_FIELDS:
        value = initial[name]
        message = f"initial state: {name} = {value} must be a number, 0 or more"
        _require(np.isfinite(value) and value >= 0.0, message)
    _require(initial["pH"] <= 14.0, f"initial state: pH = {initial['pH']:g} is above 14")


def _check_observations(observations: Table, days: FloatArray) -> None:
    time = observations["time"]
    for bad in time[~np.isclose(time, np.round(time), atol=1e-6)]:
        raise DigesterError(f"observations: time {bad:g} is no whole day; give one row per day")
    _require(len(np.unique(np.round(time))) == len(time), "observations: a day occurs twice")
    for name in OUTPUTS:
        wrong = observations.get(name, np.ones(1)) <= 0.0
        message = (
            f"observations: {name} is not positive in row {int(np.argmax(wrong)) + 1}; residuals "
            "are logarithmic: leave values below detection empty"
        )
        _require(not wrong.any(), message)
    outside = int(((time < days[0]) | (time > days[-1])).sum()) if len(days) else len(time)
    if outside and len(time) > 1:
        message = f"{outside} days of observations are outside the days of the feed; ignored"
        warnings.warn(message, UserWarning, stacklevel=5)


def _check_feed(feed: Table, start: float) -> None:
    time = feed["time"]
    for name, column in feed.items():
        known, bad = np.isfinite(column), column < 0.0
        message = f"feed: {name} is missing in row {int(np.argmin(known)) + 1}"
        _require(known.all(), f"{message}; every row must be complete")
        message = f"feed: {name} is negative in row {int(np.argmax(bad)) + 1}"
        _require(name == "time" or not bad.any(), message)
    message = f"feed begins at day {time[0]:g}, before the initial state at {start:g}"
    _require(time[0] >= start, message)
    steps = np.diff(time, prepend=start)
    for i in np.flatnonzero(steps[1:] <= 0.0) + 1:
        raise DigesterError(f"feed: time does not increase at row {i + 1}, day {time[i]:g}")
    for i in np.flatnonzero(steps > 1.0 + 1e-9):
        raise DigesterError(
            f"feed: a gap of {steps[i]:.3g} days ends at day {time[i]:g}; outputs are daily: give "
            "at least one row per day (Q = 0 without feed)"
        )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise DigesterError(f"{path.name} is missing") from error


def _read_json(path: Path, required: tuple[str, ...]) -> dict[str, float]:
    try:
        values = json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise DigesterError(f"{path.name} is not JSON: {error}") from error
    _check_complete(path, required, values)
    return {name: _number(value, f"{path.name}: {name}") for name, value in values.items()}


def _read_csv(path: Path, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Table:
    header, *rows = list(csv.reader(StringIO(_read(path)))) or [[]]
    header = [name.strip() for name in header]
    _check_complete(path, required, header)
    _require(len(set(header)) == len(header), f"{path.name} has two columns of one name")
    _require(rows, f"{path.name} has no rows")
    for k, row in enumerate(rows, start=1):
        message = f"{path.name}: row {k} has {len(row)} cells, the header {len(header)}; "
        message += "use decimal points, and commas between cells"
        _require(len(row) == len(header), message)
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))

    def numbers(name: str) -> FloatArray:
        cells = enumerate(columns[name], start=1)
        return np.array(
            [_number(cell or "nan", f"{path.name}: {name} in row {k}") for k, cell in cells]
        )

    return {name: numbers(name) for name in (*required, *optional) if name in columns}


def _number(value: object, where: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise DigesterError(f"{where} is not a number: {value!r}") from error


def _check_complete(path: Path, required: tuple[str, ...], given: Collection[str]) -> None:
    missing = [name for name in required if name not in given]
    hint = "; are its cells separated by commas?" if len(given) < 2 else ""
    _require(not missing, f"{path.name} lacks {', '.join(missing)}{hint}")


def _write_csv(path: Path, table: Table) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        for row in zip(*table.values(), strict=True):
            writer.writerow("" if np.isnan(value) else repr(float(value)) for value in row)
