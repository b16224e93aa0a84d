"""Tables of the terminal: what fits a width, what is shown of many rows, how a run stands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console, RenderableType

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.problem import Measurements
from supac.record.parameter_change import uninformed
from supac.report import Level, account_of, assess
from supac.report.tables import history_table, parameter_table, state, summary
from supac.report.words import loss_name


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
    count = len(run.history["queries"])
    assert rows[2].startswith(f"The last 1 of {count} batches; the report shows all.")
    assert "The last" not in printed(history_table(run.history, most=count))


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


def of_my_own(residuals: FloatArray) -> FloatArray:
    return np.asarray(np.minimum(np.mean(residuals**2, axis=1), 1.0))


class Mine:
    def __call__(self, residuals: FloatArray) -> FloatArray:
        return of_my_own(residuals)


def test_losses_are_named_as_they_are_written_and_yours_by_their_names() -> None:
    assert loss_name(None) == ""
    assert loss_name(supac.Welsch(3.0)) == "Welsch(width=3.0)"
    assert loss_name(of_my_own).endswith(".of_my_own")
    assert loss_name(Mine()).endswith(".Mine")
    risk = supac.Composite(lambda x: x - 0.3, of_my_own)
    result = supac.minimize(risk, supac.gaussian([0.0], np.eye(1)), supac.Catoni(0.1), budget=12)
    named = [line for line in str(result.summary()).splitlines() if line.startswith("loss ")]
    assert [line.split()[1] for line in named] == [f"{__name__}.of_my_own"]


def test_a_likelihood_is_told_of_all_measurements_and_in_words() -> None:
    times = np.arange(5.0)
    data = Measurements(
        ("A",), np.zeros(5, dtype=np.intp), times, 2.0 * times, np.full(5, 0.5),
        np.full(5, -1), np.zeros(5), np.zeros(5, dtype=bool),
    )  # fmt: skip
    result = supac.minimize(
        supac.Composite(lambda x: x[0] * times, data.loss, data),
        supac.Parameters({"k": marginals.LogNormal(1.0, 1.0)}),
        supac.Catoni(1.0 / 3.0),
        budget=20,
    )
    said = str(result.summary())
    assert re.search(r"^parameter +prior +posterior +width$", said, flags=re.M)  # no unit
    told = dict(re.split(" {2,}", line, maxsplit=1) for line in said.splitlines() if "  " in line)
    assert told["−log L"].startswith(f"{5 * result.mean_risk:.4g} ± ")
    assert told["minimised"].startswith("mean risk + 0.3333·KL")
    assert told["loss"].startswith("minus the mean log-likelihood of a measurement")
    own = supac.minimize(
        supac.Composite(lambda x: x[0] * times, supac.MeanSquare(), data),
        supac.Parameters({"k": marginals.LogNormal(1.0, 1.0)}),
        supac.Catoni(1.0 / 3.0),
        budget=20,
    )
    assert "−log L" not in str(own.summary())


def test_ranges_of_two_digits_have_powers_of_ten_from_10000_on(run: supac.Record) -> None:
    row = run.parameter_changes[0]
    wide = replace(row, prior=(2.51e-5, 0.1, 398.0), posterior=(1.0, 150.0, 31_600.0))
    said = printed(parameter_table([wide, row], width=20), 200)
    assert "0.1 (2.5e-5–400)" in said
    assert "150 (1–3.2e4)" in said


def test_parameters_that_the_data_say_nothing_of_are_named(tmp_path: Path) -> None:
    parameters = supac.Parameters(
        {name: marginals.Normal(0.0, 1.0) for name in ("known", "other", "third")}
    )
    store = tmp_path / "run.supac"
    supac.minimize(
        lambda x: float(np.tanh(x[0] ** 2)), parameters, supac.Catoni(0.05), budget=40, store=store
    )
    run = supac.read_store(store)
    assert uninformed(run.parameter_changes) == "other and third"
    assert uninformed(run.parameter_changes, most=1) == "other and 1 more"
    assert "The data hardly inform other and third: what is known of them" in printed(
        summary(run, "A run")
    )
    assert run.to_dict()["parameters"][1]["change"] == "hardly informed"
    account = account_of(run)
    (check,) = [each for each in assess(account).checks if "inform every" in each.question]
    assert (check.level, check.answer[:34]) == (Level.TRUST, "No: they hardly inform other and t")
