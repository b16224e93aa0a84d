"""An SBML model in libRoadRunner: what its symbols are, and simulations of an experiment."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from supac.simulators.petab.description import Experiment
from supac.simulators.petab.formulas import Look, formula
from supac.simulators.petab.tables import PEtabError, unreadable

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

STEADY = 1e6
"""The time that stands for infinity, and before which a steady state is reached."""
_SETTINGS = {
    "relative_tolerance": 1e-8,
    "absolute_tolerance": 1e-10,
    "maximum_num_steps": 20_000,
    "stiff": True,
}
_INSTANT = 1e-3  # a simulation needs two times
_WORD = re.compile(r"[^\W\d]\w*")


class SimulationError(RuntimeError):
    """The integrator failed."""


def library(name: str) -> Any:
    """Import a library of the extra."""
    try:
        return import_module(name)
    except ImportError as error:
        words = f"PEtab problems need {name}: pip install 'supac[petab]'"
        raise ImportError(words) from error


class Symbols:
    """The symbols of an SBML model, read without simulating it."""

    def __init__(self, text: str, file: str):
        libsbml = library("libsbml")
        self.text = text
        if not text.strip():
            raise PEtabError(f"{file} is empty")
        document = libsbml.readSBMLFromString(text)
        _check(libsbml, document, file)
        model = document.getModel()
        if model is None:
            raise PEtabError(f"{file}: there is no SBML model in it")
        for name in ("UNITS_CONSISTENCY", "MODELING_PRACTICE", "SBO_CONSISTENCY"):
            document.setConsistencyChecks(getattr(libsbml, f"LIBSBML_CAT_{name}"), False)
        document.checkConsistency()
        _check(libsbml, document, file)
        species = list(model.getListOfSpecies())
        self.amounts = {each.getId(): bool(each.getHasOnlySubstanceUnits()) for each in species}
        """Species, and whether their symbols stand for amounts, not concentrations."""
        others = [*model.getListOfParameters(), *model.getListOfCompartments()]
        self.others = {each.getId() for each in others}
        """Parameters and compartments."""
        self.compartments = {each.getId() for each in model.getListOfCompartments()}
        self.assigned = {
            rule.getVariable() for rule in model.getListOfRules() if rule.isAssignment()
        }
        starts = {
            each.getSymbol() for each in model.getListOfInitialAssignments() if each.isSetMath()
        }
        self.formulas = {
            name: f"{name}__initial" for name in sorted(starts - self.assigned) if name in self
        }
        """Symbols with an initial assignment, and the parameters of `with_rules` that have it."""
        self.concentrations = {
            each.getId(): float(each.getInitialConcentration())
            for each in species
            if each.isSetInitialConcentration() and each.getId() not in starts | self.assigned
        }
        """Initial concentrations that are numbers."""
        self.with_rules = _with_rules(libsbml, model, self.formulas)
        self.used = _names_in_formulas(libsbml, model)
        """Names that simulations depend on: compartments, and all in the model's own formulas."""

    @classmethod
    def read(cls, path: Path) -> Symbols:
        """Read the model of a file."""
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise PEtabError(unreadable(path, error)) from error
        return cls(text, path.name)

    def __contains__(self, name: str) -> bool:
        return name in self.amounts or name in self.others

    @property
    def names(self) -> list[str]:
        """Return all symbols."""
        return sorted({*self.amounts, *self.others})

    def column(self, name: str) -> str:
        """Return what libRoadRunner calls a symbol."""
        return name if self.amounts.get(name, True) else f"[{name}]"


def _check(libsbml: Any, document: Any, file: str) -> None:
    """Raise PEtabError for the first error that libSBML has found in a document."""
    for i in range(document.getNumErrors()):
        found = document.getError(i)
        if found.getSeverity() >= libsbml.LIBSBML_SEV_ERROR:
            # The rule, where to read of it, and then what breaks it.
            rule, _, here = found.getMessage().partition("\nReference: ")
            reason = " ".join((here.partition("\n")[2].strip() or rule).split())
            raise PEtabError(f"{file}, line {found.getLine()}: {reason}")


def _names_in_formulas(libsbml: Any, model: Any) -> set[str]:
    parts = [
        *model.getListOfRules(),
        *model.getListOfInitialAssignments(),
        *(each.getKineticLaw() for each in model.getListOfReactions()),
    ]
    for event in model.getListOfEvents():
        parts += [event.getTrigger(), event.getDelay(), *event.getListOfEventAssignments()]
    found = {each.getId() for each in model.getListOfCompartments()}
    found |= {each.getConversionFactor() for each in (model, *model.getListOfSpecies())}
    for part in parts:
        if part is not None and part.getMath() is not None:
            found |= set(_WORD.findall(libsbml.formulaToL3String(part.getMath())))
    return found


