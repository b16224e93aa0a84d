"""The table [simulator.coarse]: a coarse model beside the fine one, in a problem file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from supac.problem import Composite, Observations, Parameters
from supac.problem.coarse import COARSE, Coarse
from supac.problem.composite import as_composite
from supac.problem_file.errors import Key, Source
from supac.problem_file.experiments import Experiments, make_simulate
from supac.problem_file.inputs import Inputs
from supac.problem_file.simulator import Simulate, Simulator, simulator_of
from supac.record.checksums import CODE, changed_files
from supac.record.coarse_use import COARSE_SINCE
from supac.record.record import Record
from supac.surrogate.regime import MANY_PARAMETERS

TABLE: Key = ("simulator", "coarse")
ROLE = "coarse"
"""Name of the checksum of the coarse model in a store."""
_OF_A_RUN = ("scratch", "keep", "reset")
"""Keys that change nothing that a run returns."""


class CoarseSource(Source):
    """A problem file as the coarse model sees it: its keys are in place of those of the fine one.

    A table that names another kind of simulator stands for itself.
    """

    level = COARSE

    def __init__(self, whole: Source):
        super().__init__(whole.text, whole.path)
        fine = whole.table("simulator")
        self.own: dict[str, Any] = dict(fine.pop("coarse"))
        self.cost: float | None = self.own.pop("cost", None)
        kind = Simulator.kind_in(self.own)
        self.document["simulator"] = self.own if kind and kind not in fine else {**fine, **self.own}
        self._errors = whole._errors

    def add(self, key: Key, message: str) -> None:
        """Add an error, of the coarse table if it is about the simulator."""
        if key[:1] == ("simulator",):
            name = key[1:2]
            inherited = bool(name) and name[0] not in self.own
            message = f"for the coarse model, {name[0]} {message}" if inherited else message
            key = TABLE if inherited else (*TABLE, *key[1:])
        super().add(key, message)


def coarse_source(source: Source) -> CoarseSource | None:
    """Return the file as the coarse model sees it; None without one."""
    return CoarseSource(source) if "coarse" in source.table("simulator") else None


def with_coarse_model(
    source: Source, risk: Any, inputs: Inputs, parameters: Parameters, data: Observations | None
) -> Any:
    """Return the risk with the coarse model of the file, if it has one."""
    coarse = coarse_source(source)
    if coarse is None:
        return risk
    _check_rest(source, risk, parameters)
    simulate = make_simulate(coarse, simulator_of(coarse), inputs, data)
    _check_differs(source, coarse)
    _check_vectorized(coarse, risk.simulate, simulate)
    return Composite(
        risk.simulate,
        risk.loss,
        risk.data,
        risk.held_out,
        coarse=Coarse(simulate, None if coarse.cost is None else float(coarse.cost)),
    )


def refuse_coarse_model(source: Source, complete: str) -> None:
    """Add an error if a model that brings its own data has a coarse one."""
    if "coarse" in source.table("simulator"):
        source.add(TABLE, f"does not go with {complete} yet: remove this table")


def _check_rest(source: Source, risk: Any, parameters: Parameters) -> None:
    """Raise ProblemFileError if the rest of the file does not go with a coarse model."""
    run, execution = source.table("run"), source.table("execution")
    if as_composite(risk) is None:
        words = "needs outputs to compare: add [data], or a [loss] of what the simulator returns"
        raise source.fail(TABLE, words)
    for found, what, fix in (
        (bool(risk.observation), "scales, offsets or noise levels as parameters", "fix them"),
        (execution.get("mode") == "async", 'mode = "async" in [execution]', "remove that"),
        (run.get("algorithm") == "paper", 'algorithm = "paper" in [run]', "remove that"),
        (
            len(parameters) > MANY_PARAMETERS,
            f"more than {MANY_PARAMETERS} parameters",
            "describe them by fewer numbers",
        ),
    ):
        if found:
            source.add(TABLE, f"does not go with {what} yet: {fix}, or remove this table")
    source.raise_any()


def _check_differs(source: Source, coarse: CoarseSource) -> None:
    """Raise ProblemFileError if the coarse model is the fine one."""
    fine = {name: each for name, each in source.table("simulator").items() if name != "coarse"}
    if coarse.table("simulator") != fine or simulator_of(coarse).has_levels(coarse):
        return
    programs = Simulator.kind_in(fine) == "command"
    way = "a command of its own, or write {level} in the command or a template" if programs else ""
    words = f"is the same as [simulator]: give it {way or 'a key with another value'}"
    raise source.fail(TABLE, words)


def _check_vectorized(coarse: CoarseSource, fine: Any, simulate: Simulate | Experiments) -> None:
    """Raise ProblemFileError if only one of the two models takes many points at a time."""
    if simulate.vectorized != fine.vectorized:
        words = "must be the same for both models: one of them takes many points at a time"
        raise coarse.fail(("simulator", "vectorized"), words)


def coarse_checksums(source: Source) -> dict[str, str]:
    """Return checksums of the coarse model: of its settings and files, and of what matters in them.

    None without a coarse model. Its cost is no part of it.
    """
    coarse = coarse_source(source)
    if coarse is None:
        return {}
    simulator = simulator_of(coarse)
    given = coarse.table("simulator").items()
    settings = json.dumps(
        {name: each for name, each in given if name not in _OF_A_RUN}, sort_keys=True, default=str
    )
    files = [each for each in simulator.files(coarse).get("simulator", []) if each.is_file()]
    sums = {ROLE: _sum(settings, *map(_checksum, files))}
    code = simulator.code(coarse)
    return {**sums, ROLE + CODE: _sum(settings, code)} if code else sums


def coarse_since(run: Record, files: Mapping[str, str]) -> int | None:
    """Return the number of rounds of a store before its coarse model changed; None if it has not.

    ValueError if the store was begun without a coarse model, or the problem has none any more.
    """
    then, before = remembered(run.description)
    if not then:
        return None
    if (ROLE in then) != (ROLE in files):
        words = ("with", "leave it as it was") if ROLE in then else ("without", "remove it")
        raise ValueError(
            f"{run.file.name} was begun {words[0]} [simulator.coarse]: {words[1]}, or begin anew "
            "with another store"
        )
    return len(run.rounds) if ROLE in changed_files(then, files) else before


def remembered(description: str) -> tuple[dict[str, str], int | None]:
    """Return checksums of files in a store's description, and the rounds before the coarse model.

    Empty and None where a store was made without a problem file.
    """
    try:
        known = json.loads(description)
        return dict(known["files"]), known.get(COARSE_SINCE)
    except (ValueError, KeyError, TypeError):
        return {}, None


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sum(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
