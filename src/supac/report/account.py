"""The content of a report: a record, and what is computed from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from supac.arrays import FloatArray
from supac.calibration.diagnostics import (
    MANY_REFUSED,
    RANGE,
    note_on_noise,
    note_on_the_budget,
    notes_on_failures,
    notes_on_refusals,
)
from supac.families import Distribution, as_distribution
from supac.guarantee.bands import Bands
from supac.guarantee.certificate import Certificate
from supac.posterior.attainable import Attainable, attainable
from supac.posterior.prediction import Prediction, predictions_beside
from supac.problem import (
    ColumnLoss,
    CombinedMeasurements,
    LogObservations,
    MeasuredOutputs,
    Measurements,
    names_of,
)
from supac.problem.bounds import Declared
from supac.problem.columns import as_column_loss
from supac.problem.observation import (
    as_observation_loss,
    residual_loss_of,
)
from supac.problem_file import Observations, observations_of, source_of, title_of
from supac.record.calibrated import Calibrated, check_certificate
from supac.record.ending import Estimate
from supac.record.many_parameters import Directions, FieldChange, field_changes
from supac.record.parameter_change import ParameterChange, parameter_changes
from supac.record.record import Record
from supac.record.run import Round, Run
from supac.report.misfit import Misfit, misfit_of
from supac.report.residuals import (
    Autocorrelation,
    Series,
    Stretch,
    autocorrelation,
    longest_stretch,
    residual_series,
)
from supac.report.scores import FITTED, HELD_OUT, Score, scores_of
from supac.search.note import code_of, is_among

_TABLES = Measurements | CombinedMeasurements | LogObservations  # drawn as other columns
_LATEST = 12  # runs that are drawn where there are no fresh ones

NOWHERE_NEAR = 100.0
"""Typical misfit, in noises, that wrong units or a wrong noise explain, and no model does."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Account(Estimate):
    """All data of a report on one search: estimates, the record, and what follows from it."""

    record: Record
    title: str
    certificate: Certificate | None = None
    predictions: tuple[Prediction, ...] = ()

    @cached_property
    def attainable(self) -> Attainable | None:
        """Limit that can be hoped for with this prior, loss and data, if it is known."""
        return attainable(self.record)

    @cached_property
    def bands(self) -> Bands | str:
        """Prediction bands, or why there are none."""
        return self.record.usual_bands()

    @cached_property
    def history(self) -> dict[str, FloatArray]:
        """Diagnostics as columns, one row per round."""
        return self.record.history

    @cached_property
    def failures(self) -> tuple[Run, ...]:
        """Failed runs of the search and its validation."""
        return self.record.failures

    @cached_property
    def risks(self) -> FloatArray:
        """Risks of the successful runs of the search and its validation."""
        return np.array([each.risk for each in self.record.search_runs if each.ok])

    @cached_property
    def made(self) -> int:
        """Number of runs behind the result, without those that validated an earlier posterior."""
        return self.record.queries

    @cached_property
    def prior(self) -> Distribution | None:
        """The latent prior, if it is a `Distribution`."""
        return as_distribution(self.record.prior)

    @cached_property
    def posterior(self) -> Distribution | None:
        """The returned or the latest posterior; None before the first step."""
        return self.record.posterior

    @cached_property
    def source(self) -> tuple[str, str, dict[str, str]]:
        """Name and text of the problem file, checksums of the files it names; empty without one."""
        return source_of(self.record)

    @property
    def store(self) -> str:
        """Name of the file; "" for a search in memory."""
        return "" if self.record.path is None else self.record.path.name

    @property
    def budget(self) -> int | None:
        """Largest number of runs, if known."""
        return self.record.settings.budget

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, by default x0, x1, …."""
        known = self.posterior or self.prior
        return names_of(self.record.parameters, 0 if known is None else known.dim)

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters, by default ""."""
        parameters = self.record.parameters
        return ("",) * len(self.names) if parameters is None else parameters.units

    @cached_property
    def learnt(self) -> list[ParameterChange]:
        """Change of every parameter."""
        check = None if self.record.ending is None else self.record.ending.range_check
        return parameter_changes(self.prior, self.posterior, self.record.parameters, check)

    @cached_property
    def fields(self) -> list[FieldChange]:
        """Change of every field."""
        return field_changes(self.learnt, self.record.parameters)

    @cached_property
    def directions(self) -> Directions | None:
        """Combinations of parameters, the best known first."""
        return self.record.directions

    def columns(self, name: str) -> slice:
        """Return the places of a parameter or of a field among all parameters."""
        assert self.record.parameters is not None
        return self.record.parameters.columns(name)

    @cached_property
    def observations(self) -> Observations | None:
        """The data; those of a version 0.1 file, which kept only residuals, from the data file."""
        data, seen = self.record.settings.data, self.record.settings.observations
        if isinstance(data, _TABLES):
            return data.table(self._for_noise)[0]
        columns = self._columns_of_data
        if seen is None:
            return observations_of(self.record)
        known = None if columns is None else self._for_noise
        return seen if columns is None or known is None else columns.table(seen, known)[0]

    @property
    def _for_noise(self) -> FloatArray | None:
        """Simulated outputs whose noise levels the data are shown with; None before any run."""
        fresh = () if self.record.ending is None else self.record.ending.fresh
        known = self._simulated(fresh)
        return self._simulated(self._latest_ids) if known is None else known

    @property
    def _latest_ids(self) -> list[int]:
        made = [run.id for run in self.record.search_runs if run.ok and not run.source]
        return made[-_LATEST:]

    @property
    def _columns_of_data(self) -> ColumnLoss | None:
        """The loss that knows scales, offsets and noise levels of observed columns, if any."""
        return as_column_loss(self.record.settings.loss)

    @cached_property
    def first_round(self) -> Round | None:
        """The first round with runs that the search made itself, if any."""
        own = {run.id for run in self.record.made}
        return next((each for each in self.record.rounds if own.intersection(each.ids)), None)

    @cached_property
    def first(self) -> FloatArray | None:
        """Outputs of the runs that the search made first, (n, m), if any."""
        own = {run.id for run in self.record.made}
        first = self.first_round
        return self.outputs_of([] if first is None else [i for i in first.ids if i in own])

    @cached_property
    def latest(self) -> FloatArray | None:
        """Outputs of the latest runs of the search, (n, m), which lie around the posterior."""
        begun = len(self.record.rounds) > 1
        return self.outputs_of(self._latest_ids) if begun else None

    @cached_property
    def fresh(self) -> FloatArray | None:
        """Outputs of the validation runs, (n, m)."""
        return None if self.record.ending is None else self.outputs_of(self.record.ending.fresh)

    def outputs_of(self, ids: Iterable[int]) -> FloatArray | None:
        """Return the outputs of successful runs, (n, m), as the data are shown."""
        record, seen = self.record, self.observations
        found, data = self._simulated(ids), record.settings.data
        if isinstance(data, _TABLES):
            return None if found is None else data.table(found)[1]
        columns = self._columns_of_data
        if columns is not None and record.settings.observations is not None:
            return None if found is None else columns.table(data, found)[1]
        if found is not None and seen is not None and record.settings.outputs_are_residuals:
            return seen.outputs(found) if found.shape[1] == seen.measured else None
        return found

    def _simulated(self, ids: Iterable[int]) -> FloatArray | None:
        """Return the outputs of successful runs, (n, m), as the simulator gave them."""
        return None if self.record.counts is not None else self.record.outputs(ids)

    @cached_property
    def misfits(self) -> tuple[Misfit, ...]:
        """Misfit of each observed column; empty without data or fresh runs."""
        seen, fresh = self.observations, self.fresh
        if (
            seen is None
            or fresh is None
            or fresh.shape[1] != len(seen.values)
            or not seen.noise_known
        ):
            return ()
        residuals = np.full((len(fresh), len(seen.values)), np.nan)
        residuals[:, np.isfinite(seen.values)] = seen.residuals(fresh)
        parts = residuals.reshape(len(fresh), len(seen.columns), seen.rows)
        measured = np.log(seen.values) if seen.logarithmic else seen.values
        fitted, shape = self._columns_of_fitted_noise, (len(seen.columns), seen.rows)
        values, noise = measured.reshape(shape), seen.noise.reshape(shape)
        known = np.isfinite(parts).all(axis=0)
        cells = seen.cells
        return tuple(
            misfit_of(
                name,
                parts[:, i, known[i]],
                values[i, known[i]],
                noise[i, known[i]],
                [cells[i * seen.rows + row] for row in np.flatnonzero(known[i])],
                fitted=name in fitted,
            )
            for i, name in enumerate(seen.columns)
            if known[i].any()
        )

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """Scores of each observed column, fitted and held out; empty without data or fresh runs."""
        seen, fresh = self.observations, self.fresh
        if seen is None or fresh is None or fresh.shape[1] != len(seen.values):
            return ()
        fitted, held_out = self._columns_of_fitted_noise, self.record.held_out_data
        made = scores_of(seen, seen.values, fresh, FITTED, fitted)
        other = self._fresh_of_held_out
        if held_out is not None and other is not None and other.shape[1] == len(seen.values):
            made += scores_of(seen, held_out.values, other, HELD_OUT, fitted)
        return tuple(made)

    @cached_property
    def saturated(self) -> tuple[float, float] | None:
        """Share of measurements where the loss is flat, and the residual from which on it is.

        In units of the noise, by the median of the fresh runs; None if that is not known.
        """
        loss, seen, fresh = (
            residual_loss_of(self.record.settings.loss), self.observations, self.fresh,
        )  # fmt: skip
        flat = None if loss is None else loss.flat_from
        if self.certificate is not None and self.certificate.cap is not None:
            flat = self.certificate.cap
        if flat is None or seen is None or fresh is None or not seen.noise_known:
            return None
        if fresh.shape[1] != len(seen.values) or not np.isfinite(fresh[:, seen.needed]).all():
            return None
        off = np.median(np.abs(seen.residuals(fresh)), axis=0)
        return float((off > flat).mean()), flat

    @cached_property
    def autocorrelation(self) -> Autocorrelation | None:
        """Correlation of neighbouring residuals in time; None without data or fresh runs."""
        return autocorrelation(self.residual_series)

    @cached_property
    def stretch(self) -> Stretch | None:
        """Longest stretch of measurements outside of their bands, if any is outside."""
        return longest_stretch(self.residual_series)

    @cached_property
    def residual_series(self) -> list[Series]:
        """Residuals of each column and experiment in time; empty without data or fresh runs."""
        seen, fresh = self.observations, self.fresh
        if seen is None or fresh is None or fresh.shape[1] != len(seen.values):
            return []
        return residual_series(seen, fresh)

    @property
    def correlated_errors(self) -> bool:
        """True if the loss takes errors for correlated ones."""
        columns = self._columns_of_data
        return columns is not None and columns.errors is not None

    @cached_property
    def noise_levels(self) -> tuple[str, ...]:
        """Names of the parameters that are noise levels of observed columns."""
        columns, loss = self._columns_of_data, as_observation_loss(self.record.settings.loss)
        if columns is None or loss is None:
            return ()
        own = self.names[len(self.names) - loss.count :]
        return tuple(own[i] for i in sorted({int(i) for i in columns.levels if i >= 0}))

    @property
    def _fresh_of_held_out(self) -> FloatArray | None:
        """Outputs of the validation runs as the held-out data are shown, (n, m)."""
        ending, held_out = self.record.ending, self.record.held_out_data
        if ending is None or held_out is None:
            return None
        found, columns = self._simulated(ending.fresh), self._columns_of_data
        if found is None or columns is None:
            return found
        return columns.for_data(held_out).table(held_out, found)[1]

    @property
    def _columns_of_fitted_noise(self) -> frozenset[str]:
        """Names of the observed columns whose noise depends on parameters."""
        data, columns = self.record.settings.observations, self._columns_of_data
        measured = MeasuredOutputs.of(self.record.settings.data)
        if measured is not None:
            rows = measured.rows
            return frozenset(rows.names[i] for i in rows.series[rows.levels >= 0])
        if columns is None or data is None:
            return frozenset()
        levels = columns.levels.reshape(len(data.columns), -1)
        return frozenset(
            name for name, own in zip(data.columns, levels, strict=True) if (own >= 0).any()
        )

    @property
    def posterior_kl(self) -> float:
        """KL(posterior, prior); before the end, `kl` is that of the previous posterior."""
        known = self.record.posterior_kl
        return self.kl if math.isnan(known) else known

    @property
    def ceiling(self) -> float | None:
        """Largest possible risk; None if the bound guarantees nothing."""
        return (
            None if self.data is None else float(Declared.by(self.record.bound).ceiling or math.inf)
        )

    @property
    def data(self) -> int | None:
        """Number of independent data of the bound; None if it guarantees nothing."""
        n = Declared.by(self.record.bound).n
        return None if n is None else int(n)

    @property
    def other_notes(self) -> tuple[str, ...]:
        """Notes other than those on failed runs, a few refused draws, the budget and noise."""
        failures = notes_on_failures(self.failures, left_out=False)
        told_elsewhere = note_on_the_budget(self.history, self.record.bound) + failures
        told_elsewhere += note_on_noise(self.history)
        if len(self.record.refused) <= MANY_REFUSED * len(self.record.counted_runs):
            told_elsewhere += notes_on_refusals(self.record.refused, len(self.record.counted_runs))
        # Without a code, the quoted message depends on the order in which runs ended.
        beginnings = tuple(each.partition(", ")[0].partition(" with: ")[0] for each in failures)
        return tuple(
            note
            for note in self.record.notes
            if not is_among(note, told_elsewhere)
            and not note.startswith(beginnings)
            and (self.ceiling is None or code_of(note) != RANGE)  # told by a check of its own
        )


def account_of(
    run: Calibrated,
    *,
    title: str = "",
    certificate: Certificate | None = None,
    predictions: Sequence[Prediction] | None = None,
) -> Account:
    """Return the data of a report; ValueError for a certificate of another posterior.

    By default with the predictions of its posterior that lie beside the store.
    """
    record = run.own_record
    record.check_search()
    about = {each.name: getattr(record.estimate, each.name) for each in fields(Estimate)}
    named = "A calibration" if record.path is None else title_of(record) or record.path.stem
    told = run.certificate if certificate is None else certificate
    made = predictions_beside(record) if predictions is None else predictions
    account = Account(
        **about,
        record=record,
        title=title or named,
        certificate=told,
        predictions=tuple(made),
    )
    check_certificate(account.posterior, account.prior, record.estimate, certificate)
    return account
