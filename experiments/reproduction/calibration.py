"""One calibration of ADM1: the true objective on the way, and what it cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

import supac
from settings import TEMPERATURE, Setting
from supac.arrays import FloatArray
from supac.simulators import adm1
from supac.simulators.adm1.model import BLOCKS, PRIOR
from supac.simulators.adm1.problem import FAILURE

LOOK_DRAWS, END_DRAWS = 160, 1000
"""Fresh draws behind a true objective on the way, as in the paper, and at the end."""
HOPELESS, PATIENCE = 1.5, 3
"""A descent is given up when so many batches in a row say so much, three times the prior's.

Most of the simulations fail there, and take ten times as long. Of the six published runs that have
been there for so long, the best ends at 1.27.
"""
STEPS_A_DAY = 4
"""Of the simulator; with three times as many, mean risks near the posterior change by 1e-4."""


@dataclass(frozen=True)
class Calibration:
    """What a run gave."""

    curve: tuple[tuple[int, float], ...]
    """Queries, and the true objective then; the last one also later, where a run was given up."""
    queries: int
    mean_risk: float
    kl: float
    algorithm_seconds: float
    simulator_seconds: float
    seconds: float
    """In all, with what the looks took; all of processor time."""


class Stopwatch:
    """A function that knows how much processor time it has taken in all."""

    def __init__(self, function: Callable[[FloatArray], Any]):
        self._function = function
        self.seconds = 0.0

    def __call__(self, x: FloatArray) -> Any:
        """Call it."""
        start = time.process_time()
        answer = self._function(x)
        self.seconds += time.process_time() - start
        return answer


Device = Literal["cpu", "cuda"]


@cache
def load(data: Path | None, device: Device = "cpu") -> adm1.Problem:
    """The digester of `data`, or the embedded one, as the authors' code simulates it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adm1.UnitsWarning)
        if data is None:
            digester = adm1.example("split", device=device)
        else:
            digester = adm1.load(data, "split", device=device)
    return replace(digester, simulator=replace(digester.simulator, steps_a_day=STEPS_A_DAY))


def logarithms() -> supac.Distribution:
    """The prior of the parameters' natural logarithms, in which the paper's steps are measured."""
    medians, deviations = np.array(list(PRIOR.values())).T
    index = {name: i for i, name in enumerate(PRIOR)}
    blocks = [[index[name] for name in block] for block in BLOCKS]
    return supac.gaussian(np.log(medians), deviations**2, blocks)


ASTRAY = 5.0
"""Logarithms that a parameter is away from its median where a run fails without being made.

A descent that has gone astray asks for such runs, which take minutes or overflow.
"""


def risk_of_logarithms(digester: adm1.Problem, u: FloatArray) -> FloatArray:
    """The risk, that of a failed run where a parameter is astray: (n, 30) → (n,)."""
    medians = np.log(np.array(list(PRIOR.values()))[:, 0])
    sane = (np.abs(u - medians) < ASTRAY).all(axis=1)
    risk = np.full(len(u), FAILURE)
    risk[sane] = digester.risk(np.exp(u[sane]))
    return risk


def calibrate(
    setting: Setting, repeat: int, data: Path | None, device: Device = "cpu"
) -> Calibration:
    """Run it, then judge the posteriors by fresh draws."""
    digester, start = load(data, device), time.process_time()
    parameters, composite = digester.parameters, digester.composite
    # Steps of a descent depend on the coordinates; those of the others do not.
    latent = logarithms() if setting.descends else parameters.prior
    units = parameters.from_latent

    def risk(u: FloatArray) -> FloatArray:
        return risk_of_logarithms(digester, u) if setting.descends else digester.risk(units(u))

    # A batch at a time, of which `minimize` has rows.
    watch = Stopwatch((lambda u: composite.simulate(units(u))) if setting.composite else risk)
    posteriors, objectives = [(0, latent)], [0.0]

    def keep(event: supac.Iteration) -> bool:
        posteriors.append((event.queries, event.next_posterior))
        objectives.append(event.objective)
        return setting.descends and min(objectives[-PATIENCE:]) > HOPELESS

    result = supac.minimize(
        replace(composite, simulate=watch) if setting.composite else watch,
        latent, supac.Catoni(TEMPERATURE), budget=setting.budget, algorithm=setting.algorithm,
        execution=supac.Execution(vectorized=True, progress=False), validation=0, seed=repeat,
        callback=keep,
    )  # fmt: skip
    if result.stop_reason not in (supac.StopReason.BUDGET, supac.StopReason.USER):
        raise RuntimeError(f"{setting.name}, repeat {repeat}: {result.stop_reason.sentence}")
    seconds = time.process_time() - start
    looks = thin([queries for queries, _ in posteriors], setting.looks)
    rng = np.random.default_rng([repeat, 2024])  # a stream that no run has drawn from

    def judge(posterior: supac.Distribution, draws: int) -> tuple[float, float]:
        u = posterior.sample(draws, rng)
        return float(risk(u).mean()), posterior.kl(latent)

    curve: list[tuple[int, float]] = []
    for i in looks[:-1]:
        queries, posterior = posteriors[i]
        mean_risk, kl = judge(posterior, LOOK_DRAWS)
        curve.append((queries, mean_risk + TEMPERATURE * kl))
    queries, posterior = posteriors[-1]
    mean_risk, kl = judge(posterior, END_DRAWS)
    curve.append((queries, mean_risk + TEMPERATURE * kl))
    later = [look for look in setting.looks if queries < look <= setting.budget]
    curve += [(look, curve[-1][1]) for look in later]
    times = (seconds - watch.seconds, watch.seconds, time.process_time() - start)
    return Calibration(tuple(curve), queries, mean_risk, kl, *times)


def thin(queries: list[int], looks: tuple[int, ...]) -> list[int]:
    """Which posteriors to look at: the prior, the first with so many queries, and the last."""
    wanted = np.searchsorted(queries, (0, *looks))
    return sorted({int(i) for i in wanted if i < len(queries)} | {len(queries) - 1})
