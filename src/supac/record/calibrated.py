"""The part that records and results share: the problem, numbers of runs, draws and tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from supac.arrays import FloatArray
from supac.codec import Named, fingerprint
from supac.families import Density, Distribution, Divergence, as_distribution
from supac.guarantee.bands import (
    Bands,
    check_declared,
    conformal_bands,
    jackknife_bands,
    within_data,
)
from supac.guarantee.basis import CertificateError
from supac.guarantee.certificate import Certificate
from supac.guarantee.ensemble import Ensemble, fresh_draws, seed_beginning_from
from supac.problem import Bound, Parameters, names_of
from supac.problem.bounds import Declared, trade_off
from supac.problem.data import Observations, as_observations
from supac.problem.problem import latent_of, parameters_of
from supac.record.best_run import BestRun
from supac.record.ending import Estimate
from supac.record.many_parameters import Directions, directions_of
from supac.record.run import Run, Status, outputs_as_rows
from supac.search.algorithm import Info

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    import pandas
    import xarray

    from supac.posterior.next_measurement import NextMeasurements
    from supac.posterior.prediction import Prediction
    from supac.posterior.sensitivity import Sensitivity
    from supac.problem.frozen import Frozen
    from supac.record.record import Record
    from supac.report.notebook import Summary
    from supac.running.execution import Execution

_COVERAGES = (0.9, 0.8, 0.5)  # of bands, where nobody asks for another
_ERRORS = 6.0  # standard errors by which estimates of one KL may differ


class Calibrated(ABC):
    """Base class of `Record` and `Result`."""

    @property
    @abstractmethod
    def own_record(self) -> Record:
        """The record behind it."""

    # The problem

    @property
    def parameters(self) -> Parameters | None:
        """Named parameters, if any."""
        return parameters_of(self.own_record.settings.prior)

    @property
    def prior(self) -> Any:
        """Latent prior; None if the file holds only its name."""
        latent = latent_of(self.own_record.settings.prior)
        return None if isinstance(latent, Named) else latent

    @property
    def start(self) -> Distribution:
        """First posterior; by default the prior."""
        start = as_distribution(self.own_record.settings.start or self.prior)
        if start is not None:
            return start
        raise ValueError(
            f"{self.own_record.path} has only the name of a class of your own, "
            f"{self.own_record.settings.start or self.own_record.settings.prior}: "
            "use the result that minimize returned, or supac.resume(store, risk, prior=…)"
        )

    @property
    def bound(self) -> Bound | None:
        """Minimised bound; None if the file holds only its name."""
        bound = self.own_record.settings.bound
        return bound if isinstance(bound, Bound) else None

    @property
    def held_out_data(self) -> Observations | None:
        """Held-out measurements, if any."""
        return as_observations(self.own_record.settings.held_out)

    # The runs

    @property
    def queries(self) -> int:
        """Number of runs made, without imported ones."""
        counts, runs = self.own_record.counts, self.own_record.counted_runs
        return sum(not run.source for run in runs) if counts is None else counts.queries

    @property
    def failures(self) -> tuple[Run, ...]:
        """Failed runs of the search and its validation, with their messages."""
        return tuple(run for run in self.own_record.counted_runs if run.failed)

    @property
    def refused(self) -> tuple[Run, ...]:
        """Draws that were not simulated, since a constraint does not hold there."""
        return tuple(run for run in self.own_record.counted_runs if run.status is Status.REFUSED)

    @property
    def failed(self) -> int:
        """Number of failed runs."""
        counts = self.own_record.counts
        return len(self.failures) if counts is None else counts.failed

    @property
    def known(self) -> int:
        """Number of imported runs, without those of a coarse model."""
        counts = self.own_record.counts
        imported = (run for run in self.own_record.imported if not run.level)
        return len(list(imported)) if counts is None else counts.known

    @property
    def seconds(self) -> float:
        """Total simulator time, that of a coarse model included."""
        counts, record = self.own_record.counts, self.own_record
        if counts is not None:
            return counts.seconds
        return float(sum(run.seconds for run in (*record.made, *record.coarse_runs)))

    @property
    def seconds_a_run(self) -> float:
        """Mean simulator time of a run, without those of a coarse model; 0 if none was made."""
        counts, made = self.own_record.counts, self.own_record.made
        if counts is not None:
            return counts.seconds / max(counts.queries, 1)
        return sum(run.seconds for run in made) / max(len(made), 1)

    @property
    def history(self) -> dict[str, FloatArray]:
        """Diagnostics as columns, one row per round; `queries` counts runs made until then."""
        rounds, record = self.own_record.rounds, self.own_record
        others = {run.id for run in record.imported} | record.coarse_ids
        made = [sum(run not in others for run in each.ids) for each in rounds]
        names = [each.name for each in fields(Info) if each.name != "notes"]
        columns = {name: np.array([getattr(each.info, name) for each in rounds]) for name in names}
        return {"queries": np.cumsum(made, dtype=np.float64), **columns}

    @property
    def best(self) -> BestRun:
        """The run with the smallest risk, in the user's units; ValueError if none succeeded."""
        record = self.own_record
        record.check_runs()
        good = [run for run in record.search_runs if run.ok]
        if not good:
            raise ValueError("there is no best run: none has succeeded yet")
        (best,) = record.iterate([min(good, key=lambda run: run.risk)])
        values, known = record.points([best])[0].tolist(), record.parameters
        names = names_of(known, len(values))
        units = ("",) * len(values) if known is None else known.units
        named = dict(zip(names, values, strict=True))
        return BestRun(best.id, best.risk, named, units, best.outputs)

    def summary(self) -> Summary:
        """Return the table of `supac show`, which prints as text and in a notebook as HTML."""
        from supac.report.notebook import Summary  # noqa: PLC0415

        return Summary(self.own_record)

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    # The posterior

    def known_posterior(self) -> Distribution:
        """Return the posterior; ValueError if there is none yet."""
        posterior = self.own_record.posterior
        if posterior is None:
            raise ValueError(f"{self.own_record.path or 'this search'} has no posterior yet")
        return posterior

    @property
    def directions(self) -> Directions | None:
        """Combinations of parameters, those that the data inform most first.

        None if the covariance of prior or posterior is not known.
        """
        return directions_of(as_distribution(self.prior), self.own_record.posterior)

    certificate: Certificate | None
    """Certificate of the ensemble, or of the posterior where one was added."""

    @property
    def ensemble(self) -> Ensemble:
        """The parameter sets of the validation runs, which the certificate is about.

        ValueError if there are none, or if a file holds no runs or only the name of the prior.
        """
        if self.prior is None:
            raise ValueError("there is no ensemble: the file has only the name of the prior")
        return self._ensemble_of(self.ensemble_runs())

    def seed_of_draws(self, seed: int) -> int:
        """Return the seed of fresh draws: one of its own for a search that began from known runs.

        Draws that an earlier version has begun with are kept.
        """
        runs = self.own_record.light_runs
        begun = [run.x for run in runs if run.source]
        made = {run.x.tobytes() for run in runs if run.purpose == "certificate"}
        if not begun:
            return seed
        former = fresh_draws(self.known_posterior(), max(len(made), 1), seed)
        if any(point.tobytes() in made for point in former):
            return seed
        return seed_beginning_from(seed, np.array(begun))

    def fresh_draws(self, draws: int, seed: int = 0) -> FloatArray:
        """Return the latent points of a certificate with this number of draws: (draws, dim)."""
        return fresh_draws(self.known_posterior(), draws, self.seed_of_draws(seed))

    def drawn_ensemble(self, draws: int, seed: int = 0) -> Ensemble:
        """The parameter sets of `certify(…, subject="ensemble", draws=draws, seed=seed)`.

        Their runs must be in the file. ValueError if they are not.
        """
        record = self.own_record
        made = {run.x.tobytes(): run for run in record.light_runs if run.purpose == "certificate"}
        points = self.fresh_draws(draws, seed)
        runs = [made[point.tobytes()] for point in points if point.tobytes() in made]
        if len(runs) < draws or record.prior is None:
            raise ValueError(
                f"{record.path or 'this record'} has {len(runs)} runs of these {draws} draws: "
                f"`supac certify --draws {draws}` makes them and certifies the sets"
            )
        return self._ensemble_of(list(record.iterate(runs)))

    def _ensemble_of(self, runs: list[Run]) -> Ensemble:
        record, posterior, prior = self.own_record, self.known_posterior(), self.prior
        x = np.array([run.x for run in runs])
        return Ensemble(
            record.points(runs),
            np.array([run.risk if run.ok else np.nan for run in runs]),
            posterior.log_prob(x) - prior.log_prob(x),
            outputs_as_rows(runs),
        )

    def ensemble_runs(self) -> list[Run]:
        """Return the runs of the ensemble, failed ones included; ValueError if there are none."""
        record = self.own_record
        if record.ending is None or not record.ending.fresh or record.counts is not None:
            raise ValueError("there is no ensemble: no fresh runs of the posterior are known here")
        return record.runs_of(record.ending.fresh)

    def bands(self, coverage: float = 0.9) -> Bands:
        """Return bands for new measurements of each observed column, around the ensemble's mean.

        From held-out data by split conformal prediction, else by jackknife+ over blocks of data;
        no run is made. CertificateError where their assumption cannot hold; NaN in rows before or
        after all that was measured of their column.
        """
        record = self.own_record
        ending, data, bound = record.ending, record.settings.observations, record.bound
        try:
            outputs = outputs_as_rows(self.ensemble_runs())
        except ValueError as error:
            raise CertificateError(f"no bands: {error}") from error
        if outputs is None or ending is None or data is None:
            raise CertificateError(
                "no bands: they need simulated outputs and the data that these are compared with, "
                "as in Composite(simulate, loss, Observations(…))"
            )
        loss = record.settings.loss
        if record.observation:
            raise CertificateError(
                "no bands: there are none yet where scales, offsets or noise levels are parameters"
            )
        check_declared(data, Declared.by(bound).n)
        if self.held_out_data is not None:
            made = conformal_bands(outputs, self.held_out_data, coverage)
            return within_data(made, data, self.held_out_data)
        if bound is None or not callable(loss):
            raise CertificateError("no bands: the file has only the name of its bound or its loss")
        if not record.provenance.prior_is_independent:
            raise CertificateError(
                "no bands: the prior was learnt on the same data, so that none can be left out"
            )
        try:
            worth = trade_off(bound, ending.mean_risk, ending.kl)
        except ZeroDivisionError as error:
            raise CertificateError("no bands: the bound does not grow with KL") from error
        return within_data(jackknife_bands(outputs, data, loss, worth, coverage), data)

    def usual_bands(self) -> Bands | str:
        """Return bands of the largest usual coverage that the data allow, or why there are none.

        The reason is "" where nobody would expect any: without an ending or without data.
        """
        record, reason = self.own_record, ""
        if record.ending is None or record.settings.observations is None:
            return reason
        for coverage in _COVERAGES:
            try:
                return self.bands(coverage)
            except CertificateError as error:
                reason = reason or str(error)
        return reason

    def sample(self, n: int, rng: np.random.Generator | int = 0) -> FloatArray:
        """Draw from the posterior, in the user's units where there are `Parameters`: (n, dim)."""
        parameters, posterior = self.parameters, self.known_posterior()
        if parameters is None:
            return posterior.sample(n, rng)
        return parameters.sample(posterior, n, rng)

    def predict(
        self,
        simulate: Callable[[FloatArray], Any],
        n: int | None = None,
        *,
        outputs: Any = None,
        times: Any = None,
        coverage: float = 0.9,
        title: str = "",
        ensemble: bool = False,
        execution: Execution | Any = None,
        store: str | os.PathLike[str] | None = None,
        seed: int = 0,
        continues: bool | None = None,
    ) -> Prediction:
        """Run a simulator, such as another scenario, at n draws; arguments as in `predict`."""
        from supac.posterior.prediction import predict  # noqa: PLC0415 - it makes runs

        return predict(
            self,
            simulate,
            n,
            outputs=outputs,
            times=times,
            coverage=coverage,
            title=title,
            ensemble=ensemble,
            execution=execution,
            store=store,
            seed=seed,
            continues=continues,
        )

    def sensitivity(
        self,
        *,
        under: Literal["posterior", "prior"] = "posterior",
        points: int | None = None,
        seed: int = 0,
    ) -> Sensitivity:
        """Compute which parameters matter: combinations that the data determine, Sobol indices.

        From the runs that were made; no run is needed. The indices say which share of each output's
        variance, over the posterior or the prior, the parameters are responsible for.
        """
        from supac.posterior.sensitivity import sensitivity  # noqa: PLC0415

        return sensitivity(self, under=under, points=points, seed=seed)

    def next_measurements(
        self,
        candidates: Iterable[Any] | None = None,
        quantity: Any = None,
        *,
        prediction: Prediction | None = None,
        together: int = 0,
        draws: int | None = None,
        seed: int = 0,
    ) -> NextMeasurements:
        """Rank measurements that could be made by the variance that they would leave; no run.

        Of `quantity`: a parameter, an output such as "A at 3", a function of points, or several of
        these. Candidates are (output, time, noise) each; arguments as in `next_measurements`.
        """
        from supac.posterior.next_measurement import next_measurements  # noqa: PLC0415

        return next_measurements(
            self,
            candidates,
            quantity,
            prediction=prediction,
            together=together,
            draws=draws,
            seed=seed,
        )

    @property
    def frozen(self) -> Frozen:
        """The posterior in the user's units, with the methods of SciPy's frozen distributions."""
        from supac.problem.frozen import Frozen  # noqa: PLC0415 - SciPy's take long to import

        return Frozen(self.known_posterior(), self.parameters)

    def to_pandas(self, *, posterior: int | None = None, seed: int = 0) -> pandas.DataFrame:
        """Return one row a run, or `posterior=1000` draws instead; in the user's units."""
        from supac.exchange.frames import record_as_pandas  # noqa: PLC0415

        return record_as_pandas(self.own_record, posterior=posterior, seed=seed)

    def to_xarray(self, *, posterior: int | None = None, seed: int = 0) -> xarray.Dataset:
        """Return runs along `run`, or draws along `draw`, with units and outputs as a variable."""
        from supac.exchange.frames import record_as_xarray  # noqa: PLC0415

        return record_as_xarray(self.own_record, posterior=posterior, seed=seed)

    def to_arviz(
        self,
        *,
        draws: int = 1_000,
        seed: int = 0,
        observed: Any = None,
        certificate: Certificate | None = None,
    ) -> Any:
        """Return draws for ArviZ: an `InferenceData`, from ArviZ 1.0 on a `DataTree`.

        Groups `posterior` and `prior` in the user's units; where outputs are known,
        `posterior_predictive` with those of the runs that were drawn from the posterior itself, and
        `observed_data` if `observed`, (m,), says what they are to be compared with.
        """
        from supac.exchange.frames import as_arviz  # noqa: PLC0415

        return as_arviz(
            self.own_record, draws=draws, seed=seed, certificate=certificate, observed=observed
        )


