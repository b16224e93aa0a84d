"""Degrees of trust, and a question with its answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """Degree of trust in a result."""

    TRUST = 0
    LOOK = 1
    DO_NOT_TRUST = 2

    @property
    def words(self) -> str:
        """Return the level as text."""
        return ("trust", "look", "do not trust")[self]


@dataclass(frozen=True)
class Check:
    """A question, its answer with advice, and the level."""

    question: str
    answer: str
    level: Level = Level.TRUST


Answer = tuple[Level, str] | None
"""Level and words; None where a question does not arise."""

NAMED = 12
"""Parameters or columns that are named in an answer."""
