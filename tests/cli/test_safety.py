"""What the commands refuse, and what they keep apart from their results."""

from __future__ import annotations

import csv
import json
import re
import signal
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.text import Text
from typer.testing import CliRunner, Result

import supac
from drivers import COMMAND, Driver
from supac.arrays import FloatArray
from supac.cli import app
from supac.cli.app import CleanConsole, print_json
from supac.codec.text import visible
from supac.problem_file import starter_files
from supac.problem_file.reader import check_compatible

MODEL = """
from math import exp

TIMES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]


def simulate(initial, k1, k2):
    print("a word of the simulator")
    a = [initial * exp(-k1 * t) for t in TIMES]
    b = [initial * k1 * (exp(-k1 * t) - exp(-k2 * t)) / (k2 - k1 + 1e-9) for t in TIMES]
    return {"A": a, "B": b}
"""


def call(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output + str(result.exception)
    return result


def write(folder: Path, *pairs: tuple[str, str], kind: str = "python") -> Path:
    """The starter with a fast model and some of its text changed."""
    for name, text in starter_files(kind).items():  # type: ignore[arg-type]
        (folder / name).write_text(text)
    if kind == "python":
        (folder / "model.py").write_text(MODEL)
    return change(folder / "problem.toml", *pairs)


def change(path: Path, *pairs: tuple[str, str]) -> Path:
    text = path.read_text()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    call("run", write(folder, kind="builtin"), "-q")
    return folder


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    for path in finished.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_certify_counts_the_data_as_the_file_does(study: Path) -> None:
    said = call("certify", study / "run.supac", "--n", "25", "--draws", "5", code=1).output
    assert "n = 25, but 24 numbers were measured" in said
    call("certify", study / "run.supac", "--n", "24", "--draws", "5")


@pytest.mark.parametrize("loss", ["root-mean-square", "mean-square"])
def test_the_loss_of_each_datum_is_capped_where_it_has_no_ceiling(
    loss: str, tmp_path: Path
) -> None:
    problem = write(tmp_path, ('kind = "welsch"\nwidth', f'kind = "{loss}" #'), kind="builtin")
    text = problem.read_text()
    problem.write_text(
        re.sub(r"\[bound\].*?\[run\]", "[bound]\ntemperature = 0.1\n[run]", text, flags=re.S)
    )
    call("run", problem, "-q")
    said = " ".join(call("certify", tmp_path / "run.supac").output.split())
    capped = 3 if loss == "root-mean-square" else 9
    assert f"(each loss capped at {capped})" in said
    assert ("root of the mean square" in said) is (loss == "root-mean-square")


OTHERS = [
    ("median = 0.5", "median = 0.6", "gives another prior"),
    ("width = 3.0", "width = 2.0", "gives another loss"),
    ('"data.csv"', '"new.csv"', "the data have changed"),
]


@pytest.mark.parametrize(("old", "new", "words"), OTHERS)
def test_certify_refuses_the_file_of_another_problem(
    old: str, new: str, words: str, study: Path
) -> None:
    (study / "new.csv").write_text((study / "data.csv").read_text().replace("1.597", "1.7"))
    (study / "other.toml").write_text((study / "problem.toml").read_text())
    other = change(study / "other.toml", (old, new))
    said = call("certify", study / "run.supac", "--problem", other, "--draws", "5", code=1).output
    assert words in said


def test_a_changed_loss_is_refused_and_a_changed_script_told(tmp_path: Path) -> None:
    own = ('kind = "welsch"\nwidth = 3.0 ', 'python = "mine:loss" #')
    (tmp_path / "mine.py").write_text("def loss(r):\n    return (r**2).mean(axis=1)\n")
    problem = write(tmp_path, own, ("delta = 0.05", "ceiling = 1e9"), kind="command")
    begun = supac.read_problem(problem).files
    assert set(begun) == {"data", "simulator", "loss", "loss code"}
    for name, purpose in (("mine.py", "loss"), ("model.py", "simulator"), ("data.csv", "data")):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text(before + "\n")
        now = supac.read_problem(problem).files
        assert [each for each in begun if begun[each] != now[each]] == [purpose]
        (tmp_path / name).write_text(before)
    call("run", change(problem, ("budget = 60", "budget = 12\nvalidation = 0")), "-q")
    with (tmp_path / "model.py").open("a") as file:
        file.write("\n# a comment\n")
    assert "the simulator has changed" in call("resume", tmp_path / "run.supac").output
    with (tmp_path / "mine.py").open("a") as file:
        file.write("\n# a comment\ndef other(r):\n    return 0.0\n")
    assert "nothing is left to do" in call("resume", tmp_path / "run.supac").output
    (tmp_path / "mine.py").write_text("def loss(r):\n    return (r**2).max(axis=1)\n")
    said = call("resume", tmp_path / "run.supac", code=1).output
    assert "the file of the loss has changed" in said


def test_code_that_has_nothing_to_do_with_the_simulator_may_change(tmp_path: Path) -> None:
    problem = write(tmp_path, ("budget = 60", "budget = 12\nvalidation = 0"))
    call("run", problem, "-q")
    (tmp_path / "scenario.toml").write_text("draws = 2\n")
    call("predict", tmp_path / "run.supac", tmp_path / "scenario.toml", "-q")
    before = (tmp_path / "model.py").read_text()
    later = before + "\n\ndef to_plot(x):\n    return x\n"
    (tmp_path / "model.py").write_text(later)
    assert "has changed" not in call("resume", tmp_path / "run.supac").output
    more = ("predict", tmp_path / "run.supac", tmp_path / "scenario.toml", "--draws", "3", "-q")
    assert "has changed" not in call(*more).output
    (tmp_path / "model.py").write_text(later.replace("a = [initial", "a = [2.0 * initial"))
    assert (tmp_path / "model.py").read_text() != later
    assert "the simulator has changed" in call("resume", tmp_path / "run.supac").output
    assert "a file of the simulator or of the scenario has changed" in call(*more, code=1).output


def test_stores_without_a_checksum_of_code_are_compared_by_file(tmp_path: Path) -> None:
    problem = write(tmp_path, ("budget = 60", "budget = 12\nvalidation = 0"))
    call("run", problem, "-q")
    ready, run = supac.read_problem(problem), supac.read_store(tmp_path / "run.supac")
    told = json.loads(run.description)
    assert told["files"].pop("simulator code")
    earlier = SimpleNamespace(
        description=json.dumps(told),
        settings=run.settings,
        file=run.file,
        path=run.path,
        light_runs=run.light_runs,
    )
    assert check_compatible(ready, earlier) == []  # type: ignore[arg-type]
    with (tmp_path / "model.py").open("a") as file:
        file.write("\n# a comment\n")
    ready = supac.read_problem(problem)
    assert "the simulator has changed" in check_compatible(ready, earlier)[0]  # type: ignore[arg-type]
    assert check_compatible(ready, run) == []


def test_a_module_that_ends_python_is_an_error(tmp_path: Path) -> None:
    problem = write(tmp_path)
    (tmp_path / "model.py").write_text(f"import sys\n{MODEL}\nsys.exit()\n")
    said = call("run", problem, code=1).output
    assert "model.py, line 14 raised SystemExit when it was loaded" in said
    assert "__main__" in said


def test_what_is_missing_is_named_rightly(tmp_path: Path) -> None:
    problem = write(tmp_path)
    (tmp_path / "model.py").write_text("import mod\n")
    assert "model.py, line 1 raised ModuleNotFoundError" in call("run", problem, code=1).output
    change(problem, ("model:simulate", "model.py:simulate"))
    assert 'write "model:…", without .py' in call("run", problem, code=1).output


EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f"
HIDDEN = "a\u202eb\u2066c\u200fd\u061ce\u2028f\ufeffg\u200bh\udce9i\U000e0041j"
INVISIBLE = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)


