"""Do two versions of the code find the same posteriors, to the last bit?

    python benchmarks/same_bits.py --out before.json      # with the one
    python benchmarks/same_bits.py --against before.json  # with the other, on the same machine

Bits depend on the processor and on the versions of NumPy and SciPy, so that only two runs on one
machine can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import supac
from supac import marginals, simulators
from supac.families import Distribution

Case = Callable[[int], Any]
SEEDS = (0, 1)
NORMAL = supac.gaussian(np.zeros(3), np.eye(3))
CATONI = supac.Catoni(0.02, ceiling=1.0)


def bowl(x: np.ndarray) -> float:
    """A risk of three parameters, in [0, 1]."""
    return float(np.tanh(0.3 * (x - 0.4) @ (x - 0.4) + 0.1 * np.sin(3.0 * x[0])) ** 2)


def cliff(x: np.ndarray) -> float:
    """The same, failing where the first parameter is large."""
    return float("nan") if x[0] > 1.0 else bowl(x)


def decay(x: np.ndarray) -> np.ndarray:
    """Residuals of a first-order reaction."""
    times = np.linspace(0.0, 5.0, 10)
    return (x[0] * np.exp(-x[1] * times) - 2.0 * np.exp(-0.7 * times)) / 0.1


def bump(x: np.ndarray, centre: float) -> float:
    """A risk that is least at (centre, centre, centre)."""
    return float(np.tanh(0.2 * np.sum((x - centre) ** 2)))


def two_wells(x: np.ndarray) -> float:
    """A risk with two modes."""
    return float(1.0 - np.exp(-((np.abs(x[0]) - 2.0) ** 2 + x[1] ** 2) / 0.5))


RATES = supac.Parameters(
    {
        "initial": marginals.Uniform(0.0, 5.0, unit="mol/L"),
        "rate": marginals.LogNormal(median=1.0, log_sd=0.5, unit="1/h"),
    }
)


def search(seed: int, risk: Any = bowl, prior: Any = NORMAL, **options: Any) -> supac.Result:
    """One call of `minimize`, without a progress bar."""
    bound = options.pop("bound", CATONI)
    return supac.minimize(risk, prior, bound, **{"budget": 70, "seed": seed} | options)


def composite(seed: int, loss: Any = None, **options: Any) -> supac.Result:
    """Outputs of the reaction under a loss."""
    return search(seed, supac.Composite(decay, loss or supac.Welsch()), RATES, **options)


def drug(seed: int) -> supac.Result:
    """Twelve rates, 126 outputs."""
    problem = simulators.drug.example()
    return search(
        seed,
        problem.composite,
        problem.parameters,
        bound=supac.Catoni(0.002),
        execution=supac.Execution(vectorized=True),
    )


def digester(seed: int) -> supac.Result:
    """The paper's digester."""
    problem = simulators.adm1.example()
    bound = supac.Catoni(0.002, ceiling=3.0)
    return search(
        seed,
        problem.composite,
        problem.parameters,
        bound=bound,
        execution=supac.Execution(vectorized=True),
    )


def meta(seed: int, **options: Any) -> list[Distribution]:
    """Four tasks; the priors that were learnt."""
    environment = np.random.default_rng(seed).normal(0.0, 0.7, 4)
    tasks = [
        supac.Task(partial(bump, centre=each), supac.Catoni(0.05), name=f"bump at {each}")
        for each in environment
    ]
    learnt = supac.meta_learn(tasks, NORMAL, passes=2, seed=seed, **options)
    return [*learnt.priors, *(task.posterior for task in learnt.tasks)]


def reoptimized(seed: int) -> supac.Result:
    """Another temperature from the runs of an earlier search."""
    return supac.reoptimize(
        composite(seed), supac.Composite(decay, supac.Welsch()), budget=20,
        bound=supac.Catoni(0.005),
    )  # fmt: skip


def problem_file(seed: int) -> supac.Result:
    """The problem file that `supac init` writes."""
    from supac.problem_file import starter_files  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        for name, text in starter_files("builtin").items():
            Path(folder, name).write_text(text, encoding="utf-8")
        problem = supac.read_problem(Path(folder, "problem.toml"))
        return problem.minimize(seed=seed)


