"""Charts whose marks belong to runs, which a click selects."""

from __future__ import annotations

import math

from supac.arrays import FloatArray
from supac.report.svg import Panel, Range
from supac.report.words import escape


class RunPanel(Panel):
    """A chart with marks of single runs."""

    dot = 4.0
    """Radius of the dots of runs."""

    def run_dot(self, run: int, x: float, y: float, kind: str, words: str) -> None:
        """Draw the dot of a run; its words are shown by the browser."""
        if math.isfinite(x) and math.isfinite(y):
            self.parts.append(
                f'<circle class="dot run {kind}" data-run="{run}" cx="{self._x(x):.1f}" '
                f'cy="{self._y(y):.1f}" r="{self.dot:g}"><title>{escape(words)}</title></circle>'
            )

    def run_line(self, run: int, x: FloatArray, y: FloatArray) -> None:
        """Draw the outputs of a run."""
        self.parts.append(
            f'<polyline class="line run thin posterior" data-run="{run}" '
            f'points="{self._points(x, y)}"><title>run {run}</title></polyline>'
        )

    def run_bar(self, run: int, ends: Range, lane: int, kind: str, words: str) -> None:
        """Draw the time of a run in its lane."""
        left, right = self._x(ends[0]), self._x(ends[1])
        top, floor = self._y(lane + 0.86), self._y(lane + 0.14)
        self.parts.append(
            f'<rect class="span run {kind}" data-run="{run}" x="{left:.1f}" y="{top:.1f}" '
            f'width="{max(right - left, 1.0):.1f}" height="{floor - top:.1f}">'
            f"<title>{escape(words)}</title></rect>"
        )

    def lane_label(self, lane: int, words: str) -> None:
        """Write the name of a lane to its left."""
        y = self._y(lane + 0.5) + 4
        self.outside.append(
            f'<text x="{self.left - 8}" y="{y:.1f}" text-anchor="end">{escape(words)}</text>'
        )

    def upright(self, x: float, words: str) -> None:
        """Draw a vertical line with words for the browser."""
        place = f"M{self._x(x):.1f} {self.top}V{self.height - self.bottom}"
        self.parts.append(
            f'<path class="line prior dashed" d="{place}"><title>{escape(words)}</title></path>'
        )

    def group(self, number: int, *, on: bool) -> None:
        """Begin a group of marks of which one is shown at a time."""
        self.parts.append(f'<g class="round{" on" if on else ""}" data-round="{number}">')

    def end_group(self) -> None:
        """End the group."""
        self.parts.append("</g>")
