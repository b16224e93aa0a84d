"""The problems on which queries are counted: what is minimised, by whom, and what is good enough.

Four synthetic risks whose optimum is known, and two simulators: ADM1 and a drug's way through the
body. All data are drawn from fixed seeds, so a name means the same function everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.stats import ortho_group

import supac
from supac.arrays import FloatArray
from supac.problem import Composite
from supac.simulators import adm1, drug, synthetic

ADM1_DATA = Path(__file__).parents[2] / "shared" / "reference" / "adm1_lf"
DRAWS_SEED = 20_240_607
"""The standard normal draws behind every true objective."""
ORACLE = "SuPAC(FreshDraws(), FixedStep(0.3, 1)), 60 batches of 20,000 draws, seed 0: the lowest"


@dataclass(frozen=True, eq=False)
class Task:
    """What there is to learn: a vectorised risk, (n, dim) → (n,), in the units of its prior."""

    risk: Callable[[FloatArray], FloatArray]
    prior: supac.Distribution | supac.Parameters
    composite: Composite | None = None
    """The same risk from residuals that somebody has chosen."""
    outputs: Composite | None = None
    """The same risk from the simulator's outputs, each in its own unit."""

    @property
    def latent(self) -> supac.Distribution:
        """The prior as a distribution."""
        return self.prior.prior if isinstance(self.prior, supac.Parameters) else self.prior

    def latent_risk(self, u: FloatArray) -> FloatArray:
        """The risk of latent points."""
        return self.risk(
            self.prior.from_latent(u) if isinstance(self.prior, supac.Parameters) else u
        )


@dataclass(frozen=True)
class Contender:
    """An algorithm, how many queries it may make, and the seeds of the final table."""

    algorithm: supac.SuPAC
    budget: int
    seeds: tuple[int, ...]
    sees: Literal["composite", "outputs", "risk"] = "risk"
    """Which form of the risk it learns from."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A task, its bound, who contends, and when its objective is good."""

    name: str
    title: str
    make: Callable[[], Task]
    bound: supac.Catoni
    contenders: dict[str, Contender]
    levels: tuple[float, ...] = ()
    """Objectives to reach."""
    within: tuple[float, ...] = ()
    """The same in per cent above the optimum, where an oracle can find it."""

    @cached_property
    def task(self) -> Task:
        """Made when it is first needed: reports need none, and ADM1 takes seconds."""
        return self.make()

    def thresholds(self, optimum: float | None) -> dict[str, float]:
        """Each level as it is printed, and the objective that reaches it."""
        fixed = {f"≤ {level:g}": level for level in self.levels}
        if optimum is None:
            return fixed
        return fixed | {f"≤ +{p:g} %": optimum * (1.0 + p / 100.0) for p in self.within}

    def true_objective(self, posterior: supac.Distribution, draws: int) -> float:
        """bound(π[R], KL(π, prior)), from the same standard normal draws for every posterior."""
        root = np.linalg.cholesky(posterior.covariance)
        u = posterior.mean + _standard_normal(draws, posterior.dim) @ root.T
        mean_risk = float(np.mean(self.task.latent_risk(u)))
        return self.bound(mean_risk, posterior.kl(self.task.latent))

    def find_optimum(self, draws: int) -> float:
        """The lowest true objective that closed-form updates find when draws cost nothing."""
        algorithm = supac.SuPAC(supac.FreshDraws(), supac.FixedStep(0.3, 1.0), 20_000, 20_000)
        problem = supac.Problem.within(self.task.prior, self.bound)
        state = algorithm.init(problem, seed=0)
        objectives = []
        for _ in range(60):
            batch = algorithm.ask(problem, state)
            u = batch.x
            state, _ = algorithm.tell(problem, state, batch, self.task.latent_risk(u))
            objectives.append(self.true_objective(state.posterior, draws))
        return min(objectives)


@cache
def _standard_normal(draws: int, dim: int) -> FloatArray:
    return np.random.default_rng(DRAWS_SEED).standard_normal((draws, dim))


def bowl_8(task: int = 0) -> Task:
    """One of the paper's oscillating bowls in 8 dimensions, minima varying in two directions."""
    rng = np.random.default_rng(1000 + task)
    rotation = ortho_group(8, seed=rng).rvs()
    deviations = np.append(np.exp(rng.uniform(-0.5, 0.5, 2)), np.full(6, 0.05))
    direction = rng.standard_normal(8)
    centre = 2.0 * direction / np.linalg.norm(direction)
    risk = synthetic.SyntheticRisk(
        minimum=centre + rng.standard_normal(8) * deviations @ rotation,
        matrix=np.eye(8) + rng.normal(0.0, 0.1, (8, 8)),
        frequency=float(rng.uniform(1.5 * np.pi, 2.5 * np.pi)),
    )
    return Task(risk, supac.gaussian(np.zeros(8), np.eye(8)))


