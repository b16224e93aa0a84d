"""Pictures of fields over their grids: maps of two axes, lines of one."""

from __future__ import annotations

import numpy as np

from supac.arrays import FloatArray
from supac.problem.fields import Field
from supac.record.many_parameters import FieldChange
from supac.report.elements import Markup
from supac.report.svg import Panel, Range, span
from supac.report.words import number

_LOGARITHMIC = 5.0  # ratio of the largest to the smallest value from which colours are of logs
_PALEST = 0.05  # opacity of the smallest value
_KEY = 34  # height of a map's scale


def drawable(field: Field) -> bool:
    """Return True for fields of one or two axes, of which there are pictures."""
    return len(field.shape) <= 2


def medians(change: FieldChange) -> Markup:
    """Draw the posterior median; along one axis with its range and the prior's."""
    name, label = f"field-{change.name}", f"{change.name}, {change.unit}".rstrip(", ")
    middle = change.posterior[1]
    words = (
        f"{label}: posterior median over the grid, from {number(float(middle.min()))} to "
        f"{number(float(middle.max()))}"
    )
    if len(change.field.shape) == 2:
        return _map(name, change.field, middle, words)
    x = change.field.axes[0]
    (before, _, above), (low, centre, high) = change.prior, change.posterior
    panel = Panel(_id(name), span(x, room=0.02), span(before, above, low, high))
    panel.area(x, before, above, "prior")
    panel.area(x, low, high, "posterior")
    panel.line(x, centre, "posterior")
    return panel.draw(words, "coordinate", label)


def widths(change: FieldChange) -> Markup:
    """Draw posterior over prior standard deviation."""
    name, values = f"width-{change.name}", change.widths
    words = (
        f"{change.name}: posterior over prior standard deviation, from "
        f"{number(float(values.min()), 2)} to {number(float(values.max()), 2)}"
    )
    if len(change.field.shape) == 2:
        limits = (0.0, max(1.0, float(values.max())))
        return _map(name, change.field, values, words, limits, reverse=True)
    x = change.field.axes[0]
    panel = Panel(_id(name), span(x, room=0.02), (0.0, max(1.05, 1.05 * float(values.max()))))
    panel.line(x, values, "posterior")
    return panel.draw(words, "coordinate", "width")


def pattern(name: str, field: Field, loadings: FloatArray, number_of: int) -> Markup:
    """Draw the loadings of a direction on a field: blue for positive, orange for negative ones."""
    words = f"Direction {number_of}: its correlation with {name} over the grid"
    own = f"direction-{number_of}-{name}"
    if len(field.shape) == 2:
        return _map(own, field, loadings.reshape(field.shape), words, (-1.0, 1.0), small=True)
    x = field.axes[0]
    panel = Panel(_id(own), span(x, room=0.02), (-1.05, 1.05), 250, 132, 34, 26, 6, 10)
    panel.line(x, np.zeros_like(x), "prior")
    panel.line(x, loadings, "posterior")
    return panel.draw(words, "", most=4)


def _map(
    name: str,
    field: Field,
    values: FloatArray,
    words: str,
    limits: Range | None = None,
    *,
    reverse: bool = False,
    small: bool = False,
) -> Markup:
    """Draw values over two axes, the first from left to right, the second upwards.

    With limits below zero, negative values have another colour, and there is no scale.
    """
    x, y = (_edges(axis) for axis in field.axes)
    width, left, bottom = (250, 30, 26) if small else (440, 44, 40)
    key = 0 if small else _KEY
    inner = width - left - 12
    height = int(min(max(inner * _aspect(field), 0.25 * inner), 1.2 * inner)) + bottom + key + 6
    panel = Panel(
        _id(name),
        (float(x[0]), float(x[-1])),
        (float(y[0]), float(y[-1])),
        width,
        height,
        left,
        bottom,
        6 + key,
        12,
    )
    signed = limits is not None and limits[0] < 0.0
    logs = limits is None and values.min() > 0.0 and values.max() > _LOGARITHMIC * values.min()
    scaled = np.log(values) if logs else values
    low, high = limits or (float(scaled.min()), float(scaled.max()))
    share = np.abs(values) if signed else (scaled - low) / ((high - low) or 1.0)
    share = np.clip(1.0 - share if reverse else share, 0.0, 1.0)
    opacity = share if signed else _PALEST + (1.0 - _PALEST) * share
    panel.cells(x, y, opacity, values < 0.0)
    if not small:
        ends = (float(np.exp(low)), float(np.exp(high))) if logs else (low, high)
        panel.scale(ends, reverse=reverse, note="logarithmic" if logs else "", palest=_PALEST)
    return panel.draw(words, "" if small else "first axis", "" if small else "second axis", most=4)


def _edges(axis: FloatArray) -> FloatArray:
    """Return the ends of the cells around coordinates, halfway between them."""
    if len(axis) == 1:
        return np.array([axis[0] - 0.5, axis[0] + 0.5])
    middle = 0.5 * (axis[1:] + axis[:-1])
    return np.concatenate([[2 * axis[0] - middle[0]], middle, [2 * axis[-1] - middle[-1]]])


def _aspect(field: Field) -> float:
    """Return height over width of a map: of the coordinates, or of the numbers of points."""
    x, y = (_edges(axis) for axis in field.axes)
    if isinstance(field.grid, tuple) and all(isinstance(each, tuple) for each in field.grid):
        return float((y[-1] - y[0]) / (x[-1] - x[0]))
    return field.shape[1] / field.shape[0]


def _id(name: str) -> str:
    """Return a name as an identifier of the page."""
    return "".join(each if each.isalnum() else f"-{ord(each):x}-" for each in name)
