"""A signalling model of the PEtab benchmark collection, from its own files."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy import optimize

import supac
from cases import tools
from cases.page import Page, draw_bands, figure_of, learnt_of, save, table
from outside import peers
from outside.problem import OutsideProblem
from supac.arrays import FloatArray
from supac.simulators import petab

NAME = "Boehm_JProteomeRes2014"
COLLECTION = Path(__file__).parents[3] / "shared" / "reference" / "petab"
"""The published files, where they lie here; they are not shipped with this project."""
PUBLISHED = 138.222
"""Minus the log-likelihood at the published parameters."""
RUNS = 300


def study(folder: Path) -> None:
    """Follow the page with the published files, then run the other tools."""
    source = COLLECTION / NAME
    if not source.is_dir():
        sys.exit(f"{source} is missing: the page says where the collection is to be had")
    for path in source.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    page = Page("case-signalling")
    page.follow(folder)
    problem = petab.load(folder / f"{NAME}.yaml")
    rows, count = [], problem.measurements.measured
    records = [supac.read_store(folder / "run.supac"), *(_search(problem, seed) for seed in (1, 2))]
    for seed, record in enumerate(records):
        own = f"{count * record.estimate.objective:.0f}"
        rows.append(
            (*_row(problem, f"supac, seed {seed}", record.queries, record.sample(100, 1)), own)
        )
    best = min(records, key=lambda record: record.estimate.objective)
    _draw(problem, best)
    given = _problem(problem)
    for name, tool in (("CMA-ES", _cma), ("L-BFGS-B", _lbfgs)):
        rows += [_best(problem, given, name, tool(given, seed), seed) for seed in range(3)]
    rows.append(
        ("*published*", "", f"{problem.negative_log_likelihood(problem.nominal):.1f}", "", "")
    )
    headings = (
        "",
        "runs",
        "−log L, best",
        "−log L over draws: median (5 % to 95 %)",
        "n · objective",
    )
    page.write(tools=table(headings, rows), learnt=learnt_of(best))


def _search(problem: petab.Problem, seed: int) -> supac.Record:
    """Repeat the search with another seed."""
    where = supac.Execution(on_failure="penalise", progress=False)
    return supac.minimize(
        problem.risk, problem.parameters, problem.bound, budget=RUNS, seed=seed, execution=where
    ).record


def _problem(problem: petab.Problem) -> OutsideProblem:
    """Return the risk alone, as the other tools see it."""
    return OutsideProblem(
        NAME,
        "judgement",
        "",
        problem.parameters,
        lambda x, _: np.array([problem.risk(x)]),
        lambda outputs: outputs[:, 0],
        1.0 / problem.measurements.measured,
        np.zeros(len(problem.parameters)),
        failure_risk=1e3,
        fails=True,
    )


def _row(problem: petab.Problem, name: str, runs: int, draws: FloatArray) -> tuple[str, ...]:
    values = np.array([_likelihood(problem, x) for x in draws])
    low, middle, high = np.nanquantile(values, (0.05, 0.5, 0.95))
    return name, f"{runs}", f"{np.nanmin(values):.1f}", f"{middle:.0f} ({low:.0f} to {high:.0f})"


def _likelihood(problem: petab.Problem, x: FloatArray) -> float:
    try:
        return problem.negative_log_likelihood(x)
    except petab.SimulationError:
        return float("nan")


def _best(
    problem: petab.Problem, given: OutsideProblem, name: str, white: peers.White, seed: int
) -> tuple[str, ...]:
    """Return the row of an optimiser, which has no posterior."""
    z = white.z[int(np.argmin(white.energy))]
    x = given.parameters.from_latent((given.prior.mean + white.root @ z)[None])[0]
    return f"{name}, seed {seed}", f"{len(white.z)}", f"{_likelihood(problem, x):.1f}", "none", ""


def _cma(given: OutsideProblem, seed: int) -> peers.White:
    """Run CMA-ES from the middle of the prior."""
    from importlib import import_module  # noqa: PLC0415 - the peers are in another environment

    white = peers.White(given, seed)
    options = {"seed": seed + 1, "verbose": -9, "maxfevals": RUNS}
    search = import_module("cma").CMAEvolutionStrategy(np.zeros(given.dim), 0.8, options)
    while len(white.z) < RUNS and not search.stop():
        points = search.ask()
        for each in points:
            white.risk(np.asarray(each))
        search.tell(points, white.energy[-len(points) :])
    return white


def _lbfgs(given: OutsideProblem, seed: int) -> peers.White:
    """Run SciPy's L-BFGS-B with differences, from draws near the middle, until runs are spent."""
    white, rng = peers.White(given, seed), np.random.default_rng(seed)

    def energy(z: FloatArray) -> float:
        if len(white.z) >= RUNS:
            raise tools.SpentError
        white.risk(z)
        return white.energy[-1]

    try:
        while True:
            start = 0.5 * rng.standard_normal(given.dim)
            limits = [(-4.0, 4.0)] * given.dim
            optimize.minimize(
                energy, start, method="L-BFGS-B", bounds=limits, options={"eps": 1e-4}
            )
    except tools.SpentError:
        return white


def _simulated(problem: petab.Problem, x: FloatArray) -> FloatArray:
    try:
        return np.asarray(problem.risk.simulate(x))
    except petab.SimulationError:
        return np.full(problem.measurements.measured, np.nan)


def _draw(problem: petab.Problem, record: supac.Record) -> None:
    measured = problem.measurements
    draws = {
        "prior": problem.parameters.sample(problem.parameters.prior, 60, 3),
        "posterior": record.sample(100, 1),
    }
    figure, axes = figure_of(3)
    shown = {}
    plain = petab.load(problem.description.path, observation=False)
    order = [problem.parameters.names.index(name) for name in plain.parameters.names]
    for kind, points in draws.items():
        rows = [_simulated(plain, x[order])[: measured.measured] for x in points]
        shown[kind] = np.array([row for row in rows if np.isfinite(row).all()])
    for i, name in enumerate(measured.names):
        rows = measured.series == i
        sort = np.argsort(measured.times[rows], kind="stable")
        times = measured.times[rows][sort]
        drawn = {kind: each[:, rows][:, sort] for kind, each in shown.items()}
        draw_bands(axes[i], times, drawn, measured.values[rows][sort])
        axes[i].set(xlabel="minutes", title=name)
    axes[0].legend(frameon=False)
    save(figure, "signalling-fit")
