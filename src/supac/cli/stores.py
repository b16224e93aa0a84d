"""The commands `supac show`, `certify`, `report` and `export`, which read a store."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live

from supac import problem_file
from supac.cli.app import (
    INTERRUPTED,
    RESUMABLE,
    check_vacant,
    command,
    console,
    failed,
    inform,
    print_run,
    print_text,
    shown_progress,
    user_code,
    warn,
)
from supac.cli.following import follow, has_begun
from supac.cli.log_lines import line_of
from supac.cli.options import AsBegun, CertificatePath, Force, Json, Quiet, StorePath, Workers
from supac.cli.problems import problem_behind
from supac.exchange.table import (
    Table,
    table_file,
    table_of,
    table_of_bands,
    table_of_ensemble,
    with_origin,
    write_table,
)
from supac.exchange.table import export as export_runs
from supac.guarantee.certificate import Certificate, Subject
from supac.guarantee.ensemble import Ensemble
from supac.problem_file import BOUNDS, store_of
from supac.problem_file.pest import PEST_FILES, write_for_pest
from supac.record.ending import StopReason
from supac.record.record import Record, read_store
from supac.report import account_of, assess, make_page
from supac.report.tables import short, summary, words_on_bands
from supac.report.verdict import so_far
from supac.running.terminal import duration

_PAUSE = 1.0  # seconds between looks at a store that is being written
_DRAWS = 1_000  # of the posterior, for files of PEST


@command("Example: `supac show run.supac --follow`.")
def show(
    store: StorePath,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Update while it runs; Ctrl-C leaves.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the content of a store, also while another process writes to it."""
    path = store_of(store)
    run = _followed(path, quiet=as_json) if follow else read_store(path)
    print_run(run, _title(run), as_json=as_json)


def _title(run: Record) -> str:
    name = problem_file.title_of(run)
    return f"{name} ({run.path})" if name else str(run.path)


def _followed(path: Path, *, quiet: bool) -> Record:
    """Read a store repeatedly until no process writes to it."""
    shown, rounds = console.is_terminal and not quiet, 0
    try:
        with Live(console=console, transient=True, auto_refresh=False) as live:
            for run in follow(path, _PAUSE):
                if run.running and shown:
                    live.update(summary(run, _title(run), console.width), refresh=True)
                elif run.running and not quiet and len(run.rounds) > rounds:
                    inform(line_of(run))
                rounds = len(run.rounds)
        return run
    except KeyboardInterrupt as error:
        if not has_begun(path):
            raise typer.Exit(INTERRUPTED) from error
        return read_store(path)


def _bound_name(word: str | None) -> str | None:
    """Check that a bound has one of the names in a problem file."""
    if word is not None and word not in BOUNDS:
        raise typer.BadParameter(f"must be one of {', '.join(BOUNDS)}")
    return word


BoundName = Annotated[
    str | None,
    typer.Option(metavar="KIND", callback=_bound_name, help=f"Another bound: {', '.join(BOUNDS)}."),
]


