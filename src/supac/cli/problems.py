"""The commands `supac init`, `run` and `resume`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from supac import problem_file
from supac.arrays import FloatArray
from supac.calibration.ending import notes_of
from supac.calibration.fresh import run_fresh
from supac.calibration.setup import reserve_for_validation
from supac.cli.app import (
    RESUMABLE,
    command,
    console,
    failed,
    guarded,
    inform,
    print_run,
    shown_progress,
    user_code,
    warn,
)
from supac.cli.known_again import CHEAP, known_runs_of, make_known_again
from supac.cli.options import AsBegun, ChangedSimulator, Force, Json, Quiet, Workers
from supac.problem import Composite, Observations
from supac.problem.observation import ObservedSimulator
from supac.problem_file import ProblemFile, StarterKind, read_problem
from supac.problem_file.errors import Source, is_number
from supac.problem_file.experiments import Experiments
from supac.problem_file.fixed_inputs import source_of_record
from supac.problem_file.other_simulator import other_simulator
from supac.problem_file.python import PythonFunction
from supac.problem_file.simulator import Simulate
from supac.record.ending import StopReason
from supac.record.record import Record, read_store
from supac.record.run import Run, Status, by_kind
from supac.record.simulator_versions import SimulatorVersion, made_by_others, versions_of
from supac.record.store.file import StoreError
from supac.record.store.replaced import has_good_run, set_aside, settle
from supac.report.account import NOWHERE_NEAR
from supac.report.tables import short
from supac.running.execution import Execution
from supac.running.terminal import duration
from supac.search.supac import SuPAC
from supac.simulators.fmi.description import FMUError


@command(
    "Examples: `supac init`, `supac init study --simulator python`, `supac init --fmu room.fmu`."
)
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.", metavar="FOLDER")] = Path(),
    simulator: Annotated[
        StarterKind, typer.Option("--simulator", "-s", help="Kind of your simulator.")
    ] = "builtin",
    fmu: Annotated[
        Path | None,
        typer.Option(help="An FMU: its parameters, units and outputs come into the file."),
    ] = None,
    petab: Annotated[
        Path | None, typer.Option(help="A PEtab problem: its priors come into the file.")
    ] = None,
    pest: Annotated[Path | None, typer.Option(hidden=True)] = None,
    force: Force = False,
) -> None:
    """Write a commented problem file that runs as it is, to be changed line by line."""
    if pest is not None:
        raise failed(
            f"a PEST case needs no problem file: supac run {pest}. For workers, copies or other "
            f'priors, write one with [simulator] and pest = "{pest}"; the page on PEST cases '
            "shows it"
        )
    if petab is not None:
        files = problem_file.petab_starter_files(petab, folder)
    elif fmu is None:
        files = problem_file.starter_files(simulator)
    else:
        try:
            files = problem_file.fmu_starter_files(fmu, folder)
        except (ImportError, FMUError) as error:
            raise failed(str(error)) from error
    there = [name for name in files if (folder / name).exists()]
    if there and not force:
        raise failed(
            f"{folder / there[0]} already exists: choose another folder, or --force replaces it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        console.print(f"wrote {folder / name}", soft_wrap=True)
    problem = folder / "problem.toml"
    words = f"Try it: supac run {problem}"
    if fmu is not None:
        measured = "Put what was measured into data.csv, and choose priors. "
        words = f"{measured if 'data.csv' in files else ''}Then: supac run {problem} --check"
    console.print(words, soft_wrap=True)


@command("Example: `supac run problem.toml --workers 4`.")
def run(
    problem: Annotated[
        Path,
        typer.Argument(help="The problem file, a PEtab .yaml or a PEST .pst.", metavar="PROBLEM"),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Check the file, make one run, and keep nothing.")
    ] = False,
    repeat_known: Annotated[
        bool,
        typer.Option(
            "--repeat-known",
            help="With --check: make one of the known runs again, also if that takes long.",
        ),
    ] = False,
    store: Annotated[
        Path | None, typer.Option(help="Store of the runs, instead of the file's.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Number of runs, instead of the file's.")
    ] = None,
    workers: Workers = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing store: its runs are lost.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Calibrate the problem of a file. Ctrl-C stops, `supac resume` continues."""
    with user_code():
        ready = read_problem(problem)
    if store is None:
        ready.check_store()
    ready = _changed(ready, store, budget, workers)
    _warn_of_other_simulators(ready)
    _warn_of_changes(ready)
    if repeat_known and not check:
        raise failed("--repeat-known goes with --check")
    if check:
        _check_run(ready, repeat_known=repeat_known)
        return
    target, old = ready.store, None
    if target.exists():
        if not force and has_good_run(target):
            raise failed(
                f"{short(target)} already exists. To continue it: supac resume {short(target)}. "
                "To replace it and lose its runs: --force"
            )
        old = set_aside(target)
    try:
        _go(ready, as_json=as_json, quiet=quiet)
    finally:
        if old is not None:
            settle_and_tell(target, old, ended=_has_ended(target))


