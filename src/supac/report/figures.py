"""The charts of a report."""

from __future__ import annotations

import math

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.guarantee.bands import Bands
from supac.posterior.outputs import Outputs
from supac.problem_file import Observations
from supac.record.parameter_change import ParameterChange
from supac.report.account import Account
from supac.report.elements import Markup
from supac.report.svg import Panel, Range, span, svg
from supac.report.words import escape, number, with_range

_LOGARITHMIC = 30.0  # from the 5 % to the 95 % quantile of a prior whose range is drawn in logs
_NARROW = 0.12  # share of a chart below which a posterior is enlarged
_MANY = 60  # data, from which on their dots and bars are small
_FIT = 340, 215  # size of a picture of the fit: two stand beside the parameters
_CROWDED = 300  # data, from which on they are small dots below the runs, without bars
_WIDE = 460, 270  # size of a picture of the fit, where they stand one below the other
_INNER, _OUTER = (0.25, 0.75), (0.05, 0.95)  # quantiles of runs between which bands are drawn
_DECADES = 1e3  # from the 5 % to the 95 % quantile of a prior that is drawn over its logarithm

FEW = 2
"""Pictures of the fit that stand one below the other, as wide as they can."""
ERROR = ", with its standard error"
"""Words of a legend for measurements whose noise is known."""


def convergence(run: Account, name: str = "convergence") -> Markup:
    """Draw objective and mean risk after each batch, and of the returned posterior."""
    queries, objective = run.history["queries"], run.history["objective"]
    mean_risk = run.history["mean_risk"]
    end = np.array([float(max(run.made, int(queries[-1])))])
    final = np.array([run.objective if run.validated else math.nan])
    # One bad step at the beginning must not flatten the rest of the chart.
    shown = objective[np.isfinite(objective)]
    first, last = (shown[0], shown[-1]) if len(shown) else (math.nan, math.nan)
    cap = 4.0 * float(np.median(shown)) if len(shown) else math.inf
    panel = Panel(
        name,
        (0.0, 1.02 * float(end[0])),
        span(np.minimum(objective, cap), mean_risk.clip(max=cap), final, zero=True),
    )
    panel.area(queries, mean_risk, objective, "posterior")
    panel.line(queries, mean_risk, "prior dashed")
    panel.dots(queries, mean_risk, "prior")
    panel.line(queries, objective, "posterior")
    panel.dots(queries, objective, "posterior")
    panel.dots(end, final, "final", 6.0)
    words = (
        f"Line chart: the objective after each batch of runs, from {number(first)} to "
        f"{number(last)}."
    )
    if run.validated:
        words += f" The returned posterior, checked with fresh runs, has {number(run.objective)}."
    return panel.draw(words, "runs of the simulator", "risk")


def marginal(row: ParameterChange, index: int) -> Markup:
    """Draw the prior and posterior density of one parameter, scaled to the same height."""
    (x, before), (z, after) = row.before, row.after
    decades = _spans_decades(row)
    if decades:  # densities of the logarithm
        (x, before), (z, after) = (np.log10(x), x * before), (np.log10(z), z * after)
    whole = span(_middle(x, before), _middle(z, after), room=0.02)
    view = _near(_middle(z, after), whole)
    room = (0.0, 1.25)  # for a note above the curves
    panel = Panel(f"marginal-{index}", view, room, 250, 132, 10, 26, 6, 10, decades=decades)
    if view != whole:
        times = number((whole[1] - whole[0]) / (view[1] - view[0]), 2)
        panel.note(f"{times} × enlarged", left=True)  # a power of ten is on the right
    for kind, dash, grid, height in (("prior", " dashed", x, before), ("posterior", "", z, after)):
        scaled = height / (height.max() or 1.0)
        panel.area(grid, np.zeros_like(grid), scaled, kind)
        panel.line(grid, scaled, kind + dash)
    (a, b, c), (d, e, f) = (map(number, each) for each in (row.prior, row.posterior))
    words = f"{row.name}: prior {b} ({a} to {c}), posterior {e} ({d} to {f}) {row.unit}"
    return panel.draw(words.strip(), "", most=4, y_ticks=False)


def _near(after: FloatArray, whole: Range) -> Range:
    """Return a part of the whole range, if a posterior is narrow there, where it is well seen."""
    low, high = float(after.min()), float(after.max())
    if high - low > _NARROW * (whole[1] - whole[0]) or not high > low:
        return whole
    room = high - low
    return max(low - room, whole[0]), min(high + room, whole[1])


def _spans_decades(row: ParameterChange) -> bool:
    """Return True for a density in closed form of a positive parameter that decades are open to."""
    low, _, high = row.prior
    positive = bool((row.before[0] > 0.0).all() and (row.after[0] > 0.0).all())
    return math.isfinite(row.kl) and positive and high > _DECADES * low


