"""How good a posterior do the default search and its peers find where nothing was tuned?

Problems × methods × seeds; each objective is scored with thousands of draws that are common to all
posteriors. Runs are kept one by one in outside.jsonl: one that is there is not made again. Then
the table and the picture are written anew.

    make bench-outside                                               # all: hours
    make bench-outside ARGS="--methods ours --problems fhn,banana --seeds 0,1,2 --folder /tmp/try"
    make bench-outside ARGS=--report                                 # of what is there
    python benchmarks/outside/run.py --methods ours --role development    # without the peers
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

# One thread a process, before NumPy reads it, and this package, wherever the script is started.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import outside.methods as m
import outside.problems as p
import supac
from outside.posteriors import SkippedError
from outside.report import draw, table

CHECKPOINTS = (30, 60, 100)
RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Outcome:
    """One method, one problem, one seed: the objective after so many runs."""

    problem: str
    method: str
    seed: int
    objectives: dict[str, float]
    seconds: float
    """Of the search, with its simulations, without the scoring."""
    note: str
    commit: str

    @property
    def key(self) -> tuple[str, str, int]:
        """What is not to be run again."""
        return self.problem, self.method, self.seed


def main() -> None:
    """Make the runs that are missing, then the table and the picture."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "outside.jsonl"
    failures = 0 if options.report else make_runs(path, options)
    outcomes = {each.key: each for each in read(path)}
    rows = [(*key, each.objectives) for key, each in outcomes.items()]
    if not rows:
        sys.exit(f"{path} has no runs to report")
    text = table(rows, CHECKPOINTS)
    (options.folder / "outside.md").write_text(text)
    print(text)
    draw(options.folder / "outside.png", rows, CHECKPOINTS)
    sys.exit(1 if failures else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problems", type=_names, help="a,b,c; all of them by default")
    parser.add_argument("--role", choices=("development", "judgement"), help="of the problems")
    parser.add_argument("--methods", type=_names, default=list(m.METHODS), help="a,b,c")
    parser.add_argument("--seeds", type=_seeds, default=tuple(range(5)), help="a,b,c or a:b")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--force", action="store_true", help="repeat what is there already")
    parser.add_argument("--report", action="store_true", help="make no runs")
    parser.add_argument("--label", default="", help="name under which a single method is kept")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    options = parser.parse_args()
    for given, there in ((options.problems or (), p.MAKERS), (options.methods, m.METHODS)):
        for name in given:
            if name not in there:
                parser.error(f"{name!r} is not one of {', '.join(there)}")
    if options.label and len(options.methods) != 1:
        parser.error("--label needs one --methods")
    return options


def _names(text: str) -> list[str]:
    return text.split(",")


def _seeds(text: str) -> tuple[int, ...]:
    first, colon, last = text.partition(":")
    return tuple(range(int(first), int(last) + 1) if colon else map(int, text.split(",")))


def make_runs(path: Path, options: argparse.Namespace) -> int:
    """Make what is missing, keep each run as it ends, and return how many failed."""
    kept = set() if options.force else {each.key for each in read(path)}
    jobs = [
        (name, method, seed)
        for name in options.problems or p.MAKERS
        if options.role in (None, p.ROLES[name])
        for method in options.methods
        for seed in options.seeds
        if (name, options.label or method, seed) not in kept
    ]
    print(f"{len(jobs)} runs to make", flush=True)
    failures = 0
    for number, outcome in enumerate(_outcomes(jobs, options.jobs), start=1):
        labelled = replace(outcome, method=options.label or outcome.method)
        text = " ".join(f"{at}: {value:.5g}" for at, value in labelled.objectives.items())
        print(
            f"[{number}/{len(jobs)}] {labelled.problem} {labelled.method} seed {labelled.seed}: "
            f"{text} ({labelled.seconds:.1f} s) {labelled.note}",
            flush=True,
        )
        if labelled.objectives:
            keep(path, labelled)
        failures += labelled.note.startswith("failed")
    return failures


def _outcomes(jobs: list[tuple[str, str, int]], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from (run(*job) for job in jobs)
        return
    # Spawned, not forked: every process has its own threads and compiled simulators.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        futures: list[Future[Outcome]] = [pool.submit(run, *job) for job in jobs]
        yield from (future.result() for future in as_completed(futures))


def run(name: str, method: str, seed: int) -> Outcome:
    """Run a method and score its posteriors; an outcome without objectives was skipped or failed.

    A search that ends with an error of its own leaves the user with the prior, and is scored so.
    """
    start = time.perf_counter()
    objectives: dict[str, float] = {}
    note, seconds = "", 0.0
    try:
        problem = p.problem(name)
        start = time.perf_counter()
        try:
            posteriors = m.METHODS[method](problem, seed, CHECKPOINTS)
        except (SkippedError, ImportError):
            raise
        except Exception as error:
            note = f"the prior, since {type(error).__name__}: {error}"[:200]
            posteriors = dict.fromkeys(CHECKPOINTS, problem.prior)
        seconds = time.perf_counter() - start
        scores = {id(each): problem.objective(each) for each in posteriors.values()}
        objectives = {str(at): float(f"{scores[id(each)]:.7g}") for at, each in posteriors.items()}
    except (SkippedError, ImportError, FileNotFoundError) as error:
        note = f"skipped: {error}"
    return Outcome(name, method, seed, objectives, round(seconds, 2), note, _commit())


def _commit() -> str:
    """Return the commit of the supac that is imported, which may be another tree's."""
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(str(supac.__file__)).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() or "unknown"


def keep(path: Path, outcome: Outcome) -> None:
    """Append a line, on a new one even where a killed benchmark left half of its last."""
    torn = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write("\n" * torn + json.dumps(asdict(outcome)) + "\n")


def read(path: Path) -> list[Outcome]:
    """Return all outcomes ever kept, without a line that a killed benchmark left torn."""
    outcomes = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            outcomes.append(Outcome(**json.loads(line)))
        except (ValueError, TypeError):
            print(f"a line of {path.name} is not an outcome, and is left out: {line[:60]}")
    return outcomes


if __name__ == "__main__":
    main()
