"""One calibration of ADM1: the true objective on the way, and what it cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import supac
from settings import TEMPERATURE, Setting
from supac.arrays import FloatArray
from supac.simulators import adm1

LOOK_DRAWS, END_DRAWS = 160, 500
"""Fresh draws behind a true objective on the way, as in the paper, and at the end."""
HOPELESS = 1.0
"""A descent is given up when its own batch says so much: twice the objective of the prior.

Most of the simulations fail there, and take ten times as long.
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


@cache
def load(data: Path | None) -> adm1.Problem:
    """The digester of `data`, or the embedded one, as the authors' code simulates it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adm1.UnitsWarning)
        digester = adm1.example("split") if data is None else adm1.load(data, "split")
    return replace(digester, simulator=replace(digester.simulator, steps_a_day=STEPS_A_DAY))


class Stopwatch:
    """A function that knows how long it has run in all."""

    def __init__(self, function: Callable[[FloatArray], Any]):
        self._function = function
        self.seconds = 0.0

    def __call__(self, x: FloatArray) -> Any:
        """Call it."""
        start = time.perf_counter()
        answer = self._function(x)
        self.seconds += time.perf_counter() - start
        return answer


def calibrate(setting: Setting, repeat: int, data: Path | None) -> Calibration:
    """Run it, then judge the posteriors by fresh draws."""
    digester = load(data)
    composite = digester.composite
    watch = Stopwatch(composite.simulate if setting.composite else digester.risk)
    risk = supac.Composite(watch, composite.loss) if setting.composite else watch
    posteriors: list[tuple[int, supac.Distribution]] = []
    descent = isinstance(setting.algorithm, supac.GradientDescent | supac.Nesterov)

    def keep(event: supac.Iteration) -> bool:
        posteriors.append((event.queries, event.next_posterior))
        return descent and event.objective > HOPELESS

    start = time.perf_counter()
    supac.minimize(
        risk, digester.parameters, supac.Catoni(TEMPERATURE), budget=setting.budget,
        algorithm=setting.algorithm, vectorized=True, validation=0, progress=False, seed=repeat,
        callback=keep,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    looks = thin([queries for queries, _ in posteriors], setting.looks)
    rng = np.random.default_rng([repeat, 2024])  # a stream that no run has drawn from
    curve: list[tuple[int, float]] = []
    for i in looks:
        queries, posterior = posteriors[i]
        draws = END_DRAWS if i == looks[-1] else LOOK_DRAWS
        mean_risk, kl = judge(digester, posterior, draws, rng)
        curve.append((queries, mean_risk + TEMPERATURE * kl))
    later = [look for look in setting.looks if queries < look <= setting.budget]
    curve += [(look, curve[-1][1]) for look in later]
    return Calibration(tuple(curve), queries, mean_risk, kl, seconds - watch.seconds, watch.seconds)


def judge(
    digester: adm1.Problem, posterior: supac.Distribution, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean risk, from fresh draws, and divergence from the prior."""
    x = digester.parameters.from_latent(posterior.sample(draws, rng))
    return float(digester.risk(x).mean()), posterior.kl(digester.prior)


def thin(queries: list[int], looks: tuple[int, ...]) -> list[int]:
    """Which posteriors to look at: the first with so many queries, and the last."""
    wanted = np.searchsorted(queries, looks)
    return sorted({int(i) for i in wanted if i < len(queries)} | {len(queries) - 1})
