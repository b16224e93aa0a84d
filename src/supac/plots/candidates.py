"""Plots of what candidate measurements are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from supac.plots.canvas import POSTERIOR, axes_for
from supac.posterior.next_measurement import NextMeasurements, in_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def next_measurements(
    found: NextMeasurements, most: int = 12, *, by_time: bool = False, axes: Axes | None = None
) -> Axes:
    """Plot the share of the variance that the best candidates would leave, with its error.

    The best stands first; `by_time` orders these candidates by output and time.
    """
    shown = in_time(found.choices[:most]) if by_time else list(found.choices[:most])
    plain = axes_for(axes, 6.4, 1.2 + 0.32 * len(shown))
    places = np.arange(len(shown))
    plain.barh(
        places,
        [each.remaining for each in shown],
        0.7,
        xerr=[each.error for each in shown],
        color=POSTERIOR,
        alpha=0.75,
        error_kw={"lw": 1.0, "ecolor": "#333333"},
    )
    plain.set_yticks(places, [each.candidate.words.replace("$", r"\$") for each in shown])
    plain.invert_yaxis()
    what = ", ".join(found.quantities[:3]) + (", …" if len(found.quantities) > 3 else "")
    plain.set(xlabel=f"expected share of the variance left: {what}", xlim=(0.0, 1.0))
    return plain
