"""Twenty digesters teach a prior, five new ones use it.

Digesters of one make: their 30 parameters are those of the make, but for the hydrolysis of
carbohydrates and proteins and the uptake of acetate, which depend on what each is fed and vary by
0.8 prior standard deviations; the others by 0.1. Each is observed for 196 days with noise of 8 %.
The prior is the paper's, the bound Catoni's with λ = 0.002.

    make digesters                  # writes digesters.csv and digesters.md
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from supac.simulators import adm1

HERE = Path(__file__).parent
INDIVIDUAL = ("k_hyd_ch", "k_hyd_pr", "k_m_ac", "K_S_ac")
BUDGETS = (30, 40, 60, 100, 150)
BOUND = supac.Catoni(0.002, ceiling=3.0)
LEARNT_ON, NEW = 20, 5


def draw_tasks(problem: adm1.Problem, n: int) -> tuple[list[supac.Task], list[float]]:
    """Digesters of one make, and the risk of each at its true parameters, which is noise alone."""
    rng = np.random.default_rng(11)
    names = problem.parameters.names
    make = 0.7 * rng.standard_normal(len(names))
    spread = np.where(np.isin(names, INDIVIDUAL), 0.8, 0.1)
    tasks: list[supac.Task] = []
    noises: list[float] = []
    while len(tasks) < n:
        latent = make + spread * rng.standard_normal(len(names))
        truth = problem.parameters.from_latent(latent[None])
        outputs = problem.simulator.outputs(truth)[0]
        noise = np.exp(0.08 * rng.standard_normal(outputs.shape))
        if not np.isfinite(outputs).all():
            continue  # it would not have been built
        columns = dict(zip(adm1.OUTPUTS, (outputs * noise).T, strict=True))
        digester = replace(
            problem.digester, observations={"time": problem.digester.days, **columns}
        )
        own = adm1.Problem(digester, problem.simulator)
        tasks.append(supac.Task(own.composite, BOUND, vectorized=True))
        noises.append(float(own.risk(truth)[0]))
    return tasks, noises


def main() -> None:
    """Learn, use, and write what it was worth."""
    problem = adm1.example()
    tasks, noises = draw_tasks(problem, LEARNT_ON + NEW)
    start = time.perf_counter()
    result = supac.meta_learn(
        tasks[:LEARNT_ON],
        problem.parameters,
        passes=4,
        execution=supac.Execution(on_failure="penalise"),
        callback=lambda info: print(info, flush=True),
    )
    print(result, f"{time.perf_counter() - start:.0f} s")
    rows = []
    for budget in BUDGETS:
        scores = supac.evaluate_priors(
            [problem.prior, result.prior],
            tasks[LEARNT_ON:],
            budget=budget,
            draws=2_000,
            parameters=problem.parameters,
        )
        rows.append((budget, *scores.mean, *scores.objective.max(axis=1)))
        print(rows[-1], flush=True)
    head = "queries,first prior,learnt prior,worst of first,worst of learnt\n"
    lines = [",".join(f"{value:.6g}" for value in row) for row in rows]
    (HERE / "digesters.csv").write_text(head + "\n".join(lines) + "\n")
    table = ["| queries a new digester | first prior | learnt prior |", "|---|---|---|"]
    table += [f"| {q} | {a:.4f} ({b:.4f}) | {c:.4f} ({d:.4f}) |" for q, a, c, b, d in rows]
    spent = np.diff(result.history["queries"], prepend=0) / LEARNT_ON
    bounds = ", ".join(f"{value:.4f}" for value in result.history["objective"])
    notes = [
        f"Mean objective of {NEW} new digesters (worst in brackets), judged by 2,000 fresh draws.",
        f"Their mean risk at the true parameters, from noise alone: "
        f"{np.mean(noises[LEARNT_ON:]):.4f}.",
        f"Learnt on {LEARNT_ON}: mean objective {bounds} pass by pass, with\n"
        f"{', '.join(f'{each:.0f}' for each in spent)} queries a digester.",
    ]
    (HERE / "digesters.md").write_text("\n".join(table) + "\n\n" + "\n".join(notes) + "\n")


if __name__ == "__main__":
    main()
