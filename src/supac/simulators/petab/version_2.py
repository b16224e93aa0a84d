"""Reading of PEtab files of version 2."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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

_PRIORS = (
    "uniform", "normal", "laplace", "log-uniform", "log-normal", "log-laplace",
)  # fmt: skip


class Version2(Files):
    """Files of version 2."""

    def read(self) -> Description:
        """Read the tables; PEtabError if that is impossible."""
        models = self.document.get("model_files")
        if not isinstance(models, dict) or not models:
            raise PEtabError(f"{self.path.name}: model_files must name a model")
        if self.document.get("mapping_files"):
            raise PEtabError(f"{self.path.name}: mapping_files are not supported: use SBML ids")
        parameters = self._parameters(self.paths(self.document, "parameter_files"))
        observables = self._observables(self.paths(self.document, "observable_files"))
        conditions, changes = self._conditions(
            self.paths(self.document, "condition_files", needed=False)
        )
        experiments = self._experiments(
            self.paths(self.document, "experiment_files", needed=False), conditions
        )
        table = Table.read(
            self.paths(self.document, "measurement_files"),
            ("observableId", "measurement", "time"),
            ("experimentId", "observableParameters", "noiseParameters"),
        )
        order = {name: index for index, name in enumerate(experiments)}
        measurements = []
        for row in table.rows:
            observable = row.known("observableId", observables, "an observable")
            name = (
                row.known("experimentId", order, "an experiment")
                if row.text("experimentId")
                else ""
            )
            if name not in order:
                order[name] = len(order)
                experiments[name] = Experiment("model", (Period(0.0, {}),))
            starts = [each.start for each in experiments[name].periods]
            first = min(filter(math.isfinite, starts), default=0.0)
            measurements += measurement(row, observables[observable], order[name], first)
        return Description(
            self.path,
            model=self.one_model([self._location(each) for each in models.values()]),
            files=tuple(self.files),
            parameters=tuple(parameters),
            observables=observables,
            experiments=tuple(experiments.values()),
            measurements=tuple(measurements),
            changes=changes,
        )

    def _location(self, model: Any) -> Path:
        if not isinstance(model, dict) or "location" not in model:
            raise PEtabError(f"{self.path.name}: a model of model_files must have a location")
        language = str(model.get("language", "sbml"))
        if language != "sbml":
            raise PEtabError(f"{self.path.name}: the model must be in SBML, not in {language}")
        return self.paths(model, "location")[0]

    def _parameters(self, paths: Sequence[Path]) -> Iterable[Parameter]:
        others = (
            "lowerBound",
            "upperBound",
            "nominalValue",
            "priorDistribution",
            "priorParameters",
        )
        table = Table.read(paths, ("parameterId", "estimate"), others)
        for name, row in table.by_id("parameterId").items():
            word = row.needed("estimate").lower()
            if word not in ("true", "false"):
                raise row.fail(f"{word} is not true or false", "estimate")
            estimated, kind = word == "true", ""
            given: tuple[float, ...] = ()
            if estimated and row.text("priorDistribution"):
                kind = row.known("priorDistribution", _PRIORS, "a prior that is understood")
                given = numbers(row, "priorParameters", 2)
            lower, upper = bounds(row, "lin") if estimated else (math.nan, math.nan)
            value = nominal(row, estimated=estimated)
            yield Parameter(name, "lin", lower, upper, value, estimated, kind, given, row)

    def _observables(self, paths: Sequence[Path]) -> dict[str, Observable]:
        table = Table.read(
            paths,
            ("observableId", "observableFormula", "noiseFormula"),
            ("observablePlaceholders", "noisePlaceholders", "noiseDistribution"),
        )
        kinds = {
            f"{log}{kind}": (scale, kind)
            for log, scale in (("", "lin"), ("log-", "log"))
            for kind in NOISES
        }
        found = {}
        for name, row in table.by_id("observableId").items():
            word = row.text("noiseDistribution", "normal")
            if word not in kinds:
                raise row.fail(f"{word} is not known{similar(word, kinds)}", "noiseDistribution")
            found[name] = Observable(
                name,
                row.needed("observableFormula"),
                row.needed("noiseFormula"),
                row.words("observablePlaceholders"),
                row.words("noisePlaceholders"),
                *kinds[word],
                row,
            )
        return found

    def _conditions(
        self, paths: Sequence[Path]
    ) -> tuple[dict[str, dict[str, str]], tuple[Change, ...]]:
        conditions: dict[str, dict[str, str]] = {}
        changes = []
        for row in Table.read(paths, ("conditionId", "targetId", "targetValue")).rows:
            target, value = row.needed("targetId"), row.needed("targetValue")
            conditions.setdefault(row.needed("conditionId"), {})[target] = value
            places = row.place("targetId"), row.place("targetValue")
            changes.append(Change(target, value, *places))
        return conditions, tuple(changes)

    def _experiments(
        self, paths: Sequence[Path], conditions: Mapping[str, Mapping[str, str]]
    ) -> dict[str, Experiment]:
        starts: dict[str, dict[float, dict[str, str]]] = {}
        for row in Table.read(paths, ("experimentId", "time", "conditionId")).rows:
            periods = starts.setdefault(row.needed("experimentId"), {})
            changes = periods.setdefault(row.number("time", infinite=True), {})
            if row.text("conditionId"):
                changes |= conditions[row.known("conditionId", conditions, "a condition")]
        return {
            name: Experiment(name, tuple(Period(t, periods[t]) for t in sorted(periods)))
            for name, periods in starts.items()
        }
