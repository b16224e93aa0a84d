"""Programs that know nothing of us: decks, arguments, the environment, tables and plain text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import supac
from supac.simulators.output_file import OutputError, OutputFile
from supac.simulators.program import ProgramError
from supac.simulators.template import Template

POINT = [0.25, -1.5e-7]


def shell(folder: Path, text: str) -> list[str]:
    script = folder / "model.sh"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return [str(script)]


def test_a_deck_has_the_values_in_their_places(tmp_path: Path) -> None:
    deck = tmp_path / "deck.in.tpl"
    deck.write_text("K {k}\r\nM={m:12.4E}|{k:>6.2f}| { k } {other} {} {a\nb}\n", newline="")
    filled = Template.read(deck)
    assert filled.name == "deck.in"
    assert filled.fill({"k": 0.25, "m": -1.5e-7}) == (
        "K 0.25\r\nM= -1.5000E-07|  0.25| 0.25 {other} {} {a\nb}\n"
    )
    with pytest.raises(ValueError, match=r"deck.in.tpl, line 2: k = 1234.50 does not fit into 6"):
        filled.fill({"k": 1234.5, "m": 0.0})
    with pytest.raises(ValueError, match=r"^deck, line 1: \{k:d\} is no format of 0.5"):
        Template("deck", "{k:d}").fill({"k": 0.5})


def test_a_program_reads_its_own_deck_and_the_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "deck.in.tpl").write_text("{k} {m}\n")
    (tmp_path / "weather.dat").write_text("7.5\n")
    model = shell(tmp_path, "{ cat deck.in weather.dat; ls; } > out.txt; test ! -e input.json")
    program = supac.Program(
        model,
        names=["k", "m"],
        template=tmp_path / "deck.in.tpl",
        copies=[tmp_path / "weather.dat"],
        output=OutputFile("out.txt", pattern=["{k} {m}"], key=["k", "m"]),
    )
    assert program(POINT) == POINT
    with pytest.raises(ProgramError, match=r"\{n\} stands nowhere in deck.in.tpl: write it where"):
        supac.Program(model, names=["k", "n"], template=tmp_path / "deck.in.tpl")(POINT)
    (tmp_path / "near.tpl").write_text("{k}\n{Rate}\n")
    near = supac.Program(model, names=["k", "rate"], template=tmp_path / "near.tpl")
    with pytest.raises(ProgramError, match=r"belongs; near.tpl, line 2 has \{Rate\}"):
        near(POINT)
    with pytest.raises(ProgramError, match=r"none.dat could not be copied: .*No such file"):
        supac.Program(model, copies=[tmp_path / "none.dat"])(POINT)


def test_a_deck_may_be_on_the_standard_input(tmp_path: Path) -> None:
    (tmp_path / "deck.in.tpl").write_text("{k}, {m}\n")
    (model,) = shell(tmp_path, 'read line; echo "[$line]" > output.json')
    words = ["sh", "-c", "$0 < deck.in", model]
    program = supac.Program(words, names=["k", "m"], template=tmp_path / "deck.in.tpl")
    assert program(POINT) == POINT


def test_values_may_be_arguments_or_variables(tmp_path: Path) -> None:
    model = shell(tmp_path, """echo "[$1, ${2#--m=}]" > output.json""")
    words = [*model, "{k}", "--m={m}"]
    program = supac.Program(words, names=["k", "m"], inputs="arguments")
    assert program(POINT) == POINT
    with pytest.raises(ProgramError, match=r"\{m\} stands nowhere in the command"):
        supac.Program(words[:2], names=["k", "m"], inputs="arguments")(POINT)
    model = shell(tmp_path, """test -n "$PATH" && echo "[$k, $m]" > output.json""")
    assert supac.Program(model, names=["k", "m"], inputs="environment")(POINT) == POINT


def test_values_may_be_arguments_in_a_format_and_in_a_deck_beside(tmp_path: Path) -> None:
    (tmp_path / "deck.in.tpl").write_text("{m}\n")
    model = shell(tmp_path, """echo "[$1, $(cat deck.in)]" > output.json""")
    deck = tmp_path / "deck.in.tpl"
    program = supac.Program(
        [*model, "{k:.1f}"], names=["k", "m"], inputs="arguments", template=deck
    )
    assert program(POINT) == [0.2, POINT[1]]
    with pytest.raises(ProgramError, match=r"\{n\} stands nowhere in the command or deck.in.tpl:"):
        supac.Program([*model, "{k}"], names=["k", "n"], inputs="arguments", template=deck)(POINT)
    with pytest.raises(ProgramError, match=r"the command, line 1: \{k:d\} is no format of 0.25"):
        supac.Program([*model, "{k:d}"], names=["k"], inputs="arguments")([0.25])


@pytest.mark.parametrize("inputs", ["json", "csv", "environment", None])
def test_a_value_in_the_command_that_is_not_replaced_is_told(
    tmp_path: Path, inputs: Literal["json", "csv", "environment"] | None
) -> None:
    (tmp_path / "deck.in.tpl").write_text("{k} {m}\n")
    template = [] if inputs else [tmp_path / "deck.in.tpl"]
    words = [*shell(tmp_path, "echo 1 > output.json"), "--m={m}"]
    program = supac.Program(words, names=["k", "m"], inputs=inputs, template=template)
    with pytest.raises(ProgramError, match=r'\{m\} in the command is not .* inputs = "arguments"'):
        program(POINT)


def test_a_deck_keeps_bytes_that_are_no_utf_8(tmp_path: Path) -> None:
    (tmp_path / "deck.in.tpl").write_bytes(b"* 20 \xb0C\r\n{k}\r\n")
    model = shell(tmp_path, f"cp deck.in {tmp_path}/seen; echo 1 > output.json")
    supac.Program(model, names=["k"], template=tmp_path / "deck.in.tpl")([0.25])
    assert (tmp_path / "seen").read_bytes() == b"* 20 \xb0C\r\n0.25\r\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_outputs_may_be_in_the_encoding_of_their_program(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "out.txt").write_text("at 20 °C\nX = 0.5 °C\nX = 0.25 °C\n", encoding=encoding)
    (tmp_path / "out.csv").write_text("t;X;Größe\n0;0.5;1\n1;0.25;2\n", encoding=encoding)
    assert OutputFile("out.txt", "X", "X = {X} °C").read(tmp_path) == [0.5, 0.25]
    assert OutputFile("out.csv", ["X", "Größe"]).read(tmp_path) == [0.5, 0.25, 1.0, 2.0]
    assert OutputFile("out.csv", ["t"]).read(tmp_path) == [0.0, 1.0]  # no mark before the name


TABLES = [
    ("time,X,S\n0,1,2\n1,3,4.5\n", "out.csv"),
    ("time;X;S\n0;1;2\n1;3;4.5\n", "out.csv"),
    ("# time  X    S\n  0.0  1.0  .2d1\n\n  1.0  3.  4.5D+00\n", "out.dat"),
    ("time\tX\tS\n0\t1\t2\n1\t3\t4.5\n", "stdout"),
]


@pytest.mark.parametrize(("text", "name"), TABLES)
def test_tables_have_columns(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / ("stdout.txt" if name == "stdout" else name)).write_text(text)
    assert OutputFile(name, ["X", "S"], rows=2).read(tmp_path) == [1.0, 3.0, 2.0, 4.5]
    assert OutputFile(name, "S").read(tmp_path) == [2.0, 4.5]
    sampled = OutputFile(name, ["X", "S"], times="time", at=[0.0, 0.5]).read(tmp_path)
    assert sampled == [1.0, 2.0, 2.0, 3.25]


LISTING = """\
 GROWTH 2.1 (1987)          X and S in g/L
 STEP    1  X= 1.00  S = 0.20D+01
 TIME      BIOMASS  SUBSTRATE
   0.0  1.000E+00  2.000
   1.0  3.000E+00  4.500
 YIELD:0.45g/g