def _warn_of_other_simulators(ready: ProblemFile) -> None:
    """Warn if known runs of a store were made by another simulator, as far as that is known."""
    known = ready.options.get("known")
    origin = None if known is None else known.origin
    if origin is None:
        return
    now, then = SimulatorVersion.of_files(ready.files), versions_of(origin.description)
    if not all(each.same_simulator(now) for each in then):
        warn(
            f"runs of {origin.file.name} were made by another simulator, or another version of it: "
            "leave out known in [run] if its outputs differ"
        )
    before = source_of_record(origin)
    if before is not None:
        for words in other_simulator(Source(ready.text, ready.path), before, origin.file.name):
            warn(f"{words}: leave out known in [run] if its outputs differ")


def _warn_of_changes(ready: ProblemFile) -> None:
    """Warn if nothing can be guaranteed, because of changes after a result on the same data."""
    for name in ready.changed_after_a_result:
        warn(
            f"nothing will be guaranteed: {name} was chosen or changed after a result on the same "
            f"data, in {ready.options['known'].origin.file.name}. For a guarantee, restore it as "
            "it was there, or hold out data"
        )


@command("Example: `supac resume run.supac --budget 100`.")
def resume(
    target: Annotated[
        Path, typer.Argument(help="A store, or the problem file it was made from.", metavar="STORE")
    ],
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Total runs, without validation runs of an earlier posterior: from 60 to 80 "
            "makes some 20 search runs and 20 validation runs.",
        ),
    ] = None,
    workers: Workers = None,
    as_begun: AsBegun = False,
    changed_simulator: ChangedSimulator = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Continue an interrupted or killed run, or one with a larger budget.

    A store remembers its problem file, which must not have changed; given a problem file, its
    current text is used. A simulator that has changed is refused unless `--changed-simulator` is
    given: the search would learn from runs of both versions.
    """
    file = target.absolute() if problem_file.is_problem_file(target) else None
    store = problem_file.store_of(file or target)
    if file is not None and not store.exists():
        raise failed(f"there is no store {short(store)} to continue: supac run {target}")
    before = read_store(store)
    ready = problem_behind(before, file, as_begun=as_begun)
    if before.stop_reason is StopReason.FAILURES and not before.rounds:  # the first batch
        other = "" if before.file == ready.store else f" --store {short(before.file)}"
        raise failed(
            f"all {len(before.made)} runs in {short(before.file)} failed, most often with: "
            f"{before.failures_by_kind[0][2]}\nThey are not made again. When the simulator is "
            f"repaired, start again: supac run {short(ready.path)}{other}"
        )
    wanted = budget or max(before.budget, ready.budget)
    settled = before.stop_reason is StopReason.CONVERGED
    least = before.queries if settled and wanted != before.budget else before.budget
    ended = settled or before.stop_reason is StopReason.BUDGET
    if ended and wanted <= least and not before.running:
        print_run(before, f"{ready.title} ({short(before.file)})", as_json=as_json, quiet=quiet)
        warn("nothing is left to do; continue with a larger --budget")
        return
    if not changed_simulator:
        _check_simulator(ready, before)
    if not quiet:
        inform(_planned_runs(ready, before, wanted))
        _tell_of_certificate(before)
    if workers is None and ready.execution.workers is None:
        workers = _earlier_workers(before)
        if workers is not None and not quiet:
            inform(f"{workers} workers, as before; --workers takes another number")
    _go(_changed(ready, before.file, wanted, workers), as_json=as_json, quiet=quiet)


def _check_simulator(ready: ProblemFile, before: Record) -> None:
    """Exit if another version of the simulator has made runs of the search."""
    if made_by_others(ready.simulators, [each.id for each in before.made]):
        raise failed(
            "nothing was run, since the search would learn from runs of both versions. Restore the "
            "earlier one, begin anew as said above, or, if the outputs are the same or the earlier "
            "runs still help, go on: --changed-simulator"
        )


def _tell_of_certificate(before: Record) -> None:
    """Say that the certificate of the new posterior follows an earlier one, if it does."""
    if before.certificate is not None:
        number = before.next_provenance().before("ensemble").earlier + 1
        inform(
            f"the new posterior gets certificate {number} on these data, with a smaller share of "
            "δ: its limit may be higher than the present one, which still holds for its own sets"
        )


def _planned_runs(ready: ProblemFile, before: Record, budget: int) -> str:
    """Say how many runs of the search and of its validation a budget leaves to make."""
    algorithm = ready.options.get("algorithm") or SuPAC()
    validation = ready.options.get("validation")
    reserve = reserve_for_validation(validation, algorithm, budget, ready.first)
    made = sum(run.purpose == "search" for run in before.made)
    search = max(budget - reserve - made, 0)
    words = f"{made} runs of the search are made: up to {search} more follow"
    if not reserve:
        return f"{words}, and none that validate the posterior (validation = 0 in [run])"
    if before.ending is None or not before.ending.validation:
        return f"{words}, and about {reserve} that validate the posterior"
    return (
        f"{words}, and about {reserve} that validate the new posterior, since those of the earlier "
        "posterior do not tell of it. Their number is validation in [run], which is fixed when a "
        "run begins"
    )


def _earlier_workers(run: Record) -> int | None:
    """Return the number of local processes that made the runs of a store; None if it was one."""
    numbers = [int(each.worker) for each in run.timeline.values() if each.worker.isdecimal()]
    most = max(numbers, default=1)  # local workers are numbered from 1
    return most if most > 1 else None


def problem_behind(run: Record, file: Path | None, *, as_begun: bool) -> ProblemFile:
    """Read the problem of a store from this file, or from the one that the store remembers.

    ValueError if they are incompatible.
    """
    with user_code():
        if file is not None:
            ready = read_problem(file)
        else:
            ready = problem_file.problem_of(run, as_begun=as_begun)
    for words in problem_file.check_compatible(ready, run):
        warn(words)
    return ready.continuing(run)


def _changed(
    ready: ProblemFile, store: Path | None, budget: int | None, workers: int | None
) -> ProblemFile:
    """Return the problem with the options of a command in place of the file's settings."""
    if budget is not None and budget < ready.first:
        raise ValueError(
            f"--budget {budget} is less than the first batch of {ready.first} runs: raise it, or "
            f"set first = {budget} in [run] of {ready.path.name}"
        )
    ready = replace(ready, execution=ready.with_workers(workers))
    return replace(ready, store=store or ready.store, budget=budget or ready.budget)


