"""The commands `supac predict`, `sensitivity` and `next`, which use the posterior of a store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from supac.arrays import FloatArray
from supac.cli.app import (
    RESUMABLE,
    check_vacant,
    command,
    console,
    failed,
    inform,
    print_json,
    shown_progress,
    user_code,
    warn,
)
from supac.cli.options import AsBegun, Force, Json, Quiet, StorePath, Workers
from supac.cli.posterior_tables import next_table, sensitivity_tables
from supac.cli.problems import problem_behind, settle_and_tell
from supac.exchange.table import write_table
from supac.posterior.prediction import Prediction, read_prediction
from supac.posterior.prediction_file import file_for
from supac.problem_file import (
    Scenario,
    is_problem_file,
    read_candidates,
    read_scenario,
    store_of,
)
from supac.record.local_ranges import words_on_local_ranges
from supac.record.record import Record, read_store
from supac.record.store.replaced import has_good_run, set_aside
from supac.report.tables import short
from supac.running.terminal import duration

_ROWS = 5  # times of an output that are shown
_NEGLIGIBLE = 1e-3  # share of the width of a band of measurements that is shown as 0


@command("Example: `supac predict run.supac scenario.toml --out bands.csv`.")
def predict(
    store: StorePath,
    scenario: Annotated[
        Path | None,
        typer.Argument(help="The scenario file, a .toml.", metavar="SCENARIO", show_default=False),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Number of runs, instead of the file's.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write bands as a .csv, or all as a .nc (NetCDF)."),
    ] = None,
    workers: Workers = None,
    as_begun: AsBegun = False,
    force: Annotated[
        bool, typer.Option("--force", help="Begin anew, and replace existing files.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the simulator under another scenario at draws of the posterior; print the bands.

    Runs are kept beside the store, in run.SCENARIO.supac: after an interruption the same command
    continues, and `supac report` shows the prediction.
    """
    scenario = _checked_scenario(store, scenario)
    if out is not None:
        _check_kind(out, force=force)
    run = read_store(store_of(store))
    ready = problem_behind(run, store if is_problem_file(store) else None, as_begun=as_begun)
    with user_code():
        asked = read_scenario(scenario, ready)
    target = file_for(run.file, scenario.stem)
    replaced = target.exists() and (force or not has_good_run(target))
    old = set_aside(target) if replaced else None
    made = None
    try:
        made = _made(run, asked, target, draws, workers, quiet=quiet or as_json)
    except KeyboardInterrupt as error:
        again = f"supac predict {store} {scenario}" + (f" --draws {draws}" if draws else "")
        warn(f"stopped: its runs are kept in {short(target)}; to continue: {again}")
        raise typer.Exit(RESUMABLE) from error
    finally:
        if old is not None:
            settle_and_tell(target, old, ended=made is not None)
    if out is not None:
        write = made.to_netcdf if out.suffix == ".nc" else made.to_csv
        write(out, force=force)
    if as_json:
        print_json(_as_json(made, target))
    elif not quiet:
        _show(made, target, out)
    if not quiet:
        _warn_of_local_ranges(run)


def _checked_scenario(store: Path, scenario: Path | None) -> Path:
    """Return the scenario; exit with a message if it is missing or in the place of the store."""
    if scenario is None:
        raise failed(
            "which scenario? Write a file such as later.toml, with the lines\n\n"
            "    [outputs]\n    times = [0, 24, 48]\n\n"
            "or, under [settings], other values of what is not calibrated. Then: supac predict "
            f"{'run.supac' if store.suffix == '.toml' else store} later.toml"
        )
    if scenario.suffix == ".supac" and store.suffix != ".supac":
        raise failed(f"the store comes first: supac predict {scenario} {store}")
    return scenario


def _check_kind(out: Path, *, force: bool) -> None:
    if out.suffix not in (".csv", ".nc"):
        raise failed(f"the file must be a .csv or a .nc, not {out.name}")
    check_vacant(out, force=force)


