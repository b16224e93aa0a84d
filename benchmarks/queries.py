"""How many risk queries does a good posterior take?

The true objective of every posterior on the way, from fresh draws that are common to all runs of a
problem; the queries until it reaches each level; and the algorithm's own time a round.

    make bench-queries                                     # all, seeds 401 and up: hours
    make bench-queries ARGS="--problems meta8-0.1 --seeds 1:3 --folder /tmp/try"
    make bench-queries ARGS=--report                       # table and plot of what is there
    make bench-queries ARGS="--problems adm1 --draws 16000 --marks 25,30,45,70,100"

Runs are kept one by one in queries.jsonl: one that is there already is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

# One thread a process, before NumPy reads it: the pool is what fills the cores.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from pages import fitted
from problems import DRAWS_SEED, ORACLE, PROBLEMS, Problem
from supac.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = (100, 150, 200, 250, 300)
"""Queries at which the objective is tabled."""
PUBLISHED = Path(__file__).parents[2] / "shared" / "reference" / "published" / "supac_ce.csv"
PUBLISHED_UPDATES = (
    *range(5), *range(5, 26, 5), *range(50, 101, 10), *range(125, 276, 25), 296,
)  # fmt: skip
COLOURS = {"composite": "#0b6e99", "outputs": "#2e7d32", "scalar": "#c2410c", "paper": "#5b6770"}
FLOOR = 0.1
"""The least excess over the best known that is drawn, in per cent."""
PUBLISHED_NAME, PUBLISHED_COLOUR = "paper, published", "#b8a13a"


@dataclass(frozen=True)
class Job:
    """One run: who, on what, from which seed, and how closely it is looked at."""

    problem: str
    algorithm: str
    seed: int
    budget: int
    draws: int


@dataclass(frozen=True)
class Record:
    """What a run gave: the true objective after so many queries, and the time of each round."""

    job: Job
    curve: list[tuple[int, float]]
    milliseconds: list[float]
    """Of the algorithm itself, a round each, without the risk's."""
    stopped: str
    commit: str

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self.job) | {k: v for k, v in vars(self).items() if k != "job"})

    @classmethod
    def from_json(cls, line: str) -> Record:
        """The record of a line."""
        values = json.loads(line)
        job = Job(**{name: values.pop(name) for name in Job.__dataclass_fields__})
        curve = [(int(queries), float(objective)) for queries, objective in values.pop("curve")]
        return cls(job=job, curve=curve, **values)


