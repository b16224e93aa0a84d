"""Every table and key of a problem file by itself: unknown ones, missing ones, wrong values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from supac.problem_file.errors import Complaints, closest, in_toml, suggestion
from supac.problem_file.schema import PARAMETER, PRIORS, TABLES, TITLE, Setting, Table, shape_of


def check(document: dict[str, Any], complaints: Complaints) -> None:
    """Every table and key by itself: unknown ones, missing ones, and wrong values."""
    known = {table.name: table for table in TABLES}
    for name, value in document.items():
        if name == "title":
            _check_value(TITLE, value, (name,), complaints)
        elif name == "parameters":
            _check_parameters(value, complaints)
        elif name in known:
            if isinstance(value, dict):
                check_table(known[name], value, (name,), complaints)
            else:
                complaints.add((name,), f"must be a table: write [{name}] on a line of its own")
        else:
            complaints.add((name,), _unknown(name, ["title", "parameters", *known], None))
    meant = {closest(name, known) for name in document if name not in known}
    for table in TABLES:
        if table.required and table.name not in {*document, *meant}:
            about = table.meaning[0].lower() + table.meaning[1:].rstrip(".")
            complaints.add((), f"the table [{table.name}] is missing: {about}")


def check_table(
    table: Table, values: Mapping[str, Any], key: tuple[str, ...], complaints: Complaints
) -> None:
    """One table."""
    settings = {each.name: each for each in table.settings}
    for name, value in values.items():
        if name in settings:
            _check_value(settings[name], value, (*key, name), complaints)
        else:
            complaints.add((*key, name), _unknown(name, table.names, table))
    meant = {closest(name, table.names) for name in values if name not in settings}
    for each in table.settings:
        if each.required and each.name not in {*values, *meant}:
            complaints.add(key, f"{each.name} is missing: {each.meaning}, {each.kind.words}")


def _check_value(
    setting: Setting, value: Any, key: tuple[str, ...], complaints: Complaints
) -> None:
    message = setting.kind.complaint(value)
    if message:
        complaints.add(key, f"{message} ({setting.meaning})")


def _check_parameters(value: Any, complaints: Complaints) -> None:
    if not isinstance(value, dict):
        example = 'k = { prior = "lognormal", median = 1.0, log_sd = 0.5, unit = "1/h" }'
        complaints.add(("parameters",), f"must be a table with a line for each, such as {example}")
        return
    for name, prior in value.items():
        if isinstance(prior, dict):
            _check_prior(prior, ("parameters", name), complaints)
        else:
            example = f'{name} = {{ prior = "normal", mean = 0.0, sd = 1.0 }}'
            complaints.add(
                ("parameters", name), f"must be a prior, not {in_toml(prior)}; such as {example}"
            )


def _check_prior(entry: Mapping[str, Any], key: tuple[str, ...], complaints: Complaints) -> None:
    """One parameter: its prior takes some numbers, and no others."""
    prior = entry.get("prior")
    if not isinstance(prior, str) or prior not in PRIORS:
        check_table(PARAMETER, entry, key, complaints)
        return
    takes = shape_of(prior)
    allowed = ("prior", "unit", *takes)
    words = f"{prior} takes {', '.join(takes)}"
    for setting in PARAMETER.settings:
        if setting.name in allowed and setting.name in entry:
            _check_value(setting, entry[setting.name], (*key, setting.name), complaints)
    others = [name for name in entry if name not in allowed]
    for name in others:
        complaints.add((*key, name), f"{words}, not {name}{suggestion(name, allowed)}")
    meant = {closest(name, allowed) for name in others}
    missing = [name for name in takes if name not in {*entry, *meant}]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        complaints.add(key, f"{words}: {' and '.join(missing)} {verb} missing")


def _unknown(name: str, known: Sequence[str], table: Table | None) -> str:
    """What to do with a key that is not known here."""
    where = "at the top of the file" if table is None else f"in [{table.name}]"
    elsewhere = next(
        (each.name for each in TABLES if each is not table and name in each.names), None
    )
    close = suggestion(name, known)
    if elsewhere is not None and not close:
        return f"is not known {where}; it belongs in [{elsewhere}]"
    return f"is not known {where}{close or '; known are ' + ', '.join(known)}"