def _middle(x: FloatArray, density: FloatArray) -> FloatArray:
    """Return the points between the 1 % and 98 % quantiles, to leave out long tails."""
    steps = np.diff(x, prepend=x[0])
    mass = np.cumsum(density * steps)
    inside = (mass > 0.01 * mass[-1]) & (mass < 0.98 * mass[-1])
    return x[inside] if inside.any() else x


def correlation_map(names: tuple[str, ...], r: FloatArray) -> Markup:
    """Draw the correlation matrix: blue for positive, orange for negative entries."""
    dim = len(names)
    side = 44 if dim <= 8 else 26 if dim <= 16 else 16
    label = min(8 * max(map(len, names)) + 12, 150)
    most = 0.5 if dim <= 8 else 1.0  # opacity below numbers, which must stay readable
    parts = []
    for i, name in enumerate(names):
        y, middle = label + i * side, label + (i + 0.5) * side + 4
        short = escape(name if len(name) <= 17 else name[:16] + "…")
        parts += [
            f'<text x="{label - 6}" y="{middle:.1f}" text-anchor="end">{short}</text>',
            f'<text transform="translate({middle:.1f} {label - 6}) rotate(-90)">{short}</text>',
        ]
        for j, value in enumerate(map(float, r[i])):
            x, kind = label + j * side, "together" if value > 0.0 else "against"
            kind, opacity = ("self", 1.0) if i == j else (kind, most * min(abs(value), 1.0))
            parts.append(
                f'<rect class="cell {kind}" x="{x}" y="{y}" width="{side - 1}" '
                f'height="{side - 1}" fill-opacity="{opacity:.2f}"/>'
            )
            if dim <= 8 and i != j:
                parts.append(
                    f'<text x="{x + side // 2}" y="{y + side // 2 + 4}" '
                    f'text-anchor="middle">{number(round(value, 2), 2)}</text>'
                )
    words = "Correlations of the posterior between {} parameters; the strongest are listed below."
    size = label + dim * side
    return svg("correlations", words.format(dim), size, size, "".join(parts), 1.0)


def fit(observations: Observations, run: Account, part: int) -> Markup:
    """Draw a part of an observed column: first batch, runs of the posterior, and data."""
    experiment, column, rows = observations.parts[part]
    x, places = _times(observations, column, rows)
    data, noise = observations.values[places], observations.noise[places]
    low, high = data - noise, data + noise
    if observations.logarithmic:
        low, high = data * np.exp(-noise), data * np.exp(noise)
    draws = {kind: outputs[:, places] for kind, outputs in drawn_runs(run).items()}
    held_out = np.full(len(rows), np.nan)
    if run.record.held_out_data is not None:
        held_out = run.record.held_out_data.values[places]
    view = _view((data, low, high, held_out), draws)
    size = _WIDE if len(observations.parts) <= FEW else _FIT
    panel = Panel(f"fit-{part}", span(x, room=0.03), view, *size)
    many, crowded = len(x) > _MANY, len(x) > _CROWDED
    if many and not crowded:  # below the runs, which so many bars would hide
        panel.bars(x, low, high, "data thin")
    if crowded:  # a dot each, below the runs, too
        panel.dots(x, data, "data", 1.0)
        panel.dots(x, held_out, "held-out", 1.0)
    for kind, lines in draws.items():
        _draw_runs(panel, x, lines, kind)
    if not many:
        panel.bars(x, low, high, "data")
    radius = 1.5 if many else 3.0
    if not crowded:
        panel.dots(x, data, "data", radius)
        panel.dots(x, held_out, "held-out", radius)
    name = observations.columns[column]
    of = f" of {experiment}" if experiment else ""
    error = " with their standard error" if observations.noise_known else ""
    words = f"{name}{of}: the data{error}, and simulations"
    for each in run.misfits:
        if each.column == name and not experiment:
            words += (
                f"; typical misfit {number(each.typical, 2)} times the noise, mean misfit "
                f"{number(each.mean, 2)}; {each.far} of {each.measured} beyond 3 times the noise"
            )
    label = unit_of(observations, column)
    return panel.draw(words, _time_label(observations), label, grow=1.55)


def drawn_runs(run: Account) -> dict[str, FloatArray]:
    """Return the outputs to be drawn beside the data, (n, m) each: of prior and posterior."""
    if run.observations is None:
        return {}
    kinds = {"prior": run.first, "posterior": run.latest if run.fresh is None else run.fresh}
    # Outputs of other data cannot be drawn beside these.
    width = len(run.observations.values)
    return {
        kind: each for kind, each in kinds.items() if each is not None and each.shape[1] == width
    }


