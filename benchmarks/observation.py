"""What do scales, offsets and noise levels cost, if they are declared as observation parameters?

Twelve parameters of a simulator, four observables of twelve measurements with a scale and an offset
each, and two noise levels: ten parameters that enter after the simulator. They are known (fixed at
the values that made the data), declared, declared with a loss that has derivatives, or emulated
like the others. Counted are the runs after which the objective, from common draws, is within a
quarter of a nat of that of the end, for good: with the usual batches, of two runs and later of
four, and with batches of three throughout, so that a search which just misses does not pay four.
Each mean is compared with that of the known ones, seed by seed. A second table has the processor
time of a round with 30 simulated and 40 other parameters.

    make bench-observation                                      # twenty minutes
    make bench-observation ARGS="--seeds 200:219"                 # others: known, with derivatives
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from pages import fitted
from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem.combined import CombinedMeasurements
from supac.problem.likelihood import Measurements

RESULTS = Path(__file__).parent / "results" / "observation.md"
SEEDS, FEWER = range(5, 25), range(5, 10)
"""Seeds 0 to 4 were used while the search was developed; emulating all takes long."""
BUDGETS = {"emulated": 200}
SIMULATED, OBSERVATION, BUDGET, DRAWS = 12, 10, 80, 4_000
OBSERVABLE = np.repeat(np.arange(4), 12)
NOISE_LEVEL = OBSERVABLE // 2
MIX = np.random.default_rng(0).standard_normal((48, SIMULATED)) / np.sqrt(SIMULATED)
TRUTH = 0.7 * np.random.default_rng(1).standard_normal(SIMULATED)
SCALES, OFFSETS = np.array([2.0, 0.5, 1.5, 0.8]), np.array([0.3, -0.2, 0.1, 0.0])
NOISE, UNIT = np.array([0.1, 0.15]), 0.12
KNOWN = np.concatenate([np.log(SCALES), OFFSETS, np.log(NOISE / UNIT)])
TEMPERATURE, CLOSE = 1.0 / 48, 0.25


def simulate(x: FloatArray) -> FloatArray:
    """Return 48 outputs of each point: (n, 12) → (n, 48)."""
    along = x @ MIX.T
    return np.asarray(np.exp(0.5 * along) + 0.3 * np.tanh(along))


def observe(outputs: FloatArray, z: FloatArray) -> FloatArray:
    """Return scale · output + offset."""
    return np.asarray(np.exp(z[:, :4])[:, OBSERVABLE] * outputs + z[:, 4:8][:, OBSERVABLE])


def _data() -> FloatArray:
    errors = np.random.default_rng(2).standard_normal(48)
    return observe(simulate(TRUTH[None]), KNOWN[None])[0] + NOISE[NOISE_LEVEL] * errors


DATA = _data()


def likelihood(observed: FloatArray, log_noise: FloatArray) -> FloatArray:
    """Return minus the mean log-likelihood; noise is in logarithms of `UNIT`: (n, 2)."""
    noise = UNIT * np.exp(log_noise)[:, NOISE_LEVEL]
    return np.asarray((0.5 * ((observed - DATA) / noise) ** 2 + np.log(noise)).mean(axis=1))


def loss(outputs: FloatArray, z: FloatArray) -> FloatArray:
    """Return the risk of simulated outputs and observation parameters."""
    return likelihood(observe(outputs, z), z[:, 8:])


def known(outputs: FloatArray) -> FloatArray:
    """Return the risk with known observation parameters."""
    return loss(outputs, np.broadcast_to(KNOWN, (len(outputs), OBSERVATION)))


class WithSlopes:
    """The same risk, with its derivatives in outputs and observation parameters."""

    def __call__(self, outputs: FloatArray, z: FloatArray) -> FloatArray:
        """Return the risk."""
        return loss(outputs, z)

    def slopes(self, outputs: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives: (n, 48) and (n, 10)."""
        scale, noise = np.exp(z[:, :4])[:, OBSERVABLE], UNIT * np.exp(z[:, 8:])[:, NOISE_LEVEL]
        residual = (observe(outputs, z) - DATA) / noise
        by_value = residual / noise / len(DATA)
        sums = [
            (by_value * scale * outputs) @ (OBSERVABLE[:, None] == np.arange(4)),
            by_value @ (OBSERVABLE[:, None] == np.arange(4)),
            (1.0 - residual**2) @ (NOISE_LEVEL[:, None] == np.arange(2)) / len(DATA),
        ]
        return by_value * scale, np.hstack(sums)


