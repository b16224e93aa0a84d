"""How often does a search end in the right valley, with a second beginning and without?

Oscillators with wide priors: five of `benchmarks/verdict.py`, on which the rule was developed, five
more of these, and four that are new. With every second seed the noise is known, with the others it
is a parameter. A search of a budget is asked at its end, before its validation, for the posterior
to return; that is right if the root mean square distance of its mean from the data is below 1.15 of
what the truth has. Until a search is doubted, it is the same without the rule, so that both are
made at once. Levenberg and Marquardt begin at draws of the prior as often as the budget allows,
finite differences counted.

    make bench-valleys                       # hours on one core; goes on where it stopped
    make bench-valleys ARGS="--seeds 0:2 --minutes 14 --of judgement"
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.optimize import least_squares

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.calibration.setup import make_problem
from supac.families import Distribution
from supac.problem import Problem
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.course import course_of
from supac.search.algorithm import State
from supac.search.restart import DOUBTED
from supac.search.tuning import DEFAULT
from verdict import (
    CALM,
    MAKERS,
    RIGHT,
    ROWS,
    UNIFORM,
    Oscillator,
    drift,
    log,
    solved,
    wave,
)

RESULTS = Path(__file__).parent / "results" / "valleys.jsonl"
TABLE = RESULTS.with_suffix(".md")
BUDGETS = (60, 100)
DEVELOPMENT = ("grazing", "pendulum", "rotors", "tones", "nerve")
BEFORE, AFTER, PEER = "without", "with", "LM"


def _loop(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the messenger and the end product of Goodwin's loop of three."""
    made, lost, power = x

    def slope(_: float, s: FloatArray) -> list[float]:
        return [
            made / (1.0 + max(s[2], 0.0) ** power) - lost * s[0], s[0] - lost * s[1],
            s[1] - lost * s[2],
        ]  # fmt: skip

    return solved(slope, [0.1, 0.2, 2.5], t)[:, [0, 2]]


