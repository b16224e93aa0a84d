"""The command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import supac
from supac.demo import Demo, run_demo, write_report
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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the tables.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    budget: Annotated[int, typer.Option(min=100, help="Risk queries.")] = 500,
) -> None:
    """Minimise Catoni's objective on one of the paper's 8-dimensional synthetic risks."""
    console.print("[bold]SuPAC-CE on a synthetic risk[/]")
    console.print(
        "Minimise π[R] + 0.1·KL(π, prior): 8 parameters, full covariance, prior N(0, I)\n"
    )
    outcome = run_demo(budget, seed)
    console.print(_iterations(outcome))
    console.print(_summary(outcome))
    console.print(f"\n{outcome.result.stop_reason.sentence}")
    try:
        written = write_report(outcome, out)
    except OSError as error:
        console.print(f"[red]cannot write to {out}[/]: {error.strerror}; choose another --out")
        raise typer.Exit(1) from error
    for path in written:
        console.print(f"wrote {path}")
    if not drawing_is_possible():
        console.print("no picture: it needs matplotlib, pip install 'supac\\[plot]'")


def _iterations(outcome: Demo) -> Table:
    """One row an iteration."""
    history = outcome.result.history
    table = Table(title="What happened", title_justify="left")
    for heading in ("queries", "objective", "mean risk", "KL to prior", "step α", "step KL", "R²"):
        table.add_column(heading, justify="right")
    columns = ("objective", "mean_risk", "kl", "alpha", "step_kl", "r_squared")
    for i, queries in enumerate(history["queries"]):
        cells = (f"{history[name][i]:.3f}" for name in columns)
        table.add_row(f"{queries:.0f}", *cells)
    return table


def _summary(outcome: Demo) -> Table:
    """Where it began, where it ended, and how sure that is."""
    table = Table(title="Result", title_justify="left")
    for heading in ("", "objective", "mean risk", "KL to prior"):
        table.add_column(heading, justify="right" if heading else "left")
    result = outcome.result
    table.add_row(
        "prior, fresh draws", f"{outcome.prior_risk:.4f}", f"{outcome.prior_risk:.4f}", "0"
    )
    table.add_row(
        "posterior, from its own runs",
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
