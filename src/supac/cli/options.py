"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StorePath = Annotated[Path, typer.Argument(help="The store, or its problem file.", metavar="STORE")]
ProblemPath = Annotated[
    Path, typer.Argument(help="The problem file, a PEtab .yaml or a PEST .pst.", metavar="PROBLEM")
]
DaskAddress = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="A Dask scheduler, or the file of one, that makes the runs; SUPAC_DASK names one too.",
    ),
]
TakeOver = Annotated[
    bool,
    typer.Option("--take-over", help="Go on though another host seems to write to the store."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of processes that make runs.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
CertificatePath = Annotated[
    Path | None, typer.Option(help="Certificate of this run, from `supac certify --out`.")
]
AsBegun = Annotated[
    bool, typer.Option("--as-begun", help="Use the problem file's text in the store.")
]
ChangedSimulator = Annotated[
    bool,
    typer.Option(
        "--changed-simulator", help="Go on though the simulator has changed since earlier runs."
    ),
]
