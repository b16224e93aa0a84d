"""The paper's pictures from our runs, with its published curves where they are at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meta import CLOSED, SGD, TEMPERATURES
from records import Results
from settings import (
    BALL,
    COMPOSITE,
    DESCENTS,
    EXTREMES,
    GRID,
    MOMENTA,
    NESTEROV,
    SCALAR,
    SELECTED,
    STANDARD,
    ce,
    descent,
)  # fmt: skip
from supac.arrays import FloatArray

PUBLISHED = Path(__file__).parents[3] / "shared" / "reference" / "published"
"""The paper's result tables, which are not ours to ship."""
UPDATES = (*range(5), *range(5, 26, 5), *range(50, 101, 10), *range(125, 276, 25), 296)
"""Behind the columns of its table of SuPAC-CE."""
PRIORS = (*range(10), *range(10, 151, 5))
"""Behind the columns of its tables of meta-learning."""
CE_COLOUR, OUR_COLOURS = "#5b6770", {COMPOSITE: "#0b6e99", SCALAR: "#c2410c"}
PUBLISHED_COLOUR = "#b8a13a"
OTHERS = ("#6b4c9a", "#2e7d32", "#b03060", "#8d6e63")
STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none",
    "svg.hashsalt": "supac", "legend.frameon": False, "legend.fontsize": 8,
}  # fmt: skip


def draw_all(folder: Path, results: Results) -> list[tuple[str, str]]:
    """All pictures whose runs are there, as SVG: their names and what they show."""
    drawn = []
    with rc_context(STYLE):  # type: ignore[arg-type]
        for name, (draw, words) in PICTURES.items():
            figure = draw(results)
            if figure is not None:
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
                drawn.append((f"{name}.svg", words))
    return drawn


def optimisation(results: Results) -> Figure | None:
    """Figure 1, left, and the comparison of Appendix B."""
    figure, (axes,) = _panels(1, 7.2, 4.4)
    _reference(axes, results)
    for colour, each in zip(OTHERS, SELECTED, strict=False):
        _band(axes, results, descent(*each), colour)
    if results.on_paper_data:
        _published(axes)
    return _finish(figure, [axes])


def preliminary(results: Results) -> Figure | None:
    """Gradient descent with few queries, a panel a step size."""
    sizes = sorted({size for _, size in DESCENTS})
    if not any(len(results.end(descent(160, size))) for size in sizes[2:]):
        return None
    figure, panels = _panels(len(sizes), 3.4, 3.4)
    for axes, size in zip(panels, sizes, strict=True):
        _reference(axes, results)
        for colour, batch in zip(OTHERS, (80, 160), strict=False):
            _band(axes, results, descent(batch, size), colour, f"{batch} queries a step")
        axes.set_title(f"gradient descent, step size {size:g}")
    return _finish(figure, panels, top=2.5, until=1800)


def momentum_of(results: Results, kind: str) -> Figure | None:
    """Descents with momentum, a panel a selected step, as it is and doubled."""
    figure, panels = _panels(4, 4.6, 3.4, rows=2)
    for axes, ((batch, size), times) in zip(
        panels, [(each, times) for each in SELECTED for times in (1, 2)], strict=True
    ):
        _reference(axes, results)
        for colour, momentum in zip(OTHERS, MOMENTA, strict=False):
            name = descent(batch, times * size, momentum, kind)
            _band(axes, results, name, colour, f"momentum {momentum:g}")
        axes.set_title(f"{kind} {batch} × {times * size:g}")
    return _finish(figure, panels, top=2.5)


def heavy_ball(results: Results) -> Figure | None:
    """The authors' momentum."""
    return momentum_of(results, BALL)


def nesterov(results: Results) -> Figure | None:
    """Ours."""
    return momentum_of(results, NESTEROV)


