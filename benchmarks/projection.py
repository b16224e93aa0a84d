"""How accurate are projections by gradients and by values, and what does a round cost?

Emulators of random smooth outputs are projected from few common draws, by gradients and by values,
and compared with a projection from many. Then the processor time of a round with 160 to 240 runs,
30 parameters in blocks of three and 1,764 outputs is measured.

    make bench-projection
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from pages import fitted
from supac.arrays import FloatArray
from supac.emulator.average import AveragedEmulator
from supac.emulator.components import FittedOutputEmulator
from supac.emulator.projection import CommonDraws, Projection
from supac.families import Distribution, NormalWhitening
from supac.families.gaussian import orthogonal
from supac.problem import Evaluations
from supac.surrogate.estimator import Context

RESULT = Path(__file__).parent / "results" / "projection.md"
MANY, REPEATS = 20_000, 4
BLOCKS = [list(range(i, i + 3)) for i in range(0, 30, 3)]
CASES = {
    "30, blocks of 3, root mean square": (30, BLOCKS, supac.RootMeanSquare()),
    "30, mean square": (30, None, supac.MeanSquare()),
    "20, Welsch": (20, None, supac.Welsch(0.5)),
    "10, mean square": (10, None, supac.MeanSquare()),
    "10, Welsch": (10, None, supac.Welsch(0.5)),
    "5, root mean square": (5, None, supac.RootMeanSquare()),
}


def emulated(
    dim: int, blocks: Any, loss: supac.ResidualLoss
) -> tuple[FittedOutputEmulator, Distribution]:
    """Return an emulator of 100 outputs from 80 runs, and the distribution to project at.

    Of several that are averaged it is the first one.
    """
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 100, dim)) / np.sqrt(dim)
    prior = supac.gaussian(np.zeros(dim), np.eye(dim), blocks=blocks)
    x = prior.sample(80, 1)
    outputs = 0.8 * np.tanh(2.0 * x @ first.T) + 0.1 * (x @ second.T) - 0.2
    runs = Evaluations.none(dim).append(x, loss(outputs), prior, outputs)
    emulator = supac.OutputEmulator().fit(runs, prior, Context(prior=prior, loss=loss)).emulator
    if isinstance(emulator, AveragedEmulator):
        emulator = emulator.members[0]
    assert isinstance(emulator, FittedOutputEmulator)
    return emulator, prior


def by_values(emulator: FittedOutputEmulator, at: NormalWhitening, z: FloatArray) -> Projection:
    """Project by the risks at draws z."""
    return CommonDraws(z).project_values(at, emulator.predict(at.spread(z)))


def by_gradients(emulator: FittedOutputEmulator, at: NormalWhitening, z: FloatArray) -> Projection:
    """Project by the gradients at draws z."""
    draws = CommonDraws(z)
    object.__setattr__(emulator.training, "draws", draws)
    return draws.project_gradients(at, *emulator.risk_and_gradients(at))


def errors(dim: int, blocks: Any, loss: supac.ResidualLoss) -> list[str]:
    """Return the errors of both ways relative to the norm of the coefficients, in per cent."""
    emulator, prior = emulated(dim, blocks, loss)
    at, size = prior.whiten(), prior.family.size
    assert isinstance(at, NormalWhitening)
    truth = by_values(emulator, at, orthogonal(MANY, dim, np.random.default_rng(9)))
    cells = []
    for project, count in ((by_values, max(1200, 10 * size)), (by_gradients, 600)):
        found = [
            project(emulator, at, orthogonal(count, dim, np.random.default_rng(seed)))
            for seed in range(REPEATS)
        ]
        scale = 100.0 / np.linalg.norm(truth.beta)
        beta = scale * np.mean([np.linalg.norm(each.beta - truth.beta) for each in found])
        mean = scale * np.mean([abs(each.mean - truth.mean) for each in found])
        cells.append(f"{beta:.1f}, {mean:.1f} ({count})")
    return cells


def seconds_a_round() -> tuple[float, float]:
    """Return the median and the largest processor time of the nine rounds from 160 runs on.

    In every other one the hyperparameters are fitted anew.
    """
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 1764, 30)) / np.sqrt(30)
    prior = supac.gaussian(np.zeros(30), np.eye(30), blocks=BLOCKS)
    loss, algorithm = supac.RootMeanSquare(), supac.SuPAC(batch=10)
    problem = supac.Problem.within(prior, supac.Catoni(0.002), loss=loss)
    state, taken = algorithm.init(problem, 0), list[float]()
    while len(taken) < 9:
        batch = algorithm.ask(problem, state)
        x = batch.x
        outputs = 0.3 * np.tanh(x @ first.T) + 0.1 * (x @ second.T) - 0.2
        runs, start = len(state.evaluations), time.process_time()
        state, _ = algorithm.tell(problem, state, batch, loss(outputs), outputs)
        if runs >= 150:
            taken.append(time.process_time() - start)
    return float(np.median(taken)), max(taken)


def main() -> None:
    """Measure, print and write the table."""
    lines = [
        "Error of the coefficients, and of the mean, in per cent of the coefficients' norm "
        f"(draws), against {MANY:,} values.",
        "",
        "| parameters, loss | by values | by gradients |",
        "|---|---|---|",
    ]
    for name, case in CASES.items():
        lines.append(f"| {name} | {' | '.join(errors(*case))} |")
        print(lines[-1], flush=True)
    median, largest = seconds_a_round()
    lines += [
        "",
        "A round with 160 to 240 runs, 30 parameters and 1,764 outputs: "
        f"{1e3 * median:.0f} ms of processor time (largest of nine: {1e3 * largest:.0f}).",
    ]
    print(lines[-1])
    RESULT.write_text(fitted("\n".join(lines) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
