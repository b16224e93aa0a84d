"""Figures, colours, and the sequence of posteriors of a run."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from supac.families import Distribution
from supac.problem.parameters import Parameters, names_of
from supac.record.calibrated import Calibrated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRIOR, POSTERIOR, TRUTH = "#9aa5b1", "#0b6e99", "#c2410c"


def drawing_is_possible() -> bool:
    """Return True if matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def check_drawing() -> None:
    """Raise ImportError if matplotlib is not installed."""
    if not drawing_is_possible():
        raise ImportError("plots need matplotlib: pip install 'supac[plot]'")


def file_figure(width: float, height: float) -> Figure:
    """Return a figure for saving to a file."""
    check_drawing()
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def shown_figure(width: float, height: float) -> Figure:
    """Return a figure that `matplotlib.pyplot.show` and notebooks display."""
    check_drawing()
    from matplotlib import pyplot  # noqa: PLC0415

    return pyplot.figure(figsize=(width, height), layout="constrained")


def axes_for(axes: Axes | None, width: float = 6.4, height: float = 4.0) -> Axes:
    """Return the given axes, or those of a new figure."""
    plain = shown_figure(width, height).subplots() if axes is None else axes
    plain.spines[["top", "right"]].set_visible(False)
    return plain


def grid_of(count: int, columns: int, width: float, height: float, **options: Any) -> list[Axes]:
    """Return `count` axes of this size in rows, on a new figure."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = shown_figure(width * columns, height * rows)
    every = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axes in every[count:]:
        axes.set_visible(False)
    return [axes_for(axes) for axes in every[:count]]


@dataclass(frozen=True, eq=False)
class Track:
    """The posteriors of a run and the numbers of runs behind them, from the prior to the end."""

    queries: tuple[int, ...]
    posteriors: tuple[Distribution, ...]
    parameters: Parameters | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the parameters."""
        return names_of(self.parameters, self.posteriors[0].dim)

    def label(self, i: int) -> str:
        """Return a parameter's name and unit."""
        unit = "" if self.parameters is None else self.parameters.units[i]
        words = f"{self.names[i]}, {unit}" if unit else self.names[i]
        return words.replace("$", r"\$")  # $ begins a formula

    def index(self, name: str | int) -> int:
        """Return the index of a parameter, given by name or index."""
        if isinstance(name, int) and 0 <= name < len(self.names):
            return name
        if name not in self.names:
            raise ValueError(f"{name!r} is not a parameter; they are {', '.join(self.names)}")
        return self.names.index(str(name))

    def indices(self, names: Sequence[str | int] | None, most: int) -> list[int]:
        """Return the indices of the named parameters; by default of the first `most`."""
        if names is None:
            return list(range(min(len(self.names), most)))
        return [self.index(name) for name in names]


def track_of(run: Calibrated) -> Track:
    """Return the posteriors of a search; ValueError if it has none yet."""
    record = run.own_record
    if record.posterior is None:
        raise ValueError("there is no posterior to draw yet")
    batches = [(len(each.ids), each.proposal) for each in record.rounds if each.proposal]
    if record.ending is not None:
        batches += [(len(each.ids), each.posterior) for each in record.ending.validation]
    before = np.cumsum([0, *(count for count, _ in batches)]).tolist()
    # Successive batches may be drawn from one posterior, the last ones from the returned one.
    steps = [
        (before[i], proposal)
        for i, (_, proposal) in enumerate(batches)
        if i == 0 or proposal != batches[i - 1][1]
    ]
    if not steps or steps[-1][1] != record.posterior:
        steps.append((before[-1], record.posterior))
    queries, posteriors = zip(*steps, strict=True)
    return Track(tuple(queries), tuple(posteriors), record.parameters)
