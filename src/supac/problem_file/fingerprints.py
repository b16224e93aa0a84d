"""Checksums of the files that a problem file names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from supac.problem_file.python import PythonFunction

_DIGESTER = ("dig_info.json", "init_state.json", "feed.csv", "obs.csv")


def fingerprints(document: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the checksums of the files by purpose: data, simulator, loss, known."""
    simulator = document["simulator"]
    data = [named_file(folder, document.get("data", {}).get("file", ""))]
    if "digester" in simulator:
        plant = named_file(folder, simulator["digester"])
        data += [part / name for part in (plant, plant / "train_data") for name in _DIGESTER]
    command = [named_file(folder, word) for word in simulator.get("command", ())]
    paths = {
        "data": data,
        "simulator": _python(folder, simulator) + command,
        "loss": _python(folder, document.get("loss", {})),
        "known": [named_file(folder, document["run"].get("known", ""))],
    }
    there = {purpose: [path for path in each if path.is_file()] for purpose, each in paths.items()}
    return {purpose: checksum(each) for purpose, each in there.items() if each}


def named_file(folder: Path, name: str) -> Path:
    """Return the path that a problem file in this folder means by a name; ~ is the home folder."""
    return folder / os.path.expanduser(name)


def _python(folder: Path, table: Mapping[str, Any]) -> list[Path]:
    return [PythonFunction(folder, table["python"]).file] if "python" in table else []


def checksum(paths: list[Path]) -> str:
    """Return the SHA-256 of one file; of several, that of their checksums in this order."""
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()
