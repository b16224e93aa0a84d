"""Predictions: the outputs of a simulator at draws of a posterior, and their bands."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supac.arrays import FloatArray, whole
from supac.calibration.fresh import run_fresh
from supac.codec import fingerprint, register
from supac.exchange.table import vacant, write_table
from supac.posterior import prediction_file, prediction_table
from supac.posterior.discrepant import PredictedDiscrepancy, discrepancy_at, has_discrepancy
from supac.posterior.observed import SIMULATED, as_calibrated
from supac.posterior.outputs import OTHER_NUMBER, Outputs
from supac.posterior.predicted_bands import PredictedBands, bands_of
from supac.posterior.scenario import simulator_and_outputs
from supac.problem import Composite, MeasuredOutputs, Parameters
from supac.record.calibrated import Calibrated
from supac.record.local_ranges import words_on_local_ranges
from supac.record.record import Record
from supac.record.run import Run
from supac.running.execution import Execution

if TYPE_CHECKING:
    import pandas
    import xarray

_STREAM = 0x9CED  # of random numbers that neither a search nor a certificate uses
_HOPELESS = 10  # runs, all of them failed, after which no further one is made


@register(
    formerly=tuple(
        f"supac.{module}._no_loss"
        for module in ("calibration.predict", "calibration.fresh", "posterior.prediction")
    )
)
@dataclass(frozen=True)
class NoLoss:
    """Loss of predictions, which are not compared with data: 0."""

    def __call__(self, outputs: FloatArray) -> FloatArray:
        """Return zeros: (n,)."""
        return np.zeros(len(outputs))


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """Outputs of a simulator at draws of a posterior."""

    x: FloatArray
    """Draws with successful runs, in the user's units: (n, dim)."""
    outputs: FloatArray
    """(n, m), with the scales and offsets of measured columns that are parameters."""
    failures: tuple[Run, ...] = ()
    """Failed runs, with their messages."""
    table: Outputs | None = None
    """Names, times, units and noise of the outputs; None if only their number is known."""
    parameters: Parameters | None = None
    title: str = ""
    coverage: float = 0.9
    """Coverage of bands where nobody asks for another."""
    posterior: str = ""
    """Hash of the posterior; "" if it has none, or is one of your own class."""
    asked: int | None = None
    """Number of draws that were asked for, more than there are after an interruption."""
    ensemble: bool = False
    """True if `x` are the certified parameter sets, False if they are new draws."""
    noise: FloatArray | None = None
    """Noise of a measurement of each output, (n, m), where it follows from what was simulated; else
    that of `table`."""
    discrepancy: PredictedDiscrepancy | None = None
    """Discrepancy of the model from the truth at the draws, if one was calibrated."""
    local: str = ""
    """Words on ranges that are local, so that bands are too narrow; else ""."""

    def __repr__(self) -> str:
        names, rows = ", ".join(self.columns.columns[:4]), self.columns.rows
        more = ", …" if len(self.columns.columns) > 4 else ""
        what = f"{names}{more}" + (f" at {rows} times" if rows > 1 else "")
        failed = f", {len(self.failures)} failed" if self.failures else ""
        sets = "certified sets" if self.ensemble else "draws"
        local = f"; {self.local}" if self.local else ""
        return f"Prediction({what}, {len(self.x)} {sets}{failed}{local})"

    def _repr_html_(self) -> str:
        from supac.report.notebook_posterior import html_of_prediction  # noqa: PLC0415

        return html_of_prediction(self)

    @property
    def finished(self) -> bool:
        """True if all runs that were asked for are made, or if nobody knows how many."""
        return self.asked is None or len(self.x) + len(self.failures) >= self.asked

    @cached_property
    def columns(self) -> Outputs:
        """Names and times of the outputs, by default output_0, output_1, …."""
        return self.table or Outputs.plain(self.outputs.shape[1])

    def quantiles(self, *levels: float) -> FloatArray:
        """Compute quantiles of every output over the draws: (levels, m)."""
        return np.quantile(self.outputs, levels, axis=0)

    def output(self, column: str) -> FloatArray:
        """Return the outputs of one column: (n, rows)."""
        return self.outputs[:, self.columns.places(column)]

    def bands(self, coverage: float | None = None) -> PredictedBands:
        """Compute the bands that leave out as much below as above.

        Those of simulations hold this share of the draws; those with the discrepancy of the model,
        if one was calibrated, of the draws plus it; those of measurements, where the noise is
        known, of that plus independent normal noise.
        """
        share = self.coverage if coverage is None else coverage
        return bands_of(self.columns, self.outputs, self.x, share, self.noise, self.discrepancy)

    def to_table(self, coverage: float | None = None) -> dict[str, list[Any]]:
        """Return columns with one row an output: name, time, band and median."""
        return prediction_table.table_of_bands(self.columns, self.bands(coverage))

    def to_csv(
        self, path: str | os.PathLike[str], *, coverage: float | None = None, force: bool = False
    ) -> Path:
        """Write the bands as comma-separated values; return the path."""
        target = vacant(Path(path), force=force)
        write_table(target, self.to_table(coverage))
        return target

    def to_pandas(self, coverage: float | None = None) -> pandas.DataFrame:
        """Return the bands with one row an output (extra `pandas`)."""
        return prediction_table.frame_of_bands(self.to_table(coverage))

    def to_xarray(self, coverage: float | None = None) -> xarray.Dataset:
        """Return draws, outputs and bands as variables over time (extra `xarray`)."""
        return prediction_table.dataset_of(
            self.columns, self.x, self.outputs, self.bands(coverage), self.parameters, self.title
        )

    def to_netcdf(
        self, path: str | os.PathLike[str], *, coverage: float | None = None, force: bool = False
    ) -> Path:
        """Write `to_xarray` as a NetCDF 3 file, which needs no library but SciPy."""
        target = vacant(Path(path), force=force)
        self.to_xarray(coverage).to_netcdf(target, engine="scipy", format="NETCDF3_64BIT")
        return target