def test_no_text_of_others_reaches_the_terminal_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console = CleanConsole(force_terminal=True, width=80)
    with console.capture() as captured:
        console.print(Text(EVIL, style="bold"))
        console.print(Text(HIDDEN, style="bold"))
    said = captured.get()
    lines = re.sub(r"\x1b\[\d*m", "", said).splitlines()
    assert lines == ["␛]0;title␛[2J�31m␡", "a�b�c�d�e�f�g�h�i�j"]  # rich drops the bell
    print_json({"title": EVIL + HIDDEN})
    printed = capsys.readouterr().out
    assert not INVISIBLE.search(printed)
    assert json.loads(printed)["title"] == EVIL + HIDDEN
    problem = write(tmp_path)
    (tmp_path / "model.py").write_text(f"raise ValueError({EVIL + HIDDEN!r})\n")
    assert not INVISIBLE.search(call("run", problem, code=1).output)


def test_names_and_messages_of_a_store_are_shown_as_they_are_spelled(tmp_path: Path) -> None:
    """Text that turns the line around would show another parameter, or another verdict."""
    store, page = tmp_path / "run.supac", tmp_path / "page.html"
    name = "rate\u202e\u2066\x1b[31m\U000e0041"
    parameters = supac.Parameters({name: supac.marginals.Normal(0.0, 1.0, unit="\u200f\x9bm")})

    def fails(x: FloatArray) -> float:
        if x[0] > 0.5:
            raise ValueError(EVIL + HIDDEN)
        return float(np.tanh(x[0] ** 2))

    supac.minimize(
        fails,
        parameters,
        supac.Catoni(0.05),
        budget=40,
        store=store,
        execution=supac.Execution(on_failure="penalise"),
    )
    shown = call("show", store).output
    assert not INVISIBLE.search(shown)
    assert "rate��␛[31m�" in shown
    assert "a�b�c" in shown
    call("report", store, "-o", page, "--title", f"study {name}")
    text = page.read_text()
    assert not INVISIBLE.search(text)
    assert "<h1>study rate��␛[31m�</h1>" in text
    assert "a�b�c" in text
    assert json.loads(call("show", store, "--json").output)["parameters"][0]["name"] == name
    zero_width_joiners = "क्\u200dष, می\u200cخواهم"
    assert visible(zero_width_joiners) == zero_width_joiners


