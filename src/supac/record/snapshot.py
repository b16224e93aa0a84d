"""A run as its store tells it: at its end, on its way, or after it was killed."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supac.arrays import FloatArray
from supac.codec import UnknownSpecError, from_spec
from supac.families import Distribution
from supac.guarantee.certificate import Certificate
from supac.problem.bounds import Bound
from supac.problem.evaluations import Evaluations
from supac.problem.parameters import Parameters
from supac.record.history import Journal, StopReason
from supac.record.result import Result
from supac.record.run import Run, Status, by_kind
from supac.record.store import is_being_written, read_contents
from supac.record.summary import summarise

if TYPE_CHECKING:
    import pandas
    import xarray

    from supac.exchange import Table
    from supac.problem.frozen import Frozen


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a store tells of its run at one moment; nothing is run or written."""

    path: Path
    settings: dict[str, Any]
    """What `minimize` was told; of functions and of classes of the user's own only the names."""
    runs: tuple[Run, ...]
    """In the order in which they were asked for."""
    history: dict[str, FloatArray]
    """As in `Result`: one column a quantity, one row an iteration."""
    rounds: tuple[tuple[int, ...], ...]
    """The ids of the runs that each iteration learnt from."""
    proposals: tuple[Distribution, ...]
    """The posterior that each iteration's runs were drawn from; none where it is not known."""
    posterior: Distribution | None
    """The one that was returned, or else the latest; None before the first step."""
    stop_reason: StopReason | None
    """Why it ended; None where it has not."""
    objective: float
    """Of the returned posterior; on the way, of the one that drew the last batch."""
    mean_risk: float
    mean_risk_error: float
    effective_size: float
    """How many independent runs `mean_risk` is worth."""
    kl: float
    kl_error: float
    """Standard error of `kl`; 0 where it is exact, NaN where the store does not say."""
    validated: int
    """How many fresh runs of the posterior `mean_risk` rests on; 0 on the way."""
    fresh: tuple[int, ...]
    """The ids of these runs, with those that failed; none where the store does not say."""
    notes: tuple[str, ...]
    description: str
    """What `minimize` was told to keep: the problem file of `supac run`."""
    created: str
    made_with: str
    """The versions of the libraries that began it."""
    running: bool
    """Whether a process is at work on it."""

    def __repr__(self) -> str:
        """Which run, how far it is, and what it has reached: not its thousands of numbers."""
        state = "running" if self.running else "not ended"
        state = state if self.stop_reason is None else f"ended: {self.stop_reason.value}"
        return (
            f"Snapshot({str(self.path)!r}, {len(self.made)} of {self.budget} runs, {state}, "
            f"objective={self.objective:.4g}, mean_risk={self.mean_risk:.4g}, kl={self.kl:.4g})"
        )

    @property
    def parameters(self) -> Parameters | None:
        """The named parameters, where there are such."""
        prior = self.settings["prior"]
        return prior if isinstance(prior, Parameters) else None

    @property
    def prior(self) -> Distribution | None:
        """The latent prior; None where the store only knows its name."""
        prior = self.settings["prior"]
        latent = prior.prior if isinstance(prior, Parameters) else prior
        return latent if isinstance(latent, Distribution) else None

    @property
    def bound(self) -> Bound | None:
        """What is minimised; None where the store only knows its name."""
        bound = self.settings["bound"]
        return bound if isinstance(bound, Bound) else None

    @property
    def budget(self) -> int:
        """Queries that there are in all."""
        return int(self.settings["budget"])

    @property
    def made(self) -> tuple[Run, ...]:
        """The runs without those that were made elsewhere."""
        return tuple(run for run in self.runs if not run.source)

    @property
    def failures(self) -> tuple[Run, ...]:
        """The runs that failed."""
        return tuple(run for run in self.runs if run.status is not Status.OK)

    @property
    def failures_by_kind(self) -> list[tuple[Status, int, str]]:
        """Status, how many, and the message of one of them, the commonest kind first."""
        return [(runs[0].status, len(runs), runs[0].message) for runs in by_kind(self.failures)]

    @property
    def seconds(self) -> float:
        """That the simulator took in all."""
        return float(sum(run.seconds for run in self.made))

    @property
    def best(self) -> float:
        """The lowest objective so far, with the returned one; NaN where there is none."""
        objective = np.append(self.history["objective"], self.objective)
        known = objective[np.isfinite(objective)]
        return float(known.min()) if len(known) else np.nan

    def sample(self, n: int, rng: np.random.Generator | int) -> FloatArray:
        """Draws of the posterior, in the user's units where there are `Parameters`: (n, dim)."""
        if self.posterior is None:
            raise ValueError(f"{self.path} has no posterior yet")
        if self.parameters is None:
            return self.posterior.sample(n, rng)
        return self.parameters.sample(self.posterior, n, rng)

    @property
    def frozen(self) -> Frozen:
        """The posterior in the user's units, with the methods of SciPy's frozen distributions."""
        from supac.problem.frozen import Frozen  # noqa: PLC0415 - SciPy's take long to import

        if self.posterior is None:
            raise ValueError(f"{self.path} has no posterior yet")
        return Frozen(self.posterior, self.parameters)

    def table(self, *, posterior: int | None = None, seed: int = 0) -> Table:
        """One row a run, or so many draws of the posterior instead, as columns."""
        from supac.exchange import table_of_draws, table_of_runs  # noqa: PLC0415

        if posterior is not None:
            return table_of_draws(self.sample(posterior, seed), self.parameters)
        return table_of_runs(self.runs, self.rounds, self.parameters)

    def to_pandas(self, *, posterior: int | None = None, seed: int = 0) -> pandas.DataFrame:
        """As `Result.to_pandas`, with what only a store knows of each run."""
        from supac.exchange import as_pandas  # noqa: PLC0415

        return as_pandas(self.table(posterior=posterior, seed=seed))

    def to_xarray(self, *, posterior: int | None = None, seed: int = 0) -> xarray.Dataset:
        """As `Result.to_xarray`, with what only a store knows of each run."""
        from supac.exchange import as_xarray  # noqa: PLC0415

        table = self.table(posterior=posterior, seed=seed)
        return as_xarray(table, self.parameters, "run" if posterior is None else "draw")

    def to_arviz(
        self, *, draws: int = 1_000, seed: int = 0, certificate: Certificate | None = None
    ) -> Any:
        """As `Result.to_arviz`, without outputs."""
        from supac.exchange import as_arviz  # noqa: PLC0415

        return as_arviz(self, draws=draws, seed=seed, certificate=certificate)

    def result(self) -> Result:
        """What `minimize` returned, but for the runs; ValueError where it has not ended."""
        if self.stop_reason is None:
            raise ValueError(f"{self.path} has not come to its end: there is no result yet")
        start = self.settings["start"] or self.prior
        if not isinstance(start, Distribution) and isinstance(self.settings["prior"], str):
            raise ValueError(
                f"{self.path} has only the name of a class of your own, {self.settings['prior']}: "
                "use the result that minimize returned, or supac.resume(store, risk, prior=…)"
            )
        if self.posterior is None or not isinstance(start, Distribution):
            raise ValueError(f"{self.path} has only the name of the posterior's family")
        return Result(
            posterior=self.posterior,
            start=start,
            objective=self.objective,
            mean_risk=self.mean_risk,
            mean_risk_error=self.mean_risk_error,
            effective_size=self.effective_size,
            validated=self.validated,
            kl=self.kl,
            kl_error=self.kl_error,
            stop_reason=self.stop_reason,
            evaluations=Evaluations.none(self.posterior.dim),
            history=self.history,
            notes=self.notes,
            parameters=self.parameters,
            on_failure=str(self.settings["on_failure"]),
            seconds=self.seconds,
            known=len(self.runs) - len(self.made),
            prior=self.prior,
            bound=self.bound,
            counts=(len(self.made), len(self.failures)),
        )

    def to_dict(self) -> dict[str, Any]:
        """For machines: what JSON can hold, numbers that are not known as None."""
        return {
            "store": str(self.path),
            "running": self.running,
            "stop_reason": None if self.stop_reason is None else self.stop_reason.value,
            "budget": self.budget,
            "queries": len(self.made),
            "failed": len(self.failures),
            "failures": [
                {"status": status.value, "count": count, "message": message}
                for status, count, message in self.failures_by_kind
            ],
            "objective": _number(self.objective),
            "best_objective": _number(self.best),
            "mean_risk": _number(self.mean_risk),
            "mean_risk_error": _number(self.mean_risk_error),
            "validated": self.validated,
            "kl": _number(self.kl),
            "seconds": self.seconds,
            "bound": str(self.settings["bound"]),
            "seed": self.settings["seed"],
            "created": self.created,
            "made_with": self.made_with,
            "notes": list(self.notes),
            "parameters": [row.to_dict() for row in summarise(self)],
        }


