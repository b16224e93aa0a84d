"""The description of an FMU: its variables, units and interfaces, and whether it runs here."""

from __future__ import annotations

import difflib
import math
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from supac.simulators.fmi.units import Conversion, UnitTable
from supac.simulators.fmi.variable import Variable, elements, find_element

_SHOWN = 12  # names that an error message lists


class FMUError(RuntimeError):
    """An FMU that cannot be used as asked, or a run that failed.

    `about` names the argument of `FMU` that is to be changed, and the entry in it.
    """

    def __init__(self, message: str, *about: str):
        super().__init__(message)
        self.about = about


@dataclass(frozen=True)
class Description:
    """The model description of an FMU."""

    path: Path
    name: str
    version: str
    text: str
    """Description by the model's author; may be empty."""
    interfaces: tuple[str, ...]
    """Of "co-simulation" and "model-exchange"."""
    platforms: tuple[str, ...]
    variables: Mapping[str, Variable]
    units: UnitTable
    time_unit: str
    start: float
    stop: float | None
    step: float | None
    tolerance: float | None
    has_equal_steps: bool
    """True if all communication steps of a co-simulation must be equal."""

    def of(self, causality: str) -> list[Variable]:
        """Return the variables with this causality, arrays element by element."""
        own = (each for each in self.variables.values() if each.causality == causality)
        return [each for one in own for each in elements(one)]

    @property
    def parameters(self) -> list[Variable]:
        """Return the real parameters, arrays element by element."""
        return [each for each in self.of("parameter") if each.is_parameter]

    def variable(self, name: str) -> Variable | None:
        """Return a variable or an element of one by its name; None if there is none."""
        return self.variables.get(name) or find_element(name, self.variables)

    def find(self, name: str, likely: Iterable[Variable], *about: str) -> Variable:
        """Return a variable or an element of one, as k[2] or A[1,3], by its name.

        FMUError with a similar name or the `likely` ones if there is none.
        """
        found = self.variable(name)
        array = self.variables.get(name.partition("[")[0].strip())
        if found is None and array is not None and array.is_array:
            size = " x ".join(map(str, array.shape))
            words = f"{name} is no element of {array.name} of {self.path.name}, an array of {size}"
            raise FMUError(f"{words}, with indices from 1", *about)
        if found is None:
            words = near(name, [each.name for each in likely], self.variables)
            raise FMUError(f"{self.path.name} has no variable {name}{words}", *about)
        return found

    def resized(self, sizes: Mapping[int, int]) -> Description:
        """Return the model with other values of structural parameters: by their references."""
        variables = {name: each.resized(sizes) for name, each in self.variables.items()}
        return replace(self, variables=variables)

    def convert(self, variable: Variable, unit: str, *about: str) -> Conversion:
        """Return the conversion from a unit to that of the variable; FMUError if there is none."""
        if not variable.unit or unit in ("", variable.unit):
            return Conversion()
        found = self.units.conversion(unit, variable.unit, difference=variable.is_difference)
        if found is None:
            others = [each for each in self.units.alike(variable.unit) if each != variable.unit]
            known = f" (or in {', '.join(others)}, which it converts)" if others else ""
            raise FMUError(
                f"{variable.name} of {self.path.name} is in {variable.unit}, and {unit} is no unit "
                f"that the model converts to it: give it in {variable.unit}{known}",
                *about,
            )
        return found


def near(name: str, likely: list[str], known: Iterable[str]) -> str:
    """Return a similar name as a question, or else the likely ones."""
    close = difflib.get_close_matches(name, [*likely, *known], n=1)
    if close:
        return f'; did you mean "{close[0]}"?'
    if not likely:
        return ""
    more = f" and {len(likely) - _SHOWN} more" if len(likely) > _SHOWN else ""
    return f"; there are {', '.join(likely[:_SHOWN])}{more}"


