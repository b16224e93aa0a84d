"""Reading of PEtab files of version 1."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from supac.simulators.petab.description import (
    Change,
    Description,
    Experiment,
    Observable,
    Parameter,
    Period,
)
from supac.simulators.petab.files import NOISES, Files, bounds, measurement, nominal, numbers
from supac.simulators.petab.tables import PEtabError, Table, similar

_FLAGS = ("0", "0.0", "1", "1.0")
_SCALES = ("lin", "log", "log10")
_PRIORS = {
    "uniform": "uniform", "normal": "normal", "laplace": "laplace",
    "logNormal": "log-normal", "logLaplace": "log-laplace",
    "parameterScaleUniform": "scale-uniform", "parameterScaleNormal": "scale-normal",
    "parameterScaleLaplace": "scale-laplace",
}  # fmt: skip


class Version1(Files):
    """Files of version 1."""

    def read(self) -> Description:
        """Read the tables; PEtabError if that is impossible."""
        problems = self.document.get("problems")
        if not isinstance(problems, list) or len(problems) != 1:
            raise PEtabError(f"{self.path.name}: problems must be a list of one problem")
        part = problems[0]
        parameters = self._parameters(self.paths(self.document, "parameter_file"))
        observables = self._observables(self.paths(part, "observable_files"))
        conditions, changes = self._conditions(self.paths(part, "condition_files"))
        table = Table.read(
            self.paths(part, "measurement_files"),
            ("observableId", "simulationConditionId", "measurement", "time"),
            ("preequilibrationConditionId", "observableParameters", "noiseParameters"),
        )
        experiments: dict[tuple[str, str], int] = {}
        measurements = []
        for row in table.rows:
            observable = row.known("observableId", observables, "an observable")
            after = row.known("simulationConditionId", conditions, "a condition")
            before = ""
            if row.text("preequilibrationConditionId"):
                before = row.known("preequilibrationConditionId", conditions, "a condition")
            index = experiments.setdefault((before, after), len(experiments))
            measurements += measurement(row, observables[observable], index)
        return Description(
            self.path,
            model=self.one_model(self.paths(part, "sbml_files")),
            files=tuple(self.files),
            parameters=tuple(parameters),
            observables=observables,
            experiments=tuple(
                Experiment(
                    after,
                    (*([Period(-math.inf, conditions[before])] if before else []),
                     Period(0.0, conditions[after])),
                )
                for before, after in experiments
            ),
            measurements=tuple(measurements),
            changes=changes,
        )  # fmt: skip

    def _parameters(self, paths: Sequence[Path]) -> Iterable[Parameter]:
        needed = ("parameterId", "parameterScale", "lowerBound", "upperBound", "estimate")
        others = ("nominalValue", "objectivePriorType", "objectivePriorParameters")
        for name, row in Table.read(paths, needed, others).by_id("parameterId").items():
            scale = row.known("parameterScale", _SCALES, "a scale")
            estimated = row.known("estimate", _FLAGS, "0 or 1") in _FLAGS[2:]
            kind = ""
            given: tuple[float, ...] = ()
            if estimated and row.text("objectivePriorType"):
                kind = _PRIORS[row.known("objectivePriorType", _PRIORS, "a prior")]
                if kind != "scale-uniform" or row.text("objectivePriorParameters"):
                    given = numbers(row, "objectivePriorParameters", 2)
                else:
                    kind = ""
            lower, upper = bounds(row, scale) if estimated else (math.nan, math.nan)
            value = nominal(row, estimated=estimated)
            yield Parameter(name, scale, lower, upper, value, estimated, kind, given, row)

    def _observables(self, paths: Sequence[Path]) -> dict[str, Observable]:
        table = Table.read(
            paths,
            ("observableId", "observableFormula", "noiseFormula"),
            ("observableTransformation", "noiseDistribution"),
        )
        found = {}
        for name, row in table.by_id("observableId").items():
            formulas = row.needed("observableFormula"), row.needed("noiseFormula")
            scale = row.text("observableTransformation", "lin")
            noise = row.text("noiseDistribution", "normal")
            if scale not in _SCALES:
                hint = similar(scale, _SCALES)
                raise row.fail(f"{scale} is not a scale{hint}", "observableTransformation")
            if noise not in NOISES:
                hint = similar(noise, NOISES)
                raise row.fail(f"{noise} is not a distribution{hint}", "noiseDistribution")
            holes = _numbered("observable", name, formulas[0])
            noise_holes = _numbered("noise", name, formulas[1])
            found[name] = Observable(name, *formulas, holes, noise_holes, scale, noise, row)
        return found

    def _conditions(
        self, paths: Sequence[Path]
    ) -> tuple[dict[str, dict[str, str]], tuple[Change, ...]]:
        table = Table.read(paths, ("conditionId",))
        targets = [name for name in table.columns if name not in ("conditionId", "conditionName")]
        conditions: dict[str, dict[str, str]] = {}
        changes = []
        for name, row in table.by_id("conditionId").items():
            conditions[name] = {each: row.text(each) for each in targets if row.text(each)}
            changes += [
                Change(target, value, f"{row.file}, line 1", row.place(target))
                for target, value in conditions[name].items()
            ]
        return conditions, tuple(changes)


def _numbered(word: str, observable: str, formula: str) -> tuple[str, ...]:
    """Return the placeholders of a formula of version 1, from the first on."""
    pattern = rf"\b{word}Parameter(\d+)_{re.escape(observable)}\b"
    count = max(map(int, re.findall(pattern, formula)), default=0)
    return tuple(f"{word}Parameter{i + 1}_{observable}" for i in range(count))