def _orbit(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the place of a planet on its ellipse, by Newton's method for Kepler's equation."""
    period, eccentricity, phase = x
    mean = 2.0 * np.pi * (t / period + phase)
    angle = mean + eccentricity * np.sin(mean)
    for _ in range(20):
        off = angle - eccentricity * np.sin(angle) - mean
        angle = angle - off / (1.0 - eccentricity * np.cos(angle))
    flat = np.sqrt(1.0 - eccentricity**2)
    return np.column_stack([np.cos(angle) - eccentricity, flat * np.sin(angle)])


def _predators(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the logarithms of prey and predators of Lotka and Volterra."""
    growth, eaten, death = x
    return solved(
        lambda _, s: [growth - eaten * np.exp(s[1]), 0.5 * eaten * np.exp(s[0]) - death],
        [np.log(3.0), np.log(1.0)], t,
    )  # fmt: skip


def _brusselator(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return both species of Prigogine's reaction."""
    a, b, rate = x

    def slope(_: float, s: FloatArray) -> list[float]:
        quick = s[0] ** 2 * s[1]
        return [rate * (a + quick - (b + 1.0) * s[0]), rate * (b * s[0] - quick)]

    return solved(slope, [1.0, 2.0], t)


JUDGEMENT = {
    "loop": Oscillator(
        {"made": log(10.0, 0.6), "lost": log(0.4, 0.4), "power": UNIFORM(6.0, 14.0)},
        (18.0, 0.3, 10.0), 60.0, (0.4, 0.15), _loop, drift(60.0, 2.0),
    ),
    "orbit": Oscillator(
        {"period": log(5.0, 0.5), "eccentricity": UNIFORM(0.0, 0.8), "phase": UNIFORM(0.0, 1.0)},
        (3.6, 0.45, 0.3), 20.0, (0.1, 0.1), _orbit, wave(9.0, 2.0),
    ),
    "predators": Oscillator(
        {"growth": log(0.6), "eaten": log(0.8), "death": log(0.6)},
        (1.0, 0.5, 0.8), 35.0, (0.3, 0.3), _predators, drift(35.0, 2.0),
    ),
    "brusselator": Oscillator(
        {"a": log(0.8, 0.4), "b": log(2.2, 0.4), "rate": log(0.7, 0.6)},
        (1.0, 2.6, 1.2), 25.0, (0.2, 0.2), _brusselator, wave(10.0, 2.0),
    ),
}  # fmt: skip

WITH = replace(DEFAULT, valleys=replace(DEFAULT.valleys, wanted=True))
"""Numbers of searches with a second beginning."""


@dataclass(frozen=True, eq=False)
class Case:
    """One data set of an oscillator, and the risk of its search."""

    model: Oscillator
    sought: bool
    """True if the noise is a parameter."""
    seed: int
    values: FloatArray
    noise: FloatArray
    times: FloatArray
    alone: float
    """Root mean square distance of the truth from the data, in units of the noise."""
    guess: float
    """Median of the prior of the noise, where it is sought."""

    @classmethod
    def of(cls, name: str, model: Oscillator, seed: int) -> Case:
        """Draw the data."""
        sought = seed % 2 == 1
        rng = np.random.default_rng([seed, sum(name.encode())])
        times = np.linspace(model.end / ROWS, model.end, ROWS)
        noise = np.repeat(model.noise, ROWS)
        off = rng.standard_normal(len(noise))
        clean = model.simulate(np.array(model.truth), times).T.ravel()
        guess, alone = float(np.exp(rng.normal(0.0, 0.5))), float(np.sqrt(np.mean(off**2)))
        return cls(model, sought, seed, clean + noise * off, noise, times, alone, guess)

    def simulate(self, x: FloatArray) -> FloatArray:
        """Return the outputs of the simulated parameters, NaN where they cannot be computed."""
        try:
            return self.model.simulate(x, self.times).T.ravel()
        except ArithmeticError:
            return np.full(len(self.values), np.nan)

    @property
    def parameters(self) -> supac.Parameters:
        """Return the priors."""
        priors = dict(self.model.priors)
        if self.sought:
            priors["sigma"] = marginals.LogNormal(self.guess, 1.0)
        return supac.Parameters(priors)

    @property
    def risk(self) -> supac.Composite:
        """Return the mean square, or the likelihood where the noise is sought."""
        names = tuple(f"y{i}" for i in range(len(self.model.noise)))
        data = supac.Observations(names, self.values, self.noise, times=self.times)
        if not self.sought:
            return supac.Composite(self.simulate, supac.MeanSquare(), data)
        n = len(self.values)
        none = np.full(n, -1)
        loss = ColumnLoss(Likelihood(), none, none, np.zeros(n, int), self.values, self.noise)
        return supac.Composite(self.simulate, loss, data, observation=1)

    @property
    def price(self) -> float:
        """Return the temperature at which the Gibbs posterior is the usual one."""
        return (1.0 if self.sought else 2.0) / len(self.values)

    def misfit(self, latent: FloatArray) -> float:
        """Return the distance of a point from the data, beside that of the truth."""
        x = self.parameters.from_latent(latent[None])[0]
        off = (self.simulate(x[: len(self.model.priors)]) - self.values) / self.noise
        return float(np.sqrt(np.mean(off**2))) / self.alone if np.isfinite(off).all() else np.inf


@dataclass(eq=False)
class Course:
    """A search under way, by runs."""

    case: Case
    problem: Problem
    algorithm: supac.SuPAC
    state: State
    made: int
    found: list[float]
    """Misfits at the budgets that are spent."""

    def run(self, *, forks: bool) -> Course | None:
        """Run to the last budget; return the search that never doubts from the first doubt on."""
        other = None
        risk, parameters = self.case.risk, self.case.parameters
        while len(self.found) < len(BUDGETS):
            before, batch = self.state, self.algorithm.ask(self.problem, self.state)
            rows = np.array([risk.simulate(x) for x in parameters.from_latent(batch.x)])
            outputs, ok = np.full((len(rows), _width(self.case)), np.nan), np.isfinite(rows).all(1)
            risks = np.full(len(rows), np.nan)
            if ok.any():
                outputs[ok] = risk.residuals(rows[ok])
                risks[ok] = risk.loss(outputs[ok])
            while len(self.found) < len(BUDGETS) and self.made + len(batch) > self._spent:
                posterior: Distribution = self.algorithm.conclude(before).posterior
                self.found.append(self.case.misfit(np.asarray(posterior.mean)))
            told = self.algorithm.tell(self.problem, before, batch, risks, outputs)
            self.made += len(batch)
            again = self.algorithm.restart(self.problem, before, *told)
            self.state = told[0] if again is None else again[0]
            if forks and other is None and again is not None and DOUBTED in again[1].notes:
                calm = replace(told[0], tuning=CALM)
                more = self.algorithm.restart(self.problem, before, calm, told[1])
                state = calm if more is None else more[0]
                other = replace(self, state=state, found=list(self.found))
        return other

    @property
    def _spent(self) -> int:
        """Return the runs that the search itself makes of the next budget."""
        budget = BUDGETS[len(self.found)]
        return budget - self.algorithm.validation(budget)


def _width(case: Case) -> int:
    return len(case.values) + case.sought


def searched(case: Case) -> dict[str, list[float]]:
    """Return the misfits at each budget, without the rule and with it."""
    risk, parameters = case.risk, case.parameters
    execution = supac.Execution(on_failure="penalise")
    made = make_problem(parameters, supac.Catoni(case.price), None, None, execution, risk.loss)
    problem, algorithm = replace(made, course=course_of(risk)), supac.SuPAC(tuning=WITH)
    own = Course(case, problem, algorithm, algorithm.init(problem, case.seed), 0, [])
    other = own.run(forks=True)
    if other is not None:
        other.run(forks=False)
    return {BEFORE: (other or own).found, AFTER: own.found}


class _SpentError(Exception):
    """The budget is spent."""


def descended(case: Case) -> list[float]:
    """Return the misfits of Levenberg–Marquardt from draws of the prior at each budget."""
    rng, best, found, made = np.random.default_rng(case.seed), np.inf, list[float](), 0
    dim, parameters = len(case.model.priors), case.parameters

    def residuals(u: FloatArray) -> FloatArray:
        nonlocal best, made
        if made == BUDGETS[len(found)]:
            found.append(best)
            if len(found) == len(BUDGETS):
                raise _SpentError
        made += 1
        x = parameters.from_latent(np.append(u, np.zeros(int(case.sought)))[None])[0, :dim]
        off = (case.simulate(x) - case.values) / case.noise
        if not np.isfinite(off).all():
            return np.full(len(off), 1e3)
        best = min(best, float(np.sqrt(np.mean(off**2))) / case.alone)
        return off

    try:
        while True:
            least_squares(residuals, rng.standard_normal(dim), method="lm", diff_step=[1e-4])
    except _SpentError:
        return found


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return how many searches end right, in Markdown."""
    rows = list(rows)
    every = {**MAKERS, **JUDGEMENT}
    heads = [f"{who}, {budget}" for who in (BEFORE, AFTER, PEER) for budget in BUDGETS]
    lines = ["| problem | searches | " + " | ".join(heads) + " |", "|---" * (2 + len(heads)) + "|"]
    groups = {
        "developed on": [name for name in every if name in DEVELOPMENT],
        "judged on": [name for name in every if name not in DEVELOPMENT],
    }
    for group, names in groups.items():
        for name, some in [*((name, [name]) for name in names), (f"all {group}", names)]:
            mine = [row for row in rows if row["name"] in some]
            if mine:
                right = [
                    sum(row[who][i] < RIGHT for row in mine)
                    for who in (BEFORE, AFTER, PEER)
                    for i in range(len(BUDGETS))
                ]
                lines.append(f"| {name} | {len(mine)} | {' | '.join(map(str, right))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make the searches that are not there yet, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:10")
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--of", choices=("development", "judgement", "all"), default="all")
    given = parser.parse_args()
    chosen = [
        name
        for name in {**JUDGEMENT, **MAKERS}
        if given.of == "all" or (name in DEVELOPMENT) == (given.of == "development")
    ]
    rows = [json.loads(each) for each in RESULTS.open()] if RESULTS.exists() else []
    there, begun = {(row["name"], row["seed"]) for row in rows}, time.monotonic()
    for seed in range(*map(int, given.seeds.split(":"))):
        for name in chosen:
            if (name, seed) in there or time.monotonic() - begun > 60.0 * given.minutes:
                continue
            case = Case.of(name, {**JUDGEMENT, **MAKERS}[name], seed)
            row = {"name": name, "seed": seed, **searched(case), PEER: descended(case)}
            rows.append(row)
            with RESULTS.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    TABLE.write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
