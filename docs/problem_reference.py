"""Write the reference of all tables and keys into problem-file.md and predict.md.

python docs/problem_reference.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from supac.problem_file import scenario_schema, schema
from supac.problem_file.schema import Setting, Table

BEGIN, END = "<!-- reference: begin -->", "<!-- reference: end -->"


def reference() -> str:
    """Return all tables as Markdown."""
    title = schema.TITLE
    top = f"At the top of the file, `title`: {title.meaning}; by default {title.default}."
    parameter = schema.parameter_table()
    priors = [
        (name, ", ".join(f"`{each}`" for each in schema.shape_of(name))) for name in schema.PRIORS
    ]
    parts = [
        f"### [{parameter.name}]\n\n{parameter.meaning}\n",
        *_rows(
            ("prior", "takes", ""), ((f"`{n}`", t, _first(schema.PRIORS, n)) for n, t in priors)
        ),
        "\nA prior may also have a `unit`, which is shown with every value, and be that of a "
        "[field](fields.md):\n",
        *_settings(schema.FIELD),
        "\n### [constraints]\n\nOne line per constraint between parameters, under a name of your "
        'own: `order = "k1 < k2"`. May be left out.',
    ]
    return "\n\n".join([top, "\n".join(parts), *map(_table, schema.tables())])


def scenario_reference() -> str:
    """Return all tables of a scenario file as Markdown, without those of problem files."""
    top = "\n".join(["### At the top of the file\n", *_settings(scenario_schema.TOP)])
    simulator, settings, outputs, execution = scenario_schema.scenario_tables()
    known = "The keys are those of [problem files](problem-file.md)."
    short = [f"### [{each.name}]\n\n{each.meaning} {known}" for each in (simulator, execution)]
    own = f"### [{settings.name}]\n\n{settings.meaning}"
    return "\n\n".join([top, short[0], own, _table(outputs), short[1]])


def _table(table: Table) -> str:
    optional = "" if table.required else " May be left out."
    parts = [
        f"### [{table.name}]\n\n{table.meaning}{optional}\n",
        *_settings(table.settings),
    ]
    if table.name == "loss":
        parts += [
            "",
            *_rows(("kind", ""), ((f"`{n}`", _first(schema.LOSSES, n)) for n in schema.LOSSES)),
        ]
    return "\n".join(parts)


def _settings(settings: Iterable[Setting]) -> list[str]:
    """Return the keys of a table as lines."""
    return _rows(
        ("key", "value", "meaning", "if left out"),
        (
            (
                f"`{each.name}`",
                each.type.description,
                each.description,
                "**needed**" if each.required else each.default or "–",
            )
            for each in settings
        ),
    )


def _rows(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [
        f"| {' | '.join(headings)} |".replace("  ", " "),
        "|---" * len(headings) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _first(classes: Mapping[str, type], name: str) -> str:
    """Return the first line of a class's docstring."""
    return (classes[name].__doc__ or "").splitlines()[0]


def updated(text: str, reference: Callable[[], str] = reference) -> str:
    """Return a document with the current reference between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


if __name__ == "__main__":
    for name, made in (("problem-file.md", reference), ("predict.md", scenario_reference)):
        document = Path(__file__).with_name(name)
        text = updated(document.read_text(encoding="utf-8"), made)
        document.write_text(text, encoding="utf-8")
