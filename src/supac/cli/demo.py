"""`supac demo`: a calibration with embedded data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from supac.arrays import FloatArray
from supac.calibration.minimize import minimize
from supac.cli.app import EXIT_CODES, app, console, failed, guarded
from supac.cli.tables import history_table, parameter_table
from supac.plots import drawing_is_possible, save_fit, save_posterior
from supac.problem import Parameters
from supac.problem.bounds import Catoni
from supac.problem.marginals import Normal
from supac.record.result import Result
from supac.running.execution import Execution
from supac.simulators import adm1, synthetic
from supac.simulators.adm1.generate import true_parameters

_FIRST = 20  # runs of the first batch of either problem, the smallest budget
_CHECKS = 1_000  # draws that check prior and posterior
_FILES = ("history.csv", "evaluations.csv", "posterior.png", "fit.png")


class DemoProblem(StrEnum):
    """Problem of the demo."""

    ADM1 = "adm1"
    SYNTHETIC = "synthetic"


@dataclass(frozen=True, eq=False)
class Job:
    """Problem, bound and true parameters of a demo."""

    title: str
    risk: Callable[[FloatArray], FloatArray]
    parameters: Parameters
    bound: Catoni
    budget: int
    truth: FloatArray
    digester: adm1.Problem | None = None


def _digester_job() -> Job:
    """Return the paper's main experiment, on the embedded digester."""
    problem = adm1.example()
    problem.simulator.load()
    title = "ADM1, an anaerobic digester: 30 parameters, 13 blocks, 196 days of data"
    truth = np.array(list(true_parameters().values()))
    bound = Catoni(temperature=0.002, ceiling=3.0)
    return Job(title, problem.composite, problem.parameters, bound, 150, truth, problem)


def _synthetic_job() -> Job:
    """Return one of the paper's 8-dimensional risks."""
    risk = synthetic.example()
    title = "A synthetic risk of the paper: 8 parameters, full covariance"
    parameters = Parameters({f"x{i}": Normal(0.0, 1.0) for i in range(8)})
    return Job(title, risk, parameters, Catoni(temperature=0.1), 200, risk.minimum)


@app.command(epilog="Example: `supac demo synthetic`." + EXIT_CODES)
def demo(
    problem: Annotated[
        DemoProblem, typer.Argument(help="adm1 needs the extra `adm1`; figures need `plot`.")
    ] = DemoProblem.ADM1,
    out: Annotated[Path, typer.Option(help="Folder for the figures and tables.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    budget: Annotated[int | None, typer.Option(min=_FIRST, help="Risk queries.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Calibrate the embedded digester (ADM1), or one of the paper's synthetic risks."""
    folder = out / problem.value
    for path in (folder / name for name in _FILES):
        if path.exists() and not force:
            raise failed(f"{path} exists already: choose another --out, or --force replaces it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failed(f"cannot write to {out}: {error.strerror}; choose another --out") from error
    with guarded():
        job = _digester_job() if problem is DemoProblem.ADM1 else _synthetic_job()
        console.print(job.title, style="bold")
        console.print(f"Minimise π[R] + {job.bound.temperature}·KL(π, prior) with SuPAC\n")
        runs, many = budget or job.budget, Execution(vectorized=True)
        result = minimize(
            job.risk, job.parameters, job.bound, budget=runs, execution=many, seed=seed
        )
        console.print(history_table(result.history))
        _print_result(job, result, seed)
        for path in _write(job, result, folder):
            console.print(f"wrote {path}", soft_wrap=True)
    if not drawing_is_possible():
        console.print("no figures: they need matplotlib, pip install 'supac[plot]'")


def _print_result(job: Job, result: Result, seed: int) -> None:
    """Print the parameters, and the risks of prior, truth and posterior."""
    rows = result.record.parameter_changes
    console.print("", parameter_table(rows, job.truth, console.width), "", sep="\n")
    console.print(_summary(job, result, seed))
    outside = [
        row.name
        for row, true in zip(rows, job.truth, strict=True)
        if not row.posterior[0] <= true <= row.posterior[2]
    ]
    if outside:
        console.print(
            f"The truth of {' and '.join(outside)} lies outside of the posterior's range. The "
            "posterior is made for predictions, not for single parameters, which can compensate "
            "each other: compare its mean risk with that of the truth."
        )
    for note in result.notes:
        console.print(f"note: {note}")
    console.print(f"\n{result.stop_reason.sentence}")


def _summary(job: Job, result: Result, seed: int) -> Table:
    """Return a table of the risks of prior, truth and posterior."""
    rng = np.random.default_rng([seed, 1])
    fresh = job.risk(result.sample(_CHECKS, rng))
    prior = job.risk(job.parameters.sample(job.parameters.prior, _CHECKS, rng)).mean()
    mean, error = float(fresh.mean()), float(fresh.std() / np.sqrt(_CHECKS))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("", "objective", "mean risk", "KL to prior"):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_row("prior, fresh draws", f"{prior:.4f}", f"{prior:.4f}", "0")
    table.add_row("the truth alone", "", f"{job.risk(job.truth[None])[0]:.4f}", "")
    for name, objective, risk, spread in (
        ("runs of the budget", result.objective, result.mean_risk, result.mean_risk_error),
        ("fresh draws", job.bound(mean, result.kl), mean, error),
    ):
        count = result.validated if "budget" in name else _CHECKS
        cells = f"{objective:.4f}", f"{risk:.4f} ± {spread:.4f}", f"{result.kl:.3f}"
        table.add_row(f"posterior, {count:,} {name}", *cells)
    return table


def _write(job: Job, result: Result, folder: Path) -> list[Path]:
    """Write the history and all evaluations as tables, and figures if matplotlib is installed."""
    history, evaluations, posterior, fit = (folder / name for name in _FILES)
    written = [history, evaluations]
    _write_csv(history, list(result.history), np.column_stack(list(result.history.values())))
    runs = np.column_stack([result.evaluations.iteration, result.x, result.evaluations.risk])
    _write_csv(evaluations, ["iteration", *job.parameters.names, "risk"], runs)
    if drawing_is_possible():
        written.append(posterior)
        save_posterior(posterior, result, job.truth)
        if job.digester is not None:
            written.append(fit)
            save_fit(fit, *_predictions(job.digester, result))
    return written


def _predictions(
    problem: adm1.Problem, result: Result
) -> tuple[FloatArray, dict[str, FloatArray], dict[str, dict[str, FloatArray]]]:
    """Return days, observations, and outputs for draws of prior and posterior."""
    titles = [f"{name}, {unit}" for name, unit in adm1.OUTPUT_UNITS.items()]
    draws = {
        "prior": problem.parameters.sample(problem.prior, 100, 2),
        "posterior": result.sample(100, 3),
    }
    outputs = {name: problem.simulator.outputs(x) for name, x in draws.items()}
    by_output = {
        title: {name: values[:, :, k] for name, values in outputs.items()}
        for k, title in enumerate(titles)
    }
    observed = dict(zip(titles, problem.digester.observed.T, strict=True))
    return problem.digester.days, observed, by_output


def _write_csv(path: Path, names: list[str], rows: FloatArray) -> None:
    # %.17g restores every float exactly, and writes integers without a point.
    np.savetxt(path, rows, fmt="%.17g", delimiter=",", header=",".join(names), comments="")
