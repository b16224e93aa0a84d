"""A console that shows control characters in names and messages instead of obeying them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from supac.codec.text import visible


class CleanConsole(Console):
    """Console that replaces hidden characters, and does not interpret markup in brackets."""

    def __init__(self, **options: Any):
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as `Console` does, with cleaned texts."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
