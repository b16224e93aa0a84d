"""Convert tables to pandas, xarray and ArviZ, which are imported on demand.

From ArviZ 1.0 on, its groups are an xarray `DataTree` in place of `InferenceData`; their datasets
are the same.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supac.arrays import finite, whole
from supac.exchange.table import Table, apart, columns_of, is_output, table_of, table_of_draws
from supac.families import Distribution, as_distribution
from supac.guarantee.certificate import Certificate
from supac.problem import Parameters
from supac.record.calibrated import check_certificate
from supac.record.record import Record

if TYPE_CHECKING:
    import pandas
    import xarray

_FACTS = ("objective", "mean_risk", "mean_risk_error", "kl", "validated")
_DIMENSIONS = ("run", "output", "outputs", "draw", "chain")
_OUTPUTS = "outputs"


def record_as_pandas(record: Record, *, posterior: int | None, seed: int) -> pandas.DataFrame:
    """Return the runs of a record, or so many draws of its posterior, as a data frame."""
    return as_pandas(table_of(record, posterior=posterior, seed=seed))


def record_as_xarray(record: Record, *, posterior: int | None, seed: int) -> xarray.Dataset:
    """Return the runs of a record, or so many draws of its posterior, as a dataset."""
    table = table_of(record, posterior=posterior, seed=seed)
    return as_xarray(table, record.parameters, "run" if posterior is None else "draw")


def as_pandas(table: Table) -> pandas.DataFrame:
    """Return a data frame; NaN for unknown numbers."""
    columns = {name: _array(column) for name, column in table.items()}
    frame: pandas.DataFrame = load("pandas").DataFrame(columns)
    return frame


def as_xarray(table: Table, parameters: Parameters | None, dimension: str) -> xarray.Dataset:
    """Return one variable per column, with units; a field, and all outputs, are one variable."""
    outputs = [name for name in table if dimension == "run" and is_output(name)]
    units, fields = {}, {}
    if parameters is not None:  # columns of runs may be renamed
        names = columns_of(parameters.names) if dimension == "run" else parameters.names
        units = dict(zip(names, parameters.units, strict=True))
        fields = {name: names[parameters.columns(name)] for name in parameters.fields}
    inside = {name for each in fields.values() for name in each}
    columns = [name for name in table if name not in outputs and name not in inside]
    # A variable must not have the name of a dimension.
    free = apart([*columns, *fields], lambda name: name in _DIMENSIONS)
    variables: dict[str, Any] = {
        variable: (dimension, _array(table[name]), _unit(units.get(name, "")))
        for name, variable in zip(columns, free, strict=False)
    }
    coordinates: dict[str, Any] = {}
    for (name, points), variable in zip(fields.items(), free[len(columns) :], strict=True):
        assert parameters is not None
        field = parameters.fields[name]
        axes = [f"{variable}_dim_{i}" for i in range(len(field.shape))]
        values = np.column_stack([_array(table[each]) for each in points])
        shaped = values.reshape(-1, *field.shape)
        variables[variable] = ((dimension, *axes), shaped, _unit(field.prior.unit))
        coordinates |= dict(zip(axes, field.axes, strict=True))
    if outputs:
        together = np.column_stack([_array(table[name]) for name in outputs])
        variables[_OUTPUTS] = ((dimension, "output"), together)
    dataset: xarray.Dataset = load("xarray").Dataset(variables, coordinates)
    return dataset


def _array(column: list[Any]) -> npt.NDArray[Any]:
    """Convert a column to an array; NaN for missing numbers."""
    if any(isinstance(value, str) for value in column):
        return np.array(column, dtype=object)
    missing = any(value is None for value in column)
    return np.array(column, dtype=np.float64 if missing or not column else None)


def _unit(words: str) -> dict[str, str]:
    return {"units": words} if words else {}


def as_arviz(
    record: Record,
    *,
    draws: int,
    seed: int,
    certificate: Certificate | None = None,
    observed: Any = None,
) -> Any:
    """Return draws of posterior and prior, and fresh outputs, as groups, with attributes."""
    arviz = load("arviz", "ArviZ")
    count, number = whole(draws, "draws", least=1), whole(seed, "seed", least=0)
    posterior, parameters = record.known_posterior(), record.parameters
    check_certificate(posterior, record.prior, record.estimate, certificate)
    groups = {"posterior": _chain(_draws(posterior, parameters, count, number))}
    prior = as_distribution(record.prior)
    if prior is not None:
        # A stream of its own: with the posterior's, the draws would be correlated.
        rng = np.random.default_rng([number, 1])
        groups["prior"] = _chain(_draws(prior, parameters, count, rng))
    ended = record.ending if record.counts is None else None
    outputs = None if ended is None else record.outputs(ended.fresh)
    if outputs is not None:
        data = load("xarray").Dataset({_OUTPUTS: (("draw", "output"), outputs)})
        groups["posterior_predictive"] = _chain(data)
    if observed is not None:
        groups["observed_data"] = _observed(observed, None if outputs is None else outputs.shape[1])
    facts = _attributes(record, certificate)
    if int(arviz.__version__.split(".")[0]) < 1:
        return arviz.InferenceData(attrs=facts, **groups)
    tree = load("xarray").DataTree.from_dict(groups)
    tree.attrs = facts
    return tree


def _draws(
    latent: Distribution, parameters: Parameters | None, count: int, rng: np.random.Generator | int
) -> xarray.Dataset:
    x = latent.sample(count, rng) if parameters is None else parameters.sample(latent, count, rng)
    return as_xarray(table_of_draws(x, parameters), parameters, "draw")


def _chain(dataset: xarray.Dataset) -> xarray.Dataset:
    """Add the dimension `chain`; one is enough, since the draws are independent."""
    numbered = dataset.assign_coords(draw=np.arange(dataset.sizes["draw"]))
    return numbered.expand_dims(chain=[0])


def _observed(observed: Any, width: int | None) -> xarray.Dataset:
    """Return the measured outputs, (m,), as a dataset."""
    values = finite(observed, "observed")
    if values.ndim != 1 or (width is not None and len(values) != width):
        expected = "(m,)" if width is None else f"({width},)"
        raise ValueError(f"observed must hold one number an output, {expected}, not {values.shape}")
    dataset: xarray.Dataset = load("xarray").Dataset({_OUTPUTS: ("output", values)})
    return dataset


def _attributes(record: Record, certificate: Certificate | None) -> dict[str, Any]:
    """Return attributes as numbers and strings, which every file format can store."""
    facts: dict[str, Any] = {
        "inference_library": "supac",
        "inference_library_version": version("supac"),
        **{name: getattr(record.estimate, name) for name in _FACTS},
        "stop_reason": "" if record.stop_reason is None else str(record.stop_reason),
        "bound": str(record.bound),
        "notes": "\n".join(record.notes),
    }
    found = None if record.ending is None else record.ending.evidence
    if found is not None:
        facts |= {"log_evidence": found.log, "log_evidence_error": found.error}
    if certificate is not None:
        facts |= {"certificate": certificate.value, "certificate_text": str(certificate)}
        facts |= {f"certificate_{k}": getattr(certificate, k) for k in ("bound", "delta", "n")}
    return facts


def load(module: str, name: str = "") -> Any:
    """Import a library; an ImportError names the extra."""
    try:
        with warnings.catch_warnings():
            # ArviZ 0.23 announces version 1.0 at import; both work.
            warnings.simplefilter("ignore", FutureWarning)
            return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"to_{module} needs {name or module}: pip install 'supac[{module}]'"
        ) from error
