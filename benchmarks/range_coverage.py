"""Do ranges of parameters and bands of another scenario hold the truth as often as they say?

Twelve right models with known noise, mean squares and Catoni's bound at λ = 2/n, whose minimiser
over all distributions is Bayes' posterior. Truths are drawn from the prior. Beside the search's
Gaussian and posteriors of any shape: a Laplace approximation at the optimum, found from the truth,
and particles of the minimiser with the true simulator, which nobody could afford.

    make bench-coverage                       # goes on where it stopped
    make bench-coverage ARGS="--runs 100 --sets 40 --minutes 60"
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.optimize import least_squares

import supac
from coverage_problems import PROBLEMS, CoverageProblem
from pages import narrow_table, wrapped
from supac.arrays import FloatArray
from supac.families import Distribution, gaussian, mixture
from supac.record.ending import StopReason
from supac.report import account_of, assess
from supac.shape import sample_minimiser
from supac.shape.particles import widened

RESULTS = Path(__file__).parent / "results" / "coverage.jsonl"
LEVEL = 0.9
LOW = 0.8  # coverage of a problem below which a report should not say "trust"
METHODS = {
    "gaussian": "Gaussian",
    "auto": "any shape",
    "laplace": "Laplace",
    "reference": "true simulator",
}
_DRAWS, _PARTICLES = 2_000, 2_000
_STEP = 1e-5  # of central differences, in latent units
_STARTS, _MOST_STEPS = 12, 60  # optima from the prior, and steps to each
_FAR, _LEAST_SHARE = 12.0, 0.05  # nats below the best optimum, and share of each particle cloud
Row = dict[str, Any]


def measure(problem: CoverageProblem, seed: int, runs: int) -> Row:
    """Return what all methods say about one data set."""
    begun = time.monotonic()
    truth, data = problem.data(seed)
    searched = dict(_searches(problem, data, seed, runs))
    optimum = Optimum.near(problem, data, truth)
    draws = {
        **{name: each.posterior.sample(_DRAWS, seed) for name, each in searched.items()},
        "laplace": optimum.normal.sample(_DRAWS, seed),
        "reference": _reference(problem, data, optimum, np.random.default_rng([seed, 32])),
    }
    row: Row = {"problem": problem.name, "sloppy": problem.sloppy, "seed": seed, "runs": runs}
    row |= {name: _ranges(problem, truth, x) for name, x in draws.items()}
    for name, result in searched.items():
        if result.stop_reason not in (StopReason.BUDGET, StopReason.CONVERGED):
            raise SystemExit(f"{problem.name} {seed} is not kept: {result.stop_reason.sentence}")
        check = result.range_check
        row[name] |= {
            "level": assess(account_of(result)).level.words,
            "local": None if check is None else check.local,
            "family": str(result.posterior.family),
        }
    return {**row, "seconds": round(time.monotonic() - begun, 1)}


def _searches(
    problem: CoverageProblem, data: FloatArray, seed: int, runs: int
) -> Iterator[tuple[str, supac.Result]]:
    """Yield the search's Gaussian, then the same search with any shape."""
    noise = np.full(len(data), problem.noise)
    risk = supac.Composite(
        lambda x: problem.outputs(np.asarray(x)[None])[0],
        supac.MeanSquare(),
        supac.Observations(("y",), data, noise),
    )
    bound, quiet = supac.Catoni(2.0 / len(data)), supac.Execution(progress=False)
    with TemporaryDirectory() as folder:
        store = Path(folder) / "run.supac"
        yield (
            "gaussian",
            supac.minimize(
                risk, problem.parameters, bound, budget=runs, seed=seed, store=store,
                shape="gaussian", execution=quiet,
            ),
        )  # fmt: skip
        yield "auto", supac.resume(store, risk, shape="auto", execution=quiet)


def _residuals(problem: CoverageProblem, data: FloatArray, u: FloatArray) -> FloatArray:
    """Return residuals of latent points (k, dim), in units of the noise: (k, n)."""
    with np.errstate(all="ignore"):
        made = problem.outputs(problem.parameters.from_latent(u))
    return np.asarray((made - data) / problem.noise)