def predict(
    posterior: Calibrated,
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
    about: dict[str, Any] | None = None,
    continues: bool | None = None,
) -> Prediction:
    """Run `simulate`, x (dim,) → outputs (m,), at n draws of a posterior, by default 100.

    `posterior` is a `Result` or a `Record`; `simulate` is the calibrated simulator, or another one
    with the same parameters, such as a new scenario. `outputs` are the names of what it returns,
    or names with units, `{"A": "mol/L"}`, by default the measured columns, and `times` those of
    each: it returns column after column, or `{name: values}`. Columns that were measured have the
    noise of the data if that is the same in all rows; `Outputs` gives another. Scales, offsets and
    noise levels that are parameters of a problem file are those of each draw. `coverage` and
    `title` are for bands and reports. With `ensemble`, run it at the certified parameter sets of
    the result instead.

    `store` keeps every run as it ends, and the same call continues an interrupted prediction; use
    one file per simulator. A file must also have the facts of `about`, as JSON, in common.
    A discrepancy that was calibrated follows from the residuals and fades beyond the data if the
    scenario `continues` their conditions, by default only a `Composite`; else its mean is 0.

    Failed runs are left out and returned with their messages; if the first ten all fail, no
    further one is made, unless `execution` has max_failures=1.
    """
    record = posterior.own_record
    function, table = simulator_and_outputs(record, simulate, outputs, times)
    latent = _points(record, n, seed, ensemble=ensemble)
    identity = {"posterior": identity_of(record), "ensemble": ensemble, "seed": seed}
    identity |= about or {}
    if has_discrepancy(record):
        identity["continues"] = isinstance(simulate, Composite) if continues is None else continues
    described = _described(record, identity, table, latent, title, coverage)
    where = replace(Execution.of(execution), on_failure="drop")
    most = _HOPELESS if where.max_failures < 1.0 else len(latent)
    first = _FirstRuns(table, most, len(latent))
    runs = run_fresh(
        latent,
        Composite(function, NoLoss()),
        where,
        "prediction",
        parameters=record.parameters,
        store=store,
        opened=partial(_opened, described, first),
        watch=first,
    )
    return prediction_of(runs, described)


def _described(
    record: Record,
    identity: dict[str, Any],
    table: Outputs | None,
    latent: FloatArray,
    title: str,
    coverage: float,
) -> prediction_file.Description:
    """Return the description of a prediction, with the discrepancy at its draws if there is one."""
    smooth = None
    if "continues" in identity:
        smooth = discrepancy_at(record, table, latent, continues=bool(identity["continues"]))
    return prediction_file.Description(
        identity, table, record.parameters, title, coverage, len(latent), smooth,
        words_on_local_ranges(record),
    )  # fmt: skip


def _opened(described: prediction_file.Description, first: _FirstRuns, record: Record) -> None:
    """Describe the file, and note if it has a run that succeeded."""
    described.write_to(record)
    first.checked = first.succeeded = any(run.ok for run in record.light_runs)


class UnexpectedOutputsError(ValueError):
    """The simulator returned another number of outputs than the scenario has."""


