"""One calibration of ADM1: the true objective on the way, and what it cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

import supac
from settings import LOOK_DRAWS, TEMPERATURE, Setting
from supac.arrays import FloatArray
from supac.simulators import adm1
from supac.simulators.adm1.model import BLOCKS, PRIOR
from supac.simulators.adm1.problem import FAILURE

HOPELESS, PATIENCE = 1.5, 3
"""Give a descent up after PATIENCE batches in a row with a mean objective above HOPELESS, three
times the prior's.

Most of the simulations fail there, and take ten times as long. Of the six published runs that have
been there for so long, the best ends at 1.27.
"""
STEPS_A_DAY = 4
"""Steps a day of the simulator; with 12, mean risks near the posterior change by 1e-4."""


@dataclass(frozen=True)
class Calibration:
    """Hold the outcome of a calibration, and its seconds."""

    curve: tuple[tuple[int, float], ...]
    """Number of queries and the true objective after them; a run that was given up repeats its last
    objective up to the budget."""
    queries: int
    mean_risk: float
    kl: float
    algorithm_seconds: float
    simulator_seconds: float
    seconds: float
    """Seconds of `clock` in all: algorithm, simulations, and the draws behind true objectives."""


Device = Literal["cpu", "cuda"]


@cache
def load(data: Path | None, device: Device = "cpu") -> adm1.Problem:
    """Load the digester of `data`, or the embedded one, in the variant of the authors' code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adm1.UnitsWarning)
        if data is None:
            digester = adm1.example("split", device=device)
        else:
            digester = adm1.load(data, "split", device=device)
    return replace(digester, simulator=replace(digester.simulator, steps_a_day=STEPS_A_DAY))


MEDIANS, DEVIATIONS = np.array(list(PRIOR.values())).T
"""Prior medians of the parameters, and standard deviations of their logarithms."""


def logarithms() -> supac.Distribution:
    """Return the prior of the parameters' natural logarithms, the coordinates of descents."""
    index = {name: i for i, name in enumerate(PRIOR)}
    blocks = [[index[name] for name in block] for block in BLOCKS]
    return supac.gaussian(np.log(MEDIANS), DEVIATIONS**2, blocks)


ASTRAY = 5.0
"""Distance of a logarithm from its median beyond which a run counts as failed without being made.

A descent that has gone astray asks for such runs, which take minutes or overflow.
"""


def clock(device: Device) -> Callable[[], float]:
    """Return the clock to use: processor time, or wall time if a GPU simulates."""
    return time.process_time if device == "cpu" else time.perf_counter


Risks = Generator[FloatArray, tuple[FloatArray, float], Calibration]
"""Generator that yields points (n, 30) in the user's units and receives their risks and seconds."""


def calibrate(
    setting: Setting, repeat: int, data: Path | None, device: Device = "cpu"
) -> Calibration:
    """Run one repeat of a setting."""
    return calibrate_together([(setting, repeat)], data, device)[0]


def calibrate_together(
    which: Sequence[tuple[Setting, int]], data: Path | None, device: Device = "cpu"
) -> list[Calibration]:
    """Run several repeats, of several settings, in step: their simulations are one batch."""
    digester, now = load(data, device), clock(device)
    runs = {k: calibration(*each, digester, now) for k, each in enumerate(which)}
    asked = {k: next(run) for k, run in runs.items()}
    done: dict[int, Calibration] = {}
    while asked:
        start = now()
        risk = digester.risk(np.concatenate(list(asked.values())))
        each = (now() - start) / max(len(risk), 1)
        first, waiting, asked = 0, asked, {}
        for k, x in waiting.items():
            answer = risk[first : first + len(x)], each * len(x)
            first += len(x)
            try:
                asked[k] = runs[k].send(answer)
            except StopIteration as end:
                done[k] = end.value
    return [done[k] for k in runs]


@dataclass
class Times:
    """Count the seconds of an algorithm, between `start` and `stop`, and of its simulations."""

    now: Callable[[], float]
    algorithm: float = 0.0
    simulator: float = 0.0

    def start(self) -> None:
        """Begin to count time of the algorithm."""
        self._began = self.now()

    def stop(self) -> None:
        """Stop counting time of the algorithm."""
        self.algorithm += self.now() - self._began