@dataclass(frozen=True)
class Optimum:
    """A normal approximation at a minimum of the negative log-posterior."""

    normal: Distribution
    log_evidence: float
    """By the approximation, up to a constant."""

    @classmethod
    def near(cls, problem: CoverageProblem, data: FloatArray, start: FloatArray) -> Optimum:
        """Find the optimum by least squares from a latent point (dim,)."""
        unit = np.eye(len(start))
        sides = _STEP * np.concatenate([unit, -unit])

        def slopes(u: FloatArray) -> FloatArray:
            up, down = np.split(_residuals(problem, data, u + sides), 2)
            return np.vstack([(up - down).T / (2.0 * _STEP), unit])

        def residuals(u: FloatArray) -> FloatArray:
            return np.concatenate([_residuals(problem, data, u[None])[0], u])

        found = least_squares(residuals, start, jac=slopes, max_nfev=_MOST_STEPS)
        _, sizes, axes = np.linalg.svd(slopes(np.asarray(found.x)), full_matrices=False)
        root = axes.T / sizes
        log = -found.cost - np.log(sizes).sum()
        return cls(gaussian(found.x, root @ root.T), float(log))


def _reference(
    problem: CoverageProblem, data: FloatArray, optimum: Optimum, rng: np.random.Generator
) -> FloatArray:
    """Draw from Bayes' posterior by sequential Monte Carlo with the true simulator.

    It begins about that optimum and those from draws of the prior: many particles are lost on the
    way from the prior itself where ranges are narrow, and whole valleys with them.
    """

    def risk(u: FloatArray) -> FloatArray:
        found = (_residuals(problem, data, u) ** 2).mean(axis=1)
        return np.where(np.isfinite(found), found, np.inf)

    prior, bound = problem.parameters.prior, supac.Catoni(2.0 / len(data))
    starts = rng.standard_normal((_STARTS, prior.dim))
    found = [optimum, *(Optimum.near(problem, data, each) for each in starts)]
    logs = np.array([each.log_evidence for each in found])
    near = logs > logs.max() - _FAR
    # Roots of weights: an approximation may be wrong by several nats.
    shares = np.maximum(np.exp(0.5 * (logs[near] - logs.max())), _LEAST_SHARE)
    parts = [each.normal for each, chosen in zip(found, near, strict=True) if chosen]
    begin = mixture(parts, (shares / shares.sum()).tolist()) if len(parts) > 1 else parts[0]
    return sample_minimiser(risk, prior, bound, widened(begin, prior), _PARTICLES, rng).x


def _ranges(problem: CoverageProblem, truth: FloatArray, u: FloatArray) -> Row:
    """Return what ranges and bands of latent draws hold, and their widths."""
    tails = (0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL)
    low, high = np.quantile(u, tails, axis=0)
    with np.errstate(all="ignore"):
        made = problem.other(problem.parameters.from_latent(u))
        real = problem.other(problem.parameters.from_latent(truth[None]))[0]
    under, over = np.quantile(made, tails, axis=0)
    return {
        "held": ((low <= truth) & (truth <= high)).astype(int).tolist(),
        "width": (high - low).tolist(),
        "band": ((under <= real) & (real <= over)).astype(int).tolist(),
        "band_width": (over - under).tolist(),
    }


def table(rows: Sequence[Row]) -> str:
    """Return coverage by group of problems, then by problem."""
    parts = []
    for runs in sorted({row["runs"] for row in rows}):
        mine = [row for row in rows if row["runs"] == runs]
        parts += [_counted(mine, runs), _groups(mine), _by_problem(mine)]
    return "\n\n".join(parts)


def _counted(rows: Sequence[Row], runs: int) -> str:
    problems = len({row["problem"] for row in rows})
    return wrapped(
        f"{runs} runs: {len(rows)} data sets of {problems} problems. Shares of true parameters in "
        f"their {100 * LEVEL:.0f} % ranges, and of true outputs of another scenario in their bands "
        "± standard errors over data sets; widths relative to the particles with the true "
        'simulator (medians); reports that say that ranges are local, and "trust": of all, and of '
        f"problems with a coverage of ranges or bands below {LOW:g}."
    )


