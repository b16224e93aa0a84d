"""Errors of the files of a PEST case."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PestError(ValueError):
    """A file of a PEST case that cannot be used; the message names file, line and fix."""


def fail(file: str, line: int | None, message: str) -> PestError:
    """Return the error of a file, with its line if that is known."""
    where = file if line is None else f"{file}, line {line}"
    return PestError(f"{where}: {message}")


def similar(word: str, known: Iterable[str]) -> str:
    """Return a similar known word as a question; "" if there is none."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""
