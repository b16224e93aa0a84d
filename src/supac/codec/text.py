"""Texts of unknown origin: names, units, titles, and messages of simulators."""

from __future__ import annotations

import re
from collections.abc import Callable

# Controls (C0 and C1) but for tabs and new lines, marks that turn the direction of a line, breaks
# of lines, characters of no width but for joiners, which some scripts need, and halves of pairs.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def picture(character: str) -> str:
    """Return a visible sign for a hidden character, such as ␛ for an escape."""
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "�"


def visible(text: str, instead: Callable[[str], str] = picture) -> str:
    """Replace every character that a terminal or a browser obeys instead of showing it."""
    return _HIDDEN.sub(lambda match: instead(match.group()), text)