def read_description(path: Path) -> Description:
    """Read the description of an FMU without extracting it; FMUError if it is none."""
    try:
        import fmpy  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("an FMU needs fmpy: pip install 'supac[fmi]'") from error
    if not path.is_file():
        raise FMUError(f"there is no file {path}", "path")
    try:
        version = _version(path)
        if not version.startswith(("2.", "3.")):
            words = f"{path.name} is of FMI {version or '?'}: export it for FMI 2 or 3"
            raise FMUError(words, "path")
        platforms = tuple(fmpy.supported_platforms(path))
        read = fmpy.read_model_description(path, validate=False)
    except FMUError:
        raise
    except OSError as error:
        raise FMUError(f"{path} cannot be read: {error.strerror}", "path") from error
    except (zipfile.BadZipFile, KeyError) as error:
        what = "no ZIP archive" if isinstance(error, zipfile.BadZipFile) else "no modelDescription"
        words = f"{path.name} is not an FMU ({what}): export the model as one, of FMI 2 or 3"
        raise FMUError(words, "path") from error
    except Exception as error:
        words = f"the description in {path.name} cannot be read: {error}"
        raise FMUError(words, "path") from error
    if read.coSimulation is None and read.modelExchange is None:
        words = f"{path.name} has neither co-simulation nor model exchange: export it for one"
        raise FMUError(words, "path")
    return _description(path, platforms, read)


def _version(path: Path) -> str:
    """Return the version of FMI that a file is of; "" if it does not say."""
    with zipfile.ZipFile(path) as archive:
        return ElementTree.fromstring(archive.read("modelDescription.xml")).get("fmiVersion", "")


def _description(path: Path, platforms: tuple[str, ...], read: Any) -> Description:
    interfaces = {"co-simulation": read.coSimulation, "model-exchange": read.modelExchange}
    experiment, slave = read.defaultExperiment, read.coSimulation
    time = next((each for each in read.modelVariables if each.causality == "independent"), None)
    internal = _number(getattr(slave, "fixedInternalStepSize", None))
    return Description(
        path=path,
        name=read.modelName or path.stem,
        version=read.fmiVersion,
        text=read.description or "",
        interfaces=tuple(name for name, found in interfaces.items() if found is not None),
        platforms=platforms,
        variables={each.name: _variable(each, read) for each in read.modelVariables},
        units=UnitTable.of(read.unitDefinitions),
        time_unit=(time is not None and time.unit) or "s",
        start=_number(getattr(experiment, "startTime", None)) or 0.0,
        stop=_number(getattr(experiment, "stopTime", None)),
        step=internal or _number(getattr(experiment, "stepSize", None)),
        tolerance=_number(getattr(experiment, "tolerance", None)),
        has_equal_steps=slave is not None and not slave.canHandleVariableCommunicationStepSize,
    )


def _variable(read: Any, model: Any) -> Variable:
    declared = read.declaredType
    integer = "Integer" if model.fmiMajorVersion == 2 else "Int64"

    def attribute(name: str) -> Any:
        own = getattr(read, name)
        return getattr(declared, name) if own is None and declared is not None else own

    lower, upper = (_number(attribute(name)) for name in ("min", "max"))
    return Variable(
        name=read.name,
        reference=read.valueReference,
        type=integer if read.type == "Enumeration" else read.type,
        causality=read.causality,
        variability=read.variability,
        initial=read.initial or "",
        unit=attribute("unit") or "",
        start=read.start or "",
        lower=-math.inf if lower is None else lower,
        upper=math.inf if upper is None else upper,
        description=read.description or "",
        shape=tuple(read.shape or ()),
        dimensions=tuple(each.valueReference for each in read.dimensions),
        is_difference=bool(attribute("relativeQuantity")),
    )


def _number(text: Any) -> float | None:
    """Return the number of an attribute; None if it is missing or no finite number."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def check_platform(description: Description) -> None:
    """Raise FMUError if the FMU has no binary for this machine."""
    import fmpy  # noqa: PLC0415

    if fmpy.platform in description.platforms:
        return
    name = description.path.name
    binaries = [each for each in description.platforms if each != "c-code"]
    if "c-code" in description.platforms:
        fix = f"compile its C sources with `fmpy compile {name}`"
    else:
        fix = f"export it for {fmpy.platform}"
    has = f"binaries for {', '.join(binaries)}" if binaries else "no binaries"
    raise FMUError(f"{name} has {has}, and this machine is {fmpy.platform}: {fix}", "path")