"""
PATTERNS = [
    ("{} {X} {S}", ["X", "S"], [1.0, 3.0, 2.0, 4.5]),
    ("X = {X} S = {S}", ["S", "X"], [2.0, 1.0]),
    ("S = {S}", "S", [2.0]),
    ("TEP {i}", "i", None),  # not STEP
    ("YIELD:{Y}g/g", "Y", [0.45]),
    (["yield:{Y}g", "STEP {i}"], ["i", "Y"], [1.0, 0.45]),
    ("YIELD:{Y}", "Y", None),  # 0.45g is no number
]


@pytest.mark.parametrize(("pattern", "key", "found"), PATTERNS)
def test_texts_have_patterns(
    tmp_path: Path, pattern: str, key: list[str], found: list[float] | None
) -> None:
    (tmp_path / "stdout.txt").write_text(LISTING)
    output = OutputFile("stdout", key, pattern)
    if found is None:
        with pytest.raises(OutputError, match=r"stdout has no line with . as in pattern"):
            output.read(tmp_path)
    else:
        assert output.read(tmp_path) == found


TORN = [
    ("X,S\n1,2\n3", "out.csv, line 3: 1 cells, but its first line has 2"),
    ("X,S\n1,2\n3,4.", None),
    ("X,S\n1,2\n", "out.csv has 1 numbers for X, but the data have 2 rows"),
    ("X,S\n1,2\n3,****\n", "line 3: S is stars for a number that did not fit its field"),
    ("X,S\n1,2\n3,4e\n", "out.csv, line 3: S is '4e'"),
    ("X,T\n1,2\n", "out.csv has no 'S', but T, X"),
    ("", "out.csv is empty"),
]


@pytest.mark.parametrize(("text", "words"), TORN)
def test_torn_outputs_are_named_with_the_program_s_last_words(
    tmp_path: Path, text: str, words: str | None
) -> None:
    (tmp_path / "torn.csv").write_text(text)
    model = shell(tmp_path, f"cp {tmp_path}/torn.csv out.csv; echo 'step 9: stiff' >&2")
    program = supac.Program(model, output=OutputFile("out.csv", ["X", "S"], rows=2))
    if words is None:
        assert program(POINT) == [1.0, 3.0, 2.0, 4.0]
        return
    with pytest.raises(ProgramError) as raised:
        program(POINT)
    assert words in str(raised.value)
    assert str(raised.value).endswith("; the program's last words: step 9: stiff")


NOT_FINITE = [
    ("out.csv", "t,X,S\n0,1,2\n1,nan,4\n", "out.csv, line 3: X is nan"),
    ("out.csv", "t,X,S\n0,1,2\n\n1,1e400,4\n", "out.csv, line 4: X is 1e400"),
    ("out.csv", "t,X,S\n0,1,2\n1,3,-Infinity\n", "out.csv, line 3: S is -Infinity"),
    ("out.csv", "t,X,S\n0,nan,2\n1,3,4\n", None),  # was not measured
    ("out.json", '{"t": [0, 1], "X": [1, NaN], "S": [2, 4]}', "out.json: number 2 of X is nan"),
]


@pytest.mark.parametrize(("name", "text", "words"), NOT_FINITE)
@pytest.mark.parametrize("times", [False, True])
def test_a_value_that_is_not_finite_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, words: str | None, *, times: bool
) -> None:
    (tmp_path / f"own-{name}").write_text(text)
    model = shell(tmp_path, f"cp {tmp_path}/own-{name} {name}; echo 'step 9: stiff'")
    (tmp_path / "data.csv").write_text("time,X,S\n0,,2\n1,3,4\n")
    path = tmp_path / "problem.toml"
    path.write_text(
        f"""[parameters]
