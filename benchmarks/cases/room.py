"""A heated room, as an FMU, and a cold day."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import supac
from cases import tools
from cases.page import Page, draw_bands, figure_of, learnt_of, ranged, save, table
from supac.problem_file.scenario import read_scenario

TRUTH = np.array([1.6, 15.0, 0.003, 0.008])
"""What made the data."""


def study(folder: Path) -> None:
    """Follow the page, run the other tools, and write pictures and tables."""
    page = Page("case-room")
    page.follow(folder)
    problem = supac.read_problem(folder / "problem.toml")
    record = supac.read_store(folder / "run.supac")
    data, risk = problem.observations, problem.risk
    assert data is not None
    assert isinstance(risk, supac.Composite)
    given = tools.problem_of(
        "room", problem.parameters, risk.simulate, data.residuals, data.measured
    )
    runs = record.queries
    found = [
        tools.ours(record),
        tools.least_squares(given, runs),
        tools.peer("DFO-LS", given, runs),
        tools.peer("ESMDA", given, runs),
    ]
    cold = read_scenario(folder / "cold.toml", problem)
    assert cold.outputs is not None
    truth, rows, morning = np.ravel(cold.simulate(TRUTH)), [], cold.outputs.places("T").stop - 1
    for each in found:
        outputs = np.array([risk.simulate(x) for x in each.draws])
        misfit = np.sqrt(np.mean(data.residuals(outputs) ** 2, axis=1))
        ahead = np.array([np.ravel(cold.simulate(x)) for x in each.draws])
        low, high = np.quantile(ahead, (0.05, 0.95), axis=0)
        inside = np.mean((low <= truth) & (truth <= high))
        cells = [ranged(each.ends[:, i]) for i in range(4)]
        told = ranged(np.quantile(ahead[:, morning], (0.05, 0.5, 0.95)))
        rows.append(
            (
                each.tool,
                f"{each.runs}",
                *cells,
                f"{misfit.mean():.2f}",
                told,
                f"{100 * inside:.0f} %",
            )
        )
        if each is found[0]:
            _draw(problem, risk, outputs)
            figure, axes = figure_of(2)
            for i, name in enumerate(("T", "T_wall")):
                place = cold.outputs.places(name)
                draw_bands(axes[i], cold.outputs.clock, {"posterior": ahead[:, place]})
                axes[i].plot(cold.outputs.clock, truth[place], "--", color="#c2410c", label="truth")
                axes[i].set(xlabel="hour", ylabel=f"{name}, °C")
            axes[0].legend(frameon=False)
            save(figure, "room-cold")
    truths = [f"{each:g}" for each in TRUTH]
    rows.append(("*the truth*", "", *truths, "", f"{truth[morning]:.2f}", ""))
    headings = (
        *("", "runs", "C, MJ/K", "C_wall, MJ/K", "R_in, K/W", "R_out, K/W", "rms misfit, noises"),
        *("T at hour 32, °C", "truth within 90 %"),
    )
    page.write(tools=table(headings, rows), learnt=learnt_of(record))


def _draw(problem: supac.ProblemFile, risk: supac.Composite, outputs: np.ndarray) -> None:
    data = problem.observations
    assert data is not None
    before = problem.parameters.sample(problem.parameters.prior, 100, 3)
    prior = np.array([risk.simulate(x) for x in before])
    figure, axes = figure_of(2)
    for i, name in enumerate(data.columns):
        place = slice(i * data.rows, (i + 1) * data.rows)
        drawn = {"prior": prior[:, place], "posterior": outputs[:, place]}
        assert data.times is not None
        draw_bands(axes[i], data.times, drawn, data.values[place])
        axes[i].set(xlabel="hour", ylabel=f"{name}, °C")
    axes[0].legend(frameon=False)
    save(figure, "room-fit")