def _go(ready: ProblemFile, *, as_json: bool, quiet: bool) -> None:
    """Run the problem, print the result, and exit with the matching code."""
    store, where = ready.store, replace(ready.execution, progress=shown_progress(quiet=quiet))
    with guarded():  # an error is printed before the caller cleans up
        try:
            with user_code():
                result = ready.minimize(execution=where)
        except KeyboardInterrupt as error:
            warn(f"stopped; to continue: supac resume {short(store)}")
            raise typer.Exit(RESUMABLE) from error
        end = read_store(store)
        print_run(end, f"{ready.title} ({short(store)})", as_json=as_json, quiet=quiet)
        if result.stop_reason in (StopReason.BUDGET, StopReason.CONVERGED) and not quiet:
            inform(
                f"The fit: supac report {short(store)}; which parameters matter: supac sensitivity "
                f"{short(store)}"
            )
    if result.stop_reason is StopReason.FAILURES:
        worst = by_kind(end.failures or end.refused)
        reason = worst[0][0].message if worst else ""
        raise failed(f"{result.stop_reason.sentence} Most often: {reason}")
    if result.stop_reason is StopReason.INTERRUPTED:
        raise typer.Exit(RESUMABLE)


def _has_ended(store: Path) -> bool:
    """Return whether the search of a store has come to its end."""
    try:
        return read_store(store).stop_reason in (StopReason.BUDGET, StopReason.CONVERGED)
    except (StoreError, OSError):
        return False


def settle_and_tell(store: Path, old: Path, *, ended: bool) -> None:
    """Restore or keep the earlier store after `--force`, and say so."""
    kept = settle(store, old, ended=ended)
    if kept == old:
        place, new = (short(old), store.resolve())  # the log is beside the file, not beside a link
        warn(
            f"the earlier store is kept as {place}; to have it back: rm -f "
            f"{' '.join(short(new.with_name(new.name + end)) for end in ('-wal', '-shm'))}; "
            f"mv {place} {short(new)}"
        )
    elif kept is not None:
        warn(f"no run succeeded: {short(store)} is the earlier one again")