def check_certificate(
    posterior: Distribution | None,
    prior: Density | None,
    estimate: Estimate,
    certificate: Certificate | None,
) -> None:
    """Raise ValueError if a certificate belongs to another posterior or prior.

    Compare fingerprints, and KL if one of them has no fingerprint.
    """
    if certificate is None:
        return
    if posterior is None or prior is None:
        kl = Divergence(estimate.kl, float(np.nan_to_num(estimate.kl_error)))
    else:
        kl = posterior.divergence(prior)
        mine = fingerprint(posterior, prior)
        if mine and certificate.fingerprint not in ("", mine):
            raise ValueError(
                "the certificate is about another posterior or another prior (its fingerprint is "
                f"{certificate.fingerprint}, this run's is {mine}): certify this run, and give "
                "that certificate"
            )
    if certificate.subject != "posterior":  # only that has the KL of the posterior
        return
    # Where KL is estimated, a certificate holds an upper limit, of more draws than these.
    slack = max(_ERRORS * kl.error, 1e-6 * abs(kl.value), 1e-9)
    limit = kl.upper(certificate.delta_kl) if certificate.delta_kl else kl.value
    if not kl.value - slack <= certificate.kl <= limit + slack:
        about = f"{kl.value:.6g}" + (f" ± {kl.error:.1g}" if kl.error else "")
        raise ValueError(
            f"the certificate is about a posterior with KL {certificate.kl:.6g}, but this one's is "
            f"{about}: certify this run, and give that certificate"
        )
