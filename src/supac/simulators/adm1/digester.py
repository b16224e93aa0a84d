"""A digester: its volumes and temperatures, what it is fed, where it began, what was observed."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
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
    """A value was taken in another unit than its field is meant for."""


class DigesterError(ValueError):
    """A digester's data are incomplete or impossible."""


@dataclass(frozen=True, eq=False, repr=False)
class Digester:
    """The data of one digester.

    A row of the feed describes what entered since the row before. Observations are daily, at whole
    days: that of day k tells of the end of day k, or of all of it; NaN where nothing was measured.
    Times in days, volumes in m³, temperatures in K, Q in m³/d.
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
        """The initial concentration of H⁺ in kmol/m³; the field pH may hold it already."""
        pH = float(self.initial["pH"])
        return pH if _is_concentration(pH) else 10.0**-pH

    @property
    def days(self) -> FloatArray:
        """The days whose outputs a simulation gives, each by its end."""
        first = int(whole_days(self.initial["time"])) + 1
        return np.arange(first, int(whole_days(self.feed["time"][-1])) + 1, dtype=np.float64)

    @property
    def observed(self) -> FloatArray:
        """Observations of the outputs, one row a day, NaN where there is none: (days, 9)."""
        values = np.full((len(self.days), len(OUTPUTS)), np.nan)
        rows = np.round(self.observations["time"] - self.days[0]).astype(int)
        start = float(self.initial["time"])
        whole = 1 if start - whole_days(start) > 1e-6 else 0  # of a part of a day nothing is known
        known = (rows >= whole) & (rows < len(self.days))
        for k, name in enumerate(OUTPUTS):
            if name in self.observations:
                values[rows[known], k] = self.observations[name][known]
        return values

    @classmethod
    def read(cls, folder: str | Path) -> Digester:
        """Read dig_info.json, init_state.json, feed.csv and obs.csv (the latter in train_data/)."""
        root = Path(folder)
        try:
            return cls._read(root)
        except DigesterError as error:
            raise DigesterError(f"{root}: {error}") from error

    @classmethod
    def _read(cls, root: Path) -> Digester:
        part = root / "train_data" if (root / "train_data").is_dir() else root
        info = _read_json(root / "dig_info.json", ("V_liq", "V_gas", "T_ad"))
        initial = _read_json(part / "init_state.json", INITIAL_FIELDS)
        if _is_concentration(initial["pH"]):
            warnings.warn(
                f"{part / 'init_state.json'}: pH = {initial['pH']:g} cannot be a pH; it is taken "
                f"as the concentration of H⁺ in kmol/m³, that is pH {-np.log10(initial['pH']):.2f}",
                UnitsWarning,
                stacklevel=4,
            )
        return cls(
            V_liq=info["V_liq"],
            V_gas=info["V_gas"],
            T_ad=info["T_ad"],
            T_op=info.get("T_op", info["T_ad"]),
            feed=_read_csv(part / "feed.csv", FEED_COLUMNS),
            initial=initial,
            observations=_read_csv(part / "obs.csv", ("time",), OUTPUTS),
        )

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
    """Days completed at a time, which may have been summed up from tenths."""
    return np.floor(np.asarray(time) + 1e-6).astype(int)


def _is_concentration(pH: float) -> bool:
    """No digester has a pH below 0.1; no water has 0.1 kmol/m³ of H⁺ unless it is acid."""
    return 0.0 < pH < 0.1


def _check_reactor(digester: Digester) -> None:
    for name in ("V_liq", "V_gas"):
        if not getattr(digester, name) > 0.0:
            raise DigesterError(f"{name} must be a positive volume in m³")
    for name in ("T_ad", "T_op"):
        value = getattr(digester, name)
        if not 250.0 < value < 400.0:
            hint = f"; {value:g} °C is {value + 273.15:g} K" if 0.0 < value < 100.0 else ""
            raise DigesterError(f"{name} = {value:g} is no temperature in kelvin{hint}")


def _check_initial(initial: Mapping[str, float]) -> None:
    for name in INITIAL_FIELDS:
        if not (np.isfinite(initial[name]) and initial[name] >= 0.0):
            raise DigesterError(
                f"initial state: {name} = {initial[name]} must be a number, 0 or more"
            )
    if initial["pH"] > 14.0:
        raise DigesterError(f"initial state: pH = {initial['pH']:g} is above 14")


def _check_observations(observations: Table, days: FloatArray) -> None:
    time = observations["time"]
    if not np.allclose(time, np.round(time), atol=1e-6):
        bad = time[np.argmax(np.abs(time - np.round(time)))]
        raise DigesterError(
            f"observations: time {bad:g} is no whole day; one row a day, at its end"
        )
    if len(np.unique(np.round(time))) < len(time):
        raise DigesterError("observations: a day occurs twice")
    for name in OUTPUTS:
        wrong = observations.get(name, np.ones(1)) <= 0.0
        if wrong.any():
            raise DigesterError(
                f"observations: {name} is not positive in row {int(np.argmax(wrong)) + 1}; "
                "residuals are logarithmic: leave it empty where it was below detection"
            )
    outside = int(((time < days[0]) | (time > days[-1])).sum()) if len(days) else len(time)
    if outside and len(time) > 1:
        warnings.warn(
            f"{outside} days of observations lie outside the days that the feed covers; ignored",
            UserWarning,
            stacklevel=5,
        )


def _check_feed(feed: Table, start: float) -> None:
    time = feed["time"]
    for name, column in feed.items():
        if not np.isfinite(column).all():
            row = int(np.argmin(np.isfinite(column)))
            raise DigesterError(
                f"feed: {name} is missing in row {row + 1}; every row must be complete"
            )
        if name != "time" and (column < 0.0).any():
            raise DigesterError(
                f"feed: {name} is negative in row {int(np.argmax(column < 0.0)) + 1}"
            )
    if time[0] < start:
        raise DigesterError(
            f"feed begins at day {time[0]:g}, before the initial state at {start:g}"
        )
    steps = np.diff(np.concatenate([[start], time]))
    if (steps[1:] <= 0.0).any():
        row = int(np.argmax(steps[1:] <= 0.0)) + 2
        raise DigesterError(f"feed: time does not increase at row {row}, day {time[row - 1]:g}")
    if (steps > 1.0 + 1e-9).any():
        row = int(np.argmax(steps > 1.0 + 1e-9))
        raise DigesterError(
            f"feed: a gap of {steps[row]:.3g} days ends at day {time[row]:g}; outputs are daily: "
            "give at least one row a day (Q = 0 where nothing was fed)"
        )


def _read_json(path: Path, required: tuple[str, ...]) -> dict[str, float]:
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise DigesterError(f"{path.name} is missing") from error
    except json.JSONDecodeError as error:
        raise DigesterError(f"{path.name} is no JSON: {error}") from error
    _check_complete(path, required, values)
    return {name: _number(value, f"{path.name}: {name}") for name, value in values.items()}


def _read_csv(path: Path, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = list(csv.reader(file)) or [[]]
    except FileNotFoundError as error:
        raise DigesterError(f"{path.name} is missing") from error
    header = [name.strip() for name in header]
    _check_complete(path, required, header)
    if len(set(header)) < len(header):
        raise DigesterError(f"{path.name} has two columns of one name")
    if not rows:
        raise DigesterError(f"{path.name} holds no rows")
    for k, row in enumerate(rows):
        if len(row) != len(header):
            raise DigesterError(
                f"{path.name}: row {k + 1} has {len(row)} cells, the header {len(header)}; "
                "decimals are points, cells are separated by commas"
            )
    wanted = [name for name in (*required, *optional) if name in header]
    return {
        name: np.array(
            [
                _number(row[header.index(name)] or "nan", f"{path.name}: {name} in row {k + 1}")
                for k, row in enumerate(rows)
            ]
        )
        for name in wanted
    }


def _number(value: object, where: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise DigesterError(f"{where} is no number: {value!r}") from error


def _check_complete(path: Path, required: tuple[str, ...], given: Collection[str]) -> None:
    missing = [name for name in required if name not in given]
    if missing:
        hint = "; are its cells separated by commas?" if len(given) < 2 else ""
        raise DigesterError(f"{path.name} lacks {', '.join(missing)}{hint}")


def _write_csv(path: Path, table: Table) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        for row in zip(*table.values(), strict=True):
            writer.writerow("" if np.isnan(value) else repr(float(value)) for value in row)
