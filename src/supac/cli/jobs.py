"""The main job on embedded data: calibrate the digester, or one of the synthetic risks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from supac.calibration.minimize import minimize
from supac.plots import drawing_is_possible, save_fit, save_posterior
from supac.problem.bounds import Catoni
from supac.problem.marginals import Normal
from supac.problem.parameters import Parameters
from supac.record.result import Result
from supac.running.execution import Execution
from supac.simulators import adm1, synthetic
from supac.simulators.adm1.generate import true_parameters

Risk = Callable[[np.ndarray], np.ndarray]
FILES = ("history.csv", "evaluations.csv", "posterior.png", "fit.png")
"""What `write_outcome` may write; the last is of the digester."""


@dataclass(frozen=True, eq=False)
class Job:
    """What a demo runs: a problem, a bound, and what is true."""

    title: str
    risk: Risk
    parameters: Parameters
    bound: Catoni
    budget: int
    truth: np.ndarray
    digester: adm1.Problem | None = None


def digester_job() -> Job:
    """The paper's main experiment on the embedded digester."""
    problem = adm1.example()
    problem.simulator.load()
    return Job(
        title="ADM1, an anaerobic digester: 30 parameters, 13 blocks, 196 days of data",
        risk=problem.composite,
        parameters=problem.parameters,
        bound=Catoni(temperature=0.002, ceiling=3.0),
        budget=150,
        truth=np.array(list(true_parameters().values())),
        digester=problem,
    )


def synthetic_job() -> Job:
    """One of the paper's 8-dimensional risks."""
    risk = synthetic.example()
    return Job(
        title="A synthetic risk of the paper: 8 parameters, full covariance",
        risk=risk,
        parameters=Parameters({f"x{i}": Normal(0.0, 1.0) for i in range(8)}),
        bound=Catoni(temperature=0.1),
        budget=200,
        truth=risk.minimum,
    )


@dataclass(frozen=True, eq=False)
class Outcome:
    """A run, and a check of it with draws that the run has never seen."""

    job: Job
    result: Result
    prior_risk: float
    true_risk: float
    """Of what the data were made with, which leaves their noise."""
    checked_risk: float
    checked_error: float
    checks: int

    @property
    def checked_objective(self) -> float:
        """The objective of the posterior, from fresh draws."""
        return self.job.bound(self.checked_risk, self.result.kl)


def run(job: Job, budget: int | None, seed: int, checks: int = 1_000) -> Outcome:
    """Minimise, then check."""
    result = minimize(
        job.risk,
        job.parameters,
        job.bound,
        budget=budget or job.budget,
        execution=Execution(vectorized=True),
        seed=seed,
    )
    rng = np.random.default_rng([seed, 1])
    fresh = job.risk(result.sample(checks, rng))
    return Outcome(
        job=job,
        result=result,
        prior_risk=float(job.risk(job.parameters.sample(job.parameters.prior, checks, rng)).mean()),
        true_risk=float(job.risk(job.truth[None])[0]),
        checked_risk=float(fresh.mean()),
        checked_error=float(fresh.std() / np.sqrt(checks)),
        checks=checks,
    )


def write_outcome(outcome: Outcome, folder: Path) -> list[Path]:
    """Two tables, the iterations and every evaluation made; and pictures, given matplotlib."""
    job, result = outcome.job, outcome.result
    history, evaluations, posterior, fit = (folder / name for name in FILES)
    written = [history, evaluations]
    _write_csv(history, list(result.history), np.column_stack(list(result.history.values())))
    runs = np.column_stack([result.evaluations.iteration, result.x, result.evaluations.risk])
    _write_csv(evaluations, ["iteration", *job.parameters.names, "risk"], runs)
    if drawing_is_possible():
        written.append(posterior)
        save_posterior(posterior, result, job.truth)
        if job.digester is not None:
            written.append(fit)
            save_fit(fit, *_predictions(job.digester, outcome))
    return written


def _predictions(
    problem: adm1.Problem, outcome: Outcome
) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, dict[str, np.ndarray]]]:
    """Days, observations, and outputs under draws of prior and posterior."""
    result, days = outcome.result, problem.digester.days
    titles = [f"{name}, {unit}" for name, unit in adm1.OUTPUT_UNITS.items()]
    draws = {
        "prior": problem.parameters.sample(problem.prior, 100, 2),
        "posterior": result.sample(100, 3),
    }
    outputs = {name: problem.simulator.outputs(x) for name, x in draws.items()}
    by_output = {
        title: {name: values[:, :, k] for name, values in outputs.items()}
        for k, title in enumerate(titles)
    }
    observed = dict(zip(titles, problem.digester.observed.T, strict=True))
    return days, observed, by_output


def _write_csv(path: Path, names: list[str], rows: np.ndarray) -> None:
    # %.17g gives every float back exactly, and whole numbers without a point.
    np.savetxt(path, rows, fmt="%.17g", delimiter=",", header=",".join(names), comments="")
