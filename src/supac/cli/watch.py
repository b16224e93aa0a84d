"""The command `supac watch`: a run on its way as a page for the browser."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from supac.cli.app import INTERRUPTED, command, console, failed, inform, warn
from supac.cli.following import follow, has_begun
from supac.cli.options import StorePath
from supac.cli.page_server import PageServer
from supac.posterior.attainable import Attainable, attainable
from supac.problem_file import store_of
from supac.record.record import Record, read_store
from supac.report.live import make_live_page

_OURS = b'<meta name="generator" content="supac watch">'
_HEAD = 2_000  # bytes of a page, among which that must be


class Places:
    """Destinations of the page: a file, a server, or both."""

    def __init__(self, file: Path | None, server: PageServer | None):
        self._file, self._server = file, server
        places = [str(file)] if file is not None else []
        self.words = " and ".join(places + ([server.address] if server is not None else []))
        """Names of these places."""

    def put(self, page: str) -> None:
        """Replace the page; a browser never sees half of it."""
        data = page.encode()
        if self._server is not None:
            self._server.show(data)
        if self._file is not None:
            part = self._file.with_name(f"{self._file.name}.{os.getpid()}.part")
            part.write_bytes(data)
            part.replace(self._file)

    def close(self) -> None:
        """Stop serving, once the last page was seen or a while has passed."""
        if self._server is not None:
            self._server.close()


@command("Examples: `supac watch run.supac`, `supac watch run.supac --serve`.")
def watch(
    store: StorePath,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The page to write; by default run-live.html beside run.supac."
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.5, help="Seconds from one page to the next.")
    ] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Write the page once.")] = False,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve the page on 127.0.0.1, instead of writing a file."),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")
    ] = 0,
    title: Annotated[str, typer.Option(help="Title, instead of the problem file's.")] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is no live page.")
    ] = False,
) -> None:
    """Show a run in progress as a live page for the browser: fit, outlook, workers, every run.

    The page is one file. It is rewritten while the run goes on, reloads itself, and needs no
    network. The command ends with the run; Ctrl-C ends the command, not the run.
    """
    path = store_of(store)
    if once and (serve or port):
        raise failed("--once writes a file: leave out --serve and --port")
    serve = serve or port > 0
    file = out or (None if serve else path.with_name(f"{path.stem}-live.html"))
    if file is not None and not force:
        _check_ours(file)
    with closing(Places(file, PageServer(port) if serve else None)) as places:
        if once:
            run = read_store(path)
            places.put(make_live_page(run, title=title, interval=None, hope=_hope(run)))
        else:
            _keep_up(path, places, title, interval)
    last = f"wrote {file}" if once or file is not None else "the last state was served"
    console.print(last, soft_wrap=True)


def _keep_up(path: Path, places: Places, title: str, interval: float) -> None:
    """Put page after page until the run has ended, or Ctrl-C."""
    inform(f"{places.words} follows {path}; Ctrl-C leaves")
    rounds, hope = 0, None
    try:
        for run in follow(path, interval):
            if len(run.rounds) != rounds:
                rounds, hope = len(run.rounds), _hope(run)
            places.put(make_live_page(run, title=title, interval=interval, hope=hope))
    except KeyboardInterrupt as error:
        if not has_begun(path):
            raise typer.Exit(INTERRUPTED) from error
        warn("left; the run goes on, and the page stays as it is")
        places.put(make_live_page(read_store(path), title=title, interval=None, hope=hope))


def _hope(run: Record) -> Attainable | None:
    """Return the limit to hope for, while there is no certificate."""
    return attainable(run) if run.certificate is None else None


def _check_ours(file: Path) -> None:
    """Exit with a message if a file is there that is no live page."""
    if not file.exists():
        return
    with file.open("rb") as opened:
        if _OURS in opened.read(_HEAD):
            return
    raise failed(f"{file} already exists and is no live page: --force replaces it")