@pytest.mark.parametrize("workers", [(), ("--workers", "1")])
def test_a_simulator_that_prints_does_not_spoil_the_json(
    workers: tuple[str, ...], tmp_path: Path
) -> None:
    write(tmp_path)
    with (tmp_path / "model.py").open("a") as file:
        file.write("\nprint('a word of the module')\n")
    words = ("run", "problem.toml", "--budget", "30", "--json", *workers)
    code, said, complained = Driver(COMMAND, *words, cwd=tmp_path).end()
    assert code == 0
    assert json.loads(said)["budget"] == 30
    assert "a word of the module" in complained
    assert "a word of the simulator" in complained


def test_follow_says_what_it_waits_for(tmp_path: Path) -> None:
    said = call("show", tmp_path / "none" / "run.supac", "--follow", code=1).output
    assert "there is no folder" in said
    process = Driver(COMMAND, "show", "run.supac", "--follow", cwd=tmp_path)
    assert "waiting for run.supac" in process.complaint()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    code, said, complained = process.end()
    assert code == 130
    assert "Traceback" not in said + complained


def test_check_kills_a_run_that_takes_too_long(tmp_path: Path) -> None:
    problem = write(tmp_path, ("# timeout = 600.0", "timeout = 1.0"))
    change(
        tmp_path / "model.py", ('print("a word of the simulator")', "__import__('time').sleep(600)")
    )
    said = call("run", problem, "--check", code=1).output
    assert re.search("the run failed: .*1 s", said)


