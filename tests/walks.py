"""Pages of the docs, done as they say: their files written, their commands run, nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from drivers import COMMAND, Driver


@dataclass
class Walk:
    """What following the page has led to."""

    folder: Path
    said: dict[str, str] = field(default_factory=dict)

    def json(self, name: str) -> dict[str, object]:
        loaded: dict[str, object] = json.loads((self.folder / name).read_text())
        return loaded


def steps(page: str) -> list[tuple[str, str]]:
    """Files (name, text) and commands ("", line), in the order of the page."""
    pattern = r"(?:^\*\*`([^`]+)`\*\*\n\n)?^```(\w+)\n(.*?)^```"
    found = []
    for name, language, text in re.findall(pattern, page, flags=re.M | re.S):
        if name:
            found.append((name, text))
        elif language == "sh":
            found += [("", line) for line in text.splitlines()]
    return found


def files_of(page: Path, folder: Path) -> None:
    """Write the files of a page, the first of each name."""
    for name, text in steps(page.read_text()):
        if name and not (folder / name).exists():
            (folder / name).write_text(text)


def follow(page: Path, folder: Path) -> Walk:
    """Do in an empty folder what a page says."""
    walk = Walk(folder)
    for name, text in steps(page.read_text()):
        if name:
            (folder / name).write_text(text)
            continue
        line, _, file = text.partition(" > ")
        program, *words = line.split()
        if program != "supac":  # another tool in Python, which the page has told to install
            subprocess.run([sys.executable, "-m", program, *words], cwd=folder, check=True)
            continue
        command = Driver(COMMAND, *words, cwd=folder, environment={"COLUMNS": "100"})
        code, said, complained = command.end()
        assert code == 0, f"{text}\n{said}\n{complained}"
        assert "Traceback" not in complained
        if file:
            (folder / file).write_text(said)
        walk.said[text] = "" if file else said
    return walk
