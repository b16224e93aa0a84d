"""Make problems with synthetic data from a simulator and the parameters to be found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import supac
from outside.problem import OutsideProblem, Role, Simulator
from supac import marginals
from supac.arrays import FloatArray

DATA_SEED, MODEL_SEED = 12345, 999
"""Of the noise of the data, and of the stochastic model behind them."""


def log_normals(
    truth: Mapping[str, float], latent: FloatArray, log_sd: Sequence[float]
) -> supac.Parameters:
    """Return log-normal priors whose medians lie `latent` standard deviations below the truth."""
    return supac.Parameters(
        {
            name: marginals.LogNormal(median=value * float(np.exp(-sd * u)), log_sd=sd)
            for (name, value), u, sd in zip(truth.items(), latent, log_sd, strict=True)
        }
    )


def square_of(loss: Callable[[FloatArray], FloatArray]) -> float:
    """Return s where the loss of small residuals is mean(r²)/s."""
    if isinstance(loss, supac.CappedSquare):
        return loss.cap**2
    if isinstance(loss, supac.Welsch):
        return 2.0 * loss.width**2
    return 1.0


def synthetic(
    name: str,
    source: str,
    parameters: supac.Parameters,
    latent: FloatArray,
    simulate: Simulator,
    *,
    scale: FloatArray | float,
    noise: float,
    loss: Callable[[FloatArray], FloatArray],
    temperature: float,
    role: Role = "development",
    **options: Any,
) -> OutsideProblem:
    """Return a problem whose outputs are residuals in units of `scale`.

    The data are the outputs of the parameters at `latent`, with noise of `noise` times `scale`.
    """
    clean = simulate(parameters.from_latent(latent[None])[0], MODEL_SEED)
    error = np.random.default_rng(DATA_SEED).standard_normal(len(clean))
    data = clean + noise * scale * error
    return OutsideProblem(
        name=name,
        role=role,
        source=source,
        parameters=parameters,
        simulate=lambda x, seed: (simulate(x, seed) - data) / scale,
        loss=loss,
        temperature=temperature,
        reference=latent,
        measured=(data, scale * np.ones(len(data))),
        **{"square": square_of(loss)} | options,
    )
