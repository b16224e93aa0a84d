"""An anaerobic digester with thirty parameters, and three times the feed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import supac
from cases import tools
from cases.page import Page, draw_bands, figure_of, ranged, rounded, save, table
from supac.arrays import FloatArray
from supac.simulators import adm1
from supac.simulators.adm1.generate import true_parameters

NOISE = 0.07
"""Standard error of a logarithm that the other tools are told; the data have 4 to 8 %."""
_METHANE, _ACETATE = (adm1.OUTPUTS.index(name) for name in ("q_ch4", "S_ac"))


def study(folder: Path) -> None:
    """Run the script of the page, then the other tools, and write pictures and tables."""
    page = Page("case-digester")
    session = page.run(folder)
    problem, result = session["problem"], session["result"]
    ahead_of: adm1.Simulator = session["tripled"]
    data = problem.data

    def residuals(outputs: FloatArray) -> FloatArray:
        return np.asarray(data.residuals(outputs) / NOISE)

    given = tools.problem_of(
        "digester",
        problem.parameters,
        lambda x: problem.simulate(x[None])[0],
        residuals,
        data.measured,
    )
    runs = result.queries
    found = [
        tools.ours(result.record),
        tools.least_squares(given, runs),
        tools.peer("DFO-LS", given, runs),
        tools.peer("ESMDA", given, runs),
    ]
    truth = np.array(list(true_parameters().values()))
    before = problem.parameters.sample(problem.prior, tools.DRAWS, 3)
    found.append(tools.Found("prior", 0, before))
    true_ahead, rows = ahead_of.outputs(truth[None])[0], []
    for each in found:
        risks = problem.risk(each.draws)
        ahead = ahead_of.outputs(each.draws)
        covered = int(((each.ends[0] <= truth) & (truth <= each.ends[2])).sum())
        cells = [
            ranged(np.nanquantile(ahead[:, -1, k], (0.05, 0.5, 0.95))) for k in (_ACETATE, _METHANE)
        ]
        rows.append(
            (each.tool, f"{each.runs}", f"{risks.mean():.4f}", f"{covered} of 30", *cells)
        )  # fmt: skip
        if each is found[0]:
            _draw(problem, before, each.draws, (ahead_of, true_ahead))
    last = [rounded(float(true_ahead[-1, k])) for k in (_ACETATE, _METHANE)]
    rows.append(("*the truth*", "", f"{problem.risk(truth[None])[0]:.4f}", "", *last))
    headings = (
        *("", "runs", "mean risk", "truths within 90 %", "acetate, last day, kg COD/m³"),
        "methane, last day, m³/d",
    )
    page.write(tools=table(headings, rows), learnt=_learnt(result))


def _learnt(result: supac.Result) -> str:
    """Return the best known combinations of parameters as a table."""
    rows = []
    for one in result.sensitivity().combinations()[:5]:
        parts = [f"{each['name']} ({100 * each['share']:.0f} %)" for each in one["parameters"][:4]]
        rows.append((f"{one['width']:.2f}", ", ".join(parts)))
    return table(("width", "combination"), rows)


def _draw(
    problem: adm1.Problem, before: FloatArray, after: FloatArray, tripled: tuple[Any, FloatArray]
) -> None:
    days, observed = problem.digester.days, problem.digester.observed
    figure, axes = figure_of(2)
    outputs = {"prior": before, "posterior": after}
    simulated = {kind: problem.simulator.outputs(x) for kind, x in outputs.items()}
    for i, k in enumerate((_METHANE, _ACETATE)):
        drawn = {kind: each[:, :, k] for kind, each in simulated.items()}
        draw_bands(axes[i], days, drawn, observed[:, k])
        name = adm1.OUTPUTS[k]
        axes[i].set(xlabel="day", ylabel=f"{name}, {adm1.OUTPUT_UNITS[name]}")
        axes[i].set_ylim(0.0, (1.2, 1.7)[i] * float(np.nanmax(observed[:, k])))
    axes[0].legend(frameon=False)
    save(figure, "digester-fit")
    simulator, truth = tripled
    figure, axes = figure_of(2)
    simulated = {kind: simulator.outputs(x) for kind, x in outputs.items()}
    late = slice(120, None)
    for i, k in enumerate((_METHANE, _ACETATE)):
        drawn = {kind: each[:, late, k] for kind, each in simulated.items()}
        draw_bands(axes[i], days[late], drawn)
        axes[i].plot(days[late], truth[late, k], "--", color="#c2410c", label="truth")
        name = adm1.OUTPUTS[k]
        axes[i].set(xlabel="day", ylabel=f"{name}, {adm1.OUTPUT_UNITS[name]}")
    axes[1].set_ylim(0.0, 3.0)
    axes[0].legend(frameon=False)
    save(figure, "digester-tripled")
