"""The commands `supac init`, `run` and `resume`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from supac import problem_file
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
from supac.cli.check import check_run
from supac.cli.clusters import submit
from supac.cli.options import (
    AsBegun,
    ChangedSimulator,
    DaskAddress,
    Force,
    Json,
    Quiet,
    TakeOver,
    Workers,
)
from supac.problem_file import ProblemFile, StarterGoal, StarterKind, read_problem
from supac.problem_file.errors import Source
from supac.problem_file.fixed_inputs import source_of_record
from supac.problem_file.missing import suspicious_values
from supac.problem_file.other_simulator import other_simulator
from supac.problem_file.place import on_dask
from supac.record.ending import StopReason
from supac.record.record import Record, read_store
from supac.record.run import Status, by_kind
from supac.record.simulator_versions import SimulatorVersion, made_by_others, versions_of
from supac.record.store.file import StoreError
from supac.record.store.owner import remove_owner, wait_for_dead
from supac.record.store.replaced import has_good_run, set_aside, settle
from supac.report.tables import short
from supac.search.supac import SuPAC
from supac.simulators.fmi.description import FMUError

Again = Literal["failed", "lost", "crashed"]
AGAIN: dict[Again, frozenset[Status]] = {
    "failed": frozenset(set(Status) - {Status.OK, Status.REFUSED}),
    "crashed": frozenset({Status.CRASHED}),
    "lost": frozenset({Status.LOST}),  # which is always made again
}


@command(
    "Examples: `supac init`, `supac init study --simulator python`, `supac init --fmu room.fmu`."
)
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.", metavar="FOLDER")] = Path(),
    simulator: Annotated[
        StarterKind, typer.Option("--simulator", "-s", help="Kind of your simulator.")
    ] = "builtin",
    goal: Annotated[
        StarterGoal,
        typer.Option(help="A bound with a certificate, or ranges of parameters as Bayes has them."),
    ] = "guarantee",
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
        files = problem_file.starter_files(simulator, goal)
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
    dask: DaskAddress = None,
    go_on: Annotated[
        bool,
        typer.Option("--continue", help="Go on with the store if there is one, else begin."),
    ] = False,
    send: Annotated[
        bool,
        typer.Option("--submit", help="Send the search itself as a job of SLURM, which goes on."),
    ] = False,
    take_over: TakeOver = False,
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
    _check_options(go_on=go_on, force=force, repeat_known=repeat_known, check=check)
    if send:
        _submit(ready, store, budget, workers)
    elif go_on and not check and _has_runs(store or ready.store):
        wait_for_dead(store or ready.store, inform)
        _continue(
            problem.absolute(), store, budget, workers=workers, dask=dask, as_json=as_json,
            quiet=quiet, take_over=take_over,
        )  # fmt: skip
    else:
        ready = _in_place_of_another(_changed(ready, store, budget, workers, dask), force=force)
        _warn_of_other_simulators(ready)
        _warn_of_data(ready)
        if check:
            check_run(ready, repeat_known=repeat_known)
        else:
            _begin(ready, force=force, as_json=as_json, quiet=quiet)


def _check_options(*, go_on: bool, force: bool, repeat_known: bool, check: bool) -> None:
    """Exit with a message for options of `run` that contradict each other."""
    if go_on and force:
        raise failed("--continue keeps the store and --force replaces it: give one of them")
    if repeat_known and not check:
        raise failed("--repeat-known goes with --check")


def _begin(ready: ProblemFile, *, force: bool, as_json: bool, quiet: bool) -> None:
    """Run a problem from its beginning, in place of an earlier store if `force`."""
    target, old = ready.store, None
    if target.exists():
        if not force and has_good_run(target):
            raise failed(
                f"{short(target)} already exists. To continue it: supac resume {short(target)}, or "
                "this command with --continue. To replace it and lose its runs: --force"
            )
        old = set_aside(target)
    try:
        _go(ready, as_json=as_json, quiet=quiet)
    finally:
        if old is not None:
            settle_and_tell(target, old, ended=_has_ended(target))


def _has_runs(store: Path) -> bool:
    """Return whether a search has begun in a store."""
    return store.is_file() and store.stat().st_size > 0


def _submit(
    ready: ProblemFile, store: Path | None, budget: int | None, workers: int | None
) -> None:
    """Send the search as a job, with the options of this command."""
    given = {"--store": store and store.absolute(), "--budget": budget, "--workers": workers}
    words = [str(each) for name, value in given.items() if value for each in (name, value)]
    submit(_changed(ready, store, budget, workers), words)


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


def _warn_of_data(ready: ProblemFile) -> None:
    """Warn of values that look like none, and of changes after a result on the same data."""
    for words in () if ready.observations is None else suspicious_values(ready.observations):
        warn(words)
    known = ready.options.get("known")
    for change in ready.changed_after_a_result:
        warn(
            f"nothing will be guaranteed: {change}, in "
            f"{short(ready.store) if known is None else known.sources[0]}. For a guarantee, "
            "restore it as it was there, or hold out data that no search has seen"
        )


def _in_place_of_another(ready: ProblemFile, *, force: bool) -> ProblemFile:
    """Return the problem with what the search in its store has seen, if that is replaced."""
    try:
        there = force and ready.store.exists() and has_good_run(ready.store)
        return replace(ready, replaced=read_store(ready.store).origin) if there else ready
    except (StoreError, OSError):  # damaged
        return ready


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
    dask: DaskAddress = None,
    again: Annotated[
        Again | None,
        typer.Option(help="Make these runs again, once their cause is mended."),
    ] = None,
    take_over: TakeOver = False,
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
    _continue(
        file, store, budget, workers=workers, dask=dask, as_json=as_json, quiet=quiet,
        as_begun=as_begun, changed_simulator=changed_simulator, again=again, take_over=take_over,
    )  # fmt: skip


def _continue(
    file: Path | None,
    store: Path | None,
    budget: int | None,
    *,
    workers: int | None,
    dask: str | None,
    as_json: bool,
    quiet: bool,
    as_begun: bool = False,
    changed_simulator: bool = False,
    again: Again | None = None,
    take_over: bool = False,
) -> None:
    """Go on with the search in a store, by this problem file or the one that it remembers."""
    store = problem_file.store_of(file) if store is None and file is not None else store
    assert store is not None
    if take_over:
        remove_owner(store)
    before = read_store(store)
    ready = problem_behind(before, file, as_begun=as_begun)
    chosen = AGAIN[again] if again is not None else frozenset()
    repeated = sum(run.status in chosen for run in before.made)
    if (
        before.stop_reason is StopReason.FAILURES and not before.rounds and not repeated
    ):  # the first batch
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
    if ended and wanted <= least and not before.running and repeated:
        raise failed(
            f"{repeated} runs can be made again, and the search learns from them with the next: "
            "give a larger --budget as well"
        )
    if ended and wanted <= least and not before.running:
        print_run(before, f"{ready.title} ({short(before.file)})", as_json=as_json, quiet=quiet)
        warn("nothing is left to do; continue with a larger --budget")
        return
    if not changed_simulator:
        _check_simulator(ready, before)
    if not quiet:
        inform(_planned_runs(ready, before, wanted))
        if ready.coarse_since is not None and ready.coarse_since == len(before.rounds):
            inform(_changed_coarse(before))
        _tell_of_certificate(before)
    elsewhere = dask is not None or ready.execution.cluster is not None
    if workers is None and ready.execution.workers is None and not elsewhere:
        workers = _earlier_workers(before)
        if workers is not None and not quiet:
            inform(f"{workers} workers, as before; --workers takes another number")
    ready = _changed(ready, before.file, wanted, workers, dask)
    _go(ready, as_json=as_json, quiet=quiet, again=chosen)


def _changed_coarse(before: Record) -> str:
    """Say what follows from a changed coarse model."""
    if before.coarse_use is not None and not before.coarse_use.useful:
        return (
            "the coarse model has changed, but the earlier one was left as of no use: no coarse "
            "run is made. To try the new one, begin anew with another store"
        )
    return (
        f"the coarse model has changed: its {len(before.coarse_runs)} runs so far are left aside "
        f"and it is run anew, while all {len(before.made)} fine runs are kept"
    )


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
    ready: ProblemFile,
    store: Path | None,
    budget: int | None,
    workers: int | None,
    dask: str | None = None,
) -> ProblemFile:
    """Return the problem with the options of a command in place of the file's settings."""
    if budget is not None and budget < ready.first:
        raise ValueError(
            f"--budget {budget} is less than the first batch of {ready.first} runs: raise it, or "
            f"set first = {budget} in [run] of {ready.path.name}"
        )
    where = ready.with_workers(workers)
    ready = replace(ready, execution=where if workers is not None else on_dask(where, dask))
    return replace(ready, store=store or ready.store, budget=budget or ready.budget)


def _go(
    ready: ProblemFile,
    *,
    as_json: bool,
    quiet: bool,
    again: frozenset[Status] = frozenset(),
) -> None:
    """Run the problem, print the result, and exit with the matching code."""
    store, where = ready.store, replace(ready.execution, progress=shown_progress(quiet=quiet))
    with guarded():  # an error is printed before the caller cleans up
        try:
            with user_code():
                result = ready.minimize(execution=where, again=again)
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
        warn(f"stopped; to continue: supac resume {short(store)}")
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
