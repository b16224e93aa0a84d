"""Tables and keys of a scenario file, and its check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from supac.problem_file import values
from supac.problem_file.errors import Source, suggestion
from supac.problem_file.schema import (
    COARSE,
    EXECUTION,
    Setting,
    Table,
    check_table,
    check_value,
    tables,
)
from supac.problem_file.simulator import Simulator
from supac.problem_file.values import FLAG, NAMES, TEXT, integer, positive

TOP = (
    Setting("title", TEXT, "the name of the scenario in reports", "the file's name"),
    Setting("draws", integer(1), "number of draws of the posterior: one run each", "100"),
    Setting("ensemble", FLAG, "the certified parameter sets instead of new draws", "false"),
    Setting("seed", integer(0), "same seed, same draws", "0"),
    Setting("coverage", positive(1.0), "share of the draws within the bands", "0.9"),
    Setting("continues", FLAG,
            "true if the conditions are those of the data, so that a discrepancy of the model "
            "follows from their residuals, and fades beyond them",
            "true without [settings] and [simulator], of one experiment with times"),
)  # fmt: skip
SETTINGS = Table(
    "settings",
    "Other values of fixed parameters, of what `settings` in `[[data]]` give the simulator, of "
    "arguments of a Python function, and of `{names}` in the command or the templates of a "
    "program: a line for each.",
    (),
)
OUTPUTS = Table(
    "outputs",
    "What the simulator returns, column after column.",
    (
        Setting("names", NAMES, "the columns", "the observed ones"),
        Setting("times", values.TIMES, "times of the outputs", "those of the data"),
        Setting("rows", integer(1), "number of outputs of each column, without times",
                "as in the data"),
        Setting("units", values.UNITS, "of the columns", "those of the data"),
        Setting("noise", values.OUTPUT_NOISE,
                "standard error of a new measurement, for its band", "that of the data"),
    ),
)  # fmt: skip


def simulator_table() -> Table:
    """Return the table of changes of the problem's simulator."""
    own = next(table for table in tables() if table.name == "simulator")
    meaning = (
        "Keys of the problem's `[simulator]` with other values, such as another `input_file`, "
        "`template` or `copies`; or another simulator with the same parameters."
    )
    settings = tuple(each for each in own.settings if each is not COARSE)
    return replace(own, meaning=meaning, required=False, settings=settings)


def scenario_tables() -> tuple[Table, ...]:
    """Return every table of a scenario file."""
    about = "Where runs are made, in place of the problem's settings."
    return simulator_table(), SETTINGS, OUTPUTS, replace(EXECUTION, meaning=about)


def _kind(default: str, table: Mapping[str, Any]) -> str:
    """Return the kind of simulator that a table selects, or else the problem's."""
    return Simulator.kind_in(table) or default


def check_scenario(source: Source, simulator: Mapping[str, Any]) -> None:
    """Raise ProblemFileError with an error for each unknown key and wrong value.

    `simulator` is the table of the problem that the scenario changes.
    """
    top = {each.name: each for each in TOP}
    known = {table.name: table for table in scenario_tables()}
    if "data" in source.document and "parameters" in source.document:
        raise source.fail(
            (),
            "is a problem file, not a scenario: write a file that says what differs, such as "
            "[outputs] with times = [0, 24, 48], or [settings]",
        )
    for name, value in source.document.items():
        if name in top:
            check_value(top[name], value, (name,), source)
        elif name not in known and name in OUTPUTS.names:
            source.add((name,), f"belongs in [outputs]: write [outputs] above {name} = …")
        elif name not in known:
            every = [*top, *known]
            hint = suggestion(name, every) or f"; known are {', '.join(every)}"
            if name == "parameters":
                hint = ": calibrated ones come from the posterior, others belong in [settings]"
            source.add((name,), f"is not known in a scenario{hint}")
        elif not isinstance(value, dict):
            source.add((name,), f"must be a table: write [{name}] on a line of its own")
        elif name == "settings":
            wanted = Setting("settings", values.SETTINGS, "what the simulator is given")
            check_value(wanted, value, (name,), source)
        else:
            table = known[name]
            if name == "simulator":
                table = replace(table, kind=partial(_kind, Simulator.kind_in(simulator)))
            check_table(table, value, (name,), source)
    if source.document.get("ensemble") and "draws" in source.document:
        source.add(("draws",), "goes without ensemble: keep one of them")
    source.raise_any()