def regression_24() -> Task:
    """Softly clipped error of 40 nonlinear outputs of 24 parameters, few of which matter much."""
    rng = np.random.default_rng(7)
    importance = np.exp(-0.18 * np.arange(24))
    rng.shuffle(importance)
    saturating = rng.standard_normal((40, 24)) * importance
    bending = rng.standard_normal((40, 24)) * importance
    truth = 1.2 * rng.standard_normal(24)

    def outputs(x: FloatArray) -> FloatArray:
        square = (x @ bending.T) ** 2
        return 1.5 * np.tanh(x @ saturating.T / 2.0) + 0.25 * square / (1.0 + 0.1 * square)

    observed = outputs(truth[None])[0] + 0.1 * rng.standard_normal(40)

    def risk(x: FloatArray) -> FloatArray:
        error = np.sqrt(((outputs(x) - observed) ** 2).mean(axis=1))
        return np.where(error < 1.5, error, 1.5 + np.tanh(error - 1.5))

    blocks = [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(8)]
    return Task(risk, supac.gaussian(np.zeros(24), np.ones(24), blocks))


def classification_20() -> Task:
    """Mean sigmoid loss of a linear classifier on 400 points in 20 dimensions."""
    rng = np.random.default_rng(11)
    mixing = rng.standard_normal((20, 20)) * np.exp(-0.1 * np.arange(20))
    points = rng.standard_normal((400, 20)) @ mixing.T / np.sqrt(20.0)
    direction = rng.standard_normal(20)
    label = np.sign(points @ direction + 0.5 * rng.standard_normal(400))
    signed = label[:, None] * points

    def risk(x: FloatArray) -> FloatArray:
        margin = np.clip(4.0 * (x @ signed.T), -50.0, 50.0)
        return np.asarray((1.0 / (1.0 + np.exp(margin))).mean(axis=1))

    return Task(risk, supac.gaussian(np.zeros(20), np.eye(20)))


def digester(folder: Path | None) -> Task:
    """Calibrating ADM1's 30 kinetic parameters, on the data of `folder` or the embedded ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adm1.UnitsWarning)
        problem = adm1.example("split") if folder is None else adm1.load(folder, "split")
    outputs = Composite(problem.simulate, problem.loss)
    return Task(problem.risk, problem.parameters, problem.composite, outputs)


def drug_model() -> Task:
    """Calibrating a drug's way through the body."""
    problem = drug.example()
    return Task(problem.risk, problem.parameters, problem.composite)


def _seeds(count: int) -> tuple[int, ...]:
    return tuple(range(401, 401 + count))


def _synthetic(
    name: str,
    title: str,
    make: Callable[[], Task],
    temperature: float,
    budget: int,
    paper: Contender,
) -> Problem:
    contenders = {"scalar": Contender(supac.SuPAC(), budget, _seeds(5)), "paper": paper}
    bound = supac.Catoni(temperature=temperature)
    return Problem(name, title, make, bound, contenders, within=(10.0, 3.0, 1.0))


def _adm1() -> Problem:
    found = ADM1_DATA.is_dir()
    return Problem(
        "adm1" if found else "adm1-embedded",
        f"ADM1, {'LF' if found else 'embedded'} data, 30 parameters, λ = 0.002",
        partial(digester, ADM1_DATA if found else None),
        supac.Catoni(temperature=0.002),
        {
            "composite": Contender(supac.SuPAC(), 250, _seeds(10), sees="composite"),
            "outputs": Contender(supac.SuPAC(), 120, _seeds(10), sees="outputs"),
            "scalar": Contender(supac.SuPAC(), 300, _seeds(10)),
            "paper": Contender(supac.SuPAC.paper(), 1760, _seeds(3)),
        },
        levels=(0.20, 0.15, 0.125, 0.121),
    )


def _drug() -> Problem:
    return Problem(
        "drug",
        "Drug model, 12 parameters, λ = 0.002",
        drug_model,
        supac.Catoni(temperature=0.002),
        {
            "composite": Contender(supac.SuPAC(), 120, _seeds(8), sees="composite"),
            "scalar": Contender(supac.SuPAC(), 400, _seeds(8)),
            "paper": Contender(supac.SuPAC.paper(first=180, batch=32), 900, _seeds(3)),
        },
        levels=(0.25, 0.18, 0.15, 0.135),
    )


_PAPER_8 = Contender(supac.SuPAC.paper(first=88, batch=44), 600, _seeds(3))
_PAPER_24 = Contender(supac.SuPAC.paper(first=144, batch=32), 1600, _seeds(3))
_PAPER_20 = Contender(supac.SuPAC.paper(first=460, batch=64), 1600, _seeds(3))
PROBLEMS = {
    problem.name: problem
    for problem in (
        _adm1(),
        _drug(),
        _synthetic("meta8-0.1", "Bowl, 8-D, λ = 0.1", bowl_8, 0.1, 250, _PAPER_8),
        _synthetic("meta8-0.01", "Bowl, 8-D, λ = 0.01", bowl_8, 0.01, 250, _PAPER_8),
        _synthetic(
            "nlreg24", "Regression, 24-D, 8 blocks, λ = 0.005", regression_24, 0.005, 500, _PAPER_24
        ),
        _synthetic(
            "sigcls20",
            "Classification, 20-D, full covariance, λ = 0.01",
            classification_20,
            0.01,
            700,
            _PAPER_20,
        ),
    )
}
