"""The whole paper: both of its experiments and its appendix, beside what it reports.

    make reproduce                         # on the embedded data
    make reproduce ARGS="--data FOLDER"    # on the paper's
    make reproduce ARGS="--data FOLDER --out docs"  # the page of the documents
    make reproduce ARGS="--device cuda"    # with ADM1 on a GPU (the extra cuda)
    make reproduce ARGS=--quick            # a small one of each, in minutes
    make reproduce ARGS=--report           # page and pictures of what is there

Each run is kept as it ends, in tables beside the pictures: what is there is not run again. Ctrl-C,
and the same command later, lose what was under way: seconds of calibrations, and of meta-learning
the epochs since its state was last kept.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

# One thread a process, before NumPy reads it: the pool is what fills the cores.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Processes keep the memory they had (glibc's malloc): to take megabytes anew for each array of a
# step costs a sixth of the time of SuPAC-CE.
os.environ["MALLOC_MMAP_THRESHOLD_"] = os.environ["MALLOC_TRIM_THRESHOLD_"] = str(2**28)
os.environ["MALLOC_TOP_PAD_"] = str(2**26)

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import settings as plan
from calibration import Calibration, Device, calibrate_together, load
from meta import CLOSED, Experiment, Lesson, experiments, learn
from page import write_page
from records import Folder, Results, fingerprint, name_data
from settings import Setting, settings
from supac.simulators import adm1


@dataclass(frozen=True)
class Calibrate:
    """Run calibrations: one on the processor, many in step on a GPU."""

    runs: tuple[tuple[Setting, int], ...]
    data: Path | None
    device: Device = "cpu"

    @property
    def name(self) -> str:
        """Name in the progress, which is the same for all repeats."""
        return " and ".join(dict.fromkeys(setting.name for setting, _ in self.runs))

    @property
    def cost(self) -> float:
        """Estimated seconds, for the order of jobs and the progress bar."""
        return sum(_seconds(setting) for setting, _ in self.runs)

    def __call__(self) -> list[Calibration]:
        """Run the calibrations."""
        return calibrate_together(self.runs, self.data, self.device)

    def keep(self, folder: Folder, data: str, done: Any) -> str:
        """Store the results, and return a few words on them."""
        for (setting, repeat), run in zip(self.runs, done, strict=True):
            folder.keep_run(data, setting, repeat, run)
        ends = ", ".join(f"{run.curve[-1][1]:.4f}" for run in done[:5])
        return ends + (" …" if len(done) > 5 else "")


def _seconds(setting: Setting) -> float:
    """Estimate the seconds of a calibration."""
    if setting.budget < 500:
        return setting.budget / 80.0
    wild = setting.name in [plan.ce(*each) for each in plan.EXTREMES[-2:]]
    return setting.budget * (0.12e-3 if setting.descends else 2.4e-3 if wild else 0.45e-3)


@dataclass(frozen=True)
class Learn:
    """Run one experiment in meta-learning."""

    experiment: Experiment
    folder: Path
    """Folder that keeps its state until it ends."""

    @property
    def name(self) -> str:
        """Name in the progress, which is the same for all repeats."""
        return self.experiment.name

    @property
    def cost(self) -> float:
        """Estimated seconds, for the order of jobs and the progress bar."""
        visits = self.experiment.tasks * self.experiment.epochs
        return visits * (0.08 if self.experiment.learner == CLOSED else 0.006)

    def __call__(self) -> Lesson:
        """Run the experiment, from its kept state on if there is one."""
        return learn(self.experiment, self.folder / f"{fingerprint(self.experiment)}.pickle")

    def keep(self, folder: Folder, data: str, done: Any) -> str:
        """Store the result, and return a few words on it."""
        folder.keep_lesson(self.experiment, done)
        return f"training bound {done.train_end:.4f} after {done.epochs[-1]} epochs"


Job = Calibrate | Learn


def main() -> None:
    """Run what has not been run yet, then write the page."""
    options = _options()
    scale = plan.QUICK if options.quick else plan.FULL
    folder = Folder(options.out / "reproduction")
    folder.path.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        folder.remove()
    data = name_data(options.data)
    failures = 0
    wanted = {each.name: each for each in settings(scale)}
    lessons = experiments(options.quick, options.environments)
    if not options.report:
        missing = _missing(Results(folder, data, wanted, lessons), options.data, options.device)
        failures = _run(missing, folder, data, options.jobs)
    results = Results(folder, data, wanted, lessons)
    print(f"wrote {write_page(options.out, results, scale)}")
    sys.exit(1 if failures else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=_folder, help="a digester's folder; else embedded data")
    parser.add_argument("--quick", action="store_true", help="minutes: does it all work?")
    parser.add_argument("--out", type=Path, help="by default reproduction/, or with -quick")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of ADM1")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--fresh", action="store_true", help="forget what was run before")
    parser.add_argument(
        "--environments", nargs="+", type=int, default=[3], metavar="SEED",
        help="of meta-learning; their mean is drawn",
    )  # fmt: skip
    options = parser.parse_args()
    if options.fresh and options.report:
        parser.error("--fresh forgets what --report would report")
    if options.device == "cuda":
        try:
            load(options.data, options.device)
        except (ImportError, adm1.NoDeviceError) as error:
            parser.error(f"{type(error).__name__}: {error}")
    if options.out is None:
        options.out = Path("reproduction-quick" if options.quick else "reproduction")
    return options


def _folder(text: str) -> Path:
    path = Path(text)
    if not (path / "train_data" / "feed.csv").exists():
        raise argparse.ArgumentTypeError(f"{text} holds no digester: see docs/adm1.md")
    return path


def _missing(results: Results, data: Path | None, device: Device = "cpu") -> list[Job]:
    """List the jobs of all runs that are not complete, the longest first."""
    path = results.folder.path
    jobs: list[Job] = [Learn(each, path) for each in results.experiments if not results.rows(each)]
    runs = [
        (setting, repeat)
        for setting in results.settings.values()
        for repeat in range(setting.repeats)
        if not results.has(setting.name, repeat)
    ]
    groups = [(each,) for each in runs] if device == "cpu" else _in_step(runs)
    jobs += [Calibrate(tuple(group), data, device) for group in groups]
    return sorted(jobs, key=lambda job: -job.cost)


def _in_step(runs: list[tuple[Setting, int]]) -> list[list[tuple[Setting, int]]]:
    """Divide runs into groups that run in step, since a GPU takes as long for a small batch.

    The algorithms run on the processor, so there are enough groups for several cores.
    """
    found = []
    kinds = dict.fromkeys((each.descends, getattr(each.algorithm, "batch", 0)) for each, _ in runs)
    for descends, batch in kinds:
        own = [
            each for each in runs
            if (each[0].descends, getattr(each[0].algorithm, "batch", 0)) == (descends, batch)
        ]  # fmt: skip
        size = 24.0 if descends else 14.0  # seconds
        count = max(1, round(sum(_seconds(setting) for setting, _ in own) / size))
        found += [own[k::count] for k in range(min(count, len(own)))]
    return found


def _run(jobs: list[Job], folder: Folder, data: str, processes: int) -> int:
    """Run jobs, store each result as it arrives, and return the number of failures."""
    if not jobs:
        print("all runs are there already; --fresh makes them anew")
        return 0
    _announce(jobs, processes)
    began, start = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    pairs = pairwise(["", *sys.argv[1:]])
    command = " ".join("FOLDER" if before == "--data" else word for before, word in pairs)
    sitting = (began, command, processes, os.cpu_count())
    folder.keep_sitting(*sitting, 0, "")
    done = failures = 0
    try:
        with _progress(jobs) as show, closing(_ended(jobs, processes)) as ended:
            for job, future in ended:
                try:
                    words = job.keep(folder, data, future.result())
                except BrokenProcessPool:
                    raise
                except Exception as error:
                    failures += 1
                    words = f"failed, {type(error).__name__}: {error}"
                    print(f"{job.name} {words}", file=sys.stderr, flush=True)
                else:
                    done += 1
                show(job, words)
    except KeyboardInterrupt:
        sys.exit("stopped; what was run is kept, and the same command goes on from there")
    finally:
        folder.keep_sitting(*sitting, done, f"{(time.monotonic() - start) / 60.0:.2f}")
    return failures


def _announce(jobs: list[Job], processes: int) -> None:
    """Print the estimated time."""
    costs = [job.cost / 60.0 for job in jobs]
    print(
        f"{len(jobs)} runs, about {max(sum(costs) / processes, 1.0):.0f} min; the longest come "
        f"first, {max(costs[0], 1.0):.0f} min each",
        flush=True,
    )


def _compile(calibrations: list[Calibrate]) -> None:
    """Compile the simulator into the cache of all processes."""
    if calibrations:
        digester = load(calibrations[0].data, calibrations[0].device)
        centre = digester.parameters.from_latent(digester.prior.mean[None])
        digester.risk(centre)
        careful = digester.simulator.careful  # of runs that are doubtful on a GPU
        if careful is not None:
            careful.outputs(centre)


def _ended(jobs: list[Job], processes: int) -> Generator[tuple[Job, Future[Any]]]:
    """Yield jobs as they end; the processes are terminated if this generator is closed early."""
    # Spawned, not forked: every process has its own threads and compiled kernels.
    spawn = get_context("spawn")
    calibrations = [job for job in jobs if isinstance(job, Calibrate)]
    lessons = [job for job in jobs if not isinstance(job, Calibrate)]
    with ProcessPoolExecutor(processes, spawn, initializer=_ignore_interrupts) as pool:
        try:
            # Lessons need no simulator: they begin while it compiles. Some are shorter than the
            # longest calibrations, but these are no longer than a minute, and the shortest of all
            # calibrations still come last, so that processes end at about the same time.
            futures: dict[Future[Any], Job] = {pool.submit(job): job for job in lessons}
            _compile(calibrations)
            futures |= {pool.submit(job): job for job in calibrations}
            for future in as_completed(futures):
                yield futures[future], future
        except BaseException:
            for child in active_children():  # first of all: a second Ctrl-C may follow
                child.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the one that ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _progress(jobs: list[Job]) -> Iterator[Callable[[Job, str], None]]:
    """Show a bar on a terminal, elsewhere a line when all repeats of a setting are done."""
    left = {job.name: sum(each.name == job.name for each in jobs) for job in jobs}
    terminal = sys.stderr.isatty()
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        console=Console(stderr=True), disable=not terminal,
    )  # fmt: skip
    task = bar.add_task(f"{len(jobs)} runs", total=sum(job.cost for job in jobs))
    start = time.monotonic()

    def show(job: Job, words: str) -> None:
        left[job.name] -= 1
        bar.update(task, advance=job.cost, description=f"{sum(left.values())} runs left")
        if not left[job.name]:
            minutes = (time.monotonic() - start) / 60.0
            line = f"{minutes:5.1f} min  {job.name}: {words}"
            if terminal:
                bar.console.print(line, highlight=False)
            else:
                print(line, flush=True)

    with bar:
        yield show


if __name__ == "__main__":
    main()
