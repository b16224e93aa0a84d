"""Write the reference of all tables and keys into problem-file.md and predict.md.

python docs/problem_reference.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import fill

from supac.problem_file import scenario_schema, schema
from supac.problem_file.schema import Setting, Table

BEGIN, END = "<!-- reference: begin -->", "<!-- reference: end -->"


def reference() -> str:
    """Return all tables as Markdown."""
    title = schema.TITLE
    top = f"At the top of the file, `title`: {title.meaning}; by default {title.default}."
    parameter = schema.parameter_table()
    priors = [
        f"`{name}` with {_takes(name)}: {_first(schema.PRIORS, name)}" for name in schema.PRIORS
    ]
    parts = [
        _section(parameter.name, parameter.meaning),
        _list(priors),
        _wrapped(
            "Keys in brackets may be left out. A prior may also have a `unit`, which is shown "
            "with every value, and be that of a [field](fields.md):"
        ),
        _settings(schema.FIELD),
        _section(
            "constraints",
            "One line per constraint between parameters, under a name of your own: "
            '`order = "k1 < k2"`. May be left out.',
        ),
    ]
    tables = [part for each in schema.tables() for part in _with_tables_in_it(each)]
    return "\n\n".join([top, *parts, *tables])


def _with_tables_in_it(table: Table) -> list[str]:
    """Return a table, and [simulator.coarse] after [simulator], of which it has the other keys."""
    if table.name != "simulator":
        return [_table(table)]
    coarse = schema.coarse_table({})
    own = [each for each in coarse.settings if each.name not in table.names]
    return [_table(table), _section(coarse.name, coarse.meaning), _settings(own)]


def _takes(prior: str) -> str:
    """Return the keys of a prior, and those that may be left out in brackets."""
    needed = schema.needed_by(prior)
    return ", ".join(f"`{k}`" if k in needed else f"(`{k}`)" for k in schema.shape_of(prior))


def scenario_reference() -> str:
    """Return all tables of a scenario file as Markdown, without those of problem files."""
    top = f"### At the top of the file\n\n{_settings(scenario_schema.TOP)}"
    simulator, settings, outputs, execution = scenario_schema.scenario_tables()
    known = "The keys are those of [problem files](problem-file.md)."
    short = [_section(each.name, f"{each.meaning} {known}") for each in (simulator, execution)]
    own = _section(settings.name, settings.meaning)
    return "\n\n".join([top, short[0], own, _table(outputs), short[1]])


def _table(table: Table) -> str:
    optional = "" if table.required else " May be left out."
    parts = [_section(table.name, f"{table.meaning}{optional}"), _settings(table.settings)]
    if table.name == "loss":
        kinds = [f"`{name}`: {_first(schema.LOSSES, name)}" for name in schema.LOSSES]
        parts += ["The kinds:", _list(kinds)]
    return "\n\n".join(parts)


def _section(name: str, text: str) -> str:
    """Return a heading with what is said below it."""
    return f"### [{name}]\n\n{_wrapped(text)}"


def _settings(settings: Iterable[Setting]) -> str:
    """Return the keys of a table as a list: key, kind of its value, default, meaning."""
    return _list(
        f"**`{each.name}`** ({each.type.description}{_default(each)}): {each.description}"
        for each in settings
    )


def _default(setting: Setting) -> str:
    if setting.required:
        return "; **needed**"
    if not setting.default:
        return ""
    named = setting.default.startswith("needed")
    return f"; {setting.default}" if named else f"; by default {setting.default}"


def _list(items: Iterable[str]) -> str:
    return "\n".join(_wrapped(f"- {each}", indent="  ") for each in items)


def _wrapped(text: str, *, indent: str = "") -> str:
    """Return a text in lines of at most 100 characters."""
    return fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


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
