"""Plots of fields over their grids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from supac.arrays import FloatArray
from supac.plots.canvas import POSTERIOR, PRIOR, TRUTH, grid_of, track_of
from supac.record.calibrated import Calibrated
from supac.record.many_parameters import FieldChange, field_changes
from supac.record.parameter_change import parameter_changes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOGARITHMIC = 5.0  # ratio of the largest to the smallest value from which colours are of logs


def field(
    run: Calibrated, name: str | None = None, *, truth: FloatArray | None = None
) -> list[Axes]:
    """Plot a field of one or two axes: posterior median, and posterior over prior spread.

    Without a name, the first field. `truth`, in the user's units, has the field's shape.
    """
    track = track_of(run)
    rows = parameter_changes(track.prior, track.posteriors[-1], track.parameters)
    fields = {each.name: each for each in field_changes(rows, track.parameters)}
    if not fields or (name is not None and name not in fields):
        known = f"they are {', '.join(fields)}" if fields else "there is none"
        raise ValueError(f"{name!r} is not a field; {known}")
    change = next(iter(fields.values())) if name is None else fields[name]
    if len(change.field.shape) > 2:
        raise ValueError(f"{change.name} has {len(change.field.shape)} axes: plots have up to two")
    known_truth = None if truth is None else np.reshape(truth, change.field.shape)
    return (_lines if len(change.field.shape) == 1 else _maps)(change, known_truth)


def _lines(change: FieldChange, truth: FloatArray | None) -> list[Axes]:
    values, widths = grid_of(2, 2, 5.0, 3.4)
    x, (low, middle, high) = change.field.axes[0], change.posterior
    values.fill_between(x, change.prior[0], change.prior[2], color=PRIOR, alpha=0.25, lw=0)
    band: dict[str, Any] = {"color": POSTERIOR, "alpha": 0.25, "lw": 0, "label": "5 % to 95 %"}
    values.fill_between(x, low, high, **band)
    values.plot(x, middle, color=POSTERIOR, label="median")
    if truth is not None:
        values.plot(x, truth, color=TRUTH, label="truth")
    values.set(xlabel="coordinate", ylabel=_label(change), title="Posterior, and prior in grey")
    values.legend(frameon=False)
    widths.plot(x, change.widths, color=POSTERIOR)
    top = max(1.05, 1.05 * float(change.widths.max()))
    widths.set(xlabel="coordinate", ylim=(0.0, top), title="Posterior over prior spread")
    return [values, widths]


def _maps(change: FieldChange, truth: FloatArray | None) -> list[Axes]:
    from matplotlib.colors import LogNorm, Normalize  # noqa: PLC0415 - checked by grid_of

    drawn = {} if truth is None else {"Truth": truth}
    drawn |= {"Posterior median": change.posterior[1]}
    every = np.stack(list(drawn.values()))
    logs = every.min() > 0.0 and every.max() > _LOGARITHMIC * every.min()
    panels = grid_of(len(drawn) + 1, 3, 4.4, 3.4)
    scale = (LogNorm if logs else Normalize)(float(every.min()), float(every.max()))
    last = Normalize(0.0, max(1.0, float(change.widths.max())))
    pictures = [(*each, scale, "viridis", _label(change)) for each in drawn.items()]
    pictures.append(("Posterior over prior spread", change.widths, last, "cividis", ""))
    x, y = change.field.axes
    for axes, (title, values, norm, colours, label) in zip(panels, pictures, strict=True):
        mesh = axes.pcolormesh(x, y, values.T, norm=norm, cmap=colours, shading="nearest")
        axes.figure.colorbar(mesh, ax=axes, label=label)
        axes.set(xlabel="first axis", ylabel="second axis", title=title)
    return panels


def _label(change: FieldChange) -> str:
    words = f"{change.name}, {change.unit}" if change.unit else change.name
    return words.replace("$", r"\$")  # $ begins a formula
