"""docs/your-simulator.md, done as it says: its files written, its commands run, nothing else."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import supac
from supac.families import Mixture
from supac.guarantee.certificate import rounded_up
from supac.problem_file import starter_files
from walks import Walk, follow

PAGE = Path(__file__).parents[2] / "docs" / "your-simulator.md"
TRUTH = {"mu": 0.5, "K": 1.5, "Y": 0.4}  # what the page's data were made with


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    return follow(PAGE, tmp_path_factory.mktemp("empty"))


def test_the_page_writes_and_runs_what_it_should(walk: Walk) -> None:
    assert list(walk.said) == [
        "supac run problem.toml --check",
        "supac run problem.toml",
        "supac show run.supac",
        "supac show run.supac --json > summary.json",
        "supac export run.supac runs.csv",
        "supac export run.supac draws.csv --posterior 1000",
        "supac certify run.supac",
        "supac export run.supac sets.csv --ensemble",
        "supac certify run.supac --posterior --precision 0.05",
        "supac report run.supac",
        "supac run program.toml",
        "supac certify program.supac --json > program.json",
        "supac run deck.toml --check",
        "supac run deck.toml",
    ]
    assert "no mistake found" in walk.said["supac run problem.toml --check"]
    assert "outputs compared  19" in walk.said["supac run problem.toml --check"]
    shown = walk.said["supac show run.supac"]
    assert shown == walk.said["supac run problem.toml"]
    assert "Growth of a batch culture (run.supac)" in shown
    assert "done" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("store", ["run.supac", "program.supac", "deck.supac"])
def test_the_posterior_is_near_what_made_the_data(walk: Walk, store: str) -> None:
    run = supac.read_store(walk.folder / store)
    # Searches that differ by the rounding of a file settle just before 60 runs, or spend them.
    assert run.stop_reason in (supac.StopReason.CONVERGED, supac.StopReason.BUDGET)
    assert 40 < len(run.made) <= 60
    assert not run.failures
    # The posterior is wider than the noise alone would make it, since moving away from the prior
    # costs: the truth lies within three of its standard deviations.
    draws = run.sample(4_000, 0)
    scores = (draws.mean(axis=0) - np.array(list(TRUTH.values()))) / draws.std(axis=0)
    assert (np.abs(scores) < 3.0).all()
    # Residuals that are all noise, N(0, 1), have the expected loss 1 − (1 + 1/9)^(−1/2) = 0.05; the
    # spread of the posterior adds to that. Under the prior it is 0.7.
    assert run.estimate.mean_risk < 0.15


def test_function_and_program_agree(walk: Walk) -> None:
    function = supac.read_store(walk.folder / "run.supac").posterior
    assert function is not None
    spread = np.sqrt(np.diag(function.covariance))
    # The methods of Heun and Euler differ from LSODA by far less than the noise.
    for store in ("program.supac", "deck.supac"):
        program = supac.read_store(walk.folder / store).posterior
        assert program is not None
        assert (np.abs(function.mean - program.mean) < 0.5 * spread).all()


def test_certificates_are_the_page_s(walk: Walk) -> None:
    ensemble, posterior = (
        " ".join(walk.said[command].split())
        for command in walk.said
        if command.startswith("supac certify run.supac")
    )
    assert "With probability at least 0.95, the mean true risk of these 18" in ensemble
    assert "With probability at least 0.95, the mean true risk of the posterior" in posterior
    program = walk.json("program.json")
    assert (program["subject"], program["n"], program["draws"]) == ("ensemble", 19, 18)
    assert program["bound"] == "Betting"
    assert program["mean_risk"] < program["value"] < 1.0  # type: ignore[operator]
    assert len((walk.folder / "sets.csv").read_text().splitlines()) == 19


def test_the_start_page_has_the_certificate_of_the_starter_problem(tmp_path: Path) -> None:
    for name, text in starter_files("builtin").items():
        (tmp_path / name).write_text(text)
    problem = supac.read_problem(tmp_path / "problem.toml")
    certificate = problem.minimize().certificate
    assert certificate is not None
    assert certificate.value <= 0.43  # from at most 60 runs in all
    page = " ".join((PAGE.parent / "start.md").read_text().split())
    assert f"is at most {rounded_up(certificate.value)} (Betting)" in page
    assert certificate.in_words in page


def test_the_report_is_the_page_s(walk: Walk) -> None:
    said = " ".join(walk.said[next(c for c in walk.said if "supac report" in c)].split())
    assert "verdict: trust. All checks are passed." in said
    # A ridge of K and mu that a Gaussian would have to stay on: ranges were local.
    assert isinstance(supac.read_store(walk.folder / "run.supac").known_posterior().family, Mixture)
    page = (walk.folder / "run-report.html").read_text()
    assert "<h1>Growth of a batch culture</h1>" in page
    assert "With probability at least 0.95, the mean true risk of these 18" in page
    assert 'aria-labelledby="fit-1-title"' in page


def test_machines_can_read_it(walk: Walk) -> None:
    summary = walk.json("summary.json")
    assert summary["budget"] == 60
    with (walk.folder / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == summary["queries"]
    assert {"mu", "K", "Y", "risk", "purpose", "output_19"} <= set(rows[0])
    assert "output_20" not in rows[0]  # a number for each cell, also for the empty one
