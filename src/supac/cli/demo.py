"""`supac demo`: a calibration with embedded data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from rich.table import Table

from supac.arrays import FloatArray
from supac.calibration.minimize import minimize
from supac.cli.app import command, console, failed, inform, shown_progress
from supac.cli.options import Force
from supac.plots import drawing_is_possible, save_fit, save_posterior
from supac.problem import Parameters
from supac.problem.bounds import Catoni
from supac.problem.marginals import Normal
from supac.record.result import Result
from supac.report.page import write_report
from supac.report.tables import plain_table, summary
from supac.running.execution import Execution
from supac.simulators import adm1, synthetic
from supac.simulators.adm1.generate import true_parameters

_FIRST = 20  # runs of the first batch of either problem, the smallest budget
_CHECKS = 1_000  # draws that check prior and posterior
_FILES = ("report.html", "history.csv", "evaluations.csv", "posterior.png", "fit.png")


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
    inform("loading the digester; the first time it is compiled, which takes up to half a minute")
    problem.simulator.load()
    title = "ADM1, an anaerobic digester: 30 parameters, 196 days of data"
    truth = np.array(list(true_parameters().values()))
    bound = Catoni(temperature=0.002, ceiling=3.0)
    return Job(title, problem.composite, problem.parameters, bound, 150, truth, problem)


def _synthetic_job() -> Job:
    """Return one of the paper's 8-dimensional risks."""
    risk = synthetic.example()
    title = "A synthetic risk of the paper: 8 parameters, full covariance"
    parameters = Parameters({f"x{i}": Normal(0.0, 1.0) for i in range(8)})
    return Job(title, risk, parameters, Catoni(temperature=0.1), 200, risk.minimum)


@command("Example: `supac demo synthetic`.")
def demo(
    problem: Annotated[
        Literal["adm1", "synthetic"],
        typer.Argument(help="adm1 needs the extra `adm1`; figures need `plot`."),
    ] = "adm1",
    out: Annotated[Path, typer.Option(help="Folder for the figures and tables.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    budget: Annotated[int | None, typer.Option(min=_FIRST, help="Risk queries.")] = None,
    force: Force = False,
) -> None:
    """Calibrate the embedded digester (ADM1), or one of the paper's synthetic risks."""
    folder = out / problem
    for path in (folder / name for name in _FILES):
        if path.exists() and not force:
            raise failed(f"{path} exists already: choose another --out, or --force replaces it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failed(f"cannot write to {out}: {error.strerror}; choose another --out") from error
    job = _digester_job() if problem == "adm1" else _synthetic_job()
    console.print(f"Minimise π[R] + {job.bound.temperature}·KL(π, prior) with SuPAC\n")
    runs = budget or job.budget
    where = Execution(vectorized=True, progress=shown_progress(quiet=False))
    result = minimize(
        job.risk,
        job.parameters,
        job.bound,
        budget=runs,
        seed=seed,
        execution=where,
    )
    console.print(summary(result.record, job.title, console.width, job.truth))
    if result.certificate is not None:
        console.print(
            "The objective is what was minimised on these data; the guaranteed limit is on new "
            "data, and pays for how few independent ones there are. The verdict of the report is "
            "about the search: whether its result is to be believed. The limit is what can be "
            "proven of it: a wide one is no doubt of the fit, which the fresh runs below measure.\n"
        )
    inform(f"checking prior and posterior with {_CHECKS:,} runs each")
    console.print(_risks(job, result, seed))
    _print_outside(job, result)
    inform("writing the report, tables and figures")
    for path in _write(job, result, folder):
        console.print(f"wrote {path}", soft_wrap=True)
    if not drawing_is_possible():
        console.print("no figures: they need matplotlib, pip install 'supac[plot]'")


def _risks(job: Job, result: Result, seed: int) -> Table:
    """Return a table of the risks of prior, truth and posterior."""
    rng = np.random.default_rng([seed, 1])
    fresh = job.risk(result.sample(_CHECKS, rng))
    prior = job.risk(job.parameters.sample(job.parameters.prior, _CHECKS, rng)).mean()
    mean, error = float(fresh.mean()), float(fresh.std() / np.sqrt(_CHECKS))
    table = plain_table((f"{_CHECKS:,} fresh draws", "objective", "mean risk"), left=1)
    table.add_row("prior", f"{prior:.4f}", f"{prior:.4f}")
    table.add_row("the truth alone", "", f"{job.risk(job.truth[None])[0]:.4f}")
    table.add_row("posterior", f"{job.bound(mean, result.kl):.4f}", f"{mean:.4f} ± {error:.4f}")
    return table


def _print_outside(job: Job, result: Result) -> None:
    """Name the parameters whose truth the posterior misses."""
    outside = [
        row.name
        for row, true in zip(result.record.parameter_changes, job.truth, strict=True)
        if not row.posterior[0] <= true <= row.posterior[2]
    ]
    if outside:
        console.print(
            f"The truth of {' and '.join(outside)} lies outside of the posterior's range. The "
            "posterior is made for predictions, not for single parameters, which can compensate "
            "each other: compare its mean risk with that of the truth."
        )


def _write(job: Job, result: Result, folder: Path) -> list[Path]:
    """Write the report, history and evaluations as tables, and figures if there is matplotlib."""
    report, history, evaluations, posterior, fit = (folder / name for name in _FILES)
    written = [write_report(result, report, title=job.title, force=True), history, evaluations]
    _write_csv(history, list(result.history), np.column_stack(list(result.history.values())))
    runs = np.column_stack([result.evaluations.iteration, result.x, result.evaluations.risk])
    _write_csv(evaluations, ["iteration", *job.parameters.names, "risk"], runs)
    if drawing_is_possible():
        written.append(posterior)
        save_posterior(posterior, result, job.truth)
        if job.digester is not None:
            written.append(fit)
            _draw_fit(fit, job.digester, result)
    return written


def _draw_fit(path: Path, problem: adm1.Problem, result: Result) -> None:
    """Draw the observations, and the outputs for draws of prior and posterior."""
    prior = problem.simulator.outputs(problem.parameters.sample(problem.prior, 100, 2))
    posterior = problem.simulator.outputs(result.sample(100, 3))
    titles = [f"{name}, {unit}" for name, unit in adm1.OUTPUT_UNITS.items()]
    observed = dict(zip(titles, problem.digester.observed.T, strict=True))
    predicted = {
        title: {"prior": prior[:, :, k], "posterior": posterior[:, :, k]}
        for k, title in enumerate(titles)
    }
    save_fit(path, problem.digester.days, observed, predicted)


def _write_csv(path: Path, names: list[str], rows: FloatArray) -> None:
    # %.17g restores every float exactly, and writes integers without a point.
    np.savetxt(path, rows, fmt="%.17g", delimiter=",", header=",".join(names), comments="")