def test_check_says_how_the_function_wants_to_be_called(tmp_path: Path) -> None:
    problem = write(tmp_path, ("arguments =", "# arguments ="))
    assert 'add arguments = "names"' in call("run", problem, "--check", code=1).output
    bare = re.sub(r"\[data\].*?\[bound\]", "[bound]", problem.read_text(), flags=re.S)
    problem.write_text(bare.replace("# arguments", "arguments"))
    assert "add [data]" in call("run", problem, "--check", code=1).output


def test_a_record_is_printed_in_a_line(finished: Path) -> None:
    run = supac.read_store(finished / "run.supac")
    assert re.fullmatch(
        r"Record\('.*run\.supac', 49 of 60 runs, ended: converged, objective=0\.\d+, .*\)", str(run)
    )


def test_known_runs_must_have_the_outputs_of_the_file(study: Path) -> None:
    table, problem = study / "runs.csv", study / "problem.toml"
    call("export", study / "run.supac", table)
    change(problem, ("seed = 0", 'known = "runs.csv"\ntolerance = 1e-3'))
    ready = supac.read_problem(problem)
    assert len(ready.options["known"]) == 49
    assert ready.options["tolerance"] == 1e-3
    lines = [line.split(",") for line in table.read_text().splitlines()]
    at = lines[0].index("output_3")
    rest = [line[:at] + line[at + 1 :] for line in lines]
    bare = [line[: lines[0].index("output_0")] for line in lines]
    residuals = [lines[0], [*lines[1][: at - 3], *["0.5"] * 24]]  # as version 0.1 wrote them
    shifted = [lines[0], lines[1], [*lines[2][:at], "7.5", *lines[2][at + 1 :]]]
    for rows, words in (
        (rest, "23 columns output_…, but the data have 24 numbers"),
        (bare, "needs the columns output_0 to output_23, which are what the simulator returns"),
        (shifted, "runs.csv, line 3: risk is"),
        (residuals, "runs.csv, line 2: risk is"),
    ):
        table.write_text("\n".join(map(",".join, rows)) + "\n")
        with pytest.raises(supac.ProblemFileError, match=r"run\.known") as raised:
            supac.read_problem(problem)
        assert words in str(raised.value)


def test_a_store_finds_its_file_though_another_lies_beside_it(tmp_path: Path) -> None:
    study, few = tmp_path, ("budget = 60", "budget = 12\nvalidation = 0")
    call("run", write(study, few, kind="builtin"), "-q")
    (study / "moved").mkdir()
    moved = study / "moved" / "run.supac"
    (study / "run.supac").rename(moved)
    (study / "moved" / "problem.toml").write_text("another = 1\n")
    said = call("certify", moved, "--draws", "5").output
    assert f"has another text: {study / 'problem.toml'} is used" in said
    change(study / "problem.toml", ("seed = 0", "seed = 1"))
    assert (
        "has changed since the last run of" in call("certify", moved, "--draws", "5", code=1).output
    )
    call("certify", moved, "--draws", "5", "--as-begun")  # with the data of its own folder


def test_a_small_delta_is_not_certainty(study: Path) -> None:
    said = call("certify", study / "run.supac", "--delta", "1e-6", "--draws", "5").output
    assert "With probability at least 0.999999," in said


def test_draws_of_the_posterior_are_a_table(study: Path) -> None:
    table = study / "draws.csv"
    assert "wrote 7 draws" in call("export", study / "run.supac", table, "--posterior", "7").output
    header, *rows = table.read_text().splitlines()
    assert header == "initial,k1,k2"
    drawn = [[float(cell) for cell in row.split(",")] for row in rows]
    assert drawn == supac.read_store(study / "run.supac").sample(7, 0).tolist()
    assert "exists already" in call("export", study, table, "--posterior", "7", code=1).output