def main() -> None:
    """Make the runs that are missing, then the table and the plot."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    failures = 0 if options.report else make_runs(options)
    records = read_records(options.folder / "queries.jsonl", options)
    if not records:
        sys.exit(f"{options.folder}/queries.jsonl has no runs of these seeds and draws to report")
    if options.marks:
        table = report(records, {}, options.draws, options.marks)
        (options.folder / "queries_at_marks.md").write_text(fitted(table))
        print(table)
        sys.exit(1 if failures else 0)
    optima = find_optima({record.job.problem for record in records}, options)
    table = report(records, optima, options.draws)
    (options.folder / "queries.md").write_text(fitted(table))
    print(table)
    draw(options.folder / "queries.png", records, optima)
    sys.exit(1 if failures else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How many queries does a good posterior take?")
    parser.add_argument("--problems", type=_names, default=list(PROBLEMS), help="a,b,c")
    parser.add_argument("--algorithms", type=_names, default=list(COLOURS), help="a,b,c")
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seeds", type=_seeds, help="a,b,c or a:b, both ends included")
    seeds.add_argument(
        "--unseen", dest="seeds", action="store_const", const=None,
        help="the final table's own seeds, 401 and up: the default",
    )  # fmt: skip
    parser.add_argument("--draws", type=int, default=4000, help="behind each true objective")
    parser.add_argument(
        "--every", type=int, default=20, help="queries between objectives, from 100 queries on"
    )
    parser.add_argument(
        "--marks", type=_seeds, default=(), help="end there, and score after these queries alone"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--fresh", action="store_true", help="repeat what is there already")
    parser.add_argument("--report", action="store_true", help="make no runs")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    for name in options.problems:
        if name not in PROBLEMS:
            parser.error(f"no problem is called {name!r}; there are {', '.join(PROBLEMS)}")
    for name in options.algorithms:
        if name not in COLOURS:
            parser.error(f"no algorithm is called {name!r}; there are {', '.join(COLOURS)}")
    return options


def _names(text: str) -> list[str]:
    return text.split(",")


def _seeds(text: str) -> tuple[int, ...]:
    first, colon, last = text.partition(":")
    return tuple(range(int(first), int(last) + 1) if colon else map(int, text.split(",")))


# Runs.


def make_runs(options: argparse.Namespace) -> int:
    """Make what is missing, keep each run as it ends, and return how many failed."""
    path = options.folder / "queries.jsonl"
    kept = set() if options.fresh else {record.job for record in read_lines(path)}
    jobs = [job for job in _jobs(options) if job not in kept]
    failures = 0
    print(f"{len(jobs)} runs to make", flush=True)
    # Spawned, not forked: every process has its own threads and compiled kernels.
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        futures: dict[Future[Record], Job] = {
            pool.submit(run, job, options.every, options.marks): job for job in jobs
        }
        for future in as_completed(futures):
            job = futures[future]
            try:
                record = future.result()
            except Exception as error:
                failures += 1
                print(f"{job} failed: {type(error).__name__}: {error}", flush=True)
                continue
            keep_line(path, record.to_json())
            queries, objective = record.curve[-1]
            print(
                f"{job.problem} {job.algorithm} seed {job.seed}: {objective:.4f} at {queries}",
                flush=True,
            )
    return failures


def _jobs(options: argparse.Namespace) -> list[Job]:
    jobs = []
    for name in options.problems:
        problem = PROBLEMS[name]
        if name == "adm1-embedded":
            print("adm1: the LF data are not beside this checkout; the embedded data instead")
        try:
            _ = problem.task  # also compiles what the processes then find in the cache
        except (ImportError, OSError) as error:
            print(f"{name}: skipped, {error}")
            continue
        jobs += [
            Job(name, algorithm, seed, max(options.marks, default=contender.budget), options.draws)
            for algorithm, contender in problem.contenders.items()
            if algorithm in options.algorithms
            for seed in options.seeds or contender.seeds
        ]
    return jobs


class Stopwatch:
    """A function that knows how long it has run in all."""

    def __init__(self, function: Callable[[FloatArray], Any]):
        self._function = function
        self.seconds = 0.0

    def __call__(self, x: FloatArray) -> Any:
        """Call it."""
        start = time.perf_counter()
        answer = self._function(x)
        self.seconds += time.perf_counter() - start
        return answer


def run(job: Job, every: int, marks: Sequence[int] = ()) -> Record:
    """One run; the true objectives are computed after it, so as not to disturb the times.

    Of one posterior in `every`, or of those after as many queries as are `marks`.
    """
    problem = PROBLEMS[job.problem]
    contender, task = problem.contenders[job.algorithm], problem.task
    risk: Callable[[FloatArray], Any]
    if contender.sees == "risk":
        risk = watch = Stopwatch(task.risk)
    else:
        composite = task.composite if contender.sees == "composite" else task.outputs
        if composite is None:
            raise ValueError(f"{job.problem} has no {contender.sees}")
        watch = Stopwatch(composite.simulate)
        risk = replace(composite, simulate=watch)
    posteriors = [(0, task.latent)]
    times: list[float] = []
    last = time.perf_counter()

    def keep(event: supac.Iteration) -> None:
        nonlocal last
        posteriors.append((event.queries, event.next_posterior))
        times.append(1e3 * (time.perf_counter() - last - watch.seconds))
        last, watch.seconds = time.perf_counter(), 0.0

    result = supac.minimize(
        risk, task.prior, problem.bound, budget=job.budget, algorithm=contender.algorithm,
        execution=supac.Execution(vectorized=True, progress=False), validation=0, seed=job.seed,
        callback=keep,
    )  # fmt: skip
    queries = [made for made, _ in posteriors]
    chosen = _at_marks(queries, marks) if marks else thin(queries, every)
    curve = [
        (posteriors[i][0], problem.true_objective(posteriors[i][1], job.draws)) for i in chosen
    ]
    rounded = [round(milliseconds, 2) for milliseconds in times]
    return Record(job, curve, rounded, str(result.stop_reason), _commit())


def thin(queries: list[int], gap: int) -> list[int]:
    """Which posteriors to look at: all up to 100 queries, then one in `gap`, marks and the last.

    Large batches are thus all looked at: what is skipped must not make an algorithm look slower.
    """
    at_marks = _at_marks(queries, MARKS)
    chosen = [0]
    for i, made in enumerate(queries[1:], start=1):
        due = made <= MARKS[0] or made - queries[chosen[-1]] >= gap
        if due or i in at_marks or i == len(queries) - 1:
            chosen.append(i)
    return chosen


def _at_marks(queries: list[int], marks: Sequence[int]) -> list[int]:
    """Return which is the last posterior after at most as many queries, the first of all too."""
    return sorted({0, *(sum(made <= mark for made in queries) - 1 for mark in marks)})


def _commit() -> str:
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return answer.stdout.strip() or "unknown"


# What was kept.


def keep_line(path: Path, line: str) -> None:
    """Append a line, on a new one even where a killed benchmark left half of its last."""
    torn = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write("\n" * torn + line + "\n")


def read_lines(path: Path) -> list[Record]:
    """All runs ever kept, without the line that a killed benchmark may have left torn."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            records.append(Record.from_json(line))
        except (ValueError, KeyError, TypeError):
            print(f"a line of {path.name} is not a run, and is left out: {line[:60]}...")
    return records


