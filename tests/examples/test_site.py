"""What the site is made of: every page has its place, every public name is described."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

import supac
from supac.cli.posterior_tables import sensitivity_tables
from supac.problem_file import starter_files

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_is_in_the_index() -> None:
    listed = re.findall(r"^- \[[^\]]+\]\((\S+)\.md\)", (DOCS / "index.md").read_text(), flags=re.M)
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert sorted(name for name in listed if "/" not in name) == sorted(pages)


def test_every_public_name_is_described_once() -> None:
    names = re.findall(r"`(\w+)`[,\n]", (DOCS / "api.md").read_text().split("\n## ", 1)[1])
    assert sorted(names) == sorted(supac.__all__)


def test_the_picture_can_be_drawn() -> None:
    figure = Figure()
    runpy.run_path(str(DOCS / "figures" / "rounds.py"))["draw"](figure)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [f"round {i + 1}, {10 + 6 * i} runs" for i in range(4)]


PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_formulas_are_typeset(path: Path) -> None:
    """Every formula becomes MathML without a rest of LaTeX, so that no script is needed."""
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: make .venv/ready")
    mathml = runpy.run_path(str(DOCS / "conf.py"))["mathml"]
    fences = re.compile(r"^```([^\n`]*)\n(.*?)^```$", flags=re.M | re.S)
    blocks = [text for language, text in fences.findall(path.read_text()) if language == "math"]
    prose = re.sub(r"`[^`\n]+`", "", fences.sub("", path.read_text()))
    inline = re.findall(r"\$([^$]+)\$", prose)
    for formula in [*blocks, *inline]:
        made = mathml(formula, "block")
        assert made.startswith("<math")
        assert "\\" not in made
        assert "\n\n" not in formula, "a $ that is not closed"


def shown(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.M | re.S)


NUMBER = re.compile(r"\d+(?:\.\d+)?")


def says(said: str, shown: str) -> bool:
    """Whether two lines have the same words, and numbers that agree.

    Whole ones do if they are equal, others up to one in the last digit that is shown: how they are
    rounded may depend on the machine.
    """
    if NUMBER.sub("#", " ".join(said.split())) != NUMBER.sub("#", " ".join(shown.split())):
        return False
    for mine, theirs in zip(NUMBER.findall(said), NUMBER.findall(shown), strict=True):
        digits = len(theirs.partition(".")[2])
        if abs(float(mine) - float(theirs)) > (1.001 * 10.0**-digits if digits else 0.0):
            return False
    return True


def test_numbers_are_compared() -> None:
    row = "k1  1/h  0.5 (0.134 to 1.86)  0.04"
    assert says("k1 1/h  0.5 (0.135 to 1.9) 0.05", row.replace("1.86", "1.9"))
    assert not says(row.replace("0.04", "0.06"), row)
    assert not says(row.replace("k1", "k2"), row)
    assert not says(row.replace(" to ", " and "), row)


@pytest.mark.parametrize("name", ["index.md", "start.md"])
def test_the_first_five_minutes_are_as_shown(name: str, tmp_path: Path) -> None:
    page = (DOCS / name).read_text()
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": tools, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    said: list[str] = []
    for line in "".join(shown(page, "sh")).splitlines():
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        said += done.stdout.splitlines()
    for line in "".join(shown(page, "text")).splitlines():
        assert any(says(each, line) for each in said), f"{line}\n{said}"


def test_the_sensitivities_are_as_shown(tmp_path: Path) -> None:
    """The page shows those of the starter's study, with the command that prints them last."""
    page = (DOCS / "sensitivity.md").read_text()
    for name, text in starter_files("builtin").items():
        (tmp_path / name).write_text(text)
    found = supac.read_problem(tmp_path / "problem.toml").minimize().sensitivity(under="prior")
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(sensitivity_tables(found, 100))

    def as_shares(text: str) -> list[str]:
        """Lines with percentages as shares, which may differ by one in the last digit."""
        return re.sub(r"\b(\d+) %", lambda m: f"{int(m[1]) / 100:.2f}", text).splitlines()

    said = as_shares(captured.get())
    for line in as_shares("".join(shown(page, "text"))):
        assert any(says(each, line) for each in said), f"{line}\n{said}"


@pytest.mark.parametrize("name", ["../README.md", "index.md"])
def test_the_picture_of_a_fit_says_after_how_many_runs(name: str) -> None:
    runs = re.search(r"^runs +(\d+) of", (DOCS / "index.md").read_text(), re.M)
    assert runs is not None  # the test of the first five minutes compares it with the study
    assert f"after {runs[1]} runs. " in (DOCS / name).read_text()


def test_the_numbers_of_the_answers_are_those_of_the_benchmarks() -> None:
    """Tell after how many runs how much is left, and what ADM1 takes, as the tables do."""
    tables = (DOCS / "benchmarks.md").read_text()
    answers = " ".join((DOCS / "questions.md").read_text().split())
    left = re.search(
        r"^\| judgement: default search \| ([\d.]+) .*?\| ([\d.]+) .*?\| ([\d.]+) ", tables, re.M
    )
    runs = re.search(r"^\| \| 0\.125 \| (\d+) \| (\d+) \| (\d+) \|$", tables, re.M)
    assert left is not None
    assert runs is not None
    assert "{} % left after 30 runs, {} % after 60 and {} % after 100".format(*left.groups()) in (
        answers
    )
    said = "takes {} runs where its outputs are given, {} with the risk alone, and {} with the"
    assert said.format(*runs.groups()) in answers


def test_the_numbers_of_the_comparison_are_the_table_s() -> None:
    """By how many per cent our median is below PyVBMC's, as the FAQ says."""
    table = (DOCS.parent / "benchmarks" / "results" / "peers.md").read_text()
    rows = re.findall(r"^\| \d+ \| (\d+) \| (0\.\d+) .*?\| (0\.\d+) .*\|$", table, re.M)
    said = re.search(
        r"our objective is ([\d.]+) to ([\d.]+) % lower than PyVBMC's after 100 queries, and "
        r"([\d.]+) to ([\d.]+) % after 200",
        " ".join((DOCS / "faq.md").read_text().split()),
    )
    assert said is not None
    measured = []
    for queries in ("100", "200"):
        gaps = [100 * (1 - float(b) / float(a)) for q, a, b in rows if q == queries]
        assert len(gaps) == 3
        measured += [min(gaps), max(gaps)]
    assert [float(each) for each in said.groups()] == pytest.approx(measured, abs=0.05)
