"""A console that shows control characters in names and messages instead of obeying them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all of C0 and C1 but tabs and new lines


def visible(character: str) -> str:
    """Return the symbol of a control character, such as ␛ for an escape."""
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "�"


def cleaned(text: str, instead: Callable[[str], str] = visible) -> str:
    """Replace the control characters of a text."""
    return _CONTROL.sub(lambda match: instead(match.group()), text)


class CleanConsole(Console):
    """Console that replaces control characters, and does not interpret markup in brackets."""

    def __init__(self, **options: Any):
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as `Console` does, with cleaned texts."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else cleaned(text), style, control)
