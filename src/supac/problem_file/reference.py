"""The reference of all keys for the documentation, made from the tables that check a file.

python -m supac.problem_file.reference docs/problem-file.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from supac.problem_file.schema import LOSSES, PARAMETER, PRIORS, TABLES, TITLE, Table, shape_of

BEGIN, END = "<!-- reference: begin -->", "<!-- reference: end -->"


def reference() -> str:
    """All tables in Markdown."""
    parts = [_table(table) for table in (PARAMETER, *TABLES)]
    top = f"At the top of the file, `title`: {TITLE.meaning}; by default {TITLE.default}."
    return "\n\n".join([top, *parts])


def _table(table: Table) -> str:
    needed = "" if table.required or table is PARAMETER else " May be left out."
    lines = [f"### [{table.name}]", "", table.meaning + needed, ""]
    if table is PARAMETER:
        lines += ["| prior | takes | |", "|---|---|---|"]
        for name, kind in PRIORS.items():
            about = (kind.__doc__ or "").splitlines()[0]
            lines.append(f"| `{name}` | {_code(*shape_of(name))} | {about} |")
        return "\n".join(
            [*lines, "", "Beside these a prior may have a `unit`, which is shown with every value."]
        )
    lines += ["| key | value | meaning | if left out |", "|---|---|---|---|"]
    for each in table.settings:
        default = "**needed**" if each.required else each.default or "–"
        lines.append(f"| `{each.name}` | {each.kind.words} | {each.meaning} | {default} |")
    if table.name == "loss":
        lines += ["", "| kind | |", "|---|---|"]
        for name, kind in LOSSES.items():
            lines.append(f"| `{name}` | {(kind.__doc__ or '').splitlines()[0]} |")
    return "\n".join(lines)


def _code(*words: str) -> str:
    return ", ".join(f"`{word}`" for word in words)


def updated(text: str) -> str:
    """A document with the reference of today between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(updated(document.read_text(encoding="utf-8")), encoding="utf-8")