@command("Example: `supac certify run.supac --posterior --precision 0.01`.")
def certify(
    store: StorePath,
    posterior: Annotated[
        bool, typer.Option("--posterior", help="Certify the mean over all of the posterior.")
    ] = False,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Number of independent data.")] = None,
    delta: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Probability that it fails.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Number of fresh runs; at most 1000 by default.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="Stop when further runs would gain less than this.")
    ] = None,
    bound: BoundName = None,
    problem: Annotated[Path | None, typer.Option(help="Problem file, if not the store's.")] = None,
    as_begun: AsBegun = False,
    workers: Workers = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write it as JSON as well.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what is guaranteed on new data for the parameter sets that validated the posterior.

    That needs no run. `--draws 20` certifies as many new sets, `--posterior` the mean over all of
    the posterior, both with fresh runs, which are kept in the store: after an interruption, the
    same command continues, and Ctrl-C certifies with the runs made until then. Given a problem
    file, its current text is used.
    """
    if out is not None:
        check_vacant(out, force=force)
    elif quiet and not as_json:
        raise failed("--quiet would discard the certificate: give --out or --json too")
    run = read_store(store_of(store))
    fresh, shown = posterior or draws is not None, not (quiet or as_json)
    own = problem_file.is_problem_file(store) and not (fresh and as_begun)
    by_file = problem or (store if own else None)
    if fresh:
        ready = _certifiable(run, by_file, as_begun=as_begun)
        where = replace(ready.with_workers(workers), progress=shown_progress(quiet=quiet))
        if shown:
            early, kept = posterior and precision is not None, out is not None
            _announce(run, draws or 1000, where.workers, early=early, kept=kept)
        options = {"n": n, "bound": bound, "precision": precision, "delta": delta}
        subject: Subject = "posterior" if posterior else "ensemble"
        certificate = _new_certificate(
            ready, run, draws=draws or 1000, subject=subject, execution=where, **options
        )
    else:
        certificate = _stored_certificate(run, given=(n, delta, bound, precision))
        _check_unchanged(run, by_file)
    _give_certificate(certificate, out, as_json=as_json, quiet=quiet)
    if shown:
        _tell_of_new_data(run, bands=not fresh)  # they are about the sets of the search alone
    if posterior:
        _tell_precision(certificate, draws or 1000, precision)


def _certifiable(run: Record, file: Path | None, *, as_begun: bool) -> problem_file.ProblemFile:
    """Read the problem of a store; exit if its prior or loss refuses every certificate."""
    ready = problem_behind(run, file, as_begun=as_begun)
    refusal = run.next_provenance(ready.parameters, ready.bound, ready.risk).refusal
    if refusal:
        raise failed(f"no certificate: {refusal}")
    return ready


def _tell_of_new_data(run: Record, *, bands: bool) -> None:
    """Print what held-out data certify, and the prediction bands of the search."""
    if run.ending is not None and run.ending.held_out is not None:
        console.print(_wrapped(f"\nOn held-out data; both hold together.\n{run.ending.held_out}"))
    words = words_on_bands(run) if bands else ""
    if words:
        console.print(_wrapped(f"\nOf single new measurements\n  {words}"))


def _tell_precision(certificate: Certificate, draws: int, precision: float | None) -> None:
    """Say that a certificate was stopped early, and exit; or that it is not as precise as asked."""
    gain = certificate.value - (certificate.without_draws or 0.0)
    missed = precision is not None and gain >= precision
    words = f": further runs may gain up to {gain:.2g}, more than {precision:g}" if missed else ""
    if certificate.draws < draws and (missed or precision is None):
        warn(
            f"stopped after {certificate.draws} of {draws} runs{words}; the same command continues"
        )
        raise typer.Exit(RESUMABLE)
    if missed:
        warn(f"the precision was not reached with {draws} runs{words}; --draws makes more")


def _check_unchanged(run: Record, file: Path | None) -> None:
    """Exit if simulator or problem file are other than those of the certificate that is shown."""
    others = problem_file.certified_by_others(run)
    if others:
        raise failed(
            f"no certificate: {others} of its runs were made by another version of the simulator: "
            "restore that version, or certify new sets by the present one: supac certify "
            f"{short(run.file)} --draws 20"
        )
    if file is None:
        return
    with user_code():
        ready = problem_file.read_problem(file)
    if ready.bound != run.bound:
        raise failed(
            f"{file} has another bound, {ready.bound}, than the run, {run.bound}: --draws 20 or "
            "--posterior certify by its present text"
        )
    try:
        problem_file.check_compatible(ready, run)
    except ValueError as error:
        warn(f"the certificate is about the problem as it was: {error}")


def _give_certificate(
    certificate: Certificate, out: Path | None, *, as_json: bool, quiet: bool
) -> None:
    """Write a certificate to a file, if there is one, and print it even if that fails."""
    try:
        if out is not None:
            out.write_text(certificate.to_json() + "\n", encoding="utf-8")
    finally:
        if as_json:
            print_text(certificate.to_json())
        elif not quiet:
            console.print(_wrapped(str(certificate)))


def _new_certificate(ready: problem_file.ProblemFile, run: Record, **options: Any) -> Certificate:
    """Certify with fresh runs, which the store keeps unless another process writes to it."""
    if run.stop_reason in (None, StopReason.INTERRUPTED, StopReason.USER):
        warn("the run has not ended: the certificate is for its current posterior")
    try:
        with user_code():
            store = None if run.running else run.file
            return ready.certify(run, store=store, seed=_seed(run), **options)
    except KeyboardInterrupt as error:
        warn(f"stopped: its runs are kept in {run.file}; the same command continues")
        raise typer.Exit(INTERRUPTED) from error


def _stored_certificate(run: Record, given: Sequence[object]) -> Certificate:
    """Return the certificate of the ensemble that a search ended with."""
    if any(each is not None for each in given):
        raise failed("--n, --delta, --bound and --precision go with --posterior or --draws")
    if run.ending is None:
        raise failed("the run has not ended: give --posterior or --draws to certify it as it is")
    if run.ending.certificate is None:
        if run.never_certified:
            raise failed(f"no certificate: {run.never_certified}")
        words = f"no certificate: {run.ending.uncertified or 'an earlier version made none'}"
        if run.stop_reason in (StopReason.BUDGET, StopReason.CONVERGED):
            words += (
                f"\nsupac certify {run.path} --draws 20 makes 20 runs and certifies their "
                "parameter sets"
            )
        raise failed(words)
    return run.ending.certificate


def _seed(run: Record) -> int:
    """Return the seed of the fresh draws of a search: its own."""
    return run.settings.seed


def _announce(run: Record, draws: int, workers: object, *, early: bool, kept: bool) -> None:
    """Say how much work is ahead, and how to keep the certificate."""
    inform(_ahead(run, draws, workers, early=early))
    if not kept:
        inform("shown only; --out certificate.json keeps it, for supac report")


def _ahead(run: Record, draws: int, executor: object, *, early: bool) -> str:
    """Estimate the work from the time that the runs of the search took.

    With `early`, a precision may be reached before all runs are made.
    """
    made = {each.x.tobytes() for each in run.light_runs if each.purpose == "certificate"}
    points = run.fresh_draws(draws, _seed(run))
    there = sum(point.tobytes() in made for point in points)
    kept = f"; {there} more are in the store" if there else ""
    most = "up to " if early else ""
    runs = f"{most}{draws - there:,} fresh runs"
    if not run.seconds > 0.0:
        return f"{runs}{kept}"
    each = run.seconds / len(run.made)
    words = f"{runs} of about {duration(each)}"
    if isinstance(executor, str):  # the address of a cluster, of unknown size
        return f"{words} on {executor}{kept}"
    workers = executor if isinstance(executor, int) else 1
    where = f" in {workers} processes" if workers > 1 else ""
    return f"{words}: {most}{duration((draws - there) * each / workers)}{where}{kept}"


def _wrapped(text: str) -> str:
    """Wrap lines to the width of the terminal, with hanging indents."""
    return "\n".join(
        textwrap.fill(line, console.width, subsequent_indent=" " * (2 if line[:1] != " " else 4))
        for line in text.splitlines()
    )


@command("Example: `supac report run.supac -o page.html`.")
def report(
    store: StorePath,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The page to write; by default run-report.html beside run.supac."
        ),
    ] = None,
    certificate: CertificatePath = None,
    title: Annotated[str, typer.Option(help="Title, instead of the problem file's.")] = "",
    force: Force = False,
) -> None:
    """Write a run as one HTML page: the problem, the posterior, and whether to trust it.

    The simulator is not run; the run may be unfinished.
    """
    path = store_of(store)
    run = read_store(path)
    page = path.with_name(f"{path.stem}-report.html") if out is None else out
    check_vacant(page, force=force)
    account = account_of(run, title=title, certificate=_read_certificate(certificate))
    page.write_text(make_page(account), encoding="utf-8")
    verdict = assess(account)
    console.print(f"wrote {page}", soft_wrap=True)
    if run.stop_reason is None:
        console.print(f"verdict: preliminary. {so_far(account)}")
        return
    console.print(f"verdict: {verdict.level.words}. {verdict.sentence}")
    for check in verdict.reasons:
        console.print(f"- {check.question} {check.answer}")


@command("Example: `supac export run.supac runs.csv`.")
def export(
    store: StorePath,
    target: Annotated[
        Path,
        typer.Argument(
            help="A .csv, a .parquet (extra `parquet`), or a .json of the result; of a PEST case "
            "also its own files: .par, .jcb, .cov.",
            metavar="FILE",
        ),
    ],
    posterior: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Write N draws of the posterior instead.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of these draws.")] = 0,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Write the certified parameter sets instead.")
    ] = False,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Those of `supac certify --draws` instead.")
    ] = None,
    bands: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, metavar="COVERAGE", help="Write the bands of this coverage instead."
        ),
    ] = None,
    certificate: CertificatePath = None,
    force: Force = False,
) -> None:
    """Write all runs of a store as a table, in the parameters' units, or its result as JSON.

    With --certificate, the file must be a .json.
    """
    check_vacant(target, force=force)
    other_tables = ensemble + (posterior is not None) + (bands is not None)
    _check_kind(target, other_tables, with_certificate=certificate is not None)
    if draws is not None and not ensemble:
        raise failed("--draws goes with --ensemble; --posterior 1000 writes new draws")
    path = store_of(store)
    if target.suffix in PEST_FILES:
        run = read_store(path)
        sets = _ensemble(run, draws).x if ensemble else run.sample(posterior or _DRAWS, seed)
        words = write_for_pest(run, problem_file.source_of(run)[1], sets, target)
    elif target.suffix == ".json":
        told = _read_certificate(certificate)
        read_store(path).result().to_json(target, certificate=told, force=force)
        words = "the result"
    elif not other_tables:
        words = f"{export_runs(path, target, force=force)} runs"
    else:
        run = read_store(path)
        if ensemble:
            table, kind = _certified_sets(run, draws), "parameter sets"
        elif bands is not None:
            table, kind = table_of_bands(run, bands), "bands"
        else:
            table, kind = table_of(run, posterior=posterior, seed=seed), "draws"
        write_table(table_file(target, force=force), table)
        words = f"{len(next(iter(table.values())))} {kind}"
    console.print(f"wrote {words} to {target}", soft_wrap=True)


def _certified_sets(run: Record, draws: int | None) -> Table:
    """Return the parameter sets as a table that says what their search has seen."""
    return with_origin(run, table_of_ensemble(run, _ensemble(run, draws)))


def _ensemble(run: Record, draws: int | None) -> Ensemble:
    """Return the parameter sets of the search, or those of `supac certify --draws`."""
    return run.ensemble if draws is None else run.drawn_ensemble(draws, _seed(run))


def _check_kind(target: Path, other_tables: int, *, with_certificate: bool) -> None:
    """Exit with a message if a file of this kind cannot hold what is asked for."""
    if target.suffix not in (".csv", ".parquet", ".json", *PEST_FILES):
        others = f"of a PEST case also a {', '.join(PEST_FILES)}"
        words = f"the file must be a .csv, a .parquet or a .json, {others}"
        raise failed(f"{words}, not {target.name}")
    if other_tables > 1:
        raise failed("--ensemble, --posterior and --bands are different tables: give one of them")
    if target.suffix == ".json" and other_tables:
        raise failed(f"these are a table, a .csv or a .parquet, not {target.name}")
    if target.suffix != ".json" and with_certificate:
        raise failed(f"a certificate can only be written to a .json, not to {target.name}")


def _read_certificate(path: Path | None) -> Certificate | None:
    return None if path is None else Certificate.from_json(path.read_text(encoding="utf-8"))