def read_store(path: str | os.PathLike[str]) -> Snapshot:
    """What a store tells of its run, also while another process is at work on it."""
    path = Path(path)
    running = is_being_written(path)
    contents = read_contents(path)
    settings = {name: _setting(spec) for name, spec in contents.config.items()}
    runs = {run.id: run for run in contents.runs}
    told = [sum(not runs[i].source for i in ids if i in runs) for ids, _ in contents.rounds]
    journal = Journal([info for _, info in contents.rounds], np.cumsum(told).astype(int).tolist())
    history, end = journal.columns(), contents.end
    last = {name: float(column[-1]) for name, column in history.items() if len(column)}
    source: dict[str, Any] = last if end is None else end
    return Snapshot(
        path=path,
        settings=settings,
        runs=contents.runs,
        history=history,
        rounds=tuple(ids for ids, _ in contents.rounds),
        proposals=contents.proposals,
        posterior=contents.posterior,
        stop_reason=None if end is None else StopReason(end["stopped"]),
        objective=float(source.get("objective", np.nan)),
        mean_risk=float(source.get("mean_risk", np.nan)),
        mean_risk_error=float(source.get("mean_risk_error", np.nan)),
        effective_size=float(source.get("effective_size", np.nan)),
        kl=float(source.get("kl", np.nan)),
        kl_error=float(source.get("kl_error", np.nan)),
        validated=0 if end is None else int(end["validated"]),
        fresh=() if end is None else tuple(map(int, end.get("fresh", _validating(runs, end)))),
        notes=() if end is None else tuple(map(str, end["notes"])),
        description=contents.description,
        created=contents.created,
        made_with=contents.made_with,
        running=running,
    )


def _validating(runs: dict[int, Run], end: dict[str, Any]) -> list[int]:
    """What the ends of older stores do not say: known where only one posterior was validated."""
    ids = [run.id for run in runs.values() if run.purpose == "validation"]
    return ids if len(ids) == end["validated"] else []


def _setting(spec: Any) -> Any:
    try:
        return from_spec(spec)
    except UnknownSpecError as error:
        return str(error)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
