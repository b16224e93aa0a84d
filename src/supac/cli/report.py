"""`supac report`: a run as an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supac.cli.app import EXIT_CODES, app, check_vacant, console, guarded
from supac.cli.stores import StorePath
from supac.guarantee.certificate import Certificate
from supac.problem_file import store_of
from supac.record.record import read_store
from supac.report import account_of, assess, make_page


@app.command(epilog="Example: `supac report run.supac -o page.html`. " + EXIT_CODES)
def report(
    store: StorePath,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The page to write; by default run-report.html beside run.supac."
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Certificate of this run, from `supac certify --out`.")
    ] = None,
    title: Annotated[str, typer.Option(help="Title, instead of the problem file's.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing page.")] = False,
) -> None:
    """Write a run as one HTML page: the problem, the posterior, and whether to trust it.

    The simulator is not run; the run may be unfinished.
    """
    with guarded():
        path = store_of(store)
        run = read_store(path)
        page = path.with_name(f"{path.stem}-report.html") if out is None else out
        check_vacant(page, force=force)
        told = None
        if certificate is not None:
            told = Certificate.from_json(certificate.read_text(encoding="utf-8"))
        account = account_of(run, title=title, certificate=told)
        page.write_text(make_page(account), encoding="utf-8")
    verdict = assess(account)
    console.print(f"wrote {page}", soft_wrap=True)
    console.print(f"verdict: {verdict.level.words}. {verdict.sentence}")
    for check in verdict.reasons:
        console.print(f"- {check.question} {check.answer}")
