"""The width of what programs write: paragraphs and tables of the benchmarks' results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import pages  # noqa: PLC0415

    return pages


@pytest.mark.parametrize(
    "path", sorted((BENCHMARKS / "results").glob("*.md")), ids=lambda p: p.stem
)
def test_results_are_narrow_and_name_no_commit(path: Path) -> None:
    text = path.read_text()
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"\b(commit|version) [0-9a-f]{7}\b", text)


def test_a_page_that_fits_stays_as_it_is(pages: Any) -> None:
    text = "# A title\n\nTwo lines\nof prose.\n\n| a | b |\n|---|---|\n| 1 | `x|y` |\n"
    assert pages.fitted(text) == text
    wide = pages.fitted(f"{'word ' * 30}\n\n{text}")
    assert pages.fitted(wide) == wide
    assert wide.endswith(text)


def test_a_wide_table_is_divided_by_columns_beside_those_that_tell_rows_apart(pages: Any) -> None:
    head = f"| problem | seed | {' | '.join('abcdef')} |"
    rows = [f"| p | {seed} | {' | '.join(['x' * 20] * 6)} |" for seed in range(3)]
    divided = pages.fitted("\n".join([head, "|---" * 8 + "|", *rows]))
    tables = divided.split("\n\n")
    assert [table.splitlines()[0] for table in tables] == [
        "| problem | seed | a | b | c |",
        "| problem | seed | d | e | f |",
    ]
    assert all(table.splitlines()[1] == "|---|---|---|---|---|" for table in tables)
    assert all(f"| p | {seed} | {'x' * 20} |" in table for table in tables for seed in range(3))
    assert max(map(len, divided.splitlines())) <= 100


def test_rows_get_numbers_where_their_names_are_too_long(pages: Any) -> None:
    rows = [[f"{'name ' * 15}{i}", "x" * 30] for i in range(2)]
    first, second = pages.narrow_table(["what", "value"], rows).split("\n\n")
    assert first.splitlines()[0] == "| row | what |"
    assert second.splitlines()[2:] == [f"| {i} | {'x' * 30} |" for i in (1, 2)]


def test_rows_of_prose_become_a_list(pages: Any) -> None:
    rows = [["first", "as one says " * 8, "because of " * 8], ["second", "b" * 41, ""]]
    made = pages.narrow_table(["claim", "seen", ""], rows)
    assert made.count("\n- **") == 1
    assert made.startswith("- **first**; seen: as one says")
    assert "because of because" in made
    assert max(map(len, made.splitlines())) <= 100


@pytest.mark.parametrize("name", ["benchmarks.md", "evidence.md", "shape.md"])
def test_tables_of_the_documents_are_those_of_the_results(name: str, pages: Any) -> None:
    import document_tables  # noqa: PLC0415

    page = (BENCHMARKS.parent / "docs" / name).read_text()
    written = document_tables.updated(page, document_tables.BLOCKS[name])
    assert page == written, "run: python benchmarks/document_tables.py"
    with pytest.raises(ValueError, match="no place for"):
        document_tables.updated("", document_tables.BLOCKS[name])
