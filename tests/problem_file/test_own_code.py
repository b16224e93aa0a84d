"""What a function depends on in its file, and what may change without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from supac.problem_file.own_code import code_checksum
from supac.problem_file.python import PythonFunction

MODEL = """
'''A model.'''
import math
import numpy as np

TIMES, STEP = [1.0, 2.0], 0.1
OTHER = 3.0
TABLE = {}
TABLE["k"] = 2.0

def simulate(k, times=TIMES):
    return [_decay(k, t) for t in times]

def _decay(k, t):  # by way of another
    return math.exp(-k * t) + Offset.value

class Offset:
    value = 1.0

def unrelated(x):
    return OTHER * np.sum(x)

if __name__ == "__main__":
    print(unrelated(simulate(1.0)))
"""


def checksum(folder: Path, text: str, name: str = "simulate") -> str:
    (folder / "model.py").write_text(text)
    return code_checksum(folder / "model.py", name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("OTHER = 3.0", "OTHER = 4.0"),
        ("OTHER * np.sum(x)", "np.sum(x)"),
        ("import numpy as np", "import numpy"),
        ("  # by way of another", ""),
        ("A model.", "Another description."),
        ("print(unrelated", "print(2 * unrelated"),
        ("\nif __name__", "\ndef more():\n    return simulate(2.0)\n\n\nif __name__"),
    ],
)
def test_what_it_does_not_depend_on_may_change(old: str, new: str, tmp_path: Path) -> None:
    assert MODEL.count(old) == 1
    assert checksum(tmp_path, MODEL.replace(old, new)) == checksum(tmp_path, MODEL) != ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[_decay(k, t)", "[2.0 * _decay(k, t)"),
        ("TIMES, STEP = [1.0", "TIMES, STEP = [0.5"),
        ("math.exp(-k", "math.exp(-2 * k"),
        ("value = 1.0", "value = 0.0"),
        ("import math", "import cmath as math"),
        ('["k"] = 2.0', '["k"] = 3.0'),  # may do anything
        ("OTHER = 3.0", "from numpy import *"),
        ("OTHER = 3.0", "OTHER = 3.0\nfor name in TABLE: pass"),
    ],
)
def test_what_it_depends_on_may_not(old: str, new: str, tmp_path: Path) -> None:
    assert MODEL.count(old) == 1
    assert checksum(tmp_path, MODEL.replace(old, new)) != checksum(tmp_path, MODEL)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("@register\ndef rate(): return 1\n", "@register\ndef rate(): return 2\n"),
        ("_ = TABLE.update(k=1)\n", "_ = TABLE.update(k=2)\n"),
        ("class A(B): k = 1\n", "class A(B): k = 2\n"),
    ],
)
def test_statements_that_do_more_than_name_something_count(
    first: str, second: str, tmp_path: Path
) -> None:
    assert checksum(tmp_path, MODEL + first) != checksum(tmp_path, MODEL + second)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (MODEL, "missing"),
        ("def f(:", "f"),
        ("def f(x):\n    return globals()['g'](x)\n", "f"),
        ("@cache\ndef f(x):\n    return x\n", "f"),
        ("def f(x):\n    return getattr(sys.modules[__name__], 'g')(x)\n", "f"),
        ("def f(x):\n    return A.__subclasses__()[0](x)\n", "f"),
        ("for name in 'f': exec('def f(x): return x')", "f"),
    ],
)
def test_without_a_known_definition_the_whole_file_counts(
    text: str, name: str, tmp_path: Path
) -> None:
    assert checksum(tmp_path, text, name) == ""


def test_a_missing_file_has_no_checksum(tmp_path: Path) -> None:
    assert code_checksum(tmp_path / "none.py", "f") == ""


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a",), "needs b, which is no parameter or setting of the file"),
        ((), "needs a, b, none of which is a parameter or setting of the file"),
    ],
)
def test_arguments_without_values_are_named(
    tmp_path: Path, names: tuple[str, ...], words: str
) -> None:
    (tmp_path / "needy.py").write_text("def f(a, b):\n    return a\n")
    function = PythonFunction(tmp_path, "needy:f")
    assert function.missing_arguments(names) == f"f(a, b) {words}"
