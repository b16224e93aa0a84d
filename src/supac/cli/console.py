"""A console on which texts of others cannot move the cursor, colour or turn around a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from supac.codec.text import visible


class CleanConsole(Console):
    """A console that replaces hidden characters in whatever it shows.

    Nor does it see more in a text than its characters: a path may have brackets in it.
    """

    def __init__(self, **options: Any):
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As in `Console`: the styles are its own, the texts made visible."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
