"""Files of other tools with a mistake, run as a user would: file, line and fix, no traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import fmu_files
from commands import call
from extras import needs
from walks import files_of

PAGES = Path(__file__).parents[2] / "docs"


def told(folder: Path, main: str, code: int = 1) -> str:
    """What `supac run --check` says of the file, in one line."""
    return " ".join(call("run", folder / main, "--check", code=code).output.split())


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new, 1))


PETAB = [
    ("measurements.tsv", "0.601\t1\t", "0.601\t-1\t",
     "measurements.tsv, line 3, column time: -1 is before 0"),
    ("measurements.tsv", "noiseParameters", "noisParameters",
     "measurements.tsv, line 1: noisParameters is no column of PEtab; did you mean noiseParam"),
    ("parameters.tsv", "d\tlog10", "dd\tlog10",
     "parameters.tsv, line 3, column parameterId: dd is neither in the model nor in a condition"),
    ("observables.tsv", "A\t0.03", "A\t-0.03",
     "observables.tsv, line 2, column noiseFormula: the noise is -0.03, but must be above 0"),
    ("observables.tsv", "A_seen\tA\t", "A_seen\tAA\t",
     "observables.tsv, line 2, column observableFormula: AA is neither in the model nor in"),
    ("model.xml", '<speciesReference species="A"', '<speciesReference species="AA"',
     "model.xml, line 18: The species 'A' is not listed as a product, reactant, or modifier"),
    ("model.xml", "<ci>d</ci>", "<ci>dd</ci>", "model.xml, line 32: The formula 'dd"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "words"), PETAB)
def test_petab(tmp_path: Path, file: str, old: str, new: str, words: str) -> None:
    needs("roadrunner", "petab")
    files_of(PAGES / "petab.md", tmp_path)
    change(tmp_path / file, old, new)
    assert told(tmp_path, "problem.yaml").startswith(words)


PEST = [
    ("case.pst", "10.0    1.0   100.0", "ten     1.0   100.0",
     "case.pst, line 14: q0: parval1 ten is no number"),
    ("case.pst", "* observation data", "* observations data",
     "case.pst, line 24: * observations data is no section; did you mean * observation data?"),
    ("reservoir.tpl", "~         base         ~", "~         bas          ~",
     'reservoir.tpl, line 5: bas is no parameter of case.pst; did you mean "base"?'),
    ("reservoir.ins", "@flow at the gauge@", "@flow at gauge@",
     'the run failed: ProgramError: reservoir.ins, line 2: "flow at gauge" does not stand in'),
    ("case.pst", "reservoir.in > reservoir.out", "reservoir.in | head -c 60 > reservoir.out",
     "the run failed: ProgramError: reservoir.ins, line 4: reservoir.out has only 4 lines"),
    ("case.pst", "awk -f reservoir.awk reservoir.in > reservoir.out", "kill -SEGV $$",
     "the run failed: ProgramError: killed by SIGSEGV, Segmentation fault"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "words"), PEST)
def test_pest(tmp_path: Path, file: str, old: str, new: str, words: str) -> None:
    needs("pyemu")
    if shutil.which("awk") is None:
        pytest.skip("there is no awk")
    files_of(PAGES / "pest.md", tmp_path)
    change(tmp_path / file, old, new)
    assert words in told(tmp_path, "case.pst")


DECK = [
    ("growth.in.tpl", "{K:12.5e}", "{ks:12.5e}",
     "simulator.template: {K} stands nowhere in growth.in.tpl: write it where its value belongs"),
    ("growth.in.tpl", "{mu:12.5e}", "{Mu:12.5e}", "belongs; growth.in.tpl, line 2 has {Mu}"),
    ("growth.in.tpl", "{K:12.5e}", "{K:12.5q}",
     "the run failed: ProgramError: growth.in.tpl, line 3: {K:12.5q} is no format of 1.0"),
    ("growth.in.tpl", "{K:12.5e}", "{K:4.5e}",
     "growth.in.tpl, line 3: K = 1.00000e+00 does not fit into 4 characters"),
    ("deck.toml", 'output = "growth.lst"', 'output = "groth.lst"',
     "the run failed: ProgramError: the program wrote no groth.lst, but growth.lst"),
    ("deck.toml", "{hours} {X} {S}", "TIME {hours} {X} {S}",
     "the run failed: ProgramError: growth.lst has no line with hours as in pattern"),
    ("growth.py", "range(round(hours / step) + 1)", "range(500)",
     "growth.lst: hours goes from 0 to 4.75, but outputs are needed from 1 to 14"),
    ("growth.py", "if mu > 4.0:", "if mu < 4.0:", "exit code 1: STEP SIZE TOO LARGE"),
    ("growth.py", "{x:12.4e}", "************", "growth.lst, line 4: X is stars for a number"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "words"), DECK)
def test_decks(tmp_path: Path, file: str, old: str, new: str, words: str) -> None:
    files_of(PAGES / "your-simulator.md", tmp_path)
    change(tmp_path / file, old, new)
    assert words in told(tmp_path, "deck.toml")


FMU = [
    ("data.csv", "time,T,T_wall", "time,T [K],T_wall",
     "data.csv, line 1, column T: T of Room.fmu is in degC, and K is no unit that the model conv"),
    ("inputs.csv", "6,2000,2", "6,on,2", "inputs.csv, line 4, column P: 'on' is no number"),
    ("problem.toml", "C_wall =", "C_wal =", 'Room.fmu has no variable C_wal; did you mean "C_wall'),
    ("problem.toml", '"MJ/K"', '"GJ/K"', "GJ/K is no unit that the model converts to it: give it"),
]  # fmt: skip


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("room")
    files_of(PAGES / "fmi.md", folder)
    return fmu_files.build(folder / "room.py", folder / "made", "pythonfmu3")


@pytest.mark.parametrize(("file", "old", "new", "words"), FMU)
def test_fmus(tmp_path: Path, room: Path, file: str, old: str, new: str, words: str) -> None:
    files_of(PAGES / "fmi.md", tmp_path)
    shutil.copy(room, tmp_path / "Room.fmu")
    change(tmp_path / file, old, new)
    assert words in told(tmp_path, "problem.toml")


def test_an_fmu_for_another_platform(tmp_path: Path, room: Path) -> None:
    files_of(PAGES / "fmi.md", tmp_path)
    there = lambda name: name.replace("x86_64-linux", "other-os")  # noqa: E731
    fmu_files.changed(room, tmp_path / "Room.fmu", renamed=there)
    assert "export it for" in told(tmp_path, "problem.toml")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "Room.fmu",
            "Room.fmu: a problem file names the model: `supac init --fmu Room.fmu` writes",
        ),
        ("model.xml", "model.xml: a model is no problem: of PEtab, give the .yaml file that names"),
        ("data.csv", "data.csv: a table is no problem: `supac init` writes a problem file"),
    ],
)
def test_files_that_are_no_problem(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04\xff")
    assert told(tmp_path, name).startswith(words)
