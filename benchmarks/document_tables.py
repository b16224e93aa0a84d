"""Write tables of the documents from those of the results.

python benchmarks/document_tables.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pages import narrow_table, read_tables

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
Table = list[list[str]]
"""Headings, then rows."""


def outside() -> str:
    """Return the medians over the problems of judgement and development, by method."""
    judgement, development, *_ = _results("outside")
    rows = []
    for role, table in (("judgement", judgement), ("development", development)):
        found = {row[1]: row[2:] for row in table if row[0].startswith("**of ")}
        names = {"ours": "default search", "previous default": "previous default"}
        if role == "judgement":
            names |= {each: each for each in ("ESMDA", "CMA-ES", "PyVBMC")}
        names |= {"DFO-LS": "DFO-LS + Laplace"}
        rows += [[f"{role}: {title}", *map(_short, found[name])] for name, title in names.items()]
    return narrow_table(["", "30 runs", "60", "100"], rows)


def components() -> str:
    """Return what the components of fields are worth, over the five that were run without."""
    table = [row for each in _results("outside")[:2] for row in each[1:]]
    named, last = [], ""
    for row in table:
        last = row[0] or last
        named.append([last, *row[1:]])
    without = {row[0]: row[2:] for row in named if row[1].startswith("without components (")}
    ours = {row[0]: row[2:] for row in named if row[0] in without and row[1].startswith("ours")}
    rows = [
        [
            name.partition(" ")[0],
            *(_median(each[name][i]) for each in (ours, without) for i in (0, 1)),
        ]
        for name in without
    ]
    return narrow_table(["field", "30 runs", "60", "without, 30 runs", "60"], rows)


def expressions() -> str:
    """Return the runs to within 1 % of the gap, by the form of the outputs."""
    (table,) = _results("expressions")
    rows = [
        [row[0], *(cell.partition(", ")[2] or cell for cell in row[1:])]
        for row in table[1:]
        if row[0] != "counts"
    ]
    return narrow_table(["problem", "residuals", "own units", "logarithms", "asinh"], rows)


def scales() -> str:
    """Return objectives with and without parameters on the user's scale, of both roles."""
    return (
        (RESULTS / "scales.md")
        .read_text(encoding="utf-8")
        .partition("\n\n")[2]
        .replace("## ", "### ")
        .strip()
    )


def dead() -> str:
    """Return what rules of the screening are worth where outputs are dead."""
    return (RESULTS / "dead_outputs.md").read_text(encoding="utf-8").partition("\n\n")[2].strip()


def coverage() -> str:
    """Return how often ranges and bands hold the truth, by group of problems, then by problem."""
    return (RESULTS / "coverage.md").read_text(encoding="utf-8").partition("\n\n")[2].strip()


def references() -> str:
    """Return how far posteriors are from references, by target, method and number of runs."""
    return (RESULTS / "reference.md").read_text(encoding="utf-8").partition("\n\n")[2].strip()


def verdict() -> str:
    """Return how many wrong and right fits the checks doubt."""
    return (RESULTS / "verdict.md").read_text(encoding="utf-8").strip()


def valleys() -> str:
    """Return how many searches end in the right valley."""
    return (RESULTS / "valleys.md").read_text(encoding="utf-8").strip()


def dimension() -> str:
    """Return the per cent of the gap left by the default search and by peers, medians."""
    rows = []
    for table in _results("dimension")[:2]:
        name = ""
        found: dict[str, list[str]] = {}
        for row in [*table[1:], ["", ""]]:
            if (row[0] and name) or row[1] == "":
                rows.append([name, *_told(found)])
                found = {}
            name = row[0] or name
            if name.startswith("**best"):
                break
            found[row[1].partition(" (")[0]] = row[2:]
    return narrow_table(["problem", "default search", "Gauss–Newton", "ESMDA, 100 members"], rows)


def _told(found: dict[str, list[str]]) -> list[str]:
    """Return the medians at all checkpoints of each method in one cell.

    Gauss–Newton is that in the prior's modes where there is one; an ensemble of a hundred has
    nothing to tell at 50 runs.
    """
    newton = found.get("Gauss–Newton in modes", found.get("Gauss–Newton", []))
    cells = (found["ours"][:4], newton[:4], found["ESMDA 100"][1:4])
    return [" / ".join(map(_median, each)) or "–" for each in cells]


def _median(cell: str) -> str:
    """Return the median of a cell that has the worst in brackets."""
    return _short(cell.partition(" ")[0])


def _short(text: str) -> str:
    """Return all numbers of a text in two digits, or whole ones."""
    return re.sub(r"\d+\.\d+", lambda m: _digits(float(m[0])), text)


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.{1 if value >= 0.995 else 2}f}"


def _results(name: str) -> list[Table]:
    return read_tables((RESULTS / f"{name}.md").read_text(encoding="utf-8"))


BLOCKS: dict[str, Sequence[Callable[[], str]]] = {
    "benchmarks.md": (outside, expressions, dimension, valleys),
    "evidence.md": (dead, components, scales),
    "reference.md": (references,),
    "report.md": (verdict,),
    "shape.md": (coverage,),
}


def updated(text: str, blocks: Iterable[Callable[[], str]]) -> str:
    """Return a document with its tables as the results have them."""
    for block in blocks:
        name = block.__name__
        before, begin, rest = text.partition(f"<!-- {name}: begin -->")
        _, end, after = rest.partition(f"<!-- {name}: end -->")
        if not end:
            raise ValueError(f"the page has no place for {name}: add {begin or f'<!-- {name}: …'}")
        text = f"{before}{begin}\n\n{block()}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    for name, blocks in BLOCKS.items():
        page = DOCS / name
        page.write_text(updated(page.read_text(encoding="utf-8"), blocks), encoding="utf-8")