def test_runs_of_two_simulators_are_told_apart(tmp_path: Path) -> None:
    few = ("budget = 60", "budget = 14\nvalidation = 3")
    store = tmp_path / "run.supac"
    call("run", write(tmp_path, few), "-q")
    model = tmp_path / "model.py"
    before = model.read_text()
    model.write_text(before.replace("a = [initial", "a = [1.01 * initial"))
    old = len(supac.read_store(store).made)
    said = " ".join(call("resume", store, "--budget", "20", "-q", code=1).output.split())
    assert f"the simulator has changed since {old} of the {old} runs" in said
    assert "--changed-simulator" in said
    assert len(supac.read_store(store).made) == old
    go_on = ("--changed-simulator", "-q")
    said = " ".join(call("resume", store, "--budget", "20", *go_on).output.split())
    assert f"the simulator has changed since {old} of the {old} runs in run.supac were made" in said
    made = supac.read_store(store).simulators
    assert (made[0].number, made[0].runs) == (1, old)
    assert len(made) == 2
    # Each later command compares with all runs, not only with the last resume.
    said = " ".join(call("resume", store, "--budget", "26", *go_on).output.split())
    assert f"since {old} of the" in said
    call("export", store, tmp_path / "runs.csv")
    rows = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    assert Counter(row["simulator"] for row in rows)["1"] == old
    said = " ".join(call("report", store).output.split())
    assert f"made by the same simulator? No, it was changed: {old} by version 1" in said
    assert "version 2" in (tmp_path / "run-report.html").read_text()
    assert f"changed on the way: {old} by version 1" in " ".join(call("show", store).output.split())
    for name in ("sensitivity", "next"):
        said = " ".join(call(name, store).stderr.split())
        assert f"changed on the way: {old} by version 1" in said
    call("watch", store, "--once")
    assert "it was changed: " in (tmp_path / "run-live.html").read_text()
    model.write_text(before)  # certificates are made by version 1 again
    call("certify", store, "--draws", "5")
    assert supac.read_store(store).simulators[0].runs == old + 5


def test_a_certificate_is_of_one_simulator(tmp_path: Path) -> None:
    problem = write(tmp_path, ("budget = 60", "budget = 14\nvalidation = 3"))
    store, model = tmp_path / "run.supac", tmp_path / "model.py"
    call("run", problem, "-q")
    call("certify", store)
    call("certify", store, "--draws", "5")
    before = model.read_text()
    model.write_text(before.replace('"A": a', '"A": [0.2 * each for each in a]'))
    runs = len(supac.read_store(store).runs)
    said = " ".join(call("certify", store, "--draws", "8", code=1).output.split())
    assert "5 of the 5 runs that run.supac has for this certificate were made by another" in said
    said = " ".join(call("certify", store, code=1).output.split())
    assert "3 of its runs were made by another version of the simulator" in said
    # Nor of two where the paths of a store are spelt in two ways.
    ready, record = supac.read_problem(problem), supac.read_store(store)
    other = tmp_path / "x" / ".." / "run.supac"
    (tmp_path / "x").mkdir()
    with pytest.raises(supac.CertificateError, match="5 of the 5 runs"):
        ready.certify(record, draws=8, store=other)
    assert len(supac.read_store(store).runs) == runs
    ready.certify(record, draws=4, seed=7, store=other)  # at other points: all by version 2
    assert [each.runs for each in supac.read_store(store).simulators] == [runs, 4]
    model.write_text(before)
    call("certify", store, "--draws", "8")
    call("certify", store)
    with pytest.raises(supac.CertificateError, match="4 of the 4 runs"):
        supac.read_problem(problem).certify(record, draws=4, seed=7, store=store)


def test_a_search_that_goes_on_remembers_its_simulators(tmp_path: Path) -> None:
    problem = write(tmp_path, ("budget = 60", "budget = 14\nvalidation = 3"))
    store, model = tmp_path / "run.supac", tmp_path / "model.py"
    call("run", problem, "-q")
    old = len(supac.read_store(store).made)
    model.write_text(model.read_text().replace("a = [initial", "a = [1.01 * initial"))
    again = supac.read_problem(problem).minimize()  # no new run: the old ones validate it
    assert again.certificate is None
    ending = supac.read_store(store).ending
    assert ending is not None
    assert "another version of the simulator made 3 of the 3 fresh runs" in ending.uncertified
    supac.read_problem(problem).minimize(budget=20)
    made = supac.read_store(store).simulators
    assert [each.number for each in made] == [1, 2]
    assert made[0].runs == old


