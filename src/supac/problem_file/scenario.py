"""Scenario files: what a posterior is asked to predict, as changes of its problem file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.posterior.observed import ObservedData
from supac.posterior.outputs import Outputs
from supac.posterior.prediction import Prediction, UnexpectedOutputsError, predict
from supac.problem import Composite, Observations, Parameters
from supac.problem.observation import ObservedSimulator, observation_count
from supac.problem_file.clock import clock_times
from supac.problem_file.data import data_tables
from supac.problem_file.errors import Key, Source, read_text, suggestion
from supac.problem_file.experiments import make_scenario
from supac.problem_file.inputs import read_inputs
from supac.problem_file.noise import parse_share
from supac.problem_file.observed import declare_automatic, observation_names
from supac.problem_file.place import execution_of
from supac.problem_file.problem import ProblemFile, checksums
from supac.problem_file.python import PythonFunction
from supac.problem_file.scenario_schema import check_scenario
from supac.problem_file.scenario_settings import check_settings, with_settings
from supac.problem_file.simulator import Simulate, Simulator, simulator_of
from supac.record.calibrated import Calibrated
from supac.running.execution import Execution

_FREE = ("title", "draws", "coverage", "execution")
_KEYS: dict[Key, Key] = {
    ("data", "observed"): ("outputs", "names"),
    ("data", "time"): ("outputs", "times"),
}


class ScenarioSource(Source):
    """The text of a scenario file, with the tables of its problem below its own.

    Files that it names are beside it, or else beside the problem file.
    """

    def __init__(self, text: str, path: Path, problem: Source):
        super().__init__(text, problem.path.parent / path.name)
        self.folder, self.own = path.parent, self.document
        check_scenario(self, problem.table("simulator"))
        mine, theirs = self.table("simulator"), problem.table("simulator")
        kind = Simulator.kind_in(mine)
        simulator = mine if kind and kind not in theirs else theirs | mine
        kept: dict[str, Any] = {}
        for name in ("parameters", "constraints", "data"):
            if name in problem.document:
                kept[name] = problem.document[name]
        self.document = {**kept, **self.own, "simulator": simulator}

    def add(self, key: Key, message: str) -> None:
        """Add an error of this key, by its name in scenario files."""
        super().add(_KEYS.get(key[:2], key), message)

    def file(self, name: str) -> Path:
        """Return a file beside the scenario if there is one, else beside the problem file."""
        beside = self.folder / os.path.expanduser(name)
        return beside if beside.exists() else super().file(name)


@dataclass(frozen=True, eq=False)
class Scenario:
    """A scenario read from a file, checked and ready to run."""

    path: Path
    text: str
    title: str
    simulate: Callable[[FloatArray], Any]
    outputs: Outputs | None
    """None if only their number is known."""
    draws: int | None
    """None for the certified parameter sets."""
    seed: int
    coverage: float
    execution: Execution
    files: Mapping[str, str]
    """Checksums of the simulator's files, by their role."""
    continues: bool
    """True for the conditions of the calibration, which a discrepancy of the model continues."""
    identity: str
    """Content of the file, but for settings that a continued prediction may change."""

    def predict(
        self,
        posterior: Calibrated,
        *,
        draws: int | None = None,
        execution: Execution | Any = None,
        store: str | os.PathLike[str] | None = None,
    ) -> Prediction:
        """Run the scenario at draws of a posterior; arguments replace settings of the file."""
        where = self.execution
        if execution is not None:
            given = isinstance(execution, Execution)
            where = execution if given else replace(where, workers=execution)
        count = draws or self.draws
        try:
            return predict(
                posterior,
                self.simulate,
                count,
                outputs=self.outputs,
                coverage=self.coverage,
                title=self.title,
                ensemble=count is None,
                execution=where,
                store=store,
                seed=self.seed,
                about={"scenario": self.identity, "files": dict(self.files)},
                continues=self.continues,
            )
        except UnexpectedOutputsError as error:
            raise UnexpectedOutputsError(f"{error}. {_advice(self.simulate)}") from error


