"""Make control characters visible in text of unknown origin."""

from __future__ import annotations

import re
from collections.abc import Callable

# Control characters (C0 and C1) except tabs and newlines, bidirectional marks, line separators,
# zero-width characters except joiners, which some scripts need, and surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def picture(character: str) -> str:
    """Return a visible symbol for a hidden character, such as ␛ for an escape."""
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "�"


def visible(text: str, instead: Callable[[str], str] = picture) -> str:
    """Replace characters that a terminal or a browser would interpret instead of showing."""
    return _HIDDEN.sub(lambda match: instead(match.group()), text)
