"""Searches that differ from the default in one thing: a part, the form of the risk, the workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import supac
from outside.clock import VirtualWorkers
from outside.methods import Moment, trace
from outside.problem import OutsideProblem
from supac.arrays import FloatArray


@dataclass(frozen=True)
class Variant:
    """A search that differs from the default in one thing."""

    options: Mapping[str, Any] | None = None
    """Of `minimize`."""
    risk: Callable[[OutsideProblem, int], Any] | None = None
    """Problem and seed → what is minimised; None if the problem has no such form."""
    workers: int = 1
    """Runs at the same time."""
    asynchronous: bool = False

    def moments(self, problem: OutsideProblem, seed: int, budget: int) -> list[Moment] | None:
        """Search; None if the problem has not the form of the risk."""
        risk = None if self.risk is None else self.risk(problem, seed)
        if self.risk is not None and risk is None:
            return None
        options = dict(self.options or {})
        if not self.asynchronous:
            return trace(problem, seed, budget, risk, **options)
        workers = VirtualWorkers(self.workers, seed)
        where = {"workers": workers, "mode": "async", "clock": lambda: workers.now}
        try:
            return trace(problem, seed, budget, risk, **where, **options)
        finally:
            workers.shutdown()

    def waves(self, moments: Sequence[Moment], moment: Moment) -> float:
        """Return how long the runs up to a moment take, in units of one run."""
        if self.asynchronous:
            return moment.seconds
        runs = np.diff([each.runs for each in moments[: moment.rounds + 1]])
        return float(np.ceil(runs / self.workers).sum())


def scalar(problem: OutsideProblem, seed: int) -> Callable[[FloatArray], float]:
    """Return the risk alone."""
    simulate = problem.simulator(seed)
    return lambda x: float(np.asarray(problem.loss(np.asarray(simulate(x))[None]))[0])


def expressed(
    see: Callable[[FloatArray], FloatArray], back: Callable[[FloatArray], FloatArray]
) -> Callable[[OutsideProblem, int], supac.Composite | None]:
    """Return the risk of re-expressed outputs: see(y/scale), in units of the data's scale."""

    def form(problem: OutsideProblem, seed: int) -> supac.Composite | None:
        if problem.measured is None:
            return None
        data, scale = problem.measured
        simulate = problem.simulator(seed)

        def outputs(x: FloatArray) -> FloatArray:
            return see(np.asarray(simulate(x)) + data / scale)

        def loss(seen: FloatArray) -> FloatArray:
            return problem.loss(back(seen) - data / scale)

        return supac.Composite(outputs, loss)

    return form


def own_units(problem: OutsideProblem, seed: int) -> supac.Composite | None:
    """Return the risk of outputs as they are, each in its own unit."""
    if problem.measured is None:
        return None
    scale = problem.measured[1]
    return expressed(lambda y: y * scale, lambda y: y / scale)(problem, seed)


def logarithms(problem: OutsideProblem, seed: int) -> supac.Composite | None:
    """Return the risk of logarithms of the outputs, if all runs of the prior have them."""
    if problem.measured is None:
        return None
    data, scale = problem.measured
    prior = problem.prior
    u = prior.mean + np.random.default_rng(0).standard_normal((200, problem.dim)) @ prior.root.T
    seen = [problem.outputs(each, 0) for each in u]
    if min((each + data / scale).min() for each in seen if each is not None) <= 0.0:
        return None
    return expressed(np.log, np.exp)(problem, seed)
