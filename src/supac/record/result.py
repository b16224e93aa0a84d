"""What a run gives: the posterior, what it costs, how it was found, and what to know of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from supac.arrays import FloatArray
from supac.families import Density, Distribution
from supac.guarantee.certificate import Certificate
from supac.problem.bounds import Bound
from supac.problem.evaluations import Evaluations
from supac.problem.parameters import Parameters
from supac.record.calibrated import check_certificate
from supac.record.history import StopReason
from supac.record.run import Run

if TYPE_CHECKING:
    import pandas
    import xarray

    from supac.exchange import Table
    from supac.problem.frozen import Frozen


@dataclass(frozen=True, eq=False)
class Result:
    """The posterior, what it costs, and how it was found.

    `mean_risk` is the mean of `validated` fresh runs. Where there are none it is estimated from the
    runs already made, reweighted for the posterior; that was fitted to the same runs, so the
    estimate is optimistic, strongly so where `effective_size` is small.
    """

    posterior: Distribution
    start: Distribution
    """Where the search began: the prior, unless another was given."""
    objective: float
    mean_risk: float
    mean_risk_error: float
    """Standard error of `mean_risk`."""
    effective_size: float
    """How many independent runs the estimate of `mean_risk` is worth."""
    validated: int
    """How many fresh runs of the posterior itself `mean_risk` rests on."""
    kl: float
    kl_error: float
    """Standard error of `kl`; 0 where it is exact."""
    stop_reason: StopReason
    evaluations: Evaluations
    history: dict[str, FloatArray]
    """One column a quantity, one row an iteration; `queries` are those made until then."""
    notes: tuple[str, ...] = ()
    """Sentences on anything that should be known before the result is used."""
    parameters: Parameters | None = None
    failures: tuple[Run, ...] = ()
    """The runs that failed, with the reason of each."""
    on_failure: str = "raise"
    """What became of them: it changes what is bounded."""
    seconds: float = 0.0
    """That the simulator took in all."""
    known: int = 0
    """How many of the evaluations were made elsewhere."""
    prior: Density | None = None
    bound: Bound | None = None
    certificate: Certificate | None = None
    """What was certified of it, where it was read from a file that says so."""
    counts: tuple[int, int] | None = None
    """Queries, and failed runs, where it was read from a file without its runs."""

    @property
    def queries(self) -> int:
        """How many runs were made for it."""
        return len(self.evaluations) - self.known if self.counts is None else self.counts[0]

    @property
    def failed(self) -> int:
        """How many runs failed."""
        return self.evaluations.failed if self.counts is None else self.counts[1]

    def certify(self, risk: Callable[[FloatArray], Any], *, n: int, **options: Any) -> Certificate:
        """What is guaranteed of the posterior: fresh runs, and the bound with its assumptions.

        `n` is the number of independent data behind each risk; the options are those of `certify`:
        `delta=0.05`, `draws=1000`, another `bound`, an `executor` and so on.
        """
        from supac.calibration.certify import certify  # noqa: PLC0415 - it makes runs

        prior = self.parameters or self.prior
        bound = options.pop("bound", self.bound)
        if prior is None or bound is None:
            raise ValueError(
                "the file that the result was read from has only the name of its prior or bound: "
                "use supac.certify(result.posterior, prior, risk, bound, n=…)"
            )
        return certify(self.posterior, prior, risk, bound, n=n, **options)  # type: ignore[arg-type]

    @property
    def x(self) -> FloatArray:
        """The points that were evaluated, in the user's units: (n, dim)."""
        latent = self.evaluations.x
        return latent if self.parameters is None else self.parameters.from_latent(latent)

    def sample(self, n: int, rng: np.random.Generator | int) -> FloatArray:
        """Draws of the posterior, in the user's units where `Parameters` were given: (n, dim)."""
        if self.parameters is None:
            return self.posterior.sample(n, rng)
        return self.parameters.sample(self.posterior, n, rng)

    @property
    def frozen(self) -> Frozen:
        """The posterior in the user's units, with the methods of SciPy's frozen distributions."""
        from supac.problem.frozen import Frozen  # noqa: PLC0415 - SciPy's take long to import

        return Frozen(self.posterior, self.parameters)

    def _table(self, posterior: int | None, seed: int) -> Table:
        from supac.exchange import table_of_draws, table_of_evaluations  # noqa: PLC0415

        if posterior is not None:
            return table_of_draws(self.sample(posterior, seed), self.parameters)
        if self.counts is not None:
            raise ValueError("its runs were left out of the file: write it with runs=True")
        learnt = len(self.history["queries"])
        return table_of_evaluations(
            self.evaluations, learnt, self.failures, self.posterior, self.parameters
        )

    def to_pandas(self, *, posterior: int | None = None, seed: int = 0) -> pandas.DataFrame:
        """One row a run, or `posterior=1000` draws instead; in the user's units."""
        from supac.exchange import as_pandas  # noqa: PLC0415

        return as_pandas(self._table(posterior, seed))

    def to_xarray(self, *, posterior: int | None = None, seed: int = 0) -> xarray.Dataset:
        """The same along `run`, or `draw`, with units, and the outputs as one variable."""
        from supac.exchange import as_xarray  # noqa: PLC0415

        table = self._table(posterior, seed)
        return as_xarray(table, self.parameters, "run" if posterior is None else "draw")

    def to_arviz(
        self,
        *,
        draws: int = 1_000,
        seed: int = 0,
        observed: Any = None,
        certificate: Certificate | None = None,
    ) -> Any:
        """Draws for ArviZ: an `InferenceData`, from ArviZ 1.0 on a `DataTree`.

        Groups `posterior` and `prior` in the user's units; where outputs are known,
        `posterior_predictive` with those of the runs that were drawn from the posterior itself, and
        `observed_data` if `observed`, (m,), says what they are to be compared with.
        """
        from supac.exchange import as_arviz  # noqa: PLC0415

        return as_arviz(
            self,
            draws=draws,
            seed=seed,
            certificate=certificate or self.certificate,
            outputs=self.fresh_outputs,
            observed=observed,
        )

    @property
    def fresh_outputs(self) -> FloatArray | None:
        """Of the good runs that validated the posterior, (n, m); None where there are none."""
        runs = self.evaluations
        if runs.outputs is None:
            return None
        learnt = len(self.history["queries"])
        ours = np.array([each == self.posterior for each in runs.proposals], dtype=bool)
        found = runs.outputs[runs.ok & (runs.iteration >= learnt) & ours[runs.iteration]]
        return found if len(found) else None

    def to_json(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        certificate: Certificate | None = None,
        runs: bool = False,
        force: bool = False,
    ) -> str:
        """All of it but the runs as JSON, which `from_json` and `read_result` read.

        With `path` it is written there as well, over a file that is there already only if `force`;
        `runs=True` keeps the runs. ValueError where the certificate is about another posterior, or
        where a class of your own would be needed to read the parameters or the posterior.
        """
        from supac.exchange import to_record, vacant  # noqa: PLC0415

        if runs and self.counts is not None:
            raise ValueError("its runs were left out of the file that it was read from")
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values |= {"queries": self.queries, "failed": self.failed}
        values["certificate"] = certificate or self.certificate
        check_certificate(self, values["certificate"])
        text = to_record(values, runs=runs)
        if path is not None:
            # Half of a character, in a message of the simulator say, becomes an escape of JSON's.
            target = vacant(Path(path), force=force)
            target.write_text(text, encoding="utf-8", errors="backslashreplace")
        return text

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The result that `to_json` wrote; ResultFormatError where the text holds none."""
        from supac.exchange import ResultFormatError, from_record  # noqa: PLC0415

        values = from_record(text)
        try:
            return cls(**values | {"stop_reason": StopReason(values["stop_reason"])})
        except ValueError as error:
            raise ResultFormatError(f"this result is damaged: {error}") from error

    @property
    def _basis(self) -> str:
        if self.validated:
            return f"from {self.validated} fresh runs"
        return f"worth {self.effective_size:.0f} runs"

    def __str__(self) -> str:
        known = f" and {self.known} known ones" if self.known else ""
        summary = (
            f"objective {self.objective:.5g} (mean risk {self.mean_risk:.5g} "
            f"± {self.mean_risk_error:.1g}, {self._basis}; "
            f"KL {round(self.kl, 12):.4g}); "
            f"{self.queries} runs{known}, {self.failed} failed; "
            f"stopped: {self.stop_reason}"
        )
        return "\n".join([summary, *(f"note: {note}" for note in self.notes)])


def read_result(path: str | os.PathLike[str]) -> Result:
    """The result that `Result.to_json` wrote to a file."""
    from supac.exchange import ResultFormatError  # noqa: PLC0415

    try:
        return Result.from_json(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultFormatError(f"{os.fspath(path)}: {error}") from error