def _groups(rows: Sequence[Row]) -> str:
    made = []
    for title, sloppy in (("sloppy", True), ("determined", False)):
        group = [row for row in rows if row["sloppy"] is sloppy]
        made += [[title, METHODS[name], *_cells(group, name)] for name in METHODS if group]
    heads = [
        "problems",
        "posterior",
        "ranges",
        "bands",
        "width",
        "of bands",
        "local",
        "trust",
        "where low",
    ]
    return narrow_table(heads, made)


def _cells(rows: Sequence[Row], name: str) -> list[str]:
    """Return coverage, widths and trust of one method."""
    low = [row for each in _problems(rows) for row in each if _low(each, name)]
    return [
        _coverage(rows, name, "held"),
        _coverage(rows, name, "band"),
        *(f"{_relative(rows, name, key):.2f}" for key in ("width", "band_width")),
        _local(rows, name),
        _trusted(rows, name),
        _trusted(low, name),
    ]


def _by_problem(rows: Sequence[Row]) -> str:
    heads = ["problem", "sets", *(METHODS[name] for name in METHODS), "trust, Gaussian", "any"]
    made = [
        [
            each[0]["problem"],
            str(len(each)),
            *(f"{_mean(each, name, 'held'):.2f} / {_mean(each, name, 'band'):.2f}"
              for name in METHODS),
            _trusted(each, "gaussian"),
            _trusted(each, "auto"),
        ]
        for each in _problems(rows)
    ]  # fmt: skip
    return "Ranges / bands of each problem:\n\n" + narrow_table(heads, made)


def _problems(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each problem, sloppy ones first."""
    names = {row["problem"]: row["sloppy"] for row in rows}
    ordered = sorted(names, key=lambda name: not names[name])
    return [[row for row in rows if row["problem"] == name] for name in ordered]


def _mean(rows: Iterable[Row], name: str, key: str) -> float:
    return float(np.mean([np.mean(row[name][key]) for row in rows]))


def _low(rows: Sequence[Row], name: str) -> bool:
    return min(_mean(rows, name, key) for key in ("held", "band")) < LOW


def _coverage(rows: Sequence[Row], name: str, key: str) -> str:
    """Return the mean over data sets, and its standard error."""
    each = np.array([np.mean(row[name][key]) for row in rows])
    error = f"{each.std(ddof=1) / np.sqrt(len(each)):.2f}" if len(each) > 1 else "?"
    return f"{each.mean():.2f} ± {error}"


def _relative(rows: Sequence[Row], name: str, key: str) -> float:
    """Return the median over data sets of the median ratio of widths to the reference."""
    ratios = [
        np.median(np.array(row[name][key]) / np.maximum(row["reference"][key], 1e-300))
        for row in rows
    ]
    return float(np.median(ratios))


def _trusted(rows: Sequence[Row], name: str) -> str:
    """Return how many reports say "trust"; nothing for a method without reports."""
    levels = [row[name]["level"] for row in rows if "level" in row[name]]
    return f"{sum(level == 'trust' for level in levels)} of {len(levels)}" if levels else "–"


def _local(rows: Sequence[Row], name: str) -> str:
    """Return in how many data sets the check of ranges calls them local."""
    checks = [row[name]["local"] for row in rows if row[name].get("local") is not None]
    return f"{sum(checks)} of {len(checks)}" if checks else "–"


def main() -> None:
    """Make the data sets that are not there yet, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--sets", type=int, default=40, help="of each problem")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--problems", default="", help="parts of names, with commas; all else")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    kept = given.results
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    there = {(row["problem"], row["seed"], row["runs"]) for row in rows}
    wanted = [each for each in PROBLEMS if any(p in each.name for p in given.problems.split(","))]
    begun = time.monotonic()
    for problem, seed in ((each, seed) for seed in range(given.sets) for each in wanted):
        if (problem.name, seed, given.runs) in there:
            continue
        if time.monotonic() - begun > 60.0 * given.minutes:
            break
        rows.append(measure(problem, seed, given.runs))
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(problem.name, seed, f"{rows[-1]['seconds']} s", flush=True)
    page = f"# Coverage of ranges and bands\n\n`make bench-coverage`\n\n{table(rows)}\n"
    kept.with_suffix(".md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
