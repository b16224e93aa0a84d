"""How long does a step of SuPAC-CE take, beside the simulator?

One row a problem size: seconds for the weights (Voronoi cells, 40,000 draws), for the weighted
least squares and for the step, the median of five; then exhaustive search against faiss's; then a
round of the emulators (fit, projections, steps), on one thread as always.

    make bench                       # all tables, some minutes
    make bench ARGS=--emulators      # a round of the emulators alone
    make bench ARGS=--full           # also full covariance in 100 dimensions, slow
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import supac
from pages import fitted
from supac.arrays import FloatArray
from supac.search.ray import ray_minimiser, view_prior
from supac.search.trust import FixedStep
from supac.surrogate.estimator import Estimator
from supac.surrogate.least_squares import project
from supac.surrogate.nearest import search_all
from supac.surrogate.voronoi import NearestNeighbours

DRAWS = 40_000
REPEATS = 5
SIZES = (100, 300, 1_000, 3_000, 10_000)
# The sizes of the 13 blocks of the paper's ADM1 posterior: 30 parameters, 84 statistics.
BLOCKS = (4, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 1, 1)
EVALUATIONS = (50, 100, 200, 400, 800, 2_000)
RESULTS = Path(__file__).parent / "results" / "overhead.md"
EMULATORS = Path(__file__).parent / "results" / "emulators.md"


def main() -> None:
    """Answer the questions, print the tables and keep them."""
    if "--emulators" in sys.argv:
        write(EMULATORS, time_emulators())
        return
    families = {
        "8, full": supac.gaussian(np.zeros(8), np.eye(8)),
        "30, 13 blocks": supac.gaussian(np.zeros(30), np.ones(30), blocks=_groups(BLOCKS)),
        "30, full": supac.gaussian(np.zeros(30), np.eye(30)),
        "100, diagonal": supac.gaussian(np.zeros(100), np.ones(100)),
    }
    if "--full" in sys.argv:
        families["100, full"] = supac.gaussian(np.zeros(100), np.eye(100))
    lines = [
        f"{os.cpu_count()} cores ({platform.machine()}), NumPy {np.__version__}, {DRAWS:,} draws. "
        f"Seconds, median of {REPEATS} (worst).\n",
        "| parameters | statistics | evaluations | weights | fit | step | together |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, prior in families.items():
        for n in SIZES:
            lines.append(f"| {name} | {prior.family.size} | {n:,} | {time_a_step(prior, n)} |")
            print(lines[-1], flush=True)
    lines += ["", *compare_with_faiss()]
    write(RESULTS, lines)
    write(EMULATORS, time_emulators())


def write(path: Path, lines: list[str]) -> None:
    """Keep a table, and show it."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(fitted("\n".join(lines) + "\n"))
    print("\n".join(lines))


def time_emulators() -> list[str]:
    """Milliseconds a round with each emulator, by the number of evaluations so far."""
    prior = supac.gaussian(np.zeros(30), np.ones(30), blocks=_groups(BLOCKS))
    rng = np.random.default_rng(0)
    slopes, tilts = rng.standard_normal((2, 30, 1_764)) / 6.0

    def simulate(x: FloatArray) -> FloatArray:
        return np.tanh(x @ slopes - 0.3) + 0.2 * (x @ tilts) ** 2

    loss = supac.RootMeanSquare()
    problem = supac.Problem(prior, supac.Catoni(0.002), prior, loss=loss)
    contenders: dict[str, Estimator] = {
        "OutputEmulator, 1,764 outputs": supac.OutputEmulator(),
        "GaussianProcess": supac.GaussianProcess(),
        "Ridge": supac.Ridge(),
    }
    lines = [
        f"{os.cpu_count()} cores ({platform.machine()}), NumPy {np.__version__}. 30 parameters, 13 "
        "blocks. Milliseconds that a round of ten runs takes beside them, median (worst) of "
        f"{3 * REPEATS}.\n",
        "| estimator | " + " | ".join(f"{n:,}" for n in EVALUATIONS) + " |",
        "|---|" + "---|" * len(EVALUATIONS),
    ]
    for name, estimator in contenders.items():
        cells = []
        for n in EVALUATIONS:
            times = []
            for seed in range(REPEATS):
                algorithm = supac.SuPAC(estimator, first=n - 30, batch=10)
                state = algorithm.init(problem, seed)
                while len(state.evaluations) < n:
                    batch = algorithm.ask(problem, state)
                    x = batch.x
                    outputs = simulate(x)
                    start = time.perf_counter()
                    state, _ = algorithm.tell(problem, state, batch, loss(outputs), outputs)
                    times.append(1e3 * (time.perf_counter() - start))
                del times[-4]  # the first fit, from scratch
            cells.append(f"{np.median(times):.0f} ({max(times):.0f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def _groups(sizes: tuple[int, ...]) -> list[list[int]]:
    ends = np.cumsum(sizes).tolist()
    return [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


class Stopwatch:
    """Seconds spent in `with stopwatch(name):`, one list a name."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        start = time.perf_counter()
        yield
        self.seconds.setdefault(name, []).append(time.perf_counter() - start)

    def __getitem__(self, name: str) -> FloatArray:
        return np.array(self.seconds[name])


def time_a_step(prior: supac.Distribution, n: int) -> str:
    """Weights, fit and step at `n` evaluations of a bounded risk, as cells of a table."""
    stopwatch = Stopwatch()
    for repeat in range(REPEATS):
        rng = np.random.default_rng(repeat)
        x = prior.sample(n, rng)
        risk = np.tanh((x**2).mean(axis=1) + np.sin(x[:, 0]))
        model = NearestNeighbours(x, risk, supac.Voronoi(draws=DRAWS))
        with stopwatch("weights"):
            weights = model.weights(prior, rng)
        with stopwatch("fit"):
            surrogate = project(x, risk, weights, prior)
        with stopwatch("step"):
            view = view_prior(prior, prior, rng)
            FixedStep().move(prior, ray_minimiser(supac.Catoni(0.01), surrogate, view), prior)
    columns = [stopwatch[name] for name in ("weights", "fit", "step")]
    columns.append(np.sum(columns, axis=0))
    return " | ".join(f"{np.median(c):.3f} ({c.max():.3f})" for c in columns)


def compare_with_faiss() -> list[str]:
    """The paper's largest search, ours and faiss's flat index turn by turn in one run."""
    try:
        import faiss  # noqa: PLC0415
    except ImportError:
        return ["faiss is not installed: no comparison"]
    rng = np.random.default_rng(0)
    points = rng.standard_normal((9_600, 30)).astype(np.float32)
    draws = rng.standard_normal((DRAWS, 30)).astype(np.float32)

    stopwatch = Stopwatch()
    for _ in range(9):
        with stopwatch("ours"):
            ours = search_all(points, draws, 1)[:, 0]
        with stopwatch("faiss"):
            index = faiss.IndexFlatL2(30)
            index.add(points)
            theirs = index.search(draws, 1)[1][:, 0]
    own, other = stopwatch["ours"], stopwatch["faiss"]
    ratio = own / other
    return [
        f"Nearest of 9,600 points in 30 dimensions for {DRAWS:,} draws, nine turns: "
        f"{np.median(own):.3f} s ({own.max():.3f}); faiss flat {np.median(other):.3f} s "
        f"({other.max():.3f}); ratio {np.median(ratio):.2f}, worst {ratio.max():.2f}; "
        f"{np.sum(ours != theirs)} answers differ."
    ]


if __name__ == "__main__":
    main()
