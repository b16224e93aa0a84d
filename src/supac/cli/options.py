"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StorePath = Annotated[Path, typer.Argument(help="The store, or its problem file.", metavar="STORE")]
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
