"""The main job on embedded data: SuPAC-CE on one of the paper's synthetic risks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from supac.bounds import Catoni
from supac.families import gaussian
from supac.minimize import Result, minimize
from supac.plots import drawing_is_possible, save_run
from supac.simulators.synthetic import SyntheticRisk, example
from supac.supac import SuPAC

TEMPERATURE = 0.1


@dataclass(frozen=True, eq=False)
class Demo:
    """A run, and a check of it with draws that the run has never seen."""

    risk: SyntheticRisk
    result: Result
    prior_risk: float
    checked_risk: float
    checked_error: float
    checks: int

    @property
    def checked_objective(self) -> float:
        """The objective of the posterior, from fresh draws."""
        return Catoni(TEMPERATURE)(self.checked_risk, self.result.kl)


def run_demo(budget: int, seed: int, checks: int = 100_000) -> Demo:
    """Minimise, then check."""
    risk = example(seed)
    prior = gaussian(np.zeros(8), np.eye(8))
    result = minimize(
        risk,
        prior,
        Catoni(TEMPERATURE),
        budget=budget,
        algorithm=SuPAC.paper(first=100, batch=40, alpha_max=0.7, kl_max=0.5),
        vectorized=True,
        seed=seed,
    )
    rng = np.random.default_rng([seed, 1])
    fresh = risk(result.posterior.sample(checks, rng))
    return Demo(
        risk=risk,
        result=result,
        prior_risk=float(risk(prior.sample(checks, rng)).mean()),
        checked_risk=float(fresh.mean()),
        checked_error=float(fresh.std() / np.sqrt(checks)),
        checks=checks,
    )


def write_report(demo: Demo, folder: Path) -> list[Path]:
    """Two tables, the iterations and every evaluation made; and a picture, given matplotlib."""
    folder.mkdir(parents=True, exist_ok=True)
    history, runs, picture = folder / "history.csv", folder / "evaluations.csv", folder / "run.png"
    result = demo.result
    _write_csv(history, list(result.history), np.column_stack(list(result.history.values())))
    evaluations = result.evaluations
    names = ["iteration", *(f"x{i}" for i in range(evaluations.x.shape[1])), "risk"]
    _write_csv(
        runs, names, np.column_stack([evaluations.iteration, evaluations.x, evaluations.risk])
    )
    if not drawing_is_possible():
        return [history, runs]
    save_run(picture, result, result.evaluations.proposals[0], truth=demo.risk.minimum)
    return [history, runs, picture]


def _write_csv(path: Path, names: list[str], rows: np.ndarray[tuple[int, int]]) -> None:
    # %.17g gives every float back exactly, and whole numbers without a point.
    np.savetxt(path, rows, fmt="%.17g", delimiter=",", header=",".join(names), comments="")
