"""Posteriors of any shape beside the Gaussian and long runs of a sampler on the true simulator.

Right models with known noise, mean squares, and Catoni's bound at λ = 2/n, whose minimiser over all
distributions is Bayes' posterior. C2ST is the share of points whose sample is told from their 25
nearest neighbours: 0.5 where nothing tells the samples apart.

    make bench-shapes
    make bench-shapes ARGS="--runs 30,45 --seeds 3"
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.spatial import cKDTree

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.shape import Particles, sample_minimiser

RESULTS = Path(__file__).parent / "results"
_PARTICLES, _NEIGHBOURS = 2_000, 25


@dataclass(frozen=True)
class Task:
    """A simulator of residuals, in units of the noise: (k, dim) → (k, n)."""

    parameters: supac.Parameters
    residuals: Callable[[FloatArray], FloatArray]
    count: int

    @property
    def bound(self) -> supac.Catoni:
        """Return the bound whose minimiser over all distributions is Bayes' posterior."""
        return supac.Catoni(2.0 / self.count)

    def risk(self, u: FloatArray) -> FloatArray:
        """Compute the true risks of latent points."""
        return np.asarray((self.residuals(self.parameters.from_latent(u)) ** 2).mean(axis=1))

    def reference(self, seed: int) -> Particles:
        """Draw from the minimiser over all distributions, with the true simulator."""
        prior, rng = self.parameters.prior, np.random.default_rng([seed, 99])
        return sample_minimiser(self.risk, prior, self.bound, prior, _PARTICLES, rng)

    def search(self, shape: str, runs: int, seed: int) -> supac.Result:
        """Search with so many runs in all."""
        risk = supac.Composite(lambda x: self.residuals(x[None])[0], supac.MeanSquare())
        return supac.minimize(
            risk, self.parameters, self.bound, budget=runs, seed=seed, shape=shape
        )


def banana() -> Task:
    """Four parameters on a parabola: 120 outputs, quadratic in the parameters."""
    t, names = np.linspace(0.0, 1.0, 30), ("x0", "x1", "x2", "x3")
    noise = np.concatenate([np.full(30, 3.0), np.full(30, 0.4), np.full(60, 0.5)])

    def outputs(x: FloatArray) -> FloatArray:
        a, b, c, d = (each[:, None] for each in x.T)
        bend, wave = (b - a**2) * (1.0 - t), (c + 0.3 * a) * np.sin(3.0 * t)
        return np.hstack([a * t, bend, wave, d * t**2 + 0.3 * c + 0.0 * t])

    truth = np.array([[0.5, 0.3, 0.2, -0.4]])
    data = outputs(truth) + noise * np.random.default_rng(0).standard_normal(120)
    parameters = supac.Parameters({name: marginals.Normal(0.0, 2.0) for name in names})
    return Task(parameters, lambda x: (outputs(x) - data) / noise, 120)


def predators() -> Task:
    """Lotka and Volterra's predators and prey: logarithms at ten times, noise 0.1 (as in sbibm)."""
    steps, sd = 400, 0.1
    step = 20.0 / steps

    def slope(z: FloatArray, x: FloatArray) -> FloatArray:
        prey, hunters = np.exp(z).T
        return np.column_stack([x[:, 0] - x[:, 1] * hunters, x[:, 3] * prey - x[:, 2]])

    def outputs(x: FloatArray) -> FloatArray:
        z, rows = np.tile(np.log([30.0, 1.0]), (len(x), 1)), []
        for i in range(steps):
            a = slope(z, x)
            b = slope(z + 0.5 * step * a, x)
            c = slope(z + 0.5 * step * b, x)
            d = slope(z + step * c, x)
            z = np.clip(z + step / 6.0 * (a + 2.0 * b + 2.0 * c + d), -30.0, 12.0)
            if (i + 1) % (steps // 10) == 0:
                rows.append(z)
        return np.hstack(rows)

    medians = {"a": np.exp(-0.125), "b": np.exp(-3.0), "c": np.exp(-0.125), "d": np.exp(-3.0)}
    prior = {name: marginals.LogNormal(float(m), 0.5) for name, m in medians.items()}
    parameters, rng = supac.Parameters(prior), np.random.default_rng(0)
    truth = parameters.sample(parameters.prior, 1, rng)
    data = outputs(truth) + sd * rng.standard_normal(20)
    return Task(parameters, lambda x: (outputs(x) - data) / sd, 20)


def box() -> Task:
    """Ten parameters with uniform priors, 20 outputs that are linear in them."""
    matrix, rng = np.random.default_rng(7).standard_normal((20, 10)), np.random.default_rng(0)
    data = matrix @ rng.uniform(-1.0, 1.0, 10) + 1.5 * rng.standard_normal(20)
    prior = {f"x{i}": marginals.Uniform(-1.0, 1.0) for i in range(10)}
    return Task(supac.Parameters(prior), lambda x: (x @ matrix.T - data) / 1.5, 20)


TASKS = {"banana (4)": banana, "predators (4)": predators, "linear, box priors (10)": box}


def c2st(one: FloatArray, other: FloatArray) -> float:
    """Return how often 25 neighbours of a point tell which of two samples it is from."""
    both = np.concatenate([one, other])
    both = (both - both.mean(axis=0)) @ np.linalg.cholesky(np.linalg.inv(np.cov(both.T)))
    own = np.repeat([0.0, 1.0], [len(one), len(other)])
    near = np.asarray(cKDTree(both).query(both, k=_NEIGHBOURS + 1)[1])[:, 1:]
    return float(((own[near].mean(axis=1) > 0.5) == (own > 0.5)).mean())


def rows(runs: list[int], seeds: int, kept: Path) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table; what was measured before is read from a file."""
    made = json.loads(kept.read_text()) if kept.exists() else {}
    for name, make in TASKS.items():
        task = make()
        first, second = task.reference(0), task.reference(1)
        n = len(first.x)
        floor = f"{c2st(first.x, second.x):.2f}"
        known = 0.5 * (first.log_evidence + second.log_evidence)
        yield name, "reference", floor, "", f"{known:.2f}", ""
        for budget in runs:
            found: dict[str, list[float]] = {}
            for seed in range(seeds):
                for shape in ("gaussian", "auto"):
                    key = f"{name}/{budget}/{seed}/{shape}"
                    if key not in made:
                        result = task.search(shape, budget, seed)
                        log = np.nan if result.evidence is None else result.evidence.log - known
                        made[key] = [c2st(result.posterior.sample(n, 1), first.x), log]
                        kept.write_text(json.dumps(made))
                    found.setdefault(shape, []).append(made[key][0])
                    found.setdefault(f"{shape} log", []).append(made[key][1])
            middle = {key: np.median(values) for key, values in found.items()}
            worst = np.abs(found["auto log"]).max()
            yield (
                name, str(budget), f"{middle['gaussian']:.2f}", f"{middle['auto']:.2f}",
                f"{middle['auto log']:+.2f}", f"{worst:.2f}",
            )  # fmt: skip


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", default="30,45,60")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    runs = [int(each) for each in options.runs.split(",")]
    kept = RESULTS / "shapes.json"
    lines = [
        "| problem (parameters) | runs | C2ST, Gaussian | C2ST, any shape | log Z − reference | "
        "worst |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows(runs, options.seeds, kept):
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    head = f"Medians of {options.seeds} seeds; a fifth of the runs validate. `make bench-shapes`"
    (RESULTS / "shapes.md").write_text("\n".join([head, "", *lines, ""]))


if __name__ == "__main__":
    main()