def read_scenario(path: str | os.PathLike[str], problem: ProblemFile) -> Scenario:
    """Read and check a scenario of a problem; raise ProblemFileError with all its errors."""
    place = Path(path).absolute()
    source = ScenarioSource(read_text(place), place, Source(problem.text, problem.path))
    simulator, execution = simulator_of(source), problem.execution
    simulate: Callable[[FloatArray], Any]
    if simulator.complete:
        for name in ("outputs", "settings"):
            if name in source.own:
                words = f"{simulator.complete} brings its own: remove this table"
                way = simulator.other_scenario
                source.add((name,), f"{words}, and {way}" if way else words)
        source.raise_any()
        given = problem.parameters if source.table("parameters") else None
        made_risk = simulator.make_risk(source, given)
        _check_same_parameters(source, simulator, made_risk, problem)
        simulate, outputs = simulated_by(made_risk[0])
    else:
        declare_automatic(source)
        inputs = read_inputs(source, problem.parameters, observation_names(source))
        check_settings(source, simulator, inputs)
        outputs = _outputs(source, problem.observations)
        source.raise_any()
        observed = ObservedData.of(getattr(problem.risk, "loss", None), problem.observations)
        if observed is not None:
            noise = source.table("outputs").get("noise", {})
            own = noise if isinstance(noise, dict) else outputs.columns
            outputs = observed.describe(outputs, tuple(own))
        changed = with_settings(source, simulator, inputs, outputs.times)
        made = make_scenario(source, simulator, changed, outputs)
        simulate, execution = made, replace(execution, vectorized=made.vectorized)
    execution = execution_of(source, execution)
    top = source.own
    return Scenario(
        path=place,
        text=source.text,
        title=top.get("title", place.stem),
        simulate=simulate,
        outputs=outputs,
        draws=None if top.get("ensemble") else top.get("draws", 100),
        seed=top.get("seed", 0),
        coverage=float(top.get("coverage", 0.9)),
        execution=execution,
        files=_checksums(source, simulator),
        continues=_continues(source, problem.observations),
        identity=json.dumps(
            {name: each for name, each in top.items() if name not in _FREE}, default=str
        ),
    )


def _continues(source: ScenarioSource, data: Observations | None) -> bool:
    """Return True if the scenario has the conditions of the calibration, as far as it says."""
    several = data is not None and data.experiments is not None and len(set(data.experiments)) > 1
    given = source.own.get("continues")
    if given and several:
        words = "must be false: there are several experiments, and a scenario continues none"
        raise source.fail(("continues",), words)
    if given is not None:
        return bool(given)
    timed = data is not None and data.times is not None
    return timed and not several and not {"settings", "simulator"} & set(source.own)


def _advice(simulate: Callable[[FloatArray], Any]) -> str:
    """Return how a simulator with another number of outputs may return those of a scenario."""
    function = simulate.function if isinstance(simulate, Simulate) else None
    inputs = simulate.inputs if isinstance(simulate, Simulate) else None
    if isinstance(function, PythonFunction):
        if inputs is not None and "times" in inputs.keywords:
            return f"Return a number for each of the argument times of {function.name}"
        return (
            f"Give the function an argument that receives them, def {function.name}(..., "
            "times=TIMES), with the times of the data as its default; or name another function in "
            "[simulator] of the scenario"
        )
    return "Name a command, template or model that has these outputs in [simulator] of the scenario"


def simulated_by(risk: Composite) -> tuple[Callable[[FloatArray], Any], Outputs | None]:
    """Return the simulator of a risk, without its observation parameters, and what is measured."""
    own = risk.simulate
    simulate = own.simulate if isinstance(own, ObservedSimulator) else own
    return simulate, Outputs.of_measured(risk.data)


def _check_same_parameters(
    source: Source, simulator: Simulator, made: tuple[Composite, Parameters], problem: ProblemFile
) -> None:
    """Raise ProblemFileError if a complete simulator does not take the calibrated parameters."""
    (risk, own), calibrated = made, problem.parameters
    count = observation_count(getattr(problem.risk, "loss", None))
    if own.names == calibrated.names and risk.observation == count:
        return
    ours, theirs = ", ".join(calibrated.names), ", ".join(own.names)
    if own.names == calibrated.names:
        ours += f" ({count} of them of observables and noise alone)"
        theirs = f"{risk.observation} such ones"
    key = "simulator", next(iter(source.table("simulator")))
    words = f"{simulator.complete} must have the calibrated parameters in their order, {ours}"
    raise source.fail(key, f"{words}; it has {theirs}: keep the tables of parameters and formulas")


def _checksums(source: Source, simulator: Simulator) -> dict[str, str]:
    """Return checksums of the files that the simulator is made from."""
    return checksums(simulator.files(source), {"simulator": simulator.code(source)})