def _check_run(ready: ProblemFile, *, repeat_known: bool) -> None:
    """Make one run at the prior's median, or at a draw if that is refused, without a store."""
    risk, where = ready.risk, ready.execution
    simulate = risk.simulate if isinstance(risk, Composite) else risk
    point, words = _allowed_point(ready, simulate)
    console.print(f"{ready.path.name} is read. A run at {words} …")
    alone = Execution(
        timeout=where.timeout,
        retries=0,
        on_failure="drop",
        vectorized=where.vectorized,
        progress=False,
    )
    with user_code():
        (run,) = run_fresh(point, risk, alone, "check", parameters=ready.parameters)
    if not run.ok:
        raise failed(f"the run failed: {run.message}{_hint(ready, run)}")
    again = None
    if run.seconds < CHEAP:
        with user_code():
            (again,) = run_fresh(point, risk, alone, "check", parameters=ready.parameters)
    x = ready.parameters.from_latent(point)[0]
    trouble = str(getattr(simulate, "check", lambda _: "")(x))
    if trouble:
        raise failed(trouble)
    found = "no mistake found"
    if isinstance(risk, Composite) and run.outputs is not None:
        residuals = risk.residuals(run.outputs[None])
        compared = getattr(risk.data, "measured", residuals.shape[1])
        console.print(f"  outputs compared  {compared}")
        off = float(np.median(np.abs(residuals)))
        if isinstance(risk.data, Observations) and off > NOWHERE_NEAR:
            found = "no other mistake found"
            words = f"{off:,.0f} noises: are data and simulator in the same units?"
            console.print(f"  typically off by  {words}", style="yellow", highlight=False)
    for name, (low, high) in ready.estimated_noise.items():
        size = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        console.print(f"  estimated noise   {size} of {name}", markup=False, highlight=False)
    console.print(f"  risk              {run.risk:.4g}")
    if again is not None and _differ(run, again):
        words = "differs: the simulator is noisy, or its answers depend on earlier runs"
        console.print(f"  the same run      {words} (risk {again.risk:.4g})", style="yellow")
    known = known_runs_of(ready)
    if known is not None and (repeat_known or run.seconds < CHEAP):
        with user_code():
            pair = None if again is None or not again.ok else (run, again)
            trouble = make_known_again(ready, known, alone, pair, asked=repeat_known)
        if trouble:
            found = "no other mistake found"
            console.print(f"  known runs        {trouble}", style="yellow", markup=False)
    elif known is not None:
        console.print("  known runs        --repeat-known makes one of them again, to compare it")
    console.print(f"  it took           {duration(run.seconds)}\n{found}")
    for note in notes_of(risk):
        warn(note)


def _differ(one: Run, other: Run) -> bool:
    """Return whether two runs at one point have different answers."""
    if one.outputs is None or other.outputs is None:
        return one.status is not other.status or not np.isclose(one.risk, other.risk, rtol=_SAME)
    return not np.allclose(one.outputs, other.outputs, rtol=_SAME, atol=0.0, equal_nan=True)


def _allowed_point(ready: ProblemFile, simulate: object) -> tuple[FloatArray, str]:
    """Return a latent point (1, dim) that no constraint refuses, and what it is."""
    median = np.zeros((1, len(ready.parameters)))
    refuses: Callable[[FloatArray], str] | None = getattr(simulate, "refuses", None)
    if refuses is None:
        return median, "the prior's median"
    points = np.vstack([median, ready.parameters.prior.sample(_DRAWS_TO_CHECK, 0)])
    for i, x in enumerate(ready.parameters.from_latent(points)):
        if not refuses(x):
            draw = "a draw of the prior, whose median breaks a constraint"
            return points[i : i + 1], draw if i else "the prior's median"
    words = f"all of {len(points)} draws of the prior break a constraint: mend [constraints]"
    raise failed(f"{ready.path.name}: {words}")


_DRAWS_TO_CHECK = 200
_SAME = 1e-9  # relative difference that is rounding


def _hint(ready: ProblemFile, run: Run) -> str:
    """Suggest a change of the file if it calls the simulator in the wrong way."""
    risk = ready.risk
    simulate = risk.simulate if isinstance(risk, Composite) else risk
    if isinstance(simulate, ObservedSimulator):
        simulate = simulate.simulate
    if isinstance(simulate, Experiments):
        simulate = simulate.conditions[0]
    if not isinstance(simulate, Simulate):
        return ""
    if (
        isinstance(simulate.function, PythonFunction)
        and not simulate.by_name
        and len(ready.parameters) > 1
        and run.message.startswith("TypeError")
        and simulate.inputs is not None
        and not simulate.function.missing_arguments(simulate.inputs.arguments)
    ):
        return '. It takes every parameter by its name: add arguments = "names" to [simulator]'
    data = simulate.observations
    if (
        isinstance(simulate.function, PythonFunction)
        and run.message.startswith("ValueError: the simulator returned")
        and len(set(getattr(data, "experiments", None) or ())) > 1
    ):
        return (
            ". The tables [[data]] have the same settings, or none, so one run returns the rows of "
            "all of them: give the function an argument times without a default, and it is given "
            "their times; or give each table settings of its own"
        )
    texts = {} if simulate.inputs is None else simulate.inputs.fixed
    quoted = [name for name, value in texts.items() if isinstance(value, str) and is_number(value)]
    if quoted:
        return f". Numbers in quotes are passed as texts: {', '.join(quoted)}"
    if run.status is Status.INVALID and not isinstance(risk, Composite):
        return (
            ". Without [data] and [loss] it must return the risk itself: to have its outputs "
            "compared with what was measured, add [data]"
        )
    return ""
