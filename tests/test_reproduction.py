"""`make reproduce ARGS=--quick`, and the tables that it keeps."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

EXPERIMENT = Path(__file__).parents[1] / "experiments" / "reproduction"
if TYPE_CHECKING:
    from records import Results

pytest.importorskip("numba", reason="ADM1 needs the extra adm1")
pytest.importorskip("matplotlib", reason="the pictures need the extra plot")
Rows = list[dict[str, str]]


def reproduce(out: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, EXPERIMENT / "reproduce.py", "--quick", "--out", out, *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    words, _ = process.communicate(timeout=1200)
    assert process.returncode == 0, words
    return words


def read(out: Path, table: str) -> Rows:
    with (out / "reproduction" / f"{table}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick run on the embedded data, interrupted once and gone on with."""
    out = tmp_path_factory.mktemp("reproduce")
    first = reproduce(out)
    table = out / "reproduction" / "runs.csv"
    while not table.exists() and first.poll() is None:
        time.sleep(0.2)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    kept = len(read(out, "runs"))
    assert kept > 0
    with table.open("a") as file:
        file.write("embedded,torn")  # what a killed process may leave
    finish(reproduce(out))
    assert len(read(out, "sittings")) == 1  # that of the killed one was not written down
    return out


@pytest.fixture(scope="module")
def results(quick: Path) -> Iterator[Results]:
    sys.path.insert(0, str(EXPERIMENT))
    import meta  # noqa: PLC0415
    import records  # noqa: PLC0415
    import settings  # noqa: PLC0415

    folder = records.Folder(quick / "reproduction")
    wanted = {each.name: each for each in settings.settings(settings.QUICK)}
    yield records.Results(folder, "embedded", wanted, meta.experiments(quick=True))
    sys.path.remove(str(EXPERIMENT))


def test_every_experiment_is_run_and_shown(quick: Path, results: Results) -> None:
    for name, setting in results.settings.items():
        assert results.repeats(name) == list(range(setting.repeats)), name
    assert all(results.rows(each) for each in results.experiments)
    page = (quick / "reproduction.md").read_text()
    assert "A quick run" in page
    for name in ("optimisation", "nesterov", "hyperparameters", "extremes", "meta"):
        assert f"reproduction/{name}.svg" in page
        assert (quick / "reproduction" / f"{name}.svg").read_text().startswith("<?xml")
    assert all(f"| {name} |" in page for name in results.settings)


def test_the_order_of_the_algorithms_is_the_papers(results: Results) -> None:
    """At 960 queries: SuPAC-CE far below gradient descent, SuPAC() below SuPAC-CE with a sixth.

    From the prior, SuPAC-CE makes three times the way of gradient descent or more (its range over
    repeats is a hundredth of it), so twice is far from both; the mean of three repeats of SuPAC-CE
    is above that of SuPAC() by seven standard deviations.
    """
    from settings import COMPOSITE, SCALAR, SELECTED, STANDARD, ce, descent  # noqa: PLC0415

    standard = results.end(ce(*STANDARD))
    start = float(np.median(results.at(descent(*SELECTED[0]), 160)))
    for each in SELECTED:
        assert start - standard.max() > 2.0 * (start - results.end(descent(*each)).min())
    assert results.end(COMPOSITE).mean() < results.end(SCALAR).mean() < standard.mean()


def test_learnt_priors_are_better_for_new_tasks(results: Results) -> None:
    """Six epochs of ten tasks: test bounds fall by more than three standard errors."""
    for each in results.experiments:
        lesson = results.columns(each)
        seen = ~np.isnan(lesson["test_mean"])
        first, last = lesson["test_mean"][seen][[0, -1]]
        assert first - last > 3.0 * lesson["test_error"][seen][-1]


def test_what_is_there_is_not_run_again(quick: Path, tmp_path: Path) -> None:
    """Two runs taken out are made again, to the digit, and no others."""
    again = tmp_path / "again"
    shutil.copytree(quick, again)
    table = again / "reproduction" / "runs.csv"
    lines = table.read_text().splitlines(keepends=True)
    taken = [line for line in lines if "gradient descent" in line][:2]
    table.write_text("".join(line for line in lines if line not in taken))
    finish(reproduce(again))
    assert read(again, "sittings")[-1]["runs"] == "2"

    def values(rows: Rows) -> dict[tuple[str, str], tuple[str, str]]:
        return {(r["setting"], r["repeat"]): (r["objective"], r["kl"]) for r in rows if r["kl"]}

    assert values(read(again, "runs")) == values(read(quick, "runs"))
    words = finish(reproduce(again))
    assert "all runs are there already" in words


def test_claims_can_fail(results: Results) -> None:
    """The same tables with SuPAC() and SuPAC-CE exchanged bear out nothing."""
    import claims  # noqa: PLC0415

    assert all(each.held for each in claims.ours(results))
    assert not any(each.held for each in claims.ours(exchanged(results)))


def exchanged(results: Results) -> Results:
    from settings import COMPOSITE, SCALAR, STANDARD, ce  # noqa: PLC0415

    other = type(results)(results.folder, results.data, results.settings, results.experiments)
    standard = ce(*STANDARD)
    swap = {COMPOSITE: standard, SCALAR: standard, standard: COMPOSITE}
    runs = {
        (name, repeat): results._runs[swap.get(name, name), repeat]
        for name, repeat in results._runs
    }
    object.__setattr__(other, "_runs", runs)
    return other


def test_wrong_options_say_what_to_do(tmp_path: Path) -> None:
    process = reproduce(tmp_path, "--data", str(tmp_path))
    words, _ = process.communicate()
    assert process.returncode == 2
    assert "holds no digester" in words