def _outputs(source: ScenarioSource, data: Observations | None) -> Outputs:
    """Return the outputs of the scenario: by default those of the data, at their times."""
    table, known = source.table("outputs"), None if data is None else Outputs.of_data(data)
    if "times" in table and "rows" in table:
        raise source.fail(("outputs", "rows"), "goes without times: keep one of them")
    names = table.get("names", [] if known is None else list(known.columns))
    columns = (names,) if isinstance(names, str) else tuple(names)
    if not columns:
        words = 'the problem has no data: say what the simulator returns, names = ["A", "B"]'
        raise source.fail(("outputs",) if table else (), words)
    if len(set(columns)) < len(columns):
        raise source.fail(("outputs", "names"), "has a name twice")
    times, rows = _times(source, table, data)
    made = Outputs(columns, rows, times, time_label=None if known is None else known.time_label)
    units = _of_columns(source, "units", columns, {})
    old = (
        {}
        if known is None or known.units is None
        else dict(zip(known.columns, known.units, strict=True))
    )
    noise = _of_columns(source, "noise", columns, {})
    for name in (each for each in units if old.get(each, units[each]) != units[each]):
        if name not in noise:
            words = f"the data have {name} in {old[name]}, not in {units[name]}, and nothing is"
            fix = "correct one of them, or give the noise in this unit, too"
            raise source.fail(("outputs", "units"), f"{words} converted: {fix}")
    if units or old:
        made = replace(made, units=tuple(units.get(n, old.get(n, "")) for n in columns))
    return _with_noise(source, made, known)


def _times(
    source: ScenarioSource, table: Mapping[str, Any], data: Observations | None
) -> tuple[FloatArray | None, int]:
    """Return the times of the outputs, or None, and their number."""
    given = table.get("times")
    if given is not None:
        try:
            times = clock_times(given, None if data is None else data.time_label)
        except ValueError as error:
            raise source.fail(("outputs", "times"), str(error)) from error
        if sorted(times) != times:
            words = f"must not decrease: write them in order, {sorted(given)!r:.60}"
            raise source.fail(("outputs", "times"), words)
        return np.array(times, dtype=np.float64), len(times)
    if "rows" in table or data is None:
        return None, int(table.get("rows", 1))
    if data.experiments is None:
        return data.times, data.rows
    names = np.array(data.experiments)
    parts = [np.flatnonzero(names == name) for name in dict.fromkeys(data.experiments)]
    if data.times is None and len({len(rows) for rows in parts}) == 1:
        return None, len(parts[0])
    if data.times is not None:
        every = [data.times[rows] for rows in parts]
        if all(np.array_equal(each, every[0]) for each in every):
            return every[0], len(every[0])
    words = (
        "[outputs] needs times, since the experiments of the problem have different ones: "
        "times = [1, 2, 5], or times = { start = 0, stop = 48, step = 1 }"
    )
    raise source.fail(("outputs",) if "outputs" in source.own else (), words)


def _of_columns(
    source: ScenarioSource, name: str, columns: tuple[str, ...], default: dict[str, Any]
) -> dict[str, Any]:
    """Return a setting of [outputs] by column: one value for all, or a table."""
    given = source.table("outputs").get(name, default)
    if not isinstance(given, dict):
        return dict.fromkeys(columns, given)
    for other in (each for each in given if each not in columns):
        hint = suggestion(other, columns) or f"; they are {', '.join(columns)}"
        raise source.fail(("outputs", name, other), f"{other} is no output{hint}")
    return given


def _with_noise(source: ScenarioSource, made: Outputs, known: Outputs | None) -> Outputs:
    """Return the outputs with the noise of the scenario, or else of the problem's data."""
    logarithmic = known is not None and known.logarithmic
    given = _of_columns(source, "noise", made.columns, {})
    tables = list(data_tables(source).values())
    old = tables[0].get("noise") if len(tables) == 1 else {}
    before = old if isinstance(old, dict) else dict.fromkeys(made.columns, old)
    inherited = made.with_noise_of(known)
    noise = np.full(len(made.columns), np.nan) if inherited.noise is None else inherited.noise
    noise, share = noise.copy(), inherited.shares.copy()
    for i, name in enumerate(made.columns):
        word = given.get(name, before.get(name))
        if isinstance(word, str):
            parsed = parse_share(word)
            if parsed is not None and not logarithmic:
                share[i], noise[i] = parsed[0] / 100.0, parsed[1]
            elif name in given:
                fix = 'as in "5 %", "5 % + 0.02" or 0.1'
                raise source.fail(("outputs", "noise"), f"is no noise {fix}")
        elif word is not None and (name in given or known is None or name in known.columns):
            noise[i], share[i] = float(word), 0.0
    return replace(made, noise=noise, share=share, logarithmic=logarithmic)
