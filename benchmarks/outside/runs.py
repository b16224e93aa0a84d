"""What benchmarks of problems × methods × seeds share: options, processes, and a file of lines."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import supac

Outcome = TypeVar("Outcome")
Key = tuple[str, str, int]
"""Problem, method, seed."""


def parse_options(
    description: str | None,
    problems: Collection[str],
    methods: Collection[str],
    *,
    seeds: int,
    folder: Path,
) -> argparse.Namespace:
    """Read the options of the command line."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--problems", type=_names, help="a,b,c; all of them by default")
    parser.add_argument("--role", choices=("development", "judgement"), help="of the problems")
    parser.add_argument("--methods", type=_names, default=list(methods), help="a,b,c")
    parser.add_argument("--seeds", type=_seeds, default=tuple(range(seeds)), help="a,b,c or a:b")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--force", action="store_true", help="repeat what is there already")
    parser.add_argument("--report", action="store_true", help="make no runs")
    parser.add_argument("--label", default="", help="name under which a single method is kept")
    parser.add_argument("--folder", type=Path, default=folder)
    options = parser.parse_args()
    for given, there in ((options.problems or (), problems), (options.methods, methods)):
        for name in given:
            if name not in there:
                parser.error(f"{name!r} is not one of {', '.join(there)}")
    if options.label and len(options.methods) != 1:
        parser.error("--label needs one --methods")
    options.problems = options.problems or list(problems)
    return options


def _names(text: str) -> list[str]:
    return text.split(",")


def _seeds(text: str) -> tuple[int, ...]:
    first, colon, last = text.partition(":")
    return tuple(range(int(first), int(last) + 1) if colon else map(int, text.split(",")))


def missing_runs(
    options: argparse.Namespace, roles: dict[str, Any], kept: Collection[Key]
) -> list[Key]:
    """Return what the options ask for and is not kept."""
    return [
        (name, method, seed)
        for name in options.problems
        if options.role in (None, roles[name])
        for method in options.methods
        for seed in options.seeds
        if options.force or (name, options.label or method, seed) not in kept
    ]


def run_all(
    run: Callable[[str, str, int], Outcome], jobs: Sequence[Key], processes: int
) -> Iterator[Outcome]:
    """Run every job, here or in spawned processes, and yield its outcome when it ends."""
    if processes == 1:
        yield from (run(*job) for job in jobs)
        return
    # Spawned, not forked: every process has its own threads and compiled simulators.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        futures: list[Future[Outcome]] = [pool.submit(run, *job) for job in jobs]
        yield from (future.result() for future in as_completed(futures))


def commit() -> str:
    """Return the commit of the supac that is imported, which may be another tree's.

    It is "-dirty" if the package was changed since; results that benchmarks write do not count.
    """
    known = _git("describe", "--always") or "unknown"
    return f"{known}-dirty" if _git("status", "--porcelain", "--", ".") else known


def _git(*words: str) -> str:
    """Return what a command of git says in the folder of the package."""
    folder = Path(str(supac.__file__)).parent
    made = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    return made.stdout.strip()


def keep(path: Path, outcome: Any) -> None:
    """Append a line, on a new one even where a killed benchmark left half of its last."""
    torn = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write("\n" * torn + json.dumps(asdict(outcome)) + "\n")


def read(path: Path, kind: Callable[..., Outcome]) -> list[Outcome]:
    """Return all outcomes ever kept, without a line that a killed benchmark left torn."""
    outcomes = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            outcomes.append(kind(**json.loads(line)))
        except (ValueError, TypeError):
            print(f"a line of {path.name} is not an outcome, and is left out: {line[:60]}")
    return outcomes
