"""Data as they are: units, dates, noise that is relative or unknown, experiments of any length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.problem_file import make_problem
from supac.problem_file.data import read_observations
from supac.problem_file.errors import Source

HEAD = """
[parameters]
k = { prior = "normal", mean = 1.0, sd = 0.5 }
[simulator]
python = "f:f"
arguments = "names"
[run]
budget = 40
[bound]
temperature = 0.05
"""


def toml(text: str, folder: Path) -> supac.ProblemFile:
    return make_problem(HEAD + text, folder / "problem.toml")


def observed(text: str, folder: Path, table: str, columns: str = '["X"]') -> supac.Observations:
    (folder / "d.csv").write_text(table)
    document = f'[data]\nfile = "d.csv"\nobserved = {columns}\n{text}'
    return read_observations(Source(document, folder / "problem.toml"))


def test_units_are_read_from_the_header_or_the_file(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(k):\n    return {'X': [k, k], 'S': [1, k]}\n")
    (tmp_path / "d.csv").write_text("time [h],X [g/L],S\n0,1,2\n1,2,3\n")
    text = '[data]\nfile = "d.csv"\nobserved = ["X", "S"]\nnoise = 0.1\n'
    seen = toml(text, tmp_path).observations
    assert seen is not None
    assert (seen.columns, seen.units, seen.time_label) == (("X", "S"), ("g/L", ""), "time (h)")
    more = toml(text + 'units = { S = "mM" }', tmp_path).observations
    assert more is not None
    assert more.labels == ("X (g/L)", "S (mM)")
    assert list(more.in_units(2.0)) == ["X (g/L)", "S (mM)"]
    for units, words in (
        ('"mg/L"', "units.X: d.csv has X in g/L, not in mg/L: correct one of them"),
        ('{ Y = "m" }', "units.Y: Y is not observed"),
        ("3", "units: must be a text, or a table"),
    ):
        with pytest.raises(supac.ProblemFileError, match=words):
            toml(f"{text}units = {units}", tmp_path)


def test_units_may_stand_in_parentheses(tmp_path: Path) -> None:
    """A column is then named with them or without, and times are found without a word."""
    table = "time (min),X (cm),Y (upper),Y (lower)\n1,1,2,3\n2,2,3,4\n"
    text = 'noise = 0.1\nunits = { X = "cm" }'
    seen = observed(text, tmp_path, table)
    assert (seen.labels, seen.time_label) == (("X (cm)",), "time (min)")
    assert seen.times is not None
    assert seen.times.tolist() == [1.0, 2.0]
    named = 'noise = 0.1\ntime = "Time (min)"'
    whole = observed(named, tmp_path, table.replace("time", "Time"), columns='["X (cm)"]')
    assert (whole.labels, whole.time_label) == (("X (cm)",), "time (min)")
    with pytest.raises(supac.ProblemFileError, match='Time is: write time = "Time"'):
        observed(text, tmp_path, table.replace("time", "Time"))
    with pytest.raises(supac.ProblemFileError, match="has no column Y; its columns are"):
        observed('noise = "Y"', tmp_path, table)  # either of two
    with pytest.raises(supac.ProblemFileError, match="X in cm, not in m: correct one"):
        observed(text.replace('"cm"', '"m"'), tmp_path, table)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_spreadsheets_may_separate_by_other_characters(separator: str, tmp_path: Path) -> None:
    """And then write decimals with a comma; a comma in a unit divides nothing."""
    rows = [("time [h]", "X [g/L, dry]"), ("0", "1,5"), ("1.5", "-2,25e-1"), ("2", ""), ("3", ",5")]
    table = "\n".join(separator.join(row) for row in rows)
    seen = observed("noise = 0.1", tmp_path, table + "\n")
    assert seen.labels == ("X (g/L, dry)",)
    assert np.array_equal(seen.values, [1.5, -0.225, np.nan, 0.5], equal_nan=True)
    assert seen.times is not None
    assert seen.times.tolist() == [0.0, 1.5, 2.0, 3.0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_spreadsheets_may_be_in_the_encoding_of_windows(encoding: str, tmp_path: Path) -> None:
    table = "time;X [°C]\r\n0;1,5\r\n1;2,25\r\n"
    (tmp_path / "d.csv").write_bytes(table.encode(encoding))
    text = '[data]\nfile = "d.csv"\nobserved = "X"\nnoise = 0.1\n'
    seen = read_observations(Source(text, tmp_path / "problem.toml"))
    assert (seen.labels, seen.values.tolist()) == (("X (°C)",), [1.5, 2.25])


DATES = [
    ("2024-03-01,2024-03-02 12:00", "", [0.0, 1.5], "days since 2024-03-01"),
    ("2024-03-01,2024-03-02 12:00", 'time_unit = "h"', [0.0, 36.0], "hours since 2024-03-01"),
    ("2024-03-01,2024-03-03", "start = 2024-02-29", [1.0, 3.0], "days since 2024-02-29"),
    ("2024-03-01,2024-03-03", 'start = "2024-02-29 12:00"', [0.5, 2.5],
     "days since 2024-02-29 12:00"),
    ("01.03.24 06h,02.03.24 00h", 'time_format = "%d.%m.%y %Hh"\nstart = 2024-03-01', [0.25, 1.0],
     "days since 2024-03-01"),
    ("2024-03-31T00:00+01:00,2024-03-31T04:00+02:00", 'time_unit = "min"', [0.0, 180.0],
     "minutes since 2024-03-31 00:00+01:00"),
    ("0.5,2", 'time_unit = "min"', [0.5, 2.0], "time (min)"),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "text", "times", "label"), DATES)
def test_dates_are_times(
    tmp_path: Path, cells: str, text: str, times: list[float], label: str
) -> None:
    first, last = cells.split(",")
    seen = observed(f"noise = 1\n{text}", tmp_path, f"time,X\n{first},1\n{last},2\n")
    assert seen.times is not None
    assert seen.times.tolist() == pytest.approx(times)
    assert seen.time_label == label


BAD_DATES = [
    ("2024-03-01,yesterday", "", "line 3, column time: 'yesterday' is no time: a number, a date"),
    ("2024-03-01,", "", "line 3, column time: '' is no time"),
    ("2024-03-01,2024-03-02", 'time_format = "%d.%m.%Y"', "'2024-03-01' is not of the form %d"),
    ("2024-03-01,2024-03-02T00:00Z", "", "some times have a zone, others not"),
    ("2024-03-01,2024-03-02", 'start = "2024-03-01T00:00Z"', "data.start: has no time zone, or"),
    ("1,2", "start = 2024-03-01", "data.start: is for dates, but the column time of d.csv has"),
]


@pytest.mark.parametrize(("cells", "text", "words"), BAD_DATES)
def test_bad_dates_are_named(tmp_path: Path, cells: str, text: str, words: str) -> None:
    first, last = cells.split(",")
    with pytest.raises(supac.ProblemFileError, match=words):
        observed(f"noise = 1\n{text}", tmp_path, f"time,X\n{first},1\n{last},2\n")


def test_noise_may_be_a_share_of_the_value(tmp_path: Path) -> None:
    table = "X,Y\n-2,1\n,1\n4,1\n"
    seen = observed('noise = "5 %"', tmp_path, table)
    np.testing.assert_allclose(seen.noise, [0.1, 0.15, 0.2])
    with_constant = observed('noise = "5% + 0.02"', tmp_path, table)
    np.testing.assert_allclose(with_constant.noise[[0, 2]], [0.12, 0.22])
    for noise, words in (
        ('"5 % + 0"', None),
        ('"-5 %"', "not of the form"),
        ('"5 % of it"', "not of the form"),
        ('"5 %"\ncompare = "log"', "for which noise = 0.05 is 5 %"),
    ):
        if words is not None:
            with pytest.raises(supac.ProblemFileError, match=words):
                observed(f"noise = {noise}", tmp_path, table.replace("-", ""))
    with pytest.raises(supac.ProblemFileError, match=r"d.csv, line 2, column X\): add a constant"):
        observed('noise = "5 %"', tmp_path, "X\n0\n1\n")


def test_unknown_noise_is_the_scatter_about_neighbours(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(40):
        times = np.sort(rng.uniform(0.0, 10.0, 60))
        values = 3.0 * times - 1.0 + rng.normal(0.0, 0.3, 60)
        shuffled = rng.permutation(60)
        rows = "".join(f"{times[i]},{values[i]}\n" for i in shuffled)
        seen = observed('noise = "unknown"', tmp_path, f"time,X\n{rows},\n".replace("\n,\n", "\n"))
        assert len(set(seen.noise)) == 1
        found.append(seen.noise[0] ** 2)
    # Of a straight line the estimate of the variance is unbiased.
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - 0.09) < 4.0 * error < 0.02


def test_unknown_noise_guarantees_nothing(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(k):\n    return [k * t for t in range(8)]\n")
    cells = [0.1, 1.2, 1.9, 3.1, 3.8, 5.2, 5.9, 7.1]
    rows = "".join(f"{t},{x}\n" for t, x in enumerate(cells))
    (tmp_path / "d.csv").write_text(f"time,X\n{rows}")
    text = '[data]\nfile = "d.csv"\nobserved = "X"\nnoise = "unknown"\n'
    problem = toml(text, tmp_path)
    assert problem.observations is not None
    assert problem.estimated_noise == {"X": (problem.observations.noise[0],) * 2}
    result = problem.minimize(store=None)
    assert abs(result.sample(500, 0).mean() - 1.0) < 0.1
    with pytest.raises(supac.CertificateError, match="noise was estimated from these") as refused:
        result.certify(problem.risk, n=8, delta=0.05)
    assert "result" not in str(refused.value)  # there was none before
    path = tmp_path / "problem.toml"
    with pytest.raises(supac.ProblemFileError, match="no guarantee holds: give the noise"):
        make_problem(HEAD.replace("temperature = 0.05", "n = 8") + text, path)
    (tmp_path / "d.csv").write_text("time,X\n0,1\n1,2\n2,4\n")
    with pytest.raises(supac.ProblemFileError, match="of X cannot be estimated from 3 measure"):
        toml(text, tmp_path)
    (tmp_path / "d.csv").write_text("time,X\n" + "".join(f"{i},{i}\n" for i in range(9)))
    with pytest.raises(supac.ProblemFileError, match="its values lie on a line"):
        toml(text, tmp_path)


SEVERAL = """
[[data]]
file = "cold.csv"
observed = ["X", "S"]
noise = 0.1
settings = { warmth = 10, medium = "A" }
[[data]]
file = "warm.csv"
observed = "X"
noise = { X = "sd" }
settings = { warmth = 20, medium = "B" }
[[data]]
name = "warm again"
file = "warm2.csv"
observed = ["X"]
noise = 0.3
settings = { medium = "B", warmth = 20.0 }
"""


@pytest.fixture
def several(tmp_path: Path) -> Path:
    (tmp_path / "cold.csv").write_text("time,X,S\n0,1,2\n1,2,\n2,3,4\n")
    (tmp_path / "warm.csv").write_text("time,X,sd\n5,6,0.2\n")
    (tmp_path / "warm2.csv").write_text("time,X\n5,6.5\n7,8\n")
    (tmp_path / "f.py").write_text(
        "CALLS = []\n\n"
        "def f(k, warmth, medium):\n    CALLS.append((warmth, medium))\n"
        "    if warmth == 10:\n        return {'X': [k] * 3, 'S': [2 * k] * 3}\n"
        "    return {'X': [warmth * k, warmth * k + 1, warmth * k + 2]}\n"
    )
    return tmp_path


def test_experiments_have_their_own_length_columns_and_settings(several: Path) -> None:
    problem = toml(SEVERAL, several)
    seen: Any = problem.observations
    assert seen.columns == ("X", "S")
    assert seen.experiments == ("cold",) * 3 + ("warm",) + ("warm again",) * 2
    assert seen.measured == 8
    np.testing.assert_array_equal(seen.times, [0, 1, 2, 5, 5, 7])
    np.testing.assert_array_equal(seen.noise[:6], [0.1, 0.1, 0.1, 0.2, 0.3, 0.3])
    risk: Any = problem.risk
    outputs = risk.simulate(np.array([1.5]))
    nothing = [np.nan] * 3
    np.testing.assert_array_equal(outputs, [1.5, 1.5, 1.5, 30, 31, 32, 3, 3, 3, *nothing])
    calls = risk.simulate.conditions[0].function._function.__globals__["CALLS"]
    assert calls == [(10.0, "A"), (20.0, "B")]  # experiments under the same settings share a run
    residuals = risk.residuals(outputs[None])[0]
    assert residuals[3:6] == pytest.approx([24 / 0.2, 24.5 / 0.3, 24 / 0.3])
    assert [len(each) for each in seen.series(residuals)] == [3, 1, 2, 2]


def test_several_files_may_be_of_one_run(several: Path) -> None:
    text = "".join(line for line in SEVERAL.splitlines(True) if "settings" not in line)
    (several / "f.py").write_text("def f(k):\n    return {'X': range(6), 'S': [k] * 3}\n")
    risk: Any = toml(text, several).risk
    outputs = risk.simulate(np.array([1.5]))
    np.testing.assert_array_equal(outputs[:9], [0, 1, 2, 3, 4, 5, 1.5, 1.5, 1.5])
    assert np.isnan(outputs[9:]).all()
    (several / "f.py").write_text("def f(k):\n    return {'X': range(6), 'S': [k] + [k] * 3}\n")
    wrong: Any = toml(text, several).risk
    with pytest.raises(ValueError, match="4 numbers for S, but the data have 3 rows"):
        wrong.simulate(np.array([1.5]))


def test_a_program_is_run_under_each_setting(several: Path) -> None:
    (several / "deck.tpl").write_text("{k} {warmth}\n")
    (several / "model.sh").write_text(
        'read k w < deck\nprintf "t X S\\n0 $k $w\\n9 $k $w\\n" > "$medium.dat"; mv *.dat out.dat\n'
    )
    command = (
        'command = ["sh", "model.sh"]\ntemplate = "deck.tpl"\ninputs = "environment"\n'
        'output = "out.dat"\ntimes = "t"\n'
    )
    head = HEAD.replace('python = "f:f"\narguments = "names"\n', command)
    risk: Any = make_problem(head + SEVERAL, several / "problem.toml").risk
    outputs = risk.simulate(np.array([1.5]))
    np.testing.assert_array_equal(outputs[:9], [1.5] * 6 + [10.0] * 3)


WRONG = [
    ('name = "warm again"', 'name = "warm"', "data.2..name: there is a table warm already"),
    ('medium = "B", warmth = 20.0', 'medium = "B"', "settings: warmth is missing, which another"),
    ('medium = "B", warmth', "k = 1, medium = 'B', warmth", "settings.k: is calibrated in"),
    ("noise = 0.3", 'noise = 0.3\ncompare = "log"', "data.2..compare: must be the same in all"),
    ('"warm2.csv"', '"worm2.csv"', "line 25, data.2..file: there is no file"),
    ("noise = 0.3", 'noise = 0.3\nblocks = "time"', "must be in all tables"),
    ("noise = 0.3", "noise = 0.3\nnois = 1", "line 28, data.2..nois: is not known"),
    ("noise = 0.3", 'noise = 0.3\nunits = "g"', "X is in g, but in mg before"),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_wrong_experiments_are_named_by_line(several: Path, old: str, new: str, words: str) -> None:
    text = SEVERAL.replace("noise = 0.1", 'noise = 0.1\nunits = { X = "mg" }')
    with pytest.raises(supac.ProblemFileError, match=words):
        toml(text.replace(old, new), several)


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("warm.csv", "time", "Time", r'time: is not in warm.csv, but Time is: write time = "Time"'),
        ("warm.csv", "time", "t", r"data.1..time: warm has no times, but cold has: name their col"),
        ("cold.csv", "time", "t", r"data.0..time: cold has no times, but warm has: name their col"),
    ],
)
def test_times_that_are_not_found_are_named(
    several: Path, file: str, old: str, new: str, words: str
) -> None:
    (several / file).write_text((several / file).read_text().replace(old, new))
    with pytest.raises(supac.ProblemFileError, match=words):
        toml(SEVERAL, several)


def test_units_of_time_must_agree(several: Path) -> None:
    one = SEVERAL.replace("noise = 0.3", 'noise = 0.3\ntime_unit = "min"')
    other = one.replace("noise = 0.1", 'noise = 0.1\ntime_unit = "s"')
    with pytest.raises(supac.ProblemFileError, match=r"warm again has time \(min\), but cold time"):
        toml(other, several)
    path = several / "warm2.csv"
    path.write_text(path.read_text().replace("time", "time [s]"))
    with pytest.raises(supac.ProblemFileError, match=r"time_unit: is min, but the header of warm2"):
        toml(one, several)


def test_several_tables_need_double_brackets(several: Path) -> None:
    with pytest.raises(supac.ProblemFileError, match=r"write \[\[data\]\] in place of \[data\]"):
        toml(SEVERAL.replace("[[data]]", "[data]"), several)


def test_one_table_may_have_settings(several: Path) -> None:
    one = toml(SEVERAL.split("[[data]]\nfile")[1].join(["[data]\nfile", ""]), several)
    assert one.risk.simulate.inputs.fixed == {"warmth": 10.0, "medium": "A"}  # type: ignore[attr-defined]


def test_all_missing_settings_are_named_at_once(several: Path) -> None:
    text = SEVERAL.replace('settings = { warmth = 20, medium = "B" }', "")
    text = text.replace('medium = "B", warmth = 20.0', 'medium = 3, warmth = "20"')
    with pytest.raises(supac.ProblemFileError) as caught:
        toml(text, several)
    said = str(caught.value)
    assert "data[1].settings: medium, warmth are missing" in said
    assert 'settings.warmth: is the text "20", but a number in another table' in said
    assert 'settings.medium: is the text "A", but a number' in said


def test_a_function_is_given_the_times_of_its_experiment(several: Path) -> None:
    (several / "f.py").write_text(
        "def f(k, warmth, medium, times=None):\n"
        "    assert list(times) == sorted(set(times))\n"
        "    return {'X': k * times + warmth, 'S': k - times}\n"
    )
    risk: Any = toml(SEVERAL, several).risk
    outputs = risk.simulate(np.array([2.0]))
    # The two warm experiments share a run, and the time 5.
    np.testing.assert_array_equal(outputs[:9], [10, 12, 14, 30, 30, 34, 2, 1, 0])


@pytest.mark.parametrize("answer", ["[y, z]", "np.transpose([y, z])", "np.concatenate([y, z])"])
def test_repeated_times_are_asked_for_once(several: Path, answer: str) -> None:
    files = ["warm.csv", "warm2.csv"]
    data = "".join(f'[[data]]\nfile = "{n}"\nobserved = ["X", "Y"]\nnoise = 1\n' for n in files)
    (several / "warm.csv").write_text("time,X,Y\n9,6,1\n5,6,1\n")
    (several / "warm2.csv").write_text("time,X,Y\n5,6.5,2\n7,8,2\n")
    made = answer if answer != "[y, z]" else "{'X': y, 'Y': z}"
    (several / "f.py").write_text(
        f"import numpy as np\ndef f(k, times):\n    y, z = k * times, times\n    return {made}\n"
    )
    risk: Any = toml(data, several).risk
    outputs = risk.simulate(np.array([2.0]))
    np.testing.assert_array_equal(outputs, [18, 10, 10, 14, 9, 5, 5, 7])


def test_whole_experiments_may_be_held_out(several: Path) -> None:
    risk: Any = toml(f"{SEVERAL}test = true\n", several).risk
    assert (risk.data.measured, risk.held_out.measured) == (6, 2)
    blocks = SEVERAL.replace("noise", 'blocks = "time"\nnoise')
    seen: Any = toml(blocks, several).observations
    assert seen.blocks.tolist() == [0, 1, 2, 3, 4, 5]  # no two files share a block


def test_a_search_over_experiments_is_stored_and_reported(several: Path) -> None:
    (several / "problem.toml").write_text(HEAD + SEVERAL)
    (several / "f.py").write_text(
        "def f(k, warmth, medium):\n"
        "    if warmth == 10:\n        return {'X': [k, 2 * k, 3 * k], 'S': [2 * k, 0, 4 * k]}\n"
        "    return {'X': [6 * k, 6 * k, 8 * k]}\n"
    )
    problem = supac.read_problem(several / "problem.toml")
    result = problem.minimize()
    assert not result.failures
    assert abs(result.sample(500, 0).mean() - 1.0) < 0.1
    run = supac.read_store(several / "problem.supac")
    assert run.settings.data.experiments == problem.observations.experiments  # type: ignore[union-attr]
    page = several / "report.html"
    supac.write_report(run, page)
    words = page.read_text()
    for name in ("X, cold", "X, warm", "X, warm again", "S, cold"):
        assert f"<figcaption>{name}</figcaption>" in words
    assert "S, warm" not in words
    assert "of 3 experiments" in words


def test_known_runs_of_a_file_serve_when_cells_are_filled_in(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(k):\n    return [k, 2 * k, 3 * k]\n")
    (tmp_path / "d.csv").write_text("time,X\n1,1.1\n2,\n3,2.9\n")
    text = f'{HEAD}[data]\nfile = "d.csv"\nobserved = "X"\nnoise = 0.1\n'
    path = tmp_path / "problem.toml"
    path.write_text(text)
    supac.read_problem(path).minimize()
    (tmp_path / "d.csv").write_text("time,X\n1,1.1\n2,2.05\n3,2.9\n")
    own = text.replace("budget = 40", 'budget = 20\nknown = "problem.supac"')
    path.write_text(own)
    with pytest.raises(supac.ProblemFileError, match="is the store of this search"):
        supac.read_problem(path)
    path.write_text(own.replace("budget = 20", 'budget = 20\nstore = "more.supac"'))
    result = supac.read_problem(path).minimize()
    assert result.known == len(supac.read_store(tmp_path / "problem.supac").made)
    assert abs(result.sample(500, 0).mean() - 1.0) < 0.1
    (tmp_path / "p.csv").write_text("real_name,K\na,1.0\nb,0.9\n")
    (tmp_path / "o.csv").write_text("real_name,x1,x2,x3\nb,0.9,1.8,2.7\na,1,2,3\n")
    pair = '{ parameters = "p.csv", outputs = "o.csv" }'
    path.write_text(text.replace("budget = 40", f"budget = 20\nknown = {pair}"))
    known = supac.read_problem(path).options["known"]
    np.testing.assert_array_equal(known.x, [[1.0], [0.9]])
    np.testing.assert_array_equal(known.outputs, [[1.0, 2.0, 3.0], [0.9, 1.8, 2.7]])
    assert "known" in supac.read_problem(path).files


AMBIGUOUS = [
    ("a column of whole numbers", "0\t1,597\n1\t1,290\n2\t1,004\n3\t769\n"),
    ("points elsewhere", "0.5\t1,597\n1.5\t1,290\n"),
    ("points beside commas", "0\t1,597\n1\t12,345.5\n"),
    ("two commas", "0,5\t1,597\n1,5\t1,290,000\n"),
]


@pytest.mark.parametrize(
    "rows", [rows for _, rows in AMBIGUOUS], ids=[name for name, _ in AMBIGUOUS]
)
def test_commas_that_may_be_of_thousands_are_an_error(rows: str, tmp_path: Path) -> None:
    with pytest.raises(
        supac.ProblemFileError, match=r"d\.csv, line 2: 1,597 may be 1597 or 1\.597"
    ):
        observed("noise = 0.1", tmp_path, f"time\tX\n{rows}")


@pytest.mark.parametrize(
    "rows", ["0;1,597\n1,5;999\n", "0;1,597\n1;0,999\n", "1,000;1,597\n2,000;1,290\n"]
)
def test_three_digits_are_decimals_where_others_are(rows: str, tmp_path: Path) -> None:
    assert observed("noise = 0.1", tmp_path, f"time;X\n{rows}").values[0] == 1.597


def test_dates_with_points_do_not_make_commas_those_of_thousands(tmp_path: Path) -> None:
    rows = "01.03.2024;1,597\n02.03.2024;0,5\n"
    seen = observed('noise = 0.1\ntime_format = "%d.%m.%Y"', tmp_path, f"time;X\n{rows}")
    assert seen.values.tolist() == [1.597, 0.5]
