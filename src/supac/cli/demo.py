"""`supac demo`: the main job on embedded data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from supac.cli.app import EXIT_CODES, app, console, failed, guarded
from supac.cli.jobs import FILES, Outcome, digester_job, run, synthetic_job, write_outcome
from supac.cli.tables import history_table, parameter_table
from supac.plots import drawing_is_possible

_FIRST = 20  # runs of the first batch of either problem: no smaller budget will do


class DemoProblem(StrEnum):
    """What the demo calibrates."""

    ADM1 = "adm1"
    SYNTHETIC = "synthetic"


@app.command(epilog="Example: `supac demo synthetic`." + EXIT_CODES)
def demo(
    problem: Annotated[
        DemoProblem, typer.Argument(help="adm1 needs the extra `adm1`; pictures need `plot`.")
    ] = DemoProblem.ADM1,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and tables.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    budget: Annotated[int | None, typer.Option(min=_FIRST, help="Risk queries.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Calibrate the embedded digester (ADM1), or one of the paper's synthetic risks."""
    folder = out / problem.value
    for path in (folder / name for name in FILES):
        if path.exists() and not force:
            raise failed(f"{path} is there already: choose another --out, or --force replaces it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failed(f"cannot write to {out}: {error.strerror}; choose another --out") from error
    with guarded():
        job = digester_job() if problem is DemoProblem.ADM1 else synthetic_job()
        console.print(job.title, style="bold")
        price = job.bound.temperature
        console.print(f"Minimise π[R] + {price}·KL(π, prior) with SuPAC\n")
        outcome = run(job, budget, seed)
    result = outcome.result
    console.print(history_table(result.history))
    console.print()
    rows = result.record.parameter_changes
    console.print(parameter_table(rows, job.truth, console.width))
    console.print()
    console.print(_summary(outcome))
    outside = [
        row.name
        for row, true in zip(rows, job.truth, strict=True)
        if not row.posterior[0] <= true <= row.posterior[2]
    ]
    if outside:
        console.print(
            f"The truth of {' and '.join(outside)} lies outside of the posterior's range, which is "
            "not made to hold it: leaving the prior has its price, and parameters make up for one "
            "another. Judge the posterior by its mean risk, beside that of the truth: it is for "
            "predictions, not for single parameters."
        )
    for note in result.notes:
        console.print(f"note: {note}")
    console.print(f"\n{result.stop_reason.sentence}")
    with guarded():
        written = write_outcome(outcome, folder)
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True)
    if not drawing_is_possible():
        console.print("no pictures: they need matplotlib, pip install 'supac[plot]'")


def _summary(outcome: Outcome) -> Table:
    """Where it began, where it ended, and how sure that is."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("", "objective", "mean risk", "KL to prior"):
        table.add_column(heading, justify="right" if heading else "left")
    result, risk = outcome.result, f"{outcome.prior_risk:.4f}"
    table.add_row("prior, fresh draws", risk, risk, "0")
    table.add_row("the truth alone", "", f"{outcome.true_risk:.4f}", "")
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
