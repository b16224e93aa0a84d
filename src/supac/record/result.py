"""Result of a search: posterior, objective, and the underlying record."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.guarantee.certificate import Certificate, Subject
from supac.problem import Bound, Evaluations, Parameters
from supac.problem.problem import parameters_of
from supac.record.calibrated import Calibrated, check_certificate
from supac.record.ending import Ending
from supac.record.local_ranges import advice_on_local_ranges, words_on_local_ranges
from supac.record.record import Record

if TYPE_CHECKING:
    from supac.calibration.old_keywords import OldKeywords


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(Ending, Calibrated):
    """Returned posterior with its estimates: a view of `record`, which holds runs and rounds."""

    record: Record

    @classmethod
    def of(cls, record: Record) -> Self:
        """Make the result of a record; ValueError if the search has not ended."""
        if record.ending is None:
            if record.rounds:
                _ = record.start  # an error where a file has only its name, and no ending is read
            raise ValueError(f"{record.path} has not come to its end: there is no result yet")
        ending = {each.name: getattr(record.ending, each.name) for each in fields(Ending)}
        return cls(**ending, record=record)

    @property
    def own_record(self) -> Record:
        """The record behind it."""
        return self.record

    @property
    def on_failure(self) -> str:
        """Treatment of failed runs."""
        return str(self.record.settings.on_failure)

    @property
    def evaluations(self) -> Evaluations:
        """Runs of all rounds, then those of the validation, as columns."""
        return self.record.evaluations

    @property
    def x(self) -> FloatArray:
        """Evaluated points in the user's units: (n, dim)."""
        latent = self.evaluations.x
        return latent if self.parameters is None else self.parameters.from_latent(latent)

    @property
    def fresh_outputs(self) -> FloatArray | None:
        """Outputs of the successful validation runs, (n, m); None if there are none."""
        return None if self.record.counts is not None else self.record.outputs(self.fresh)

    def certify(
        self,
        risk: Callable[[FloatArray], Any],
        *,
        prior: Distribution | Parameters | None = None,
        bound: Bound | None = None,
        n: int | None = None,
        delta: float | None = None,
        draws: int = 1_000,
        precision: float | None = None,
        subject: Subject = "posterior",
        execution: Any = None,
        store: str | os.PathLike[str] | None = None,
        seed: int = 0,
        **old: Unpack[OldKeywords],
    ) -> Certificate:
        """Certify the posterior with fresh runs; arguments as in `certify`.

        Prior and bound are by default those of the search. Its own ensemble is certified already,
        in `certificate`; another one, or a posterior with other draws, is counted as a further
        certificate, with a smaller share of δ.
        """
        from supac.calibration.certify import certify  # noqa: PLC0415 - it makes runs

        known: Any = prior or self.parameters or self.prior
        if self.parameters is not None and parameters_of(known) is None:
            raise ValueError(f"prior must be Parameters, as in the search, not {known!r}")
        chosen = bound or self.bound
        if chosen is None or known is None:
            raise ValueError(
                "the file that the result was read from has only the name of its prior or bound: "
                "pass prior= or bound= again"
            )
        made = certify(
            self.posterior,
            known,
            self.record.risk_as_stored(risk),
            chosen,
            n=n,
            delta=delta,
            draws=draws,
            precision=precision,
            subject=subject,
            provenance=self.record.next_provenance(prior, bound, risk),
            execution=execution,
            store=store,
            seed=self.seed_of_draws(seed),
            **old,
        )
        return self.record.count_certificate(made)

    def to_json(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        certificate: Certificate | None = None,
        runs: bool = False,
        force: bool = False,
    ) -> str:
        """Return the result as JSON, which `from_json` and `read_result` read.

        With `path`, write it there too; replace an existing file only with `force`. `runs=True`
        includes the runs. ValueError if the certificate belongs to another posterior, or if
        reading the parameters or the posterior would need a class of your own.
        """
        from supac.exchange.result_json import to_json, write_text  # noqa: PLC0415

        if runs:
            self.record.check_runs()
        told = certificate or self.certificate
        check_certificate(self.posterior, self.prior, self, told)
        text = to_json(self, told, runs=runs)
        if path is not None:
            write_text(text, Path(path), force=force)
        return text

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a result that `to_json` wrote; ResultFormatError for any other text."""
        from supac.exchange.result_json import from_json  # noqa: PLC0415

        return cls.of(from_json(text))

    def __repr__(self) -> str:
        return f"Result({str(self).splitlines()[0]})"

    def __str__(self) -> str:
        known = f" and {self.known} known ones" if self.known else ""
        fresh = f"from {self.validated} fresh runs"
        basis = fresh if self.validated else f"worth {self.effective_size:.0f} runs"
        known_error = np.isfinite(self.mean_risk_error)
        error = f" ± {self.mean_risk_error:.1g}" if known_error else ""
        summary = (
            f"objective {self.objective:.5g} (mean risk {self.mean_risk:.5g}{error}, {basis}; "
            f"KL {round(self.kl, 12):.4g}); "
            f"{self.queries} runs{known}, {self.failed} failed; "
            f"stopped: {self.stop_reason}"
        )
        notes = [f"note: {note}" for note in self.notes]
        local = words_on_local_ranges(self.record)
        notes += [f"note: {local}; {advice_on_local_ranges(self.record)}"] if local else []
        return "\n".join([summary, *notes, *(f"advice: {each}" for each in self.advice)])
