"""A PEtab problem as plain values: parameters, experiments, observables, measurements.

Files of version 1 and 2 are brought into the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from supac.simulators.petab.tables import Row


@dataclass(frozen=True)
class Parameter:
    """A row of the parameter table."""

    id: str
    scale: str
    lower: float
    upper: float
    nominal: float
    estimated: bool
    prior: str
    """Such as "normal", "log-normal", "scale-uniform"; "" for a uniform one between the bounds."""
    numbers: tuple[float, ...]
    row: Row


@dataclass(frozen=True)
class Observable:
    """A row of the observable table."""

    id: str
    formula: str
    noise: str
    placeholders: tuple[str, ...]
    noise_placeholders: tuple[str, ...]
    scale: str
    distribution: str
    row: Row


@dataclass(frozen=True)
class Change:
    """A value that a condition gives to a target, and where both are written."""

    target: str
    value: str
    target_place: str
    value_place: str


@dataclass(frozen=True)
class Period:
    """From a time on, targets have other values: numbers, names or formulas.

    A period from −∞ on ends in a steady state.
    """

    start: float
    changes: Mapping[str, str]


@dataclass(frozen=True)
class Experiment:
    """Periods, one after the other."""

    name: str
    periods: tuple[Period, ...]


@dataclass(frozen=True)
class Measurement:
    """A row of the measurement table."""

    observable: str
    experiment: int
    """Index of the experiment."""
    time: float
    value: float
    replaced: tuple[str, ...]
    """Values of the observable's placeholders: numbers, names or formulas."""
    noise_replaced: tuple[str, ...]
    row: Row


@dataclass(frozen=True)
class Description:
    """A PEtab problem."""

    path: Path
    files: tuple[Path, ...]
    """All files it is made from, itself first."""
    model: Path
    parameters: tuple[Parameter, ...]
    observables: Mapping[str, Observable]
    experiments: tuple[Experiment, ...]
    measurements: tuple[Measurement, ...]
    changes: tuple[Change, ...]
    """Changes of all conditions."""
