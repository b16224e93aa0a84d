"""Tables of the terminal: what fits a width, what is shown of many rows, how a run stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console, RenderableType

import supac
from supac import marginals
from supac.report.tables import history_table, parameter_table, state, summary


def printed(what: RenderableType, width: int = 80) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(what)
    return captured.get()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> supac.Record:
    parameters = supac.Parameters(
        {
            "k_of_a_long_name": marginals.LogNormal(3e-7, 0.5, unit="mol/L/h"),
            "share": marginals.Uniform(0.0, 1.0),
        }
    )
    store = tmp_path_factory.mktemp("tables") / "run.supac"
    supac.minimize(
        lambda x: float(np.tanh(np.log(x[0] / 3e-7) ** 2 + x[1])), parameters, supac.Catoni(0.05),
        budget=40, store=store,
    )  # fmt: skip
    return supac.read_store(store)


@pytest.mark.parametrize("width", [80, 120])
def test_parameters_fit_the_width(run: supac.Record, width: int) -> None:
    said = printed(parameter_table(run.parameter_changes, width=width), width)
    assert "…" not in said
    assert "e-7" in said.splitlines()[1]  # one power of ten for median and range


def test_a_truth_is_a_column_more(run: supac.Record) -> None:
    said = printed(parameter_table(run.parameter_changes, np.array([3e-7, 0.1]), 120), 120)
    assert said.splitlines()[0].split()[-1] == "truth"
    assert said.splitlines()[1].split()[-1] == "3e-7"


def test_of_many_batches_the_latest_are_shown(run: supac.Record) -> None:
    rows = printed(history_table(run.history, most=1)).splitlines()
    assert rows[1].split()[0] == f"{run.history['queries'][-1]:.0f}"
    assert not rows[2].strip()[:1].isdigit()


def test_a_run_on_one_screen(run: supac.Record) -> None:
    said = printed(summary(run, "A study", 80))
    assert said.startswith("A study\n")
    assert "40 of 40" in said
    assert str(state(run)).startswith("done. ")


def test_a_run_that_was_stopped_says_how_to_go_on(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    supac.minimize(
        lambda x: float(np.tanh(x @ x)), supac.gaussian([0.0], [1.0]), supac.Catoni(0.1),
        budget=40, store=store, callback=lambda event: True,
    )  # fmt: skip
    assert f"`supac resume {store}` continues" in str(state(supac.read_store(store)))