def _made(
    run: Record,
    asked: Scenario,
    target: Path,
    draws: int | None,
    workers: int | None,
    *,
    quiet: bool,
) -> Prediction:
    """Make the runs of a prediction, or read those that are there."""
    where = asked.execution if workers is None else replace(asked.execution, workers=workers)
    count = draws or asked.draws
    if not quiet:
        each = run.seconds / max(len(run.made), 1)
        cost = f" of about {duration(each)}" if each > 0.0 else ""
        sets = "the certified parameter sets" if count is None else f"{count} runs{cost}"
        inform(f"{asked.title}: {sets}, kept in {short(target)}")
    with user_code():
        where = replace(where, progress=shown_progress(quiet=quiet))
        return asked.predict(run, draws=draws, execution=where, store=target)


def _as_json(made: Prediction, target: Path) -> dict[str, Any]:
    return {
        "title": made.title,
        "store": str(target),
        "draws": len(made.x),
        "failed": len(made.failures),
        "coverage": made.coverage,
        "bands": made.to_table(),
    }


def _show(made: Prediction, target: Path, out: Path | None) -> None:
    """Print the bands of each output at some of its times."""
    columns, bands, share = made.columns, made.bands(), f"{100 * made.coverage:g} %"
    lost = f", {len(made.failures)} more failed" if made.failures else ""
    sets = "certified sets" if made.ensemble else "draws of the posterior"
    console.print(f"{made.title}: {len(made.x)} {sets}{lost}", style="bold")
    noisy = int(np.isfinite(bands.measured_lower).any())
    table = Table(box=None, pad_edge=False)
    table.add_column("output", overflow="fold")
    clock = columns.time_label or ("time" if columns.times is not None else "row")
    headings = [clock] if columns.rows > 1 else []
    smooth = int(bands.has_discrepancy)
    headings += ["median", f"{share} of simulations", *[f"{share} with discrepancy"] * smooth]
    headings += [f"{share} of measurements"] * noisy
    for heading in headings:
        table.add_column(heading, justify="right")
    shown = np.unique(np.linspace(0, columns.rows - 1, min(_ROWS, columns.rows)).round())
    for label, column in zip(columns.labels, columns.columns, strict=True):
        for number, row in enumerate(shown.astype(int).tolist()):
            place = columns.places(column).start + row
            cells = [f"{columns.clock[row]:g}"] if columns.rows > 1 else []
            least = _NEGLIGIBLE * float(bands.measured_upper[place] - bands.measured_lower[place])
            cells += [_number(bands.median[place], least)]
            cells += [_ends(bands.lower, bands.upper, place, least)]
            cells += [_ends(bands.corrected_lower, bands.corrected_upper, place, least)] * smooth
            cells += [_ends(bands.measured_lower, bands.measured_upper, place, least)] * noisy
            table.add_row(Text(label if number == 0 else ""), *cells)
    console.print(table)
    if len(shown) < columns.rows and out is None:
        console.print(f"{len(shown)} of {columns.rows} rows; --out bands.csv writes all of them")
    if out is not None:
        console.print(f"wrote {out}", soft_wrap=True)
    for failure in made.failures[:1]:
        warn(f"{len(made.failures)} runs failed, the first with: {failure.message}")


def _ends(low: FloatArray, high: FloatArray, place: int, least: float) -> str:
    if not np.isfinite(low[place]):
        return "not known"
    return f"{_number(low[place], least)} to {_number(high[place], least)}"


def _number(value: float, least: float) -> str:
    """Return four digits, and 0 for what is nothing beside the noise of a measurement."""
    return "0" if abs(value) < least else f"{value:.4g}"


