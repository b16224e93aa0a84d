"""Convert a record for ArviZ: to `InferenceData`, from ArviZ 1.0 on to xarray's `DataTree`.

The groups and their datasets are the same.
"""

from __future__ import annotations

import warnings
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from supac.arrays import finite, whole
from supac.exchange.frames import OUTPUTS, as_xarray, load_xarray
from supac.exchange.table import table_of_draws
from supac.families import Distribution
from supac.guarantee.certificate import Certificate
from supac.problem import Parameters
from supac.record.calibrated import check_certificate
from supac.record.record import Record

if TYPE_CHECKING:
    import xarray

_FACTS = ("objective", "mean_risk", "mean_risk_error", "kl", "validated")


def as_arviz(
    record: Record,
    *,
    draws: int,
    seed: int,
    certificate: Certificate | None = None,
    observed: Any = None,
) -> Any:
    """Return draws of posterior and prior, and fresh outputs, as groups, with attributes."""
    arviz = _arviz()
    count, number = whole(draws, "draws", least=1), whole(seed, "seed", least=0)
    posterior, parameters = record.known_posterior(), record.parameters
    check_certificate(posterior, record.prior, record.estimate, certificate)
    groups = {"posterior": _chain(_draws(posterior, parameters, count, number))}
    if isinstance(record.prior, Distribution):
        # A stream of its own: with the posterior's, the draws would be correlated.
        rng = np.random.default_rng([number, 1])
        groups["prior"] = _chain(_draws(record.prior, parameters, count, rng))
    ended = record.ending if record.counts is None else None
    outputs = None if ended is None else record.outputs(ended.fresh)
    if outputs is not None:
        data = load_xarray().Dataset({OUTPUTS: (("draw", "output"), outputs)})
        groups["posterior_predictive"] = _chain(data)
    if observed is not None:
        groups["observed_data"] = _observed(observed, None if outputs is None else outputs.shape[1])
    facts = _attributes(record, certificate)
    if int(arviz.__version__.split(".")[0]) < 1:
        return arviz.InferenceData(attrs=facts, **groups)
    tree = load_xarray().DataTree.from_dict(groups)
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
    dataset: xarray.Dataset = load_xarray().Dataset({OUTPUTS: ("output", values)})
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
    if certificate is not None:
        facts |= {"certificate": certificate.value, "certificate_text": str(certificate)}
        facts |= {f"certificate_{k}": getattr(certificate, k) for k in ("bound", "delta", "n")}
    return facts


def _arviz() -> ModuleType:
    try:
        with warnings.catch_warnings():
            # ArviZ 0.23 announces version 1.0 at import; both work.
            warnings.simplefilter("ignore", FutureWarning)
            import arviz  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ: pip install 'supac[arviz]'") from error
    return arviz