def hyperparameters(results: Results) -> Figure | None:
    """The grid of SuPAC-CE's limits, and all descents with the authors' momentum behind it."""
    figure, (axes,) = _panels(1, 7.2, 4.4)
    for batch, size in SELECTED:
        for times in (1, 2):
            for momentum in MOMENTA:
                name = descent(batch, times * size, momentum)
                _line(axes, results, name, "#d9c3cf", "heavy ball, all settings")
    for each in GRID:
        if each != STANDARD:
            _line(axes, results, ce(*each), "#9fb3bd", "SuPAC-CE, the other limits")
    _reference(axes, results)
    return _finish(figure, [axes])


def extremes(results: Results) -> Figure | None:
    """SuPAC-CE with limits far from the usual ones."""
    figure, (axes,) = _panels(1, 7.2, 4.4)
    _reference(axes, results)
    for colour, each in zip(OTHERS, EXTREMES, strict=True):
        _band(axes, results, ce(*each), colour)
    return _finish(figure, [axes], top=1.2)


def meta_learning(results: Results) -> Figure | None:
    """Figure 1, right: the objective of new tasks, epoch by epoch."""
    figure, panels = _panels(len(TEMPERATURES), 4.6, 3.6)
    for axes, temperature in zip(panels, TEMPERATURES, strict=True):
        _lessons(axes, results, temperature)
        known = _published_meta(temperature)
        if known is not None:
            axes.plot(PRIORS, known, "--", color=PUBLISHED_COLOUR, label="published, test")
        axes.set_xscale("symlog", linthresh=1.0)
        ticks = [0, 1, 2, 5, 15, 50, 150]
        axes.set_xticks(ticks, [str(each) for each in ticks])
        axes.set(title=f"λ = {temperature:g}", xlabel="epochs", ylim=(0.0, None))
    panels[0].set_ylabel("objective")
    _legend(figure, panels)
    return figure


def _lessons(axes: Axes, results: Results, temperature: float) -> None:
    for learner, colour in ((SGD, CE_COLOUR), (CLOSED, OUR_COLOURS[COMPOSITE])):
        lesson = results.lesson(learner, temperature)
        if lesson is None:
            continue
        seen = ~np.isnan(lesson["test_mean"])
        epoch = lesson["epoch"][seen]
        words = "MetaSuPAC(): closed form" if learner == CLOSED else learner
        axes.plot(epoch, lesson["test_mean"][seen], color=colour, label=f"{words}, test")
        low, high = lesson["test_q20"][seen], lesson["test_q80"][seen]
        axes.fill_between(epoch, low, high, color=colour, alpha=0.15, lw=0)
        axes.plot(lesson["epoch"], lesson["train"], ":", color=colour, label=f"{words}, training")


def _panels(count: int, width: float, height: float, rows: int = 1) -> tuple[Figure, list[Axes]]:
    columns = count // rows
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def _finish(
    figure: Figure, panels: list[Axes], top: float = 0.7, until: int = 11_000
) -> Figure | None:
    """The same axes everywhere; nothing where there is nothing to see."""
    lines = [line for axes in panels for line in axes.lines]
    if not lines:
        return None
    until = min(until, round(1.15 * max(float(np.max(line.get_xdata())) for line in lines)))
    queries = [each for each in (20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000) if each < until]
    bottom = 0.96 * min(float(np.min(line.get_ydata())) for line in lines)
    values = [each for each in (0.1, 0.12, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0) if bottom < each < top]
    for axes in panels:
        axes.set(xscale="log", yscale="log", xlabel="queries")
        axes.set_xticks(queries, [f"{each:,}" for each in queries])
        axes.set_yticks(values, [f"{each:g}" for each in values])
        axes.minorticks_off()
        axes.set(xlim=(18, until), ylim=(bottom, top))
        axes.tick_params(labelsize=8)
        if axes.get_subplotspec().is_first_col():  # type: ignore[union-attr]
            axes.set_ylabel("π[R] + λ·KL")
    _legend(figure, panels)
    return figure


