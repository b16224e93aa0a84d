"""The files that a problem file names, and a checksum of what they hold."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from supac.problem_file.python import PythonFunction

_DIGESTER = ("dig_info.json", "init_state.json", "feed.csv", "obs.csv")


def fingerprints(document: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Checksums by what the files are for: data, simulator, loss, known."""
    simulator = document["simulator"]
    named = {
        "data": _existing(folder, document.get("data", {}).get("file"))
        + _digester(folder, simulator),
        "simulator": _python(folder, simulator) + _existing(folder, *simulator.get("command", ())),
        "loss": _python(folder, document.get("loss", {})),
        "known": _existing(folder, document["run"].get("known")),
    }
    return {purpose: checksum(paths) for purpose, paths in named.items() if paths}


def named_file(folder: Path, name: str) -> Path:
    """What a problem file in this folder means by a path; ~ is the user's home."""
    return folder / os.path.expanduser(name)


def _existing(folder: Path, *names: str | None) -> list[Path]:
    paths = [named_file(folder, name) for name in names if name]
    return [path for path in paths if path.is_file()]


def _python(folder: Path, table: Mapping[str, Any]) -> list[Path]:
    file = PythonFunction(folder, table["python"]).file if "python" in table else None
    return [file] if file is not None and file.is_file() else []


def _digester(folder: Path, simulator: Mapping[str, Any]) -> list[Path]:
    if "digester" not in simulator:
        return []
    plant = named_file(folder, simulator["digester"])
    return [
        part / name
        for part in (plant, plant / "train_data")
        for name in _DIGESTER
        if (part / name).is_file()
    ]


def checksum(paths: list[Path]) -> str:
    """Of one file its own; of several, that of their checksums in this order."""
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()
