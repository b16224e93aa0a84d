"""Small SVG charts: axes, lines and dots, with colours from the style sheet.

Without Matplotlib: they follow the light or dark theme, are a few kilobytes each, and need no
optional dependency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.report.elements import Markup
from supac.report.words import escape, number, power_of, times_ten_to

Range = tuple[float, float]
_LETTER = 7.5  # approximate width of a character
_LEFT, _BESIDE = 56, 26  # pixels left of the axes, and those of them that are not for the numbers


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most `most` round numbers between two limits."""
    if not low < high:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    steps = (power * each for each in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 50.0))
    for step in steps:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [each * step for each in range(first, last + 1)]
    return [low, high]


def decade_ticks(low: float, high: float, most: int = 5) -> tuple[list[float], list[str]]:
    """Return ticks and labels between two decadic logarithms: 10⁻², 10⁰; or 2, 5, 10 if close."""
    whole = [each for each in ticks(low, high, most) if each == round(each)]
    if len(whole) > 1:
        return whole, [times_ten_to(round(each))[1:] for each in whole]
    for steps in ((1.0, 2.0, 5.0), (1.0, 3.0)):
        decades = range(math.floor(low), math.ceil(high) + 1)
        every = [each * 10.0**power for power in decades for each in steps]
        inside = [each for each in every if low <= math.log10(each) <= high]
        if len(inside) < most:
            break
    if len(inside) < 2:
        inside = [each for each in ticks(10.0**low, 10.0**high, most) if each > 0.0]
    return [math.log10(each) for each in inside], list(map(number, inside))


def labels(values: Sequence[float], power: int = 0) -> list[str]:
    """Format ticks, divided by a power of ten, with as many digits as they need."""
    scaled = [value / 10.0**power for value in values]
    largest = max(map(abs, scaled))
    for digits in (2, 3, 4, 5):
        slack = 1e-6 * largest
        if all(abs(value - float(f"{value:.{digits}g}")) <= slack for value in scaled):
            break
    return [number(0.0 if abs(value) < 1e-9 * largest else value, digits) for value in scaled]


