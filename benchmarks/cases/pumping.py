"""The pumping test of Oude Korendijk, by an old program with an input deck."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import supac
from cases import tools
from cases.page import COLOURS, Page, draw_ranges, learnt_of, ranged, save, table
from supac.plots.canvas import PRIOR
from supac.problem_file.scenario import read_scenario

READ = 0.25
"""Drawdown in m that was read 215 m from the well, at the end of the test."""
PUBLISHED = {"T": 462.6, "S": 1.779e-4}
"""Found by AQTESOLV, MLU and TTim, for an aquifer without leakage."""


def study(folder: Path) -> None:
    """Follow the page, run the other tools, and write pictures and tables."""
    page = Page("case-pumping")
    page.follow(folder)
    problem, record = (
        supac.read_problem(folder / "problem.toml"),
        supac.read_store(folder / "run.supac"),
    )
    data, risk = problem.observations, problem.risk
    assert data is not None
    assert isinstance(risk, supac.Composite)
    given = tools.problem_of(
        "pumping", problem.parameters, risk.simulate, data.residuals, data.measured
    )
    runs = record.queries
    found = [
        tools.ours(record),
        tools.least_squares(given, runs),
        tools.peer("DFO-LS", given, runs),
        tools.peer("ESMDA", given, runs),
    ]
    far = read_scenario(folder / "far.toml", problem)
    rows, lines = [], []
    for each in found:
        outputs = np.array([risk.simulate(x) for x in each.draws])
        lines.append(outputs)
        rms = np.sqrt(np.mean(data.residuals(outputs) ** 2, axis=1)) * float(data.noise[0])
        there = np.array([np.ravel(far.simulate(x))[-1] for x in each.draws])
        cells = [ranged(each.ends[:, i]) for i in range(3)]
        rows.append(
            (each.tool, f"{each.runs}", *cells, f"{100 * float(np.mean(rms)):.1f}",
             ranged(np.quantile(there, (0.05, 0.5, 0.95))))
        )  # fmt: skip
    headings = ("", "runs", "T, m²/d", "S", "c, d", "rms misfit, cm", "drawdown at 215 m, m")
    page.write(tools=table(headings, rows), learnt=learnt_of(record))
    _draw(data, record, risk, found, lines)


def _draw(
    data: supac.Observations,
    record: supac.Record,
    risk: supac.Composite,
    found: list[tools.Found],
    lines: list[np.ndarray],
) -> None:
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    axes = figure.subplots()
    assert data.times is not None
    assert record.parameters is not None
    before = record.parameters.sample(record.parameters.prior, 60, 3)
    prior = np.array([risk.simulate(x) for x in before])
    for column, name in enumerate(("30 m", "90 m")):
        places = slice(column * data.rows, (column + 1) * data.rows)
        for outputs, colour, alpha in ((prior, PRIOR, 0.3), (lines[0], COLOURS[0], 0.6)):
            low, high = np.quantile(outputs[:, places], (0.05, 0.95), axis=0)
            axes.fill_between(data.times, low, high, color=colour, alpha=alpha, lw=0)
        axes.plot(data.times, data.values[places], ".", color="#c2410c", ms=6)
        last = np.nanmax(data.values[places])
        axes.annotate(name, (data.times[-1], last), xytext=(6, -4), textcoords="offset points")
    axes.set(xscale="log", xlabel="minutes of pumping", ylabel="drawdown, m", ylim=(-0.02, 1.6))
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, "pumping-fit")
    figure = Figure(figsize=(9.0, 2.2), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    draw_ranges(panels, found, ("T, m²/d", "S", "c, d"))
    panels[1].ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
    save(figure, "pumping-tools")