k = {{ prior = "lognormal", median = 1.0, log_sd = 0.5 }}
[simulator]
command = ["{model[0]}"]
output = "{name}"
{'times = "t"' if times else ""}
[data]
file = "data.csv"
observed = ["X", "S"]
noise = 0.1
[bound]
temperature = 0.1
[run]
budget = 20
"""
    )
    risk: Any = supac.read_problem(path).risk
    if words is None:
        assert risk.simulate(np.array([1.0]))[1:] == pytest.approx([3.0, 2.0, 4.0])
        return
    with pytest.raises(ProgramError) as raised:
        risk.simulate(np.array([1.0]))
    assert str(raised.value) == f"{words}; the program's last words: step 9: stiff"


def test_the_value_that_spoils_an_interpolated_one_is_named(tmp_path: Path) -> None:
    text = "t,X\n0,nan\n1,1\n2,1\n3,inf\n4,1\n5,nan\n"
    (tmp_path / "out.csv").write_text(text)
    needed = {"X": [True, True]}
    good = OutputFile("out.csv", "X", times="t", at=[1.0, 1.5], needed=needed)
    assert good.read(tmp_path) == [1.0, 1.0]
    with pytest.raises(OutputError, match=r"^out.csv, line 5: X is inf$"):
        OutputFile("out.csv", "X", times="t", at=[1.0, 2.8], needed=needed).read(tmp_path)


def test_a_missing_output_is_named_with_what_was_printed(tmp_path: Path) -> None:
    model = shell(tmp_path, "seq 100; echo 'no convergence'")
    with pytest.raises(ProgramError) as raised:
        supac.Program(model, output="out.csv")(POINT)
    said = "\n".join(map(str, range(92, 101)))
    assert str(raised.value) == (
        f"the program wrote no out.csv; the program's last words: {said}\nno convergence"
    )


def test_times_that_the_output_lacks_are_named(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("t,X\n0,1\n5,2\n")
    output = OutputFile("out.csv", "X", times="t", at=[1.0, 9.0])
    with pytest.raises(
        OutputError, match=r"out.csv: t goes from 0 to 5, but outputs are needed from 1 to 9"
    ):
        output.read(tmp_path)
    (tmp_path / "out.csv").write_text("t,X\n0,1\n9,2\n5,3\n10,3\n")
    with pytest.raises(OutputError, match="the times t do not increase"):
        output.read(tmp_path)


def test_outputs_that_cannot_be_read_so_are_refused() -> None:
    with pytest.raises(ValueError, match=r"pattern has no \{S\}"):
        OutputFile("out.txt", ["X", "S"], "X = {X}")
    with pytest.raises(ValueError, match="times and at belong together"):
        OutputFile("out.txt", times="t")
    with pytest.raises(ValueError, match="key is a part of the OutputFile"):
        supac.Program(["true"], key="X", output=OutputFile("out.txt"))


SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    double k, m, t;
    FILE *deck = fopen("decay.in", "r");
    if (!deck || fscanf(deck, "RATE %lf AMOUNT %lf", &k, &m) != 2) return 2;
    if (k < 0) abort();
    for (t = 0; t < 4; t++, m /= 1 + k) printf("T =%5.1f  MASS =%10.4f\n", t, m);
    return 0;
}
"""


