"""Jacobians converted from the user's units to those of an emulator.

A simulator returns ∂outputs/∂x in the user's units. An emulator takes ∂residuals/∂u, of what the
loss takes in the latent parameters: each parameter is a function of its own u, also in a field or
with a correlated prior, so that

    ∂r/∂u_j = (∂r/∂y · ∂y/∂x_j) · dx_j/du_j.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.problem.problem import Parameters

_CHANGE = 1e-5  # relative change of an output behind a difference
_LEAST = 1e-3  # size of an output that is nearly zero, in root mean squares of all


def in_latent(jacobian: FloatArray, x: FloatArray, parameters: Parameters | None) -> FloatArray:
    """Convert ∂y/∂x (m, p) of the first p parameters to ∂y/∂u at the latent point x (dim,)."""
    if parameters is None:
        return jacobian
    first = list(parameters.transforms.values())[: jacobian.shape[1]]
    point = zip(first, x, strict=False)
    return jacobian * np.exp([float(each.log_slope(np.array([u]))[0]) for each, u in point])


def of_residuals(data: Any, outputs: FloatArray, jacobian: FloatArray) -> FloatArray:
    """Convert the Jacobian (m, p) of outputs (m,) to that of their residuals (k, p).

    By the derivatives of the data if they have a method `tangents(outputs, changes)`, which
    returns the changes of the residuals, (n, k), with those of the outputs, (n, m); else by
    differences.
    """
    if data is None or not jacobian.size:
        return jacobian
    known = getattr(data, "tangents", None)
    if known is not None:
        return np.asarray(known(outputs, jacobian.T)).T
    size = np.abs(outputs) + _LEAST * float(np.sqrt(np.mean(outputs**2))) + 1e-300
    largest = (np.abs(jacobian) / size[:, None]).max(axis=0)
    step = _CHANGE / np.where(largest > 0.0, largest, 1.0)
    change = (jacobian * step).T
    ahead, behind = (np.asarray(data.residuals(outputs + d)) for d in (change, -change))
    return np.asarray((0.5 * (ahead - behind) / step[:, None]).T)
