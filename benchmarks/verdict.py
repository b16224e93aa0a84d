"""Does the verdict of a report tell wrong fits from right ones?

Ten oscillators with wide priors, so that some searches of 60 runs end in a wrong valley; with the
noise known and sought, with regular times and with irregular ones in no order, and with a model
that lacks a part of the truth. A fit is right if its root mean square distance from the truth,
with the noise of the data, is below 1.15 of that noise alone, and wrong above 1.3. No number of
the verdict was chosen on these fits. Wrong fits are wanted, so that no search begins again where
it doubts its own residuals.

    make bench-verdict                       # half an hour on one core; goes on where it stopped
    make bench-verdict ARGS="--seeds 0:2 --minutes 8"
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import cast

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.integrate import solve_ivp

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.marginals import Marginal
from supac.report import Account, account_of, assess
from supac.search.tuning import DEFAULT

RESULTS = Path(__file__).parent / "results" / "verdict.jsonl"
TABLE = RESULTS.with_suffix(".md")
RIGHT, WRONG = 1.15, 1.3
CALM = replace(DEFAULT, valleys=replace(DEFAULT.valleys, doubted=np.inf))
"""Numbers of a search that does not begin again where it doubts its residuals."""
BUDGET = 60
ROWS = 40
_MOST_CALLS = 50_000


@dataclass(frozen=True)
class Oscillator:
    """A model with wide priors; `truth` may have a part that the model lacks."""

    priors: dict[str, Marginal]
    truth: tuple[float, ...]
    end: float
    noise: tuple[float, ...]
    """Of each observed column."""
    simulate: Callable[[FloatArray, FloatArray], FloatArray]
    """Parameters and increasing times → (rows, columns)."""
    lacking: Callable[[FloatArray], FloatArray]
    """Times → (rows,): in units of the noise, what the imperfect model lacks in every column."""


def log(median: float, log_sd: float = 0.8) -> Marginal:
    """Return a wide prior of a positive number."""
    return marginals.LogNormal(median, log_sd)


def solved(
    slope: Callable[[float, FloatArray], list[float]], start: list[float], t: FloatArray
) -> FloatArray:
    """Return the states (rows, states) at increasing times; ArithmeticError after many steps."""
    calls = iter(range(_MOST_CALLS))

    def counted(time: float, state: FloatArray) -> list[float]:
        if next(calls, None) is None:
            raise ArithmeticError("the equations are too stiff")
        return slope(time, state)

    with np.errstate(all="ignore"):
        made = solve_ivp(
            counted, (0.0, float(t[-1])), start, t_eval=t, method="LSODA", rtol=1e-6, atol=1e-8
        )
    if made.y.shape[1] != len(t):
        raise ArithmeticError(f"the equations cannot be solved: {made.message}")
    return np.asarray(made.y.T)


def _grazing(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return prey and predators of Rosenzweig and MacArthur."""
    r, attack, death = x

    def slope(_: float, s: FloatArray) -> list[float]:
        eaten = attack * s[0] * s[1] / (1.0 + 0.6 * s[0])
        return [r * s[0] * (1.0 - s[0] / 8.0) - eaten, 0.5 * eaten - death * s[1]]

    return solved(slope, [3.0, 1.0], t)