def calibration(
    setting: Setting, repeat: int, digester: adm1.Problem, now: Callable[[], float]
) -> Risks:
    """Search, then estimate the true objectives of its posteriors from fresh draws."""
    # Steps of a descent depend on the coordinates; those of the others do not.
    latent = logarithms() if setting.descends else digester.parameters.prior
    times = Times(now)
    times.start()
    if setting.algorithm_is_ours:
        posteriors = _minimize(setting, repeat, digester, times)
    else:
        posteriors = yield from _search(setting, repeat, digester, latent, times)
    times.stop()
    looks = thin([queries for queries, _ in posteriors], setting.looks)
    draws = [LOOK_DRAWS] * (len(looks) - 1) + [setting.end_draws]
    rng = np.random.default_rng([repeat, 2024])  # a stream that no run has drawn from
    u = [posteriors[i][1].sample(n, rng) for i, n in zip(looks, draws, strict=True)]
    risk, looking = yield from _risk(setting, digester, np.concatenate(u))
    means = [float(part.mean()) for part in np.split(risk, np.cumsum(draws)[:-1])]
    kls = [posteriors[i][1].kl(latent) for i in looks]
    queries = posteriors[-1][0]
    curve = [
        (posteriors[i][0], mean_risk + TEMPERATURE * kl)
        for i, mean_risk, kl in zip(looks, means, kls, strict=True)
    ]
    later = [look for look in setting.looks if queries < look <= setting.budget]
    curve += [(look, curve[-1][1]) for look in later]
    seconds = (times.algorithm, times.simulator, times.algorithm + times.simulator + looking)
    return Calibration(tuple(curve), queries, means[-1], kls[-1], *seconds)


Posteriors = list[tuple[int, supac.Distribution]]
"""Number of queries and the posterior after them; the first is the prior."""


def _search(
    setting: Setting, repeat: int, digester: adm1.Problem, latent: supac.Distribution, times: Times
) -> Generator[FloatArray, tuple[FloatArray, float], Posteriors]:
    """Ask and tell until the budget is spent or a descent is hopeless.

    That is what `minimize` does, less its records and its estimate of the end, which nobody reads
    here and which take as long as a descent.
    """
    algorithm = setting.algorithm
    problem = supac.Problem.within(latent, supac.Catoni(TEMPERATURE))
    state = algorithm.init(problem, repeat)
    posteriors, objectives, queries = [(0, latent)], [0.0], 0
    while queries + len(batch := algorithm.ask(problem, state)) <= setting.budget:
        u = batch.x
        times.stop()
        risk, seconds = yield from _risk(setting, digester, u)
        times.simulator += seconds
        times.start()
        state, info = algorithm.tell(problem, state, batch, risk)
        queries += len(u)
        posteriors.append((queries, state.posterior))
        objectives.append(info.objective)
        if setting.descends and min(objectives[-PATIENCE:]) > HOPELESS:
            break
    return posteriors


def _risk(
    setting: Setting, digester: adm1.Problem, u: FloatArray
) -> Generator[FloatArray, tuple[FloatArray, float], tuple[FloatArray, float]]:
    """Request the risks of latent points; runs with a parameter astray count as failed."""
    if not setting.descends:
        answer = yield digester.parameters.from_latent(u)
        return answer
    sane = (np.abs(u - np.log(MEDIANS)) < ASTRAY).all(axis=1)
    risk = np.full(len(u), FAILURE)
    risk[sane], seconds = yield np.exp(u[sane])
    return risk, seconds


def _minimize(setting: Setting, repeat: int, digester: adm1.Problem, times: Times) -> Posteriors:
    """Search with `SuPAC()` through `minimize`, since it may begin again."""
    parameters, composite = digester.parameters, digester.composite

    def simulate(u: FloatArray) -> FloatArray:
        times.stop()
        start = times.now()
        x = parameters.from_latent(u)
        found = composite.simulate(x) if setting.composite else digester.risk(x)
        times.simulator += times.now() - start
        times.start()
        return found

    posteriors: Posteriors = [(0, parameters.prior)]
    result = supac.minimize(
        replace(composite, simulate=simulate) if setting.composite else simulate,
        parameters.prior, supac.Catoni(TEMPERATURE), budget=setting.budget,
        algorithm=setting.algorithm, seed=repeat, validation=0,
        execution=supac.Execution(vectorized=True, progress=False),
        callback=lambda event: posteriors.append((event.queries, event.next_posterior)),
    )  # fmt: skip
    if result.stop_reason is not supac.StopReason.BUDGET:
        raise RuntimeError(f"{setting.name}, repeat {repeat}: {result.stop_reason.sentence}")
    return posteriors


def thin(queries: list[int], looks: tuple[int, ...]) -> list[int]:
    """Return the indices of the prior, of the first posterior after each look, and of the last."""
    wanted = np.searchsorted(queries, (0, *looks))
    return sorted({int(i) for i in wanted if i < len(queries)} | {len(queries) - 1})
