"""Figures, colours, and the sequence of posteriors of a run."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from supac.families import Distribution, as_distribution
from supac.problem import Parameters, joined, names_of
from supac.record.calibrated import Calibrated
from supac.record.many_parameters import FEW, shown
from supac.record.parameter_change import parameter_changes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 12
"""Number of parameters that are drawn by default."""
PRIOR, POSTERIOR, TRUTH, CORRECTED = "#9aa5b1", "#0b6e99", "#c2410c", "#8a3ffc"


def drawing_is_possible() -> bool:
    """Return True if matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def new_figure(width: float, height: float, *, shown: bool = True) -> Figure:
    """Return a figure, one that `matplotlib.pyplot.show` and notebooks display or one to save."""
    if not drawing_is_possible():
        raise ImportError("plots need matplotlib: pip install 'supac[plot]'")
    from matplotlib import figure, pyplot  # noqa: PLC0415

    make = pyplot.figure if shown else figure.Figure
    return make(figsize=(width, height), layout="constrained")


def axes_for(axes: Axes | None, width: float = 6.4, height: float = 4.0) -> Axes:
    """Return the given axes, or those of a new figure."""
    plain = new_figure(width, height).subplots() if axes is None else axes
    plain.spines[["top", "right"]].set_visible(False)
    return plain


def grid_of(count: int, columns: int, width: float, height: float, **options: Any) -> list[Axes]:
    """Return `count` axes of this size in rows, on a new figure."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = new_figure(width * columns, height * rows)
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
    prior: Distribution
    """The start of the search if the prior is not a `Distribution`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the parameters."""
        return names_of(self.parameters, self.prior.dim)

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
            raise ValueError(f"{name!r} is not a parameter; they are {joined(self.names)}")
        return self.names.index(str(name))

    def indices(self, names: Sequence[str | int] | None, most: int | None = None) -> list[int]:
        """Return the indices of the named parameters; by default of the first `most`, or of all.

        Of more than 40 parameters, by default of those that changed most, in their order.
        """
        if names is None and len(self.names) > FEW:
            rows = parameter_changes(self.prior, self.posteriors[-1], self.parameters)
            return sorted(shown(rows, self.parameters, most or MOST))
        return [self.index(name) for name in (self.names[:most] if names is None else names)]


def track_of(run: Calibrated) -> Track:
    """Return the posteriors of a search; ValueError if it has none yet."""
    record = run.own_record
    if record.posterior is None:
        raise ValueError("there is no posterior to draw yet")
    batches = [(len(each.ids), each.proposal) for each in record.rounds if each.proposal]
    if record.ending is not None:
        batches += [(len(each.ids), each.posterior) for each in record.ending.validation]
    steps: list[tuple[int, Distribution]] = []
    before = 0
    # Successive batches may be drawn from one posterior, the last ones from the returned one.
    for count, posterior in (*batches, (0, record.posterior)):
        if not steps or posterior != steps[-1][1]:
            steps.append((before, posterior))
        before += count
    queries, posteriors = zip(*steps, strict=True)
    prior = as_distribution(record.prior) or posteriors[0]
    return Track(queries, posteriors, record.parameters, prior)