def certificate(seed: int) -> float:
    """The value of a certificate."""
    result = composite(seed, bound=supac.MaurerLangfordSeeger(n=10, delta=0.05))
    risk = supac.Composite(decay, supac.Welsch())
    return result.certify(risk, n=10, draws=200, seed=seed).value


CASES: dict[str, Case] = {
    "scalar": search,
    "scalar, eight dimensions": lambda seed: search(
        seed,
        simulators.synthetic.example(seed),
        supac.gaussian(np.zeros(8), np.eye(8)),
        bound=supac.Catoni(0.1),
        execution=supac.Execution(vectorized=True),
    ),
    "scalar, failures penalised": lambda seed: search(
        seed, cliff, execution=supac.Execution(on_failure="penalise")
    ),
    "scalar, failures dropped": lambda seed: search(
        seed, cliff, execution=supac.Execution(on_failure="drop")
    ),
    "composite, Welsch": composite,
    "composite, mean square": lambda seed: composite(seed, supac.MeanSquare()),
    "composite, Seeger": lambda seed: composite(seed, bound=supac.MaurerLangfordSeeger(10, 0.05)),
    "drug": drug,
    "digester": digester,
    "paper": lambda seed: search(
        seed, algorithm=supac.SuPAC.paper(first=40, batch=20, draws=2_000), budget=160
    ),
    "ridge": lambda seed: search(seed, algorithm=supac.SuPAC(supac.Ridge()), budget=120),
    "importance": lambda seed: search(seed, algorithm=supac.SuPAC(supac.Importance()), budget=120),
    "gradient descent": lambda seed: search(
        seed, algorithm=supac.GradientDescent(0.1, batch=10), budget=60
    ),
    "Nesterov": lambda seed: search(seed, algorithm=supac.Nesterov(0.1, batch=10), budget=60),
    "proxy": lambda seed: search(seed, proxy=lambda x: 0.2 * (x**2).sum(axis=1)),
    "mixture": lambda seed: search(
        seed,
        two_wells,
        supac.gaussian(np.zeros(2), 2.25 * np.eye(2)),
        start=supac.split_mixture(supac.gaussian(np.zeros(2), 2.25 * np.eye(2)), 2),
        bound=supac.Catoni(0.05),
        budget=60,
    ),
    "beta": lambda seed: search(seed, lambda x: float((x[0] - 0.3) ** 2), supac.beta(1, 1)),
    "two processes": lambda seed: search(seed, execution=2),
    "meta-learning": meta,
    "meta-learning, the paper's": lambda seed: meta(
        seed, learner=supac.MetaSuPAC.paper(0.05, tasks=4, draws=1_000)
    ),
    "another bound later": reoptimized,
    "problem file": problem_file,
    "certificate": certificate,
}


def fingerprint(found: Any) -> str:
    """A checksum of every bit of a posterior, of several, or of a number."""
    if isinstance(found, supac.Result):
        parts = [found.posterior.theta, np.array([found.objective, found.mean_risk, found.kl])]
        parts += [found.evaluations.x, found.evaluations.risk]
    elif isinstance(found, list):
        parts = [each.theta for each in found]
    else:
        parts = [np.array([found])]
    return sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def main() -> int:
    """Print a line a case; 1 where one differs."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition(chr(10))[0])
    parser.add_argument("--out", type=Path, help="write the fingerprints to this file")
    parser.add_argument("--against", type=Path, help="compare with the fingerprints in this file")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    arguments = parser.parse_args()
    before = json.loads(arguments.against.read_text()) if arguments.against else {}
    found, different = {}, 0
    for name, case in CASES.items():
        for seed in SEEDS if arguments.only in name else ():
            key = f"{name}, seed {seed}"
            found[key] = fingerprint(case(seed))
            same = "" if key not in before else "same" if before[key] == found[key] else "DIFFERENT"
            different += same == "DIFFERENT"
            print(f"{key:40} {found[key]} {same}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    if before:
        print(f"{len(found) - different} of {len(found)} the same")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