def _with_rules(libsbml: Any, model: Any, formulas: Mapping[str, str]) -> str:
    """Return the model with its initial assignments as rules of further parameters, too.

    libRoadRunner computes their values whenever they are asked for; it computes initial assignments
    anew only where it compiles the model anew. `formulas` has the parameter of each symbol.
    """
    document = model.getSBMLDocument().clone()
    other = document.getModel()
    for each in list(other.getListOfInitialAssignments()):
        if each.getSymbol() in formulas:
            parameter, rule = other.createParameter(), other.createAssignmentRule()
            parameter.setId(formulas[each.getSymbol()])
            parameter.setConstant(False)
            rule.setVariable(formulas[each.getSymbol()])
            rule.setMath(each.getMath())
    return str(libsbml.writeSBMLToString(document))


class Runner:
    """A model loaded by libRoadRunner."""

    def __init__(self, symbols: Symbols, source: str):
        # SUNDIALS prints whatever it meets, unless told to write it elsewhere.
        for kind in ("WARNING", "ERROR"):
            os.environ.setdefault(f"SUNLOGGER_{kind}_FILENAME", os.devnull)
        roadrunner = library("roadrunner")
        roadrunner.Logger.setLevel(roadrunner.Logger.LOG_FATAL)
        self.symbols = symbols
        try:
            self._runner = roadrunner.RoadRunner(symbols.with_rules)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise PEtabError(f"{source}: libRoadRunner cannot load it: {reason}") from error
        for name, value in _SETTINGS.items():
            self._runner.getIntegrator().setValue(name, value)

    def simulate(
        self, experiment: Experiment, look: Look, known: Mapping[str, float],
        times: Sequence[float], wanted: Sequence[str],
    ) -> dict[str, FloatArray]:  # fmt: skip
        """Return the wanted symbols at sorted times, each (times,).

        `known` are values of the model's parameters, `look` finds the values behind changes.
        """
        periods = [
            (each.start, {name: float(formula(text)(look)) for name, text in each.changes.items()})
            for each in experiment.periods
        ]
        try:
            return self._simulate(periods, known, times, wanted)
        except RuntimeError as error:
            # CVODE Error: CV_NAME: what happened (= why) and where in the code.
            reason = " ".join(str(error).split()).removeprefix("CVODE Error: ")
            reason = re.split(r" \(=|; In ", reason)[0]
            raise SimulationError(
                f"the integrator failed in {experiment.name}: {reason}"
            ) from error

    def _simulate(
        self, periods: list[tuple[float, dict[str, float]]], known: Mapping[str, float],
        times: Sequence[float], wanted: Sequence[str],
    ) -> dict[str, FloatArray]:  # fmt: skip
        self._start({**known, **periods[0][1]})
        if math.isinf(periods[0][0]):
            self._runner.simulate(0.0, STEADY, 2)
            del periods[0]
            self._runner.model.setTime(periods[0][0] if periods else 0.0)
            self._set(dict(self._columns(periods[0][1] if periods else {})))
        columns = ["time", *map(self.symbols.column, wanted)]
        starts = [start for start, _ in periods] or [0.0]
        pieces: list[Any] = []
        for i, start in enumerate(starts):
            if i:
                self._set(dict(self._columns(periods[i][1])))
            end = starts[i + 1] if i + 1 < len(starts) else math.inf
            here = [t for t in times if start <= t < end]
            last = [end] if math.isfinite(end) else []
            at = sorted({start, *here, *last}) if here or last else [start]
            at = at if len(at) > 1 else [start, start + _INSTANT]
            found = np.array(self._runner.simulate(times=at, selections=columns))
            pieces.append(found[np.isin(at, here)])
        rows = np.concatenate(pieces)
        return dict(zip(("time", *wanted), rows.T, strict=True))

    def _start(self, values: Mapping[str, float]) -> None:
        """Set the values at the beginning, and what follows from them.

        Initial amounts and concentrations are those of the model, whatever the size of the
        compartment is; initial assignments of symbols without a value are computed anew.
        """
        self._runner.resetToOrigin()
        given = dict(self._columns(values))
        kept = {self.symbols.column(each): each for each in self.symbols.amounts}
        others = {column: value for column, value in given.items() if column not in kept}
        self._set(others)
        self._runner.reset()
        self._set(others)
        symbols, column = self.symbols, self.symbols.column
        free = {each: name for each, name in symbols.formulas.items() if column(each) not in given}
        sizes = symbols.compartments & {*given, *free}
        fixed = {f"[{each}]": c for each, c in symbols.concentrations.items() if sizes}
        species = {**fixed, **{each: value for each, value in given.items() if each in kept}}
        before: dict[str, float] | None = None
        for _ in range(len(free) + 2):  # one formula may have the symbol of another
            self._set(species)
            now = {column(each): self._runner.getValue(name) for each, name in free.items()}
            if now == before:
                break
            self._set(now)
            before = now

    def _set(self, values: Mapping[str, float]) -> None:
        for column, value in values.items():
            self._runner.setValue(column, value)

    def _columns(self, values: Mapping[str, float]) -> list[tuple[str, float]]:
        """Return what libRoadRunner calls the symbols, with their values, compartments first.

        A concentration is one in the compartment as it is then.
        """
        free = [name for name in values if name not in self.symbols.assigned]
        ordered = sorted(free, key=lambda name: name not in self.symbols.compartments)
        return [(self.symbols.column(name), values[name]) for name in ordered]