def _legend(figure: Figure, panels: list[Axes]) -> None:
    """Above the panels, where it hides no curve."""
    pairs = zip(*panels[0].get_legend_handles_labels(), strict=True)
    shown = {label: handle for handle, label in pairs}
    columns = 2 if len(panels) == 1 else 3
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=columns)


def _reference(axes: Axes, results: Results) -> None:
    """SuPAC-CE as in the paper, and ours."""
    _band(axes, results, ce(*STANDARD), CE_COLOUR, "SuPAC-CE")
    for name, colour in OUR_COLOURS.items():
        _band(axes, results, name, colour)


def _band(axes: Axes, results: Results, name: str, colour: str, label: str | None = None) -> None:
    """Median and quantiles 0.2 and 0.8 over repeats."""
    queries, objective = _curve(results, name)
    if not len(queries):
        return
    low, middle, high = np.quantile(objective, [0.2, 0.5, 0.8], axis=0)
    axes.plot(queries, middle, color=colour, lw=1.5, label=label or name)
    axes.fill_between(queries, low, high, color=colour, alpha=0.15, lw=0)


def _curve(results: Results, name: str) -> tuple[FloatArray, FloatArray]:
    """From the first query on: axes are logarithmic."""
    queries, objective = results.curve(name)
    return queries[1:], objective[:, 1:]


def _line(axes: Axes, results: Results, name: str, colour: str, label: str) -> None:
    queries, objective = _curve(results, name)
    if len(queries):
        axes.plot(queries, np.median(objective, axis=0), color=colour, lw=1.0, label=label)


def _published(axes: Axes) -> None:
    known = published("supac_ce")
    if known is not None:
        queries = [160 + 32 * (update - 1) for update in UPDATES[1:]]
        axes.plot(
            queries, np.median(known[:, 1:], axis=0), "--", color=PUBLISHED_COLOUR,
            label="SuPAC-CE, published",
        )  # fmt: skip
    known = published("gd_eta0.05_n160")
    if known is not None:
        queries = [160 * step for step in range(1, known.shape[1])]
        axes.plot(
            queries, np.median(known[:, 1:], axis=0), ":", color=PUBLISHED_COLOUR,
            label="gradient descent 160 × 0.05, published",
        )  # fmt: skip


def published(name: str) -> FloatArray | None:
    """One of the paper's tables, a row a repeat or a task; None where they are not at hand."""
    path = PUBLISHED / f"{name}.csv"
    return np.loadtxt(path) if path.exists() else None


def _published_meta(temperature: float) -> FloatArray | None:
    known = published(f"meta_test_lambda_{str(temperature).replace('.', '_')}")
    return None if known is None else known.mean(axis=0)


Draw = Callable[[Results], Figure | None]
PICTURES: dict[str, tuple[Draw, str]] = {
    "optimisation": (
        optimisation,
        "Figure 1, left: SuPAC-CE, gradient descent and `SuPAC()` on ADM1. Medians; shaded from "
        "quantile 0.2 to 0.8 of the repeats, here and below.",
    ),
    "preliminary": (
        preliminary,
        "Appendix B: the grid from which the paper chose queries a step × step size.",
    ),
    "heavy_ball": (
        heavy_ball,
        "Appendix B: momentum as the authors' code has it, a heavy ball, with the selected step "
        "sizes and twice as much.",
    ),
    "nesterov": (
        nesterov,
        "The same with Nesterov's momentum, whose gradients are taken ahead, as the text has it.",
    ),
    "hyperparameters": (
        hyperparameters,
        "Appendix B: SuPAC-CE with kl_max from 0.5 to 2 and alpha_max from 0.25 to 0.75, and the "
        "medians of all settings of the heavy ball.",
    ),
    "extremes": (extremes, "Appendix B: SuPAC-CE with limits far from the usual ones."),
    "meta": (
        meta_learning,
        "Figure 1, right: mean objective of new tasks, each from scratch under the prior of that "
        "epoch; shaded from quantile 0.2 to 0.8 of the tasks.",
    ),
}