def read_records(path: Path, options: argparse.Namespace) -> list[Record]:
    """The runs to report: of these draws, seeds and today's budgets, the last of equal ones."""
    latest: dict[Job, Record] = {}
    for record in read_lines(path):
        job = record.job
        contenders = PROBLEMS[job.problem].contenders if job.problem in PROBLEMS else {}
        if job.algorithm not in contenders or job.draws != options.draws:
            continue
        contender = contenders[job.algorithm]
        budget = max(options.marks, default=contender.budget)
        if job.budget == budget and job.seed in (options.seeds or contender.seeds):
            latest[job] = record
    return list(latest.values())


def find_optima(names: set[str], options: argparse.Namespace) -> dict[str, float]:
    """The optimum of each problem with an oracle, found once and kept in optima.json."""
    path = options.folder / "optima.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    optima = {}
    for name in PROBLEMS:
        if name not in names or not PROBLEMS[name].within:
            continue
        key = f"{name}, {options.draws} draws"
        if key not in kept:
            print(f"{name}: looking for the optimum, a minute", flush=True)
            objective = PROBLEMS[name].find_optimum(options.draws)
            how = f"{ORACLE} true objective on {options.draws} common draws (seed {DRAWS_SEED})"
            kept[key] = {"objective": objective, "how": how, "commit": _commit()}
            path.write_text(json.dumps(kept, indent=2) + "\n")
        optima[name] = float(kept[key]["objective"])
    return optima


# The table.


@dataclass(frozen=True)
class Curves:
    """The runs of one algorithm on one problem, all on one grid of queries."""

    queries: FloatArray
    objective: FloatArray
    """(runs, queries): the last posterior looked at by then."""
    budget: int

    @classmethod
    def of(cls, runs: list[list[tuple[int, float]]], budget: int) -> Curves:
        """Runs of different rounds; one that stopped early stays where it was."""
        queries = np.array(sorted({made for curve in runs for made, _ in curve} | {budget}))
        rows = []
        for curve in runs:
            made, objective = np.array(curve).T
            rows.append(objective[np.searchsorted(made, queries, side="right") - 1])
        return cls(queries.astype(np.float64), np.array(rows), budget)

    def queries_to(self, level: float) -> FloatArray:
        """The first query count with an objective at or below `level`, inf for never: (runs,)."""
        reached = self.objective <= level
        return np.where(reached.any(axis=1), self.queries[reached.argmax(axis=1)], np.inf)

    def at(self, queries: int) -> FloatArray:
        """Objectives after that many: (runs,)."""
        return self.objective[:, np.searchsorted(self.queries, queries, side="right") - 1]


def report(
    records: list[Record], optima: dict[str, float], draws: int, marks: Sequence[int] = ()
) -> str:
    """One table a problem; if there are marks, of the objectives at these alone."""
    lines = [
        f"One thread a run ({platform.machine()}); queries.jsonl has the version of each. True "
        f"objectives from {draws:,} fresh draws, common to all runs of a problem. Median over the "
        "seeds (worst seed): the queries until the objective is at or below a level, and the "
        "objective after so many queries. Milliseconds a round are the algorithm's own, without "
        "the risk's, over all rounds and seeds.",
    ]
    for problem in PROBLEMS.values():
        mine = [record for record in records if record.job.problem == problem.name]
        if mine:
            lines += ["", *_table(problem, mine, optima.get(problem.name), marks)]
    return "\n".join(lines) + "\n"


