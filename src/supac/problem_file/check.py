"""Check of every table and key of a problem file on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from supac.problem_file import schema
from supac.problem_file.errors import FileErrors, Key, closest, in_toml, suggestion
from supac.problem_file.schema import Setting, Table


def check(document: dict[str, Any], errors: FileErrors) -> None:
    """Add an error for each unknown or missing table or key, and for each wrong value."""
    known = {table.name: table for table in schema.tables()}
    for name, value in document.items():
        if name == "title":
            _check_value(schema.TITLE, value, (name,), errors)
        elif name == "parameters":
            _check_parameters(value, errors)
        elif name not in known:
            errors.add((name,), _unknown(name, ["title", "parameters", *known], None))
        elif isinstance(value, dict):
            _check_table(known[name], value, (name,), errors)
        else:
            errors.add((name,), f"must be a table: write [{name}] on a line of its own")
    meant = {closest(name, known) for name in document if name not in known}
    for table in known.values():
        if table.required and table.name not in {*document, *meant}:
            about = table.meaning[0].lower() + table.meaning[1:].rstrip(".")
            errors.add((), f"the table [{table.name}] is missing: {about}")


def _check_table(table: Table, values: Mapping[str, Any], key: Key, errors: FileErrors) -> None:
    settings = {each.name: each for each in table.settings}
    for name, value in values.items():
        if name in settings:
            _check_value(settings[name], value, (*key, name), errors)
        else:
            errors.add((*key, name), _unknown(name, table.names, table))
    meant = {closest(name, table.names) for name in values if name not in settings}
    for each in table.settings:
        if each.required and each.name not in {*values, *meant}:
            message = f"{each.name} is missing: {each.description}, {each.type.description}"
            errors.add(key, message)


def _check_value(setting: Setting, value: Any, key: Key, errors: FileErrors) -> None:
    message = setting.type.error(value)
    if message:
        errors.add(key, f"{message} ({setting.description})")


def _check_parameters(value: Any, errors: FileErrors) -> None:
    if not isinstance(value, dict):
        example = 'k = { prior = "lognormal", median = 1.0, log_sd = 0.5, unit = "1/h" }'
        errors.add(("parameters",), f"must be a table with a line per parameter: {example}")
        return
    for name, prior in value.items():
        key = ("parameters", name)
        if isinstance(prior, dict):
            _check_prior(prior, key, errors)
        else:
            example = f'{name} = {{ prior = "normal", mean = 0.0, sd = 1.0 }}'
            errors.add(key, f"must be a prior, not {in_toml(prior)}; such as {example}")


def _check_prior(entry: Mapping[str, Any], key: Key, errors: FileErrors) -> None:
    """Check one parameter: each prior takes certain numbers and no others."""
    prior, table = entry.get("prior"), schema.parameter_table()
    if not isinstance(prior, str) or prior not in schema.PRIORS:
        _check_table(table, entry, key, errors)
        return
    takes = schema.shape_of(prior)
    allowed = ("prior", "unit", *takes)
    words = f"{prior} takes {', '.join(takes)}"
    for setting in table.settings:
        if setting.name in allowed and setting.name in entry:
            _check_value(setting, entry[setting.name], (*key, setting.name), errors)
    others = [name for name in entry if name not in allowed]
    for name in others:
        errors.add((*key, name), f"{words}, not {name}{suggestion(name, allowed)}")
    meant = {closest(name, allowed) for name in others}
    missing = [name for name in takes if name not in {*entry, *meant}]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        errors.add(key, f"{words}: {' and '.join(missing)} {verb} missing")


def _unknown(name: str, known: Sequence[str], table: Table | None) -> str:
    """Return the message for an unknown key: a similar one, its own table, or all known keys."""
    where = "at the top of the file" if table is None else f"in [{table.name}]"
    others = [each.name for each in schema.tables() if each != table and name in each.names]
    close = suggestion(name, known)
    if others and not close:
        return f"is not known {where}; it belongs in [{others[0]}]"
    return f"is not known {where}{close or '; known are ' + ', '.join(known)}"
