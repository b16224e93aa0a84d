"""Checksums of the files that a run depends on, and what has changed of them."""

from __future__ import annotations

from collections.abc import Mapping

CODE = " code"
"""End of the name of a second checksum of a file: that of what matters in it, code or runs."""


def changed_files(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the roles of files that have changed, but for parts that do not matter."""
    roles = [role for role in {**then, **now} if not role.endswith(CODE)]
    return [
        role
        for role in roles
        if then.get(role) != now.get(role) and not _same_code(then, now, role + CODE)
    ]


def _same_code(then: Mapping[str, str], now: Mapping[str, str], name: str) -> bool:
    return name in then and then[name] == now.get(name)
