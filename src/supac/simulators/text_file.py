"""Text files as programs and spreadsheets write them, whatever their encoding."""

from __future__ import annotations

import codecs
from pathlib import Path

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_text_file(path: Path) -> str:
    """Return the text of a file, with its line ends.

    A byte order mark says which Unicode it is in. Without one it is UTF-8, or, if it is no UTF-8,
    the code page of Western Windows, in which a degree sign is one byte.
    """
    content = path.read_bytes()
    marked = (name for mark, name in _MARKS.items() if content.startswith(mark))
    try:
        return content.decode(next(marked, "utf-8"))
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")
