"""Notes on a search: sentences with a code, by which they are recognised if their words change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self


class Note(str):
    """A sentence, and a code that stays the same from version to version."""

    __slots__ = ("code",)
    code: str

    def __new__(cls, code: str, words: str) -> Self:
        """Make a note of these words."""
        made = super().__new__(cls, words)
        made.code = code
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """Return the arguments of a copy, for pickle."""
        return self.code, str(self)


def code_of(note: str) -> str:
    """Return the code of a note; "" for a sentence without one, as version 0.1 kept them."""
    return note.code if isinstance(note, Note) else ""


def is_among(note: str, others: Iterable[str]) -> bool:
    """Return True if a note has the code of one of the others, or its words without a code."""
    code = code_of(note)
    return any(code == code_of(each) if code else note == each for each in others)