def all_simulated(x: FloatArray) -> FloatArray:
    """Return observables and noise levels, which are then emulated."""
    z = x[:, SIMULATED:]
    return np.hstack([observe(simulate(x[:, :SIMULATED]), z), z[:, 8:]])


RISKS = {
    "known": supac.Composite(simulate, known),
    "declared": supac.Composite(simulate, loss, observation=OBSERVATION),
    "declared, with derivatives": supac.Composite(simulate, WithSlopes(), observation=OBSERVATION),
    "emulated": supac.Composite(all_simulated, lambda rows: likelihood(rows[:, :48], rows[:, 48:])),
}


@dataclass(frozen=True)
class Search:
    """The objectives of a search, in nats, after numbers of runs."""

    runs: tuple[int, ...]
    objectives: tuple[float, ...]

    @property
    def settled(self) -> int:
        """Return the runs after which the objective stays within a quarter of a nat of its end."""
        end = self.objectives[-1]
        far = [i for i, each in enumerate(self.objectives) if each > end + CLOSE]
        return self.runs[far[-1] + 1 if far else 0]


def search(method: str, seed: int, batch: int | None) -> Search:
    """Search, and compute the objective after each round."""
    dim = SIMULATED if method == "known" else SIMULATED + OBSERVATION
    prior = supac.gaussian(np.zeros(dim), 0.49 * np.eye(dim))
    seen: list[tuple[int, Distribution]] = []
    supac.minimize(
        RISKS[method],
        prior,
        supac.Catoni(TEMPERATURE),
        budget=BUDGETS.get(method, BUDGET),
        algorithm=supac.SuPAC(batch=batch),
        validation=0,
        seed=seed,
        execution=supac.Execution(vectorized=True, progress=False),
        callback=lambda each: seen.append((each.queries, each.next_posterior)),
    )
    risk = RISKS[method]
    objectives = []
    for _, q in seen:
        mean_risk = float(np.mean(risk(q.sample(DRAWS, 1))))
        objectives.append(mean_risk / TEMPERATURE + q.kl(prior))
    return Search(tuple(runs for runs, _ in seen), tuple(objectives))


def with_error(values: list[float]) -> str:
    """Return the mean and its standard error."""
    return f"{mean(values):.1f} ± {stdev(values) / len(values) ** 0.5:.1f}"


def ratio(runs: list[float], known: list[float]) -> str:
    """Return the ratio of the means over the same seeds, and its standard error."""
    found = mean(runs) / mean(known)
    errors = [(one - found * other) / mean(known) for one, other in zip(runs, known, strict=True)]
    return f"{found:.2f} ± {stdev(errors) / len(errors) ** 0.5:.2f}"