@command("Example: `supac sensitivity run.supac --prior`.")
def sensitivity(
    store: StorePath,
    prior: Annotated[
        bool, typer.Option("--prior", help="Over the prior, instead of the posterior.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write all indices as a .csv.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampled points.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show which parameters matter: combinations that the data determine, and Sobol indices.

    No run is made: the outputs are emulated from the runs in the store.
    """
    if out is not None:
        if out.suffix != ".csv":
            raise failed(f"the file must be a .csv, not {out.name}")
        check_vacant(out, force=force)
    run = read_store(store_of(store))
    _warn_before_use(run, ranges=not prior)
    found = run.sensitivity(under="prior" if prior else "posterior", seed=seed)
    if out is not None:
        write_table(out, found.to_table())
    if as_json:
        print_json(found.to_dict())
        return
    console.print(sensitivity_tables(found, console.width))
    if out is not None:
        console.print(f"wrote {out}", soft_wrap=True)


@command("Example: `supac next run.supac candidates.toml --quantity k1`.")
def next(  # noqa: A001 - its name on the command line
    store: StorePath,
    candidates: Annotated[
        Path | None,
        typer.Argument(
            help="Candidates, a .toml or .csv; by default every output once more.",
            metavar="CANDIDATES",
        ),
    ] = None,
    quantity: Annotated[
        list[str] | None,
        typer.Option("--quantity", help="A parameter, or an output such as 'B at 48'."),
    ] = None,
    scenario: Annotated[
        Path | None, typer.Option(help="Scenario file that was predicted, for its outputs too.")
    ] = None,
    together: Annotated[
        int, typer.Option(min=0, help="Also find this many that are best together.")
    ] = 0,
    by_time: Annotated[
        bool, typer.Option("--by-time", help="By output and time, instead of the best first.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write all candidates as a .csv.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show which measurement would help most: how much of an uncertainty would remain.

    No run is made: outputs are emulated from the runs in the store, or those of a prediction.
    """
    if out is not None:
        if out.suffix != ".csv":
            raise failed(f"the file must be a .csv, not {out.name}")
        check_vacant(out, force=force)
    run = read_store(store_of(store))
    _warn_before_use(run)
    asked = None if candidates is None else read_candidates(candidates)
    prediction = _predicted(run, scenario, "" if asked is None else asked.prediction)
    found = run.next_measurements(
        None if asked is None else asked.candidates,
        quantity or (asked.quantity if asked is not None else ()) or None,
        prediction=prediction,
        together=together,
    )
    if out is not None:
        write_table(out, found.to_table(by_time=by_time))
    if as_json:
        print_json(found.to_dict())
        return
    console.print(next_table(found, by_time=by_time))
    if prediction is not None:
        console.print(
            f"outputs at the times of the prediction {prediction.title!r} are measured in its "
            "scenario, others in that of the calibration",
            soft_wrap=True,
        )
    if out is not None:
        console.print(f"wrote {out}", soft_wrap=True)


def _warn_of_local_ranges(run: Record) -> None:
    """Warn if the posterior is narrower than what the data leave open: so is what follows."""
    words = words_on_local_ranges(run)
    if words:
        warn(f"{words}. What is shown here holds near this posterior alone")


def _warn_before_use(run: Record, *, ranges: bool = True) -> None:
    """Warn of several versions of the simulator, and if the posterior matters of local ranges."""
    _warn_of_versions(run)
    if ranges:
        _warn_of_local_ranges(run)


def _warn_of_versions(run: Record) -> None:
    """Warn if the runs that outputs are emulated from are of several versions of the simulator."""
    if len(run.simulators) > 1:
        told = ", ".join(each.words for each in run.simulators)
        warn(f"the simulator was changed on the way: {told}. Outputs are emulated from all of them")


def _predicted(run: Record, scenario: Path | None, named: str) -> Prediction | None:
    """Read the prediction of a scenario beside a store."""
    if scenario is None and not named:
        return None
    name = Path(named) if scenario is None else scenario
    path = name if name.suffix == ".supac" else file_for(run.file, name.stem)
    if not path.exists():
        raise failed(
            f"there is no {short(path)} yet: supac predict {run.file.name} {name} makes it"
        )
    return read_prediction(path)
