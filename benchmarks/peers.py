"""How good a posterior does SuPAC find in few queries, next to PyVBMC?

Both look for a posterior q of small q[R] + λ KL(q, N(0, I)), λ = 0.1, for three risks R of eight
parameters. For PyVBMC that is the Gibbs posterior, log joint −R(x)/λ + log N(x; 0, I), unbounded,
plausible within one standard deviation of the prior mean, where it starts. It must spend the whole
budget (`min_fun_evals`), since left alone it may stop before the last checkpoints; the rest is
default.

PyVBMC gets the best of four answers at each checkpoint: its last posterior and the one that it
would return (its own choice among the past ones, with its final refinement), each as the mixture
it is and as the Gaussian with its moments.

    make bench-peers                     # runs of PyVBMC that are already there are kept
    make bench-peers ARGS=--fresh        # all anew, about half an hour
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm, qmc

import supac
from pages import fitted
from problems import bowl_8
from supac.arrays import FloatArray

DIM, TEMPERATURE, CHECKPOINTS = 8, 0.1, (60, 100, 150, 200)
TASKS, SUPAC_SEEDS, PYVBMC_SEEDS = range(3), range(5), range(2)
MIXTURE_DRAWS, MOMENT_DRAWS = 2**16, 2**18
FOLDER = Path(__file__).parent / "results"
RUNS, TABLE = FOLDER / "peers.jsonl", FOLDER / "peers.md"

Risk = Callable[[FloatArray], FloatArray]

PRIOR = supac.gaussian(np.zeros(DIM), np.eye(DIM))
# Common to all Gaussians; the error is less than a tenth of that of independent draws.
DRAWS = norm.ppf(qmc.Sobol(DIM, rng=np.random.default_rng(0)).random_base2(14))


@dataclass(frozen=True)
class Point:
    """What a run has to show after `queries` queries, asked for at `checkpoint`."""

    checkpoint: int
    queries: int
    objective: float
    seconds: float
    """Processor time until then."""
    answers: dict[str, float]
    """The objective of each answer that `objective` is the best of."""
    error: float = 0.0
    """Standard error of the mixtures' objectives."""


@dataclass(frozen=True)
class Run:
    """One method, one task, one seed."""

    method: str
    version: str
    task: int
    seed: int
    points: tuple[Point, ...]

    @classmethod
    def parse(cls, line: str) -> Run:
        """A line of the file of runs."""
        fields = json.loads(line)
        fields["points"] = tuple(Point(**point) for point in fields["points"])
        return cls(**fields)