@dataclass
class _FirstRuns:
    """Stop a prediction whose first run has another number of outputs, or whose first ten fail."""

    table: Outputs | None
    most: int
    """Number of failures without a success after which no further run is made."""
    asked: int
    checked: bool = False
    succeeded: bool = False
    failures: list[Run] = field(default_factory=list)

    def __call__(self, runs: Sequence[Run]) -> None:
        """Check runs as they end."""
        self._check_outputs(runs)
        self.succeeded = self.succeeded or any(run.ok for run in runs)
        if self.succeeded:
            return
        self.failures += runs
        if self.most <= len(self.failures) < self.asked:
            raise ValueError(
                f"the first {len(self.failures)} runs all failed, the first with: "
                f"{self.failures[0].message}. No further one is made; max_failures = 1 makes all"
            )

    def _check_outputs(self, runs: Sequence[Run]) -> None:
        """Check the first run that ends."""
        if self.checked or not runs or self.table is None:
            return
        self.checked, first = True, runs[0]
        if OTHER_NUMBER in first.message:
            raise UnexpectedOutputsError(first.message.removeprefix("ValueError: "))
        if first.outputs is not None and len(first.outputs) != self.table.simulated_width:
            raise UnexpectedOutputsError(
                f"the simulator returned {len(first.outputs)} numbers, "
                f"{OTHER_NUMBER} {self.table.simulated_width}"
            )


def identity_of(record: Record) -> str:
    """Return a hash of the posterior of a record; "" if it has none, or one of your own class."""
    known = record.posterior
    return "" if known is None else fingerprint(known, record.parameters)


def _points(record: Record, n: int | None, seed: int, *, ensemble: bool) -> FloatArray:
    """Return latent draws of the posterior, or its certified parameter sets: (n, dim)."""
    if ensemble:
        if n is not None:
            raise ValueError("n is the number of new draws: give it, or ensemble=True")
        return np.array([run.x for run in record.ensemble_runs()])
    rng = np.random.default_rng([whole(seed, "seed", least=0), _STREAM])
    draws = whole(100 if n is None else n, "n", least=1)
    return record.known_posterior().sample(draws, rng)


def prediction_of(runs: list[Run], about: prediction_file.Description) -> Prediction:
    """Return the prediction of runs; ValueError if all failed, or if they do not fit the table."""
    good = [run for run in runs if run.ok and run.outputs is not None]
    if not good:
        raise ValueError(f"all {len(runs)} runs failed, the first with: {runs[0].message}")
    x, parameters = np.array([run.x for run in good]), about.parameters
    points = x if parameters is None else parameters.from_latent(x)
    simulated, table = np.array([run.outputs for run in good]), about.table
    return Prediction(
        points,
        simulated if table is None else table.as_observed(simulated, points),
        tuple(run for run in runs if not run.ok),
        table,
        parameters,
        about.title,
        about.coverage,
        str(about.identity.get("posterior", "")),
        about.asked,
        bool(about.identity.get("ensemble", False)),
        None if table is None else table.noise_of_simulated(simulated, points),
        None if about.discrepancy is None else about.discrepancy.at(x),
        about.local,
    )


def read_prediction(path: str | os.PathLike[str]) -> Prediction:
    """Read a prediction from the file that `predict` kept its runs in; ValueError for others."""
    return prediction_of(*prediction_file.read(Path(path)))


def predictions_beside(record: Record) -> list[Prediction]:
    """Read the predictions of a record's posterior in the files run.NAME.supac beside run.supac."""
    made = []
    for path in prediction_file.beside(record, identity_of(record)):
        runs, about = prediction_file.read(path)
        if any(run.ok for run in runs):
            made.append(prediction_of(runs, replace(about, table=_completed(about.table, record))))
    return made


def _completed(table: Outputs | None, record: Record) -> Outputs | None:
    """Return a table with the observation parameters that files of earlier versions lack."""
    data = record.settings.data
    if table is not None and table.measured is None and MeasuredOutputs.of(data) is not None:
        old, now = Outputs.of_simulation(data), Outputs.of_measured(data)
        if old is not None and table.columns == old.columns:
            return now
        # Of another file of the tool, whose formulas are not kept.
        return replace(table, units=(SIMULATED,) * len(table.columns))
    observed = record.settings.observations
    if table is None or table.noise is None or observed is None:
        return table
    before = Outputs.of_data(observed)
    known = {} if before.noise is None else dict(zip(before.columns, before.noise, strict=True))
    pairs = zip(table.columns, table.noise, strict=True)
    return as_calibrated(table, record, [name for name, own in pairs if own != known.get(name)])