def _table(
    problem: Problem, records: list[Record], optimum: float | None, marks: Sequence[int]
) -> list[str]:
    levels, marks = ({}, marks) if marks else (problem.thresholds(optimum), MARKS)
    columns = ["algorithm", *levels, *(f"at {mark}" for mark in marks), "ms a round", "seeds"]
    prior = np.median([record.curve[0][1] for record in records])
    known = f"; optimum {optimum:.4f}" if optimum is not None else ""
    lines = [
        f"## {problem.title}\n",
        f"Prior {prior:.4f}{known}.\n",
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
    ]
    for name, runs in _by_algorithm(records).items():
        times = np.concatenate([record.milliseconds for record in runs])
        cells = [
            *_cells(_curves(runs), levels.values(), marks),
            f"{np.median(times):.0f} ({times.max():.0f})",
            _ranges(sorted(record.job.seed for record in runs)),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    published = published_curves() if problem.name == "adm1" and levels else None
    if published is not None:
        cells = [
            *_cells(published, levels.values(), marks),
            "",
            f"{len(published.objective)} repeats",
        ]
        lines.append(f"| {PUBLISHED_NAME} | {' | '.join(cells)} |")
        lines.append("\nThe published repeats: chosen updates only, each from 160 fresh draws.")
    return lines


def _cells(curves: Curves, levels: Iterable[float], marks: Sequence[int]) -> list[str]:
    def count(queries: float) -> str:
        return f"{queries:.0f}" if np.isfinite(queries) else f">{curves.budget}"

    def objective(mark: int) -> str:
        values = curves.at(mark)
        return f"{np.median(values):.4f} ({values.max():.4f})" if mark <= curves.budget else ""

    reached = [curves.queries_to(level) for level in levels]
    return [
        *(f"{count(np.median(queries))} ({count(queries.max())})" for queries in reached),
        *(objective(mark) for mark in marks),
    ]


def _by_algorithm(records: list[Record]) -> dict[str, list[Record]]:
    groups = {name: [r for r in records if r.job.algorithm == name] for name in COLOURS}
    return {name: runs for name, runs in groups.items() if runs}


def _curves(runs: list[Record]) -> Curves:
    return Curves.of([record.curve for record in runs], runs[0].job.budget)


def _ranges(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(map(str, seeds))


def published_curves() -> Curves | None:
    """The paper's own ADM1 repeats where they are at hand: one row each, of chosen updates."""
    if not PUBLISHED.exists():
        return None
    updates = np.array(PUBLISHED_UPDATES, dtype=np.float64)
    queries = np.where(updates > 0.0, 160.0 + 32.0 * (updates - 1.0), 0.0)
    return Curves(queries, np.loadtxt(PUBLISHED), int(queries[-1]))


# The plot.


def draw(path: Path, records: list[Record], optima: dict[str, float]) -> None:
    """One panel a problem: how far above the best known objective, against queries."""
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    names = [name for name in PROBLEMS if any(r.job.problem == name for r in records)]
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08)
    figure = Figure(figsize=(4.6 * columns + 0.4, 3.7 * rows + 0.5), layout=layout)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        mine = [record for record in records if record.job.problem == name]
        draw_panel(axes, PROBLEMS[name], mine, optima.get(name))
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    handles = {
        label: handle
        for axes in panels[: len(names)]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=130)


def draw_panel(axes: Axes, problem: Problem, records: list[Record], optimum: float | None) -> None:
    """The median curve of each algorithm within the range of its seeds."""
    groups = {name: (_curves(runs), COLOURS[name]) for name, runs in _by_algorithm(records).items()}
    best = optimum or min(curves.objective.min() for curves, _ in groups.values())
    published = published_curves() if problem.name == "adm1" else None
    if published is not None:
        groups[PUBLISHED_NAME] = published, PUBLISHED_COLOUR
    budget = max(record.job.budget for record in records)
    first = min(record.curve[1][0] for record in records)
    for label, (curves, colour) in groups.items():
        # The best run meets the best known: a floor keeps it in the picture.
        excess = np.maximum(100.0 * (curves.objective / best - 1.0), FLOOR)
        # Nothing happens before the first batch: queries are shown from just before it.
        queries = np.maximum(curves.queries, 0.7 * first)
        axes.step(queries, np.median(excess, axis=0), where="post", color=colour, label=label)
        low, high = excess.min(axis=0), excess.max(axis=0)
        axes.fill_between(queries, low, high, step="post", color=colour, alpha=0.15, lw=0)
    for label, level in problem.thresholds(optimum).items():
        height = 100.0 * (level / best - 1.0)
        if height < FLOOR:
            continue
        axes.axhline(height, color="#9aa5b1", lw=0.7, ls=":")
        axes.annotate(
            label, (0.01, height), xycoords=("axes fraction", "data"), fontsize=7,
            color="#5b6770", va="bottom",
        )  # fmt: skip
    ticks = [n for n in (10, 20, 50, 100, 200, 500, 1000, 2000) if 0.7 * first <= n <= budget]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(0.7 * first, budget)
    axes.set_ylim(bottom=FLOOR)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="risk queries", ylabel=f"% above the best known, {best:.4f}")
    axes.set_title(problem.title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
