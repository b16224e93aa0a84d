"""The commands `supac init`, `run` and `resume`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from supac.cli.app import (
    EXIT_CODES,
    RESUMABLE,
    app,
    console,
    failed,
    guarded,
    print_json,
    user_code,
    warn,
)
from supac.cli.check import check_problem
from supac.cli.tables import short, summary
from supac.problem_file import (
    ProblemFile,
    StarterKind,
    check_compatible,
    problem_of,
    read_problem,
    starter_files,
)
from supac.record.ending import StopReason
from supac.record.record import Record, read_store
from supac.record.store.file import StoreError
from supac.record.store.replaced import has_good_run, set_aside, settle

ProblemPath = Annotated[Path, typer.Argument(help="The problem file.", metavar="PROBLEM")]
Budget = Annotated[int | None, typer.Option(min=1, help="Number of runs, instead of the file's.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of processes that make runs.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
AsBegun = Annotated[
    bool, typer.Option("--as-begun", help="Use the problem file's text in the store.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


@app.command(epilog="Examples: `supac init`, `supac init study --simulator python`." + EXIT_CODES)
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.", metavar="FOLDER")] = Path(),
    simulator: Annotated[
        StarterKind, typer.Option("--simulator", "-s", help="Kind of your simulator.")
    ] = "builtin",
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Write a commented problem file that runs as it is, to be changed line by line."""
    files = starter_files(simulator)
    there = [name for name in files if (folder / name).exists()]
    if there and not force:
        raise failed(
            f"{folder / there[0]} already exists: choose another folder, or --force replaces it"
        )
    with guarded():
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
            console.print(f"wrote {folder / name}", soft_wrap=True)
    console.print(f"Try it: supac run {folder / 'problem.toml'}", soft_wrap=True)


@app.command(epilog="Example: `supac run problem.toml --workers 4`." + EXIT_CODES)
def run(
    problem: ProblemPath,
    check: Annotated[
        bool, typer.Option("--check", help="Check the file, make one run, and keep nothing.")
    ] = False,
    store: Annotated[
        Path | None, typer.Option(help="Store of the runs, instead of the file's.")
    ] = None,
    budget: Budget = None,
    workers: Workers = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing store: its runs are lost.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Calibrate the problem of a file. Ctrl-C stops, `supac resume` continues."""
    with guarded():
        with user_code():
            ready = read_problem(problem)
        if store is None:
            ready.check_store()
        changes = _changes(ready, budget, workers)
        if check:
            check_problem(ready)
            return
        target, old = store or ready.store, None
        if target.exists():
            if not force and has_good_run(target):
                raise failed(
                    f"{short(target)} already exists. To continue it: supac resume "
                    f"{short(target)}. To replace it and lose its runs: --force"
                )
            old = set_aside(target)
    try:
        _go(ready, target, changes, as_json=as_json, quiet=quiet)
    finally:
        if old is not None:
            with guarded():
                _settle(target, old)


@app.command(epilog="Example: `supac resume run.supac --budget 100`." + EXIT_CODES)
def resume(
    target: Annotated[
        Path, typer.Argument(help="A store, or the problem file it was made from.", metavar="STORE")
    ],
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Total runs, without validation runs of an earlier posterior: from 60 to 80 "
            "makes 20 search runs and 20 validation runs.",
        ),
    ] = None,
    workers: Workers = None,
    as_begun: AsBegun = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Continue an interrupted or killed run, or one with a larger budget.

    A store remembers its problem file, which must not have changed; given a problem file, its
    current text is used.
    """
    with guarded():
        with user_code():
            ready, before = _earlier(target, as_begun=as_begun)
        if before.stop_reason is StopReason.FAILURES and not before.rounds:  # the first batch
            other = "" if before.file == ready.store else f" --store {short(before.file)}"
            raise failed(
                f"all {len(before.made)} runs in {short(before.file)} failed, most often with: "
                f"{before.failures_by_kind[0][2]}\nThey are not made again. When the simulator is "
                f"repaired, start again: supac run {short(ready.path)}{other}"
            )
        wanted = budget or max(before.budget, ready.budget)
        ended = before.stop_reason in (StopReason.BUDGET, StopReason.CONVERGED)
        if ended and wanted <= before.budget and not before.running:
            _report(before, ready.title, as_json=as_json, quiet=quiet)
            warn("nothing is left to do; continue with a larger --budget")
            return
        changes = _changes(ready, wanted, workers)
    _go(ready, before.file, changes, as_json=as_json, quiet=quiet)


def _earlier(target: Path, *, as_begun: bool) -> tuple[ProblemFile, Record]:
    """Read the problem and the store to continue; raise if they are incompatible."""
    if target.suffix == ".toml":
        ready = read_problem(target)
        if not ready.store.exists():
            raise ValueError(
                f"there is no store {short(ready.store)} to continue: supac run {target}"
            )
        before = read_store(ready.store)
    else:
        before = read_store(target)
        ready = problem_of(before, as_begun=as_begun)
    for words in check_compatible(ready, before):
        warn(words)
    return ready, before


def _changes(ready: ProblemFile, budget: int | None, workers: int | None) -> dict[str, Any]:
    if budget is not None and budget < ready.first:
        raise ValueError(
            f"--budget {budget} is less than the first batch of {ready.first} runs: raise it, or "
            f"set first = {budget} in [run] of {ready.path.name}"
        )
    given = {"budget": budget, "execution": workers}
    return {name: value for name, value in given.items() if value is not None}


def _go(
    ready: ProblemFile, store: Path, changes: dict[str, Any], *, as_json: bool, quiet: bool
) -> None:
    """Run the problem, print the result, and exit with the matching code."""
    shown = None if sys.stderr.isatty() and not quiet else False
    with guarded():
        try:
            with user_code():
                result = ready.minimize(store=store, progress=shown, **changes)
        except KeyboardInterrupt as error:
            warn(f"stopped; to continue: supac resume {short(store)}")
            raise typer.Exit(RESUMABLE) from error
        end = read_store(store)
        _report(end, ready.title, as_json=as_json, quiet=quiet)
    if result.stop_reason is StopReason.FAILURES:
        reason = end.failures_by_kind[0][2] if end.failures else ""
        raise failed(f"{result.stop_reason.sentence} Most often: {reason}")
    if result.stop_reason is StopReason.INTERRUPTED:
        raise typer.Exit(RESUMABLE)


def _settle(store: Path, old: Path) -> None:
    """Restore or keep the earlier store after `run --force`, and say so."""
    try:
        end = read_store(store).stop_reason
    except (StoreError, OSError):
        end = None
    kept = settle(store, old, ended=end in (StopReason.BUDGET, StopReason.CONVERGED))
    if kept == old:
        place, new = (short(old), store.resolve())  # the log is beside the file, not beside a link
        warn(
            f"the earlier store is kept as {place}; to have it back: rm -f "
            f"{' '.join(short(new.with_name(new.name + end)) for end in ('-wal', '-shm'))}; "
            f"mv {place} {short(new)}"
        )
    elif kept is not None:
        warn(f"no run succeeded: {short(store)} is the earlier one again")


def _report(run: Record, title: str, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(run.to_dict())
    elif not quiet:
        console.print(summary(run, f"{title} ({short(run.file)})", console.width))
