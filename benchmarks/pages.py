"""Markdown that programs write, in lines of at most 100 characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from textwrap import fill

WIDTH = 100
_PROSE = 40  # characters of a cell that is read, not looked up


def fitted(text: str) -> str:
    """Return a page with paragraphs wrapped, and with tables that are too wide divided."""
    parts = []
    for kind, lines in groupby(text.split("\n"), _kind):
        block = list(lines)
        if kind == "table" and max(map(len, block)) > WIDTH:
            headings, _, *rows = (_cells(line) for line in block)
            parts.append(narrow_table(headings, rows))
        elif kind == "prose" and max(map(len, block)) > WIDTH:
            parts.append(wrapped(" ".join(line.strip() for line in block)))
        else:
            parts.append("\n".join(block))
    return "\n".join(parts)


def read_tables(text: str) -> list[list[list[str]]]:
    """Return the cells of all tables of a page: headings, then rows."""
    blocks = (list(lines) for kind, lines in groupby(text.split("\n"), _kind) if kind == "table")
    return [[_cells(block[0]), *map(_cells, block[2:])] for block in blocks]


def wrapped(text: str, *, indent: str = "") -> str:
    """Return a paragraph in lines of at most 100 characters, all but the first indented."""
    return fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def narrow_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; several, each with the columns that tell rows apart, if one is too wide.

    Where these are too wide themselves, rows have numbers. Rows of prose become a list.
    """
    prose = sum(max(len(row[i]) for row in rows) > _PROSE for i in range(len(headings)))
    if prose >= 2:
        return "\n".join(_item(headings, row) for row in rows)
    keys = _keys(rows)
    groups = _groups(headings, rows, keys)
    if groups is None:
        headings = ["row", *headings]
        rows = [[str(number), *row] for number, row in enumerate(rows, start=1)]
        keys, groups = 1, _groups(headings, rows, 1)
    if groups is None:
        return "\n".join(_item(headings, row) for row in rows)
    tables = [
        _table([headings[i] for i in chosen], [[row[i] for i in chosen] for row in rows])
        for group in groups
        for chosen in [[*range(keys), *group]]
    ]
    return "\n\n".join(tables)


def _groups(
    headings: Sequence[str], rows: Sequence[Sequence[str]], keys: int
) -> list[list[int]] | None:
    """Return the columns of each table, or None if one does not fit beside the keys."""
    groups: list[list[int]] = []
    for i in range(keys, len(headings)):
        wider = [*groups[-1], i] if groups else [i]
        if _fits(headings, rows, keys, wider):
            groups = [*groups[:-1], wider]
        elif _fits(headings, rows, keys, [i]):
            groups.append([i])
        else:
            return None
    return groups


def _fits(
    headings: Sequence[str], rows: Sequence[Sequence[str]], keys: int, group: Sequence[int]
) -> bool:
    chosen = [*range(keys), *group]
    return all(len(_line([row[i] for i in chosen])) <= WIDTH for row in [headings, *rows])


def _keys(rows: Sequence[Sequence[str]]) -> int:
    """Return how many columns it takes to tell all rows apart, at most three."""
    for keys in (1, 2, 3):
        if len({tuple(row[:keys]) for row in rows}) == len(rows):
            return keys
    return 1


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([_line(headings), "|---" * len(headings) + "|", *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def _item(headings: Sequence[str], row: Sequence[str]) -> str:
    """Return a row as an item of a list: its first cell, then the others with their headings."""
    told = [
        f"{heading}: {cell}" if heading else cell
        for heading, cell in zip(headings[1:], row[1:], strict=True)
        if cell
    ]
    return wrapped(f"- **{row[0]}**; {'; '.join(told)}", indent="  ")


def _cells(line: str) -> list[str]:
    """Return the cells of a line of a table; a | in `code` divides nothing."""
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in re.split(r"\|(?=(?:[^`]*`[^`]*`)*[^`]*$)", inner)]


def _kind(line: str) -> str:
    if line.startswith("|"):
        return "table"
    plain = line and not line.startswith(("#", "- ", "  ", "!", "<", "```"))
    return "prose" if plain else "as it is"
