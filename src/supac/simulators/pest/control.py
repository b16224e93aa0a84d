"""A PEST control file, read by pyemu, with what supac needs of it."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supac.simulators.pest.covariance import FloatArray, read_covariance
from supac.simulators.pest.errors import PestError, fail, similar
from supac.simulators.pest.instructions import InstructionFile
from supac.simulators.pest.plain import load_pst
from supac.simulators.pest.sections import check_lines
from supac.simulators.pest.template import TemplateFile

__all__ = ["Control", "Observation", "Parameter", "PestError", "PriorInformation", "read_control"]

_RANGE = 4.0  # standard deviations between the bounds of a parameter, if the file does not say
_NAMED = 6  # names in a note
_TERM = re.compile(r"([+-]?)\s*([\d.eE+-]+)\s*\*\s*(log\()?\s*([^\s()]+)\s*\)?")


@dataclass(frozen=True)
class Parameter:
    """A parameter; `value` and bounds are as in the control file, before scale and offset."""

    name: str
    kind: str
    """"log", "none", "fixed" or "tied"."""
    value: float
    lower: float
    upper: float
    group: str
    scale: float
    offset: float
    parent: str
    """Parameter that a tied one keeps its ratio to; else ""."""

    @property
    def adjustable(self) -> bool:
        """Return True if it is calibrated."""
        return self.kind in ("log", "none")


@dataclass(frozen=True)
class Observation:
    """A measurement; its noise is 1/weight."""

    name: str
    value: float
    weight: float
    group: str


@dataclass(frozen=True)
class PriorInformation:
    """A linear equation of parameters, or of their decadic logarithms, and its weight."""

    name: str
    factors: tuple[tuple[str, float, bool], ...]
    """Parameter, factor, and True for its logarithm."""
    value: float
    weight: float
    group: str

    def left_side(self, values: Mapping[str, float]) -> float:
        """Compute the sum that should be `value`."""
        return sum(
            factor * (math.log10(values[name]) if logarithm else values[name])
            for name, factor, logarithm in self.factors
        )


@dataclass(frozen=True)
class Control:
    """The parts of a control file that say what to calibrate."""

    path: Path
    parameters: tuple[Parameter, ...]
    observations: tuple[Observation, ...]
    """Observations with a weight above 0."""
    prior_information: tuple[PriorInformation, ...]
    commands: tuple[str, ...]
    templates: tuple[TemplateFile, ...]
    instructions: tuple[InstructionFile, ...]
    sigma_range: float
    """Number of standard deviations between the bounds."""
    covariance: FloatArray | None = None
    """Prior covariance of the adjustable parameters, of decadic logarithms where they are log."""
    covariance_file: str = ""
    notes: tuple[str, ...] = ()
    """Remarks for whoever reads the results."""

    @property
    def adjustable(self) -> tuple[Parameter, ...]:
        """Return the parameters that are calibrated."""
        return tuple(each for each in self.parameters if each.adjustable)

    def complete(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the values of all parameters from those of the adjustable ones."""
        known = {each.name: each for each in self.parameters}
        full: dict[str, float] = {}
        for each in self.parameters:
            if each.kind == "tied":
                parent = known[each.parent]
                full[each.name] = values.get(parent.name, parent.value) * each.value / parent.value
            else:
                full[each.name] = values.get(each.name, each.value)
        return full

    def written(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return what the model is given: value · scale + offset."""
        known = {each.name: each for each in self.parameters}
        return {name: v * known[name].scale + known[name].offset for name, v in values.items()}

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the control file, its templates and instructions."""
        names = [*(each.file for each in self.templates), *(i.file for i in self.instructions)]
        names += [self.covariance_file] if self.covariance_file else []
        return (self.path, *(self.path.parent / name for name in names))


def load_pyemu() -> Any:
    """Import pyemu; ImportError names the extra."""
    try:
        with warnings.catch_warnings():  # it misses flopy, which nothing here needs
            warnings.simplefilter("ignore")
            import pyemu  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("a PEST case needs pyemu: pip install 'supac[pest]'") from error
    return pyemu


def read_control(path: Path) -> Control:
    """Read and check a control file and the files that it names; PestError if that fails."""
    if not path.is_file():
        raise PestError(f"there is no file {path}")
    pyemu = load_pyemu()
    if not path.read_text(encoding="utf-8", errors="replace").lstrip().lower().startswith("pcf"):
        raise fail(path.name, 1, "must be pcf: this is no PEST control file")
    check_lines(path)
    try:
        pst = load_pst(pyemu, path)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PestError(f"{path.name} cannot be read as a PEST control file: {reason}") from error
    return _Reader(path, pst).control()


class _Reader:
    """Makes a `Control` of pyemu's tables, and names the lines of what is wrong."""

    def __init__(self, path: Path, pst: Any):
        self.path, self.pst = path, pst
        self.lines = path.read_text(encoding="utf-8", errors="replace").splitlines()

    def control(self) -> Control:
        """Return the checked control file."""
        parameters = tuple(self._parameter(row) for _, row in self.pst.parameter_data.iterrows())
        self._check_parameters(parameters)
        folder, pst = self.path.parent, self.pst
        templates = tuple(
            TemplateFile.read(folder, self._there(file), _path(name))
            for file, name in zip(pst.template_files, pst.input_files, strict=True)
        )
        instructions = tuple(
            InstructionFile.read(folder, self._there(file), _path(name))
            for file, name in zip(pst.instruction_files, pst.output_files, strict=True)
        )
        self._check_templates(parameters, templates)
        left_out: list[str] = []
        if not instructions:
            raise PestError(f"{self.path.name}: no instruction file is named: nothing is read")
        made = Control(
            path=self.path,
            parameters=parameters,
            observations=self._observations(instructions, left_out),
            prior_information=self._prior_information(parameters, left_out),
            commands=tuple(pst.model_command),
            templates=templates,
            instructions=instructions,
            sigma_range=self._sigma_range(),
        )
        if left_out:
            made = replace(made, notes=(_regularised(self.path.name, left_out),))
        if not made.commands:
            raise PestError(f"{self.path.name}: there is no model command line")
        file = _path(str(pst.pestpp_options.get("parcov", ""))).strip()
        if not file:
            return made
        names = [each.name for each in made.adjustable]
        found = read_covariance(load_pyemu(), folder / file, names, self.path.name)
        return replace(made, covariance=found, covariance_file=file)

    def _sigma_range(self) -> float:
        """Return how many standard deviations lie between the bounds."""
        given = str(self.pst.pestpp_options.get("par_sigma_range", _RANGE))
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not 0.0 < value < math.inf:
            here = (i for i, line in enumerate(self.lines, 1) if "par_sigma_range" in line.lower())
            words = f"par_sigma_range({given}) must be a positive number"
            raise fail(self.path.name, next(here, None), words)
        return value

    def line_of(self, name: str, section: str) -> int | None:
        """Return the line of a section that begins with a name; None if it is in another file."""
        here = False
        for number, line in enumerate(self.lines, start=1):
            if line.startswith("*"):
                here = line[1:].strip().lower().startswith(section)
            elif here and name in (word.lower() for word in line.split()[:1]):
                return number
        return None

    def fail(self, name: str, section: str, message: str) -> PestError:
        """Return the error of what stands in a section under a name."""
        return fail(self.path.name, self.line_of(name.lower(), section), message)

    def _there(self, file: str) -> str:
        """Return the path of a file that must exist."""
        name = _path(file)
        if not (self.path.parent / name).is_file():
            others = [each.name for each in self.path.parent.iterdir()]
            words = f"there is no file {name} beside {self.path.name}{similar(name, others)}"
            raise self.fail(file, "model", words)
        return name

    def _parameter(self, row: Any) -> Parameter:
        name, kind = str(row.parnme).lower(), str(row.partrans).lower()
        if kind not in ("log", "none", "fixed", "tied"):
            words = f"{name}: {kind} is not one of log, none, fixed, tied"
            raise self.fail(name, "parameter data", words)
        parent = row.get("partied", "") if kind == "tied" else ""
        return Parameter(
            name=name,
            kind=kind,
            value=float(row.parval1),
            lower=float(row.parlbnd),
            upper=float(row.parubnd),
            group=str(row.pargp),
            scale=float(row.get("scale", 1.0)),
            offset=float(row.get("offset", 0.0)),
            parent=str(parent).lower() if isinstance(parent, str) else "",
        )

    def _check_parameters(self, parameters: Iterable[Parameter]) -> None:
        known = {each.name: each for each in parameters}
        for each in known.values():
            words = ""
            if each.kind == "tied" and each.parent not in known:
                near = similar(each.parent, known)
                words = f"{each.name} is tied to {each.parent or 'nothing'}, which is no parameter"
                words += near
            elif each.kind == "tied" and known[each.parent].kind == "tied":
                words = f"{each.name} is tied to {each.parent}, which is tied itself: name a parent"
                words += " that is not"
            elif each.kind == "tied" and known[each.parent].value == 0.0:
                words = f"{each.name} is tied to {each.parent}, whose value 0 has no ratio"
            elif each.adjustable and not each.lower < each.upper:
                words = f"{each.name}: the lower bound {each.lower:g} is not below the upper one, "
                words += f"{each.upper:g}"
            elif each.kind == "log" and each.lower <= 0.0:
                words = f"{each.name}: the lower bound of a log parameter must be above 0"
            elif each.adjustable and not each.lower <= each.value <= each.upper:
                words = (
                    f"{each.name}: {each.value:g} is not between {each.lower:g} and {each.upper:g}"
                )
            if words:
                raise self.fail(each.name, "parameter data", words)
        if not any(each.adjustable for each in known.values()):
            raise PestError(f"{self.path.name}: all parameters are fixed or tied")

    def _check_templates(
        self, parameters: Iterable[Parameter], templates: Iterable[TemplateFile]
    ) -> None:
        if not templates:
            raise PestError(f"{self.path.name}: no template is named: the model would get nothing")
        known, placed = {each.name for each in parameters}, set[str]()
        for template in templates:
            for name, line in template.places.items():
                if name not in known:
                    words = f"{name} is no parameter of {self.path.name}{similar(name, known)}"
                    raise fail(template.file, line, words)
                placed.add(name)
        used = placed | {each.parent for each in parameters if each.name in placed}
        for each in parameters:
            if each.adjustable and each.name not in used:
                files = ", ".join(template.file for template in templates)
                words = f"{each.name} does not stand in {files}: place it there, or write fixed"
                raise self.fail(each.name, "parameter data", words)

    def _regularises(self, group: str) -> bool:
        """Return True for a group whose weights PEST multiplies by a factor that it looks for."""
        mode = str(self.pst.control_data.pestmode).lower()
        return mode.startswith("regul") and group.lower().startswith("regul")

    def _observations(
        self, instructions: Iterable[InstructionFile], left_out: list[str]
    ) -> tuple[Observation, ...]:
        """Return the measurements; add the names of those of regularisation to `left_out`."""
        read: dict[str, InstructionFile] = {}
        for each in instructions:
            for name, line in each.observations.items():
                if name in read:
                    first = f"{read[name].file}, line {read[name].observations[name]}"
                    raise fail(each.file, line, f"{name} is read by {first}, already")
                read[name] = each
        table = self.pst.observation_data
        known = {str(name).lower() for name in table.obsnme}
        for name, each in read.items():
            if name not in known:
                words = f"{name} is no observation of {self.path.name}{similar(name, known)}"
                raise fail(each.file, each.observations[name], words)
        made = []
        for _, row in table.iterrows():
            name, weight = str(row.obsnme).lower(), float(row.weight)
            if name not in read:
                words = f"{name} does not stand in an instruction file{similar(name, read)}"
                raise self.fail(name, "observation data", words)
            if weight > 0.0 and self._regularises(str(row.obgnme)):
                left_out.append(name)
            elif weight > 0.0:
                made.append(Observation(name, float(row.obsval), weight, str(row.obgnme)))
            elif weight < 0.0:
                raise self.fail(name, "observation data", f"{name}: the weight must not be below 0")
        if not made:
            others = ", but those of regularisation" if left_out else ""
            raise PestError(f"{self.path.name}: no observation has a weight above 0{others}")
        return tuple(made)

    def _prior_information(
        self, parameters: Iterable[Parameter], left_out: list[str]
    ) -> tuple[PriorInformation, ...]:
        """Return the equations; add the names of those of regularisation to `left_out`."""
        known = {each.name: each for each in parameters}
        made = []
        for _, row in self.pst.prior_information.iterrows():
            name, weight = str(row.pilbl), float(row.weight)
            if weight <= 0.0:
                continue
            if self._regularises(str(row.obgnme)):
                left_out.append(name)
                continue
            left, _, right = str(row.equation).partition("=")
            try:
                value = float(right)
            except ValueError as error:
                words = f"{right.strip() or row.equation} is no number: equations are like"
                words += " 1.0 * log(k) = 0.5"
                raise self.fail(name, "prior information", words) from error
            factors = tuple(
                (term[4].lower(), float(f"{term[1]}{term[2]}"), bool(term[3]))
                for term in _TERM.finditer(left)
            )
            if not factors:
                raise self.fail(name, "prior information", f"{row.equation} is no equation")
            for parameter, _, logarithm in factors:
                words = ""
                if parameter not in known:
                    words = f"{parameter} is no parameter{similar(parameter, known)}"
                elif logarithm and known[parameter].lower <= 0.0:
                    words = f"{parameter} may be 0 or below, and has no logarithm then"
                if words:
                    raise self.fail(name, "prior information", words)
            made.append(PriorInformation(name, factors, value, weight, str(row.obgnme)))
        return tuple(made)


def _regularised(file: str, names: list[str]) -> str:
    """Return the note on observations and equations of regularisation."""
    some = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return (
        f"{file} is in the mode regularization; left out: {some} of its groups regul…, since PEST "
        "looks for a factor of such weights, which are then no 1/noise; what holds the parameters "
        "are their priors. Knowledge with a noise of its own belongs into another group"
    )


def _path(name: str) -> str:
    """Return a path with slashes: control files may have been written on Windows."""
    return str(name).replace("\\", "/")