def test_a_title_or_a_comment_does_not_matter(tmp_path: Path) -> None:
    problem = write(tmp_path, ("budget = 60", "budget = 12\nvalidation = 0"), kind="builtin")
    call("run", problem, "-q")
    change(problem, ("title = ", "# another\ntitle = 'New' # "))
    (tmp_path / "scenario.toml").write_text("draws = 2\n")
    call("predict", tmp_path / "run.supac", tmp_path / "scenario.toml", "-q")
    call("resume", tmp_path / "run.supac", "--budget", "17", "-q")
    shown = call("show", tmp_path / "run.supac").output
    assert shown.split()[0] == "New"


def test_known_runs_of_another_simulator_are_told(tmp_path: Path) -> None:
    problem = write(tmp_path, ("budget = 60", "budget = 12\nvalidation = 0"))
    call("run", problem, "-q")
    text = problem.read_text().replace("budget = 12", 'budget = 12\nknown = "run.supac"')
    (tmp_path / "new.toml").write_text(text.replace('store = "run.supac"', 'store = "new.supac"'))
    assert "another simulator" not in call("run", tmp_path / "new.toml", "--check").output
    model = tmp_path / "model.py"
    model.write_text(model.read_text().replace("a = [initial", "a = [1.01 * initial"))
    assert "another simulator" in call("run", tmp_path / "new.toml", "--check").output


def test_known_runs_of_another_function_are_told(tmp_path: Path) -> None:
    problem = write(tmp_path, ("budget = 60", "budget = 12\nvalidation = 0"))
    call("run", problem, "-q")
    text = problem.read_text().replace("budget = 12", 'budget = 12\nknown = "run.supac"')
    text = text.replace('store = "run.supac"', 'store = "new.supac"')
    model = tmp_path / "model.py"
    model.write_text(model.read_text() + "\n\nother = simulate\n")
    (tmp_path / "new.toml").write_text(text.replace("model:simulate", "model:other"))
    said = " ".join(call("run", tmp_path / "new.toml", "--check").output.split())
    assert (
        'simulator.python is "model:other", but was "model:simulate" where the runs of run.supac '
        "were made: leave out known in [run] if its outputs differ" in said
    )


def test_resume_says_beforehand_how_many_runs_follow(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    call("run", write(tmp_path, ("budget = 60", "budget = 40")), "-q")
    before = supac.read_store(store)
    search = sum(run.purpose == "search" for run in before.made)
    said = " ".join(call("resume", store, "--budget", "48").output.split())
    told = re.search(
        r"(\d+) runs of the search are made: up to (\d+) more .* about (\d+) that", said
    )
    assert told is not None
    assert int(told[1]) == search
    made = len(supac.read_store(store).made) - len(before.made)
    assert int(told[2]) + int(told[3]) == 48 - search
    assert int(told[3]) < made <= 48 - search  # batches are whole, so that some may be left
    assert "validating the posterior with" in said


def test_a_function_that_needs_times_asks_for_their_column(tmp_path: Path) -> None:
    for name, text in starter_files("python").items():
        (tmp_path / name).write_text(text)
    table = tmp_path / "data.csv"
    table.write_text(table.read_text().replace("time", "hour", 1))
    said = " ".join(call("run", tmp_path / "problem.toml", "--check", code=1).output.split())
    assert 'name the column of the times, time = "…" in [data]' in said
    change(tmp_path / "problem.toml", ('file = "data.csv"', 'file = "data.csv"\ntime = "hour"'))
    assert "no mistake found" in call("run", tmp_path / "problem.toml", "--check").output