@dataclass(eq=False)
class Panel:
    """A chart with one pair of axes; everything is clipped to them."""

    name: str
    """Unique on the page."""
    x: Range
    y: Range
    width: int = 440
    height: int = 260
    left: int = 0
    """Pixels left of the axes; 0 for as many as the numbers and the label there need."""
    bottom: int = 44
    top: int = 12
    right: int = 12
    decades: bool = False
    """True if x is a logarithm to the base ten."""
    parts: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    """Parts that are not clipped."""

    def __post_init__(self) -> None:
        if self.left == 0:
            values = ticks(*self.y)
            widest = max(map(len, labels(values, power_of(values))))
            self.left = max(_LEFT, math.ceil(_LETTER * widest) + _BESIDE)

    def _x(self, value: float) -> float:
        share = (value - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0)
        return self.left + share * (self.width - self.left - self.right)

    def _y(self, value: float) -> float:
        share = (value - self.y[0]) / ((self.y[1] - self.y[0]) or 1.0)
        share = min(max(share, -9.0), 9.0)  # clipped anyway, but some viewers fail on 1e300
        return self.height - self.bottom - share * (self.height - self.bottom - self.top)

    def _points(self, x: FloatArray, y: FloatArray) -> str:
        known = np.isfinite(x) & np.isfinite(y)
        return " ".join(
            f"{self._x(a):.1f},{self._y(b):.1f}" for a, b in zip(x[known], y[known], strict=True)
        )

    def line(self, x: FloatArray, y: FloatArray, kind: str) -> None:
        """Draw a line through the finite points."""
        self.parts.append(f'<polyline class="line {kind}" points="{self._points(x, y)}"/>')

    def area(self, x: FloatArray, low: FloatArray, high: FloatArray, kind: str) -> None:
        """Fill the area between two lines."""
        outline = f"{self._points(x, high)} {self._points(x[::-1], low[::-1])}"
        self.parts.append(f'<polygon class="area {kind}" points="{outline}"/>')

    def dots(self, x: FloatArray, y: FloatArray, kind: str, radius: float = 3.0) -> None:
        """Draw a dot at each finite point."""
        for a, b in zip(x, y, strict=True):
            if math.isfinite(a) and math.isfinite(b):
                self.parts.append(
                    f'<circle class="dot {kind}" cx="{self._x(a):.1f}" cy="{self._y(b):.1f}" '
                    f'r="{radius:g}"/>'
                )

    def bars(self, x: FloatArray, low: FloatArray, high: FloatArray, kind: str) -> None:
        """Draw vertical bars from low to high."""
        for a, b, c in zip(x, low, high, strict=True):
            if math.isfinite(a + b + c):
                self.parts.append(
                    f'<path class="line {kind}" d="M{self._x(a):.1f} {self._y(b):.1f}'
                    f'V{self._y(c):.1f}"/>'
                )

    def cells(self, x: FloatArray, y: FloatArray, opacity: FloatArray, other: BoolArray) -> None:
        """Fill the cells between edges x and y; those that are `other` in the other colour."""
        self.parts.append(  # lines of the axes must not show through pale cells
            f'<rect class="ground" x="{self.left}" y="{self.top}" '
            f'width="{self.width - self.left - self.right}" '
            f'height="{self.height - self.top - self.bottom}"/>'
        )
        for i, j in np.ndindex(opacity.shape):
            left, right = self._x(float(x[i])), self._x(float(x[i + 1]))
            top, floor = self._y(float(y[j + 1])), self._y(float(y[j]))
            kind = "against" if other[i, j] else "together"
            self.parts.append(
                f'<rect class="cell tile {kind}" x="{left:.1f}" y="{top:.1f}" '
                f'width="{right - left:.1f}" height="{floor - top:.1f}" '
                f'fill-opacity="{opacity[i, j]:.2f}"/>'
            )

    def scale(self, ends: Range, *, reverse: bool, note: str, palest: float) -> None:
        """Draw the colours of `cells` from the smallest to the largest value, above the axes."""
        steps, y, length = 24, 4, 110
        labels_of = [number(each) for each in ends]
        begin = self.left + _LETTER * len(labels_of[0]) + 8
        for i in range(steps):
            share = (i + 0.5) / steps
            opacity = palest + (1.0 - palest) * (1.0 - share if reverse else share)
            self.outside.append(
                f'<rect class="cell tile together" x="{begin + i * length / steps:.1f}" y="{y}" '
                f'width="{length / steps:.1f}" height="14" fill-opacity="{opacity:.2f}"/>'
            )
        self.outside.append(_text(begin - 6, y + 12, labels_of[0], "end"))
        last = f"{labels_of[1]} ({note})" if note else labels_of[1]
        self.outside.append(_text(begin + length + 6, y + 12, last, "start"))

    def note(self, words: str, *, left: bool = False) -> None:
        """Write a few words into the upper right corner, or into the left one."""
        x, anchor = (self.left, "start") if left else (self.width - self.right, "end")
        self.outside.append(_text(x, self.top + 10, words, anchor, "note"))

    def draw(
        self,
        title: str,
        x_label: str,
        y_label: str = "",
        *,
        most: int = 5,
        y_ticks: bool = True,
        grow: float = 1.2,
    ) -> Markup:
        """Return the chart, with a title that describes it for screen readers.

        `grow` is the largest scale at which it is shown.
        """
        width, height = self.width - self.left - self.right, self.height - self.bottom - self.top
        inside = (
            f'<clipPath id="{self.name}-clip"><rect x="{self.left - 4}" y="{self.top - 4}" '
            f'width="{width + 8}" height="{height + 8}"/></clipPath>'
            f"{self._axes(most, y_ticks=y_ticks)}"
            f'<g clip-path="url(#{self.name}-clip)">{"".join(self.parts)}</g>'
            f"{''.join(self.outside)}"
        )
        if x_label:
            words = shortened(x_label, width)
            inside += _text(self.left + 0.5 * width, self.height - 6, words, "middle")
        if y_label:
            inside += (
                f'<text class="label" transform="translate(13 {self.top + 0.5 * height:.1f}) '
                f'rotate(-90)" text-anchor="middle">{escape(shortened(y_label, height))}</text>'
            )
        return svg(self.name, title, self.width, self.height, inside, grow)

    def _axes(self, most: int, *, y_ticks: bool) -> str:
        floor, end = self.height - self.bottom, self.width - self.right
        drawn = f'<path class="axis" d="M{self.left} {floor}H{end}"/>'
        if y_ticks:
            values = ticks(*self.y, most)
            power = power_of(values)
            for value, words in zip(values, labels(values, power), strict=True):
                y = self._y(value)
                drawn += f'<path class="grid" d="M{self.left} {y:.1f}H{end}"/>'
                drawn += _text(self.left - 6, y + 4, words, "end")
            drawn += _text(2, self.top + 4, times_ten_to(power), "start") if power else ""
        values = ticks(*self.x, most)
        power = power_of(values)
        words_of = labels(values, power)
        if self.decades:
            power = 0
            values, words_of = decade_ticks(*self.x, most)
        for value, words in zip(values, words_of, strict=True):
            half = 0.5 * _LETTER * len(words)
            x = min(max(self._x(value), half), self.width - half)
            drawn += f'<path class="axis" d="M{self._x(value):.1f} {floor}v4"/>'
            drawn += _text(x, floor + 18, words, "middle")
        return drawn + (_text(end, self.top + 8, times_ten_to(power), "end") if power else "")


def shortened(words: str, room: float) -> str:
    """Return words that fit this many pixels; the title of a chart has them whole."""
    most = max(int(room / _LETTER), 2)
    return words if len(words) <= most else f"{words[: most - 1]}…"


def svg(
    name: str, title: str, width: float, height: float, inside: str, grow: float = 1.2
) -> Markup:
    """Return an SVG element with a title for screen readers; `grow` limits its size."""
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{name}-title" '
        f'style="max-width:{grow * width:g}px">'
        f'<title id="{name}-title">{escape(title)}</title>{inside}</svg>'
    )


def _text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def span(*values: FloatArray, zero: bool = False, room: float = 0.05) -> Range:
    """Return the range of the finite values plus a margin; `zero` includes 0."""
    known = np.concatenate([each[np.isfinite(each)].ravel() for each in values])
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    low = min(low, 0.0) if zero else low
    margin = room * (high - low) if high > low else 0.5 * abs(high) or 1.0
    return (low if zero and low == 0.0 else low - margin, high + margin)