def test_a_compiled_program_needs_no_glue(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "decay.c").write_text(SOURCE)
    subprocess.run([compiler, "-o", tmp_path / "decay", tmp_path / "decay.c"], check=True)
    (tmp_path / "decay.in.tpl").write_text("RATE {k:8.4f}\nAMOUNT {m:8.3f}\n")
    program = supac.Program(
        [tmp_path / "decay"],
        names=["k", "m"],
        template=tmp_path / "decay.in.tpl",
        output=OutputFile("stdout", "m", "T = {t} MASS = {m}", "t", at=[0.5, 3.0]),
    )
    assert program([1.0, 8.0]) == [6.0, 1.0]
    with pytest.raises(ProgramError, match=r"^killed by SIGABRT, Aborted: no message"):
        program([-0.5, 8.0])


def test_outputs_may_lie_in_objects_of_json(tmp_path: Path) -> None:
    (tmp_path / "o.json").write_text('{"run": {"X": [1.0, 2.0], "S": 3.0}, "t": 4.0}')
    assert OutputFile("o.json", ["run.X", "run.S"]).read(tmp_path) == [1.0, 2.0, 3.0]
    with pytest.raises(OutputError, match=r"o.json has no 'X', but run.S, run.X, t"):
        OutputFile("o.json", "X").read(tmp_path)