def _draw_runs(panel: Panel, x: FloatArray, lines: FloatArray, kind: str) -> None:
    """Draw runs (n, times) as bands between their quantiles; of few times, as bars."""
    known = np.isfinite(lines).any(axis=0)
    x, lines = x[known], lines[:, known]
    if not len(x):
        return
    (low, high), (inner, above) = (np.nanquantile(lines, each, axis=0) for each in (_OUTER, _INNER))
    if len(np.unique(x)) < 2:
        panel.bars(x, low, high, f"{kind} wide")
        return
    panel.area(x, low, high, kind)
    if kind == "posterior":
        panel.area(x, inner, above, kind)
        panel.line(x, np.nanmedian(lines, axis=0), kind)
    else:
        panel.line(x, low, f"{kind} thin dashed")
        panel.line(x, high, f"{kind} thin dashed")


def residuals(name: str, times: FloatArray, off: FloatArray, label: str, part: int) -> Markup:
    """Draw residuals in the order of time, in units of the noise, with two noises at each side."""
    ends = span(np.append(off, [-2.5, 2.5]))
    panel = Panel(f"residuals-{part}", span(times, room=0.03), ends, height=180)
    level = np.array([times.min(), times.max()])
    panel.area(level, np.full(2, -2.0), np.full(2, 2.0), "posterior")
    panel.line(level, np.zeros(2), "posterior")
    if len(off) <= _CROWDED:
        panel.line(times, off, "data thin")
    panel.dots(times, off, "data", 1.0 if len(off) > _CROWDED else 2.0)
    words = f"{name}: measured minus simulated, in units of the noise, in the order of time"
    return panel.draw(words, label, "noises")


def band(
    observations: Observations, held_out: Observations | None, bands: Bands, part: int
) -> Markup:
    """Draw the band of a part of a column, and its data, as differences from the prediction."""
    _, column, rows = observations.parts[part]
    x, places = _times(observations, column, rows)
    middle = bands.centre[places]
    lower, upper = (each[places] - middle for each in (bands.lower, bands.upper))
    measured = observations.values[places] - middle
    new = np.full(len(x), np.nan) if held_out is None else held_out.values[places] - middle
    panel = Panel(f"band-{part}", span(x, room=0.03), span(lower, upper, measured, new), height=180)
    panel.area(x, lower, upper, "posterior")
    panel.line(x, np.zeros_like(x), "posterior")
    panel.dots(x, measured, "data")
    panel.dots(x, new, "held-out")
    name = observations.columns[column]
    words = (
        f"{name}: the data minus the mean prediction, and the band that holds new measurements "
        f"with probability {bands.coverage:g}"
    )
    return panel.draw(words, _time_label(observations), unit_of(observations, column))


def _times(observations: Observations, column: int, rows: IntArray) -> tuple[FloatArray, IntArray]:
    """Return times, or else numbers of rows, in order, and the places of the values there."""
    every = np.arange(1.0, observations.rows + 1.0)
    x = (every if observations.times is None else observations.times)[rows]
    order = np.argsort(x, kind="stable")
    return x[order], column * observations.rows + rows[order]


def unit_of(data: Observations | Outputs, column: int) -> str:
    """Return the unit of a column for its axis, whose name stands above the picture."""
    return "" if data.units is None else data.units[column]


def _time_label(observations: Observations) -> str:
    return "row" if observations.times is None else observations.time_label or "time"


def _view(measured: tuple[FloatArray, ...], draws: dict[str, FloatArray]) -> Range:
    """Return a range with all data and most posterior runs, and part of the first batch."""
    known = {kind: lines[:, np.isfinite(lines).any(axis=0)] for kind, lines in draws.items()}
    ends = {kind: np.nanquantile(lines, _OUTER, axis=0) for kind, lines in known.items()}
    fresh = (each for kind, each in ends.items() if kind == "posterior")
    inner = span(*measured, *fresh)
    if "prior" not in draws:
        return inner
    outer, room = span(np.array(inner), ends["prior"]), inner[1] - inner[0]
    return max(outer[0], inner[0] - 0.5 * room), min(outer[1], inner[1] + 0.5 * room)


def parameter_range(row: ParameterChange, index: int) -> Markup:
    """Draw the central 90 % of prior and posterior of one parameter as two bars on one axis."""
    logs = min(*row.prior, *row.posterior) > 0.0 and row.prior[2] > _LOGARITHMIC * row.prior[0]
    before, after = (
        np.log(each) if logs else np.array(each) for each in (row.prior, row.posterior)
    )
    low, high = span(before, after, room=0.0)
    places = [6.0 + 188.0 * (each - low) / ((high - low) or 1.0) for each in (before, after)]
    inside = ""
    for kind, (left, middle, right), height in zip(
        ("prior", "posterior"), places, (4, 10), strict=True
    ):
        inside += (
            f'<rect class="range {kind}" x="{left:.1f}" y="{12 - 0.5 * height:g}" '
            f'width="{max(right - left, 2.0):.1f}" height="{height}" rx="2"/>'
        )
        inside += f'<path class="axis" d="M{middle:.1f} 5v14"/>' if kind == "posterior" else ""
    words = f"{row.name}: {with_range(row.posterior)} {row.unit}, before {with_range(row.prior)}"
    return svg(f"range-{index}", words, 200, 24, inside, 1.0)
