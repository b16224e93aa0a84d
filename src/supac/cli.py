"""The command line."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console, JustifyMethod
from rich.table import Table

import supac
from supac.demo import Outcome, digester_job, run, synthetic_job, write_report
from supac.plots import drawing_is_possible

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Calibrate expensive simulators with PAC-Bayes guarantees.",
)
console = Console()


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(supac.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Calibrate expensive simulators with PAC-Bayes guarantees."""


class DemoProblem(StrEnum):
    """What the demo calibrates."""

    ADM1 = "adm1"
    SYNTHETIC = "synthetic"


@app.command()
def demo(
    problem: Annotated[
        DemoProblem, typer.Argument(help="adm1 needs the extra `adm1`; pictures need `plot`.")
    ] = DemoProblem.ADM1,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and tables.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    budget: Annotated[int | None, typer.Option(min=1, help="Risk queries.")] = None,
) -> None:
    """Calibrate the embedded digester (ADM1), or one of the paper's synthetic risks."""
    try:
        job = digester_job() if problem is DemoProblem.ADM1 else synthetic_job()
        console.print(f"[bold]{job.title}[/]")
        price = job.bound.temperature
        console.print(f"Minimise π\\[R] + {price}·KL(π, prior) with SuPAC\n")
        outcome = run(job, budget, seed)
    except (ImportError, ValueError) as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from error
    console.print(_iterations(outcome))
    console.print(_parameters(outcome))
    console.print("The posterior minimises the objective; its ranges are no credible intervals.\n")
    console.print(_summary(outcome))
    for note in outcome.result.notes:
        console.print(f"note: {note}")
    console.print(f"\n{outcome.result.stop_reason.sentence}")
    try:
        written = write_report(outcome, out / problem.value)
    except OSError as error:
        console.print(f"[red]cannot write to {out}[/]: {error.strerror}; choose another --out")
        raise typer.Exit(1) from error
    for path in written:
        console.print(f"wrote {path}")
    if not drawing_is_possible():
        console.print("no pictures: they need matplotlib, pip install 'supac\\[plot]'")


def _iterations(outcome: Outcome) -> Table:
    """One row an iteration."""
    history = outcome.result.history
    table = Table(title="What happened", title_justify="left")
    columns = {
        "objective": "objective",
        "mean risk": "mean_risk",
        "KL to prior": "kl",
        "radius": "radius",
        "step KL": "step_kl",
        "gain ratio": "ratio",
        "wrong": "wrong",
    }
    for heading in ("queries", *columns):
        table.add_column(heading, justify="right")
    for i, queries in enumerate(history["queries"]):
        values = [history[name][i] for name in columns.values()]
        cells = ("" if np.isnan(value) else f"{value:.3g}" for value in values)
        table.add_row(f"{queries:.0f}", *cells)
    return table


def _parameters(outcome: Outcome) -> Table:
    """Median and 90 % of each parameter, before and after, in its unit."""
    parameters = outcome.job.parameters
    draws = {
        "prior": parameters.sample(parameters.prior, 2_000, 0),
        "posterior": outcome.result.sample(2_000, 0),
    }
    title = "What was learnt: median, 5 % to 95 %"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    for heading in ("parameter", "unit", *draws, "truth"):
        side: JustifyMethod = "left" if heading in ("parameter", "unit") else "right"
        table.add_column(heading, justify=side, no_wrap=True)
    quantiles = [np.quantile(x, [0.5, 0.05, 0.95], axis=0).T for x in draws.values()]
    for i, (name, unit) in enumerate(zip(parameters.names, parameters.units, strict=True)):
        cells = ("{:.2g} {:.2g}–{:.2g}".format(*part[i]) for part in quantiles)
        table.add_row(name, unit, *cells, f"{outcome.job.truth[i]:.2g}")
    return table


def _summary(outcome: Outcome) -> Table:
    """Where it began, where it ended, and how sure that is."""
    table = Table(title="Result", title_justify="left")
    for heading in ("", "objective", "mean risk", "KL to prior"):
        table.add_column(heading, justify="right" if heading else "left")
    result, risk = outcome.result, f"{outcome.prior_risk:.4f}"
    table.add_row("prior, fresh draws", risk, risk, "0")
    table.add_row(
        f"posterior, {result.validated} runs of the budget",
        f"{result.objective:.4f}",
        f"{result.mean_risk:.4f} ± {result.mean_risk_error:.4f}",
        f"{result.kl:.3f}",
    )
    table.add_row(
        f"posterior, {outcome.checks:,} fresh draws",
        f"{outcome.checked_objective:.4f}",
        f"{outcome.checked_risk:.4f} ± {outcome.checked_error:.4f}",
        f"{result.kl:.3f}",
        style="bold",
    )
    return table