def _nerve(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the voltage of FitzHugh and Nagumo."""
    a, slow, current = x

    def slope(_: float, s: FloatArray) -> list[float]:
        return [s[0] - s[0] ** 3 / 3.0 - s[1] + current, slow * (s[0] + a - 0.8 * s[1])]

    return solved(slope, [-1.0, 1.0], t)[:, :1]


def _pendulum(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the angle of a damped pendulum that is let go far from its rest."""
    square, damping, start = x
    return solved(lambda _, s: [s[1], -square * np.sin(s[0]) - damping * s[1]], [start, 0.0], t)[
        :, :1
    ]


def _spring(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the place of a driven spring that stiffens."""
    stiff, cubic, drive = x
    return solved(
        lambda time, s: [
            s[1],
            -stiff * s[0] - cubic * s[0] ** 3 - 0.15 * s[1] + 0.5 * np.cos(drive * time),
        ],
        [1.0, 0.0],
        t,
    )[:, :1]


def _chirp(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return a tone whose frequency rises."""
    amplitude, frequency, rise = x
    return np.asarray(amplitude * np.sin(frequency * t + 0.5 * rise * t**2))[:, None]


def _two_tones(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the sum of two damped tones."""
    first, second, share, damping = x
    made = np.exp(-damping * t) * (np.cos(first * t) + share * np.cos(second * t))
    return np.asarray(made)[:, None]


def _seasons(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the infected of an epidemic with seasons, in per cent."""
    contact, recovery, season = x

    def slope(time: float, s: FloatArray) -> list[float]:
        rate = contact * (1.0 + season * np.cos(2.0 * np.pi * time / 12.0))
        new = rate * s[0] * s[1]
        return [0.03 - new - 0.03 * s[0], new - (recovery + 0.03) * s[1]]

    return 100.0 * solved(slope, [0.5, 0.05], t)[:, 1:]


def _rotors(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the cosines of two rotors that pull at each other."""
    first, second, pull = x

    def slope(_: float, s: FloatArray) -> list[float]:
        off = pull * np.sin(s[1] - s[0])
        return [first + off, second - off]

    return np.cos(solved(slope, [0.0, 1.0], t))


def _reed(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return the motion of Rayleigh's reed, and its speed."""
    drive, limit, square = x
    return solved(
        lambda _, s: [s[1], drive * s[1] - limit * s[1] ** 3 - square * s[0]], [0.1, 0.0], t
    )


def _delayed(x: FloatArray, t: FloatArray) -> FloatArray:
    """Return a population whose growth depends on its size some time ago, by Heun's method."""
    rate, delay, most = x
    step = float(t[-1]) / 3000.0
    back = max(round(delay / step), 1)
    size = np.empty(3001)
    size[0] = 0.3 * most
    for i in range(3000):
        past, after = size[max(i - back, 0)], size[max(i + 1 - back, 0)]
        now = rate * size[i] * (1.0 - past / most)
        ahead = max(size[i] + step * now, 1e-9)
        size[i + 1] = max(size[i] + 0.5 * step * (now + rate * ahead * (1.0 - after / most)), 1e-9)
    return np.interp(t, step * np.arange(3001), size)[:, None]


def wave(period: float, size: float) -> Callable[[FloatArray], FloatArray]:
    """Return a wave of time, which a model lacks."""
    return lambda t: np.asarray(size * np.sin(2.0 * np.pi * t / period))


def drift(end: float, size: float) -> Callable[[FloatArray], FloatArray]:
    """Return a drift of time, which a model lacks."""
    return lambda t: np.asarray(size * (2.0 * t / end - 1.0))


UNIFORM = marginals.Uniform
MAKERS = {
    "grazing": Oscillator(
        {"r": log(0.7), "attack": log(1.5), "death": log(0.6)},
        (1.0, 1.0, 0.4), 40.0, (0.25, 0.15), _grazing, drift(40.0, 2.0),
    ),
    "nerve": Oscillator(
        {"a": UNIFORM(0.2, 1.2), "slow": log(0.15), "current": UNIFORM(0.0, 1.5)},
        (0.7, 0.08, 0.6), 90.0, (0.25,), _nerve, wave(70.0, 2.0),
    ),
    "pendulum": Oscillator(
        {"square": log(3.0), "damping": log(0.1), "start": UNIFORM(0.3, 3.0)},
        (5.0, 0.08, 2.2), 16.0, (0.2,), _pendulum, drift(16.0, 2.0),
    ),
    "spring": Oscillator(
        {"stiff": log(1.5), "cubic": log(0.5), "drive": UNIFORM(0.5, 2.5)},
        (1.0, 0.8, 1.4), 25.0, (0.15,), _spring, wave(11.0, 2.0),
    ),
    "chirp": Oscillator(
        {"amplitude": log(1.5), "frequency": UNIFORM(0.5, 4.0), "rise": UNIFORM(-0.2, 0.4)},
        (2.0, 1.4, 0.15), 12.0, (0.3,), _chirp, drift(12.0, 2.0),
    ),
    "tones": Oscillator(
        {
            "first": UNIFORM(0.5, 4.0), "second": UNIFORM(0.5, 6.0), "share": log(0.6, 0.5),
            "damping": log(0.08),
        },
        (1.3, 3.7, 0.7, 0.05), 14.0, (0.15,), _two_tones, wave(14.0, 2.0),
    ),
    "seasons": Oscillator(
        {"contact": log(3.0, 0.6), "recovery": log(0.8, 0.5), "season": UNIFORM(0.0, 0.5)},
        (4.0, 1.1, 0.2), 36.0, (0.3,), _seasons, drift(36.0, 2.0),
    ),
    "rotors": Oscillator(
        {"first": UNIFORM(0.2, 3.0), "second": UNIFORM(0.2, 3.0), "pull": log(0.2)},
        (0.9, 1.7, 0.25), 14.0, (0.25, 0.25), _rotors, drift(14.0, 2.0),
    ),
    "reed": Oscillator(
        {"drive": log(0.6), "limit": log(0.8), "square": log(2.0)},
        (0.5, 0.6, 3.0), 18.0, (0.15, 0.2), _reed, wave(23.0, 2.0),
    ),
    "delayed": Oscillator(
        {"rate": log(1.0, 0.6), "delay": UNIFORM(0.3, 3.5), "most": log(6.0, 0.6)},
        (1.1, 1.9, 5.0), 30.0, (0.6,), _delayed, drift(30.0, 2.0),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One fit of the set."""

    name: str
    sought: bool
    """True if the noise is a parameter."""
    irregular: bool
    perfect: bool
    seed: int


def fit(case: Case) -> dict[str, object]:
    """Return how far a fit is from the truth, and the answers of the verdict."""
    model = MAKERS[case.name]
    rng = np.random.default_rng([case.seed, sum(case.name.encode()), case.sought, case.irregular])
    times = np.linspace(model.end / ROWS, model.end, ROWS)
    if case.irregular:
        times = rng.permutation(np.sort(rng.uniform(0.02, 1.0, ROWS)) * model.end)
    order = np.argsort(times)
    back = np.argsort(order)

    def simulated(x: FloatArray) -> FloatArray:
        return model.simulate(x, times[order])[back].T.ravel()

    noise = np.repeat(model.noise, ROWS)
    clean = simulated(np.array(model.truth))
    if not case.perfect:
        clean = clean + noise * np.tile(model.lacking(times), len(model.noise))
    values = clean + noise * rng.standard_normal(len(clean))
    names = tuple(f"y{i}" for i in range(len(model.noise)))
    priors = dict(model.priors)
    count = len(values)
    if case.sought:
        data = supac.Observations(names, values, noise, times=times)
        priors["sigma"] = marginals.LogNormal(float(np.exp(rng.normal(0.0, 0.5))), 1.0)
        none = np.full(count, -1)
        loss = ColumnLoss(Likelihood(), none, none, np.zeros(count, int), values, noise)
        risk = supac.Composite(simulated, loss, data, observation=1)
        price = 1.0 / count
    else:
        data = supac.Observations(names, values, noise, times=times)
        risk = supac.Composite(simulated, supac.MeanSquare(), data)
        price = 2.0 / count
    result = supac.minimize(
        risk, supac.Parameters(priors), supac.Catoni(price), budget=BUDGET, seed=case.seed,
        algorithm=supac.SuPAC(tuning=CALM),
        execution=supac.Execution(on_failure="penalise", progress=False),
    )  # fmt: skip
    run = account_of(result)
    assert run.fresh is not None
    off = (run.fresh.mean(axis=0) - values) / noise
    return {
        **vars(case),
        "misfit": float(np.sqrt(np.mean(off**2))),
        "alone": float(np.sqrt(np.mean(((values - clean) / noise) ** 2))),
        **_told(run),
    }


def _told(run: Account) -> dict[str, object]:
    verdict = assess(run)
    found = run.autocorrelation
    return {
        "level": verdict.level.words,
        "z": None if found is None else found.z,
        "reasons": [each.question for each in verdict.reasons],
    }


QUESTIONS = {
    "residuals": "Are the residuals like noise?",
    "noise": "Is fitted noise near its prior?",
    "misfit": "Does the simulator fit the data?",
}


def table(rows: list[dict[str, object]]) -> str:
    """Return how many fits of each kind the checks doubt, in Markdown."""
    share = {
        "right": lambda row: row["perfect"] and row["misfit"] < RIGHT * row["alone"],
        "wrong": lambda row: row["perfect"] and row["misfit"] > WRONG * row["alone"],
        "model lacks a part": lambda row: not row["perfect"],
    }
    kinds = {"noise known": False, "noise sought": True}
    lines = [
        "| fits | noise | fits | doubted | " + " | ".join(QUESTIONS) + " | by others |",
        "|---" * (5 + len(QUESTIONS)) + "|",
    ]
    for (name, chosen), (noise, sought) in product(share.items(), kinds.items()):
        mine = [row for row in rows if chosen(row) and row["sought"] == sought]
        reasons = [set(map(str, cast(list[str], row["reasons"]))) for row in mine]
        doubted = sum(bool(each & set(QUESTIONS.values())) for each in reasons)
        others = sum(bool(each - set(QUESTIONS.values())) for each in reasons)
        by = [sum(question in each for each in reasons) for question in QUESTIONS.values()]
        cells = " | ".join(map(str, by))
        lines.append(f"| {name} | {noise} | {len(mine)} | {doubted} | {cells} | {others} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make the fits that are not there yet, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:3")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--of", nargs="*", choices=MAKERS, default=list(MAKERS))
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    RESULTS.parent.mkdir(exist_ok=True)
    rows = (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )
    there = {tuple(row[name] for name in Case.__dataclass_fields__) for row in rows}
    begun = time.monotonic()
    cases = [
        Case(name, sought, irregular, perfect, seed)
        for seed in range(first, last)
        for name, perfect, sought, irregular in product(
            given.of, (True, False), (False, True), (False, True)
        )
        if perfect or seed == first
    ]
    for case in cases:
        if tuple(vars(case).values()) in there or time.monotonic() - begun > 60.0 * given.minutes:
            continue
        row = fit(case)
        rows.append(row)
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    TABLE.write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