def main() -> None:
    """Run SuPAC, then what is missing of PyVBMC; the table is written anew after each run."""
    parser = argparse.ArgumentParser(description="SuPAC next to PyVBMC on an 8-dimensional task.")
    parser.add_argument(
        "--fresh", action="store_true", help="forget the runs of PyVBMC made so far"
    )
    fresh = parser.parse_args().fresh
    pyvbmc = import_pyvbmc()
    FOLDER.mkdir(exist_ok=True)
    if fresh:
        RUNS.unlink(missing_ok=True)
    kept = [Run.parse(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []
    runs = [run for run in kept if run.version == importlib.metadata.version("pyvbmc")]
    for task in TASKS:
        for seed in SUPAC_SEEDS:
            runs.append(run_supac(task, seed))
            show(runs)
    made = {(run.task, run.seed) for run in runs if run.method == "PyVBMC"}
    for seed in PYVBMC_SEEDS:
        for task in TASKS:
            if (task, seed) not in made:
                runs.append(run_pyvbmc(pyvbmc, task, seed))
                with RUNS.open("a") as file:
                    file.write(json.dumps(asdict(runs[-1])) + "\n")
                show(runs)
    print("\n" + TABLE.read_text())


def show(runs: list[Run]) -> None:
    """A line for the last run; the table of all."""
    run = runs[-1]
    values = " ".join(f"{point.checkpoint}: {point.objective:.4f}" for point in run.points)
    seconds = run.points[-1].seconds
    print(f"{run.method} task {run.task} seed {run.seed}: {values} ({seconds:.1f} s)", flush=True)
    TABLE.write_text(fitted(table(runs)))


def objective(risk: Risk, posterior: supac.Distribution) -> float:
    """q[R] by the common draws, and λ KL(q, prior) in closed form, for a Gaussian q."""
    x = posterior.mean + DRAWS @ np.linalg.cholesky(posterior.covariance).T
    return float(risk(x).mean() + TEMPERATURE * posterior.kl(PRIOR))


def run_supac(task: int, seed: int) -> Run:
    """At each checkpoint the last posterior that no further query was needed for."""
    risk = bowl_8(task).risk
    start = time.process_time()
    seen: list[tuple[int, float, supac.Distribution]] = [(0, 0.0, PRIOR)]

    def look(event: supac.Iteration) -> None:
        seen.append((event.queries, time.process_time() - start, event.next_posterior))

    supac.minimize(
        risk,
        prior=PRIOR,
        bound=supac.Catoni(temperature=TEMPERATURE),
        budget=CHECKPOINTS[-1],
        algorithm=supac.SuPAC(batch=10),
        execution=supac.Execution(vectorized=True, progress=False),
        seed=seed,
        callback=look,
    )
    points = []
    for checkpoint in CHECKPOINTS:
        queries, seconds, posterior = [row for row in seen if row[0] <= checkpoint][-1]
        value = objective(risk, posterior)
        points.append(Point(checkpoint, queries, value, seconds, {"Gaussian": value}))
    return Run("SuPAC", supac.__version__, task, seed, tuple(points))


def import_pyvbmc() -> Any:
    """The peer, from the environment of its own that `make bench-peers` makes."""
    try:
        return importlib.import_module("pyvbmc")
    except ModuleNotFoundError as error:
        raise SystemExit(
            "PyVBMC is not installed here: use `make bench-peers`, which makes an environment for "
            f"it ({error})"
        ) from error


def run_pyvbmc(pyvbmc: Any, task: int, seed: int) -> Run:
    """One run; what it knew at the checkpoints is read from its history."""
    risk, budget = bowl_8(task).risk, CHECKPOINTS[-1]
    start = time.process_time()
    asked: list[float] = []

    def log_joint(x: FloatArray) -> float:
        asked.append(time.process_time() - start)
        point = np.reshape(x, (1, DIM))
        return float(-risk(point)[0] / TEMPERATURE + PRIOR.log_prob(point)[0])

    vbmc = pyvbmc.VBMC(
        log_joint,
        PRIOR.mean[None],
        plausible_lower_bounds=np.full((1, DIM), -1.0),
        plausible_upper_bounds=np.full((1, DIM), 1.0),
        options={"min_fun_evals": budget, "max_fun_evals": budget, "display": "off"},
        seed=seed,
    )
    returned, _ = vbmc.optimize()
    asked.append(time.process_time() - start)
    points = tuple(look_back(vbmc, returned, risk, each, asked) for each in CHECKPOINTS)
    return Run("PyVBMC", importlib.metadata.version("pyvbmc"), task, seed, points)


def look_back(vbmc: Any, returned: Any, risk: Risk, checkpoint: int, asked: list[float]) -> Point:
    """The answers of PyVBMC after at most `checkpoint` evaluations, and the one after for record.

    The one after does not count: it has seen more. `asked` has the time of each evaluation, which
    is when the fit to those before was over, and of the end.
    """
    counts = [int(count) for count in vbmc.iteration_history["func_count"]]
    last = max(i for i, count in enumerate(counts) if count <= checkpoint)
    seconds = asked[counts[last]]
    if last + 1 < len(counts):
        start = time.process_time()
        best, _, _, chosen = vbmc.determine_best_vp(max_idx=last)
        returned = vbmc.final_boost(best, vbmc.get_gp(chosen))[0]
        seconds += time.process_time() - start
    answers: dict[str, float] = {}
    errors = []
    for name, posterior in (("last", vbmc.iteration_history["vp"][last]), ("returned", returned)):
        gaussian, mixture, error = objectives_of_mixture(risk, posterior)
        answers |= {f"{name}, Gaussian": gaussian, f"{name}, mixture": mixture}
        errors.append(error)
    value = min(answers.values())
    if last + 1 < len(counts):
        gaussian, mixture, _ = objectives_of_mixture(risk, vbmc.iteration_history["vp"][last + 1])
        answers[f"after {counts[last + 1]}"] = min(gaussian, mixture)
    return Point(checkpoint, counts[last], value, seconds, answers, max(errors))


def objectives_of_mixture(risk: Risk, mixture: Any) -> tuple[float, float, float]:
    """Of the Gaussian with its moments; its own, with the standard error.

    The mean of R + λ log q/prior varies less than its two parts do, since it is constant in x for
    the best of all q.
    """
    mixture.rng = 0
    mean, covariance = mixture.moments(MOMENT_DRAWS, cov_flag=True)
    gaussian = objective(risk, supac.gaussian(np.ravel(mean), covariance))
    x, _ = mixture.sample(MIXTURE_DRAWS)
    log_ratio = np.ravel(mixture.log_pdf(x)) - PRIOR.log_prob(x)
    values = risk(x) + TEMPERATURE * log_ratio
    return gaussian, float(values.mean()), float(values.std() / np.sqrt(MIXTURE_DRAWS))


def table(runs: list[Run]) -> str:
    """The results as Markdown."""
    lines = [
        *heading(runs),
        "",
        "| task | queries | PyVBMC | SuPAC | seconds of PyVBMC | of SuPAC |",
        "|---|---|---|---|---|---|",
    ]
    ahead: dict[str, list[str]] = {"SuPAC": [], "PyVBMC": []}
    for task in TASKS:
        for at, checkpoint in enumerate(CHECKPOINTS):
            columns: list[list[str]] = []
            medians = {}
            for method in ("PyVBMC", "SuPAC"):
                points = [
                    run.points[at] for run in runs if (run.method, run.task) == (method, task)
                ]
                columns.append(cells(points))
                if points:
                    medians[method] = np.median([point.objective for point in points])
            ordered = " | ".join(chain(*zip(*columns, strict=True)))
            lines.append(f"| {task} | {checkpoint} | {ordered} |")
            if len(medians) == 2:
                winner = min(medians, key=lambda method: medians[method])
                ahead[winner].append(f"task {task} at {checkpoint}")
    total = sum(map(len, ahead.values()))
    lines.append("")
    for method, where in ahead.items():
        places = f": {', '.join(where)}" if where else ""
        lines.append(f"{method} is ahead, by medians, in {len(where)} of {total}{places}.")
    return "\n".join(lines) + "\n"


def cells(points: list[Point]) -> list[str]:
    """Objective and seconds: median (best, worst)."""
    if not points:
        return ["", ""]
    values, seconds = [p.objective for p in points], [p.seconds for p in points]
    return [
        f"{np.median(values):.4f} ({min(values):.4f}, {max(values):.4f})",
        f"{np.median(seconds):.2f} ({min(seconds):.2f}, {max(seconds):.2f})",
    ]


def heading(runs: list[Run]) -> list[str]:
    """What was run, on what, how often, how exactly."""
    counts = {
        method: sum(run.method == method and run.task == TASKS[0] for run in runs)
        for method in ("PyVBMC", "SuPAC")
    }
    versions = {run.method: run.version for run in runs}
    error = max((point.error for run in runs for point in run.points), default=0.0)
    return [
        f"Objective q[R] + {TEMPERATURE} KL(q, prior) after so many queries, median (best, worst); "
        "lower is better. Seconds: processor time of all but the risk, which costs nothing here.",
        f"PyVBMC {versions.get('PyVBMC', '(no run yet)')}, {counts['PyVBMC']} seeds a task, "
        "its early stop turned off, the best of its last and its returned posterior, as mixture "
        f"and as Gaussian (standard error of a mixture's objective at most {error:.0e}). "
        f"SuPAC {versions.get('SuPAC', '')}, {counts['SuPAC']} seeds a task; before the end of its "
        "first batch it has the prior.",
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, NumPy "
        f"{np.__version__}, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '(unset)')}. "
        "Command: `make bench-peers`.",
    ]


if __name__ == "__main__":
    main()