def round_seconds(budget: int, *, derivatives: bool) -> float:
    """Return the median processor time of a round: 30 parameters, 20 scales and 20 noise levels."""
    rng, series = np.random.default_rng(3), np.repeat(np.arange(20), 10)
    mix, truth = rng.standard_normal((200, 30)) / np.sqrt(30.0), 0.5 * rng.standard_normal(30)
    values = np.exp(0.5 * rng.standard_normal(20))[series] * np.exp(0.5 * truth @ mix.T)
    unknown, none = np.full(200, np.nan), np.zeros(200)
    values = values + 0.1 * rng.standard_normal(200)
    names, times = tuple(f"y{i}" for i in range(20)), np.tile(np.arange(10.0), 20)
    measured = Measurements(names, series, times, values, unknown, series, none, none > 0.0)
    data = CombinedMeasurements(
        measured,
        places=np.arange(220),
        terms=np.append(np.arange(200), np.full(20, -1)),
        factors=np.ones(220),
        products=np.append(series, np.arange(20, 40)),
        powers=np.eye(40),
        floors=none,
    )
    priors = {f"x{i}": supac.marginals.Normal(0.0, 0.7) for i in range(30)}
    own = {f"{n}{i}": supac.marginals.LogNormal(1.0, 0.7) for n in ("a", "s") for i in range(20)}
    of_terms = data.loss if derivatives else data.loss.__call__
    ends = [time.process_time()]
    supac.minimize(
        supac.Composite(lambda x: np.exp(0.5 * x @ mix.T), of_terms, data, observation=40),
        supac.Parameters({**priors, **own}),
        supac.Catoni(1.0 / 200),
        budget=budget,
        validation=0,
        execution=supac.Execution(vectorized=True, progress=False),
        callback=lambda each: ends.append(time.process_time()),
    )
    return median(np.diff(ends).tolist())


def table() -> list[str]:
    """Make the searches, and a table of their runs."""
    lines = [
        "| the ten are | batches | seeds | runs | of those if known | median end in nats |",
        "|---|---|---|---|---|---|",
    ]
    known: dict[int | None, list[float]] = {}
    for method in RISKS:
        seeds = FEWER if method == "emulated" else SEEDS
        for batch in (None, 3) if seeds is SEEDS else (None,):
            searches = [search(method, seed, batch) for seed in seeds]
            runs = [float(each.settled) for each in searches]
            first = known.setdefault(batch, runs)
            end = median(each.objectives[-1] for each in searches)
            lines.append(
                f"| {method} | {batch or 'usual'} | {len(seeds)} | {with_error(runs)} | "
                f"{'' if method == 'known' else ratio(runs, first[: len(runs)])} | {end:.2f} |"
            )
            print(lines[-1], flush=True)
    return lines


def with_other_seeds(text: str) -> None:
    """Print the runs of other seeds, "first:last": known, and declared with derivatives."""
    first, _, last = text.partition(":")
    known, declared = (
        [float(search(method, seed, None).settled) for seed in range(int(first), int(last) + 1)]
        for method in ("known", "declared, with derivatives")
    )
    print(f"known {with_error(known)}, declared {with_error(declared)}: {ratio(declared, known)}")


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", help="first:last of other seeds, which are printed alone")
    options = parser.parse_args()
    if options.seeds:
        with_other_seeds(options.seeds)
        return
    lines = [
        "# Parameters that need no run",
        "",
        "By `make bench-observation`: twelve simulated parameters, and ten scales, offsets and "
        f"noise levels. Runs until the objective stays within {CLOSE} nats of that at the end of "
        f"the search ({BUDGET} runs, {BUDGETS['emulated']} if all are emulated): means over seeds "
        f"from {SEEDS[0]} on, with their standard errors. Usual batches have two runs while the "
        "posterior moves and four afterwards; with batches of three throughout, a search that "
        "just misses does not pay four.",
        "",
        *table(),
    ]
    lines += [
        "",
        "Processor time of a round, with 30 simulated and 40 other parameters (median):",
        "",
    ]
    for words, derivatives, budget in (("with", True, 100), ("without", False, 29)):
        seconds = round_seconds(budget, derivatives=derivatives)
        lines.append(f"- {words} derivatives of the loss: {seconds:.1f} s")
        print(lines[-1], flush=True)
    RESULTS.write_text(fitted("\n".join(lines) + "\n"))


if __name__ == "__main__":
    main()
