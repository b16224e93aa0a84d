"""Processes with random inputs, outputs and hyperparameters, and their textbook kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supac.arrays import FloatArray
from supac.emulator.process import Hyperprior, Process
from supac.emulator.tuning import DEFAULT


def hyperprior(dim: int, noise_floor: float = 3e-3) -> Hyperprior:
    return Hyperprior.build(
        np.ones((dim, dim), dtype=bool),
        replace(DEFAULT.hyperprior.outputs, noise_floor=noise_floor),
    )


def process(n: int, dim: int, outputs: int = 1, seed: int = 0) -> Process:
    """Random inputs, outputs, hyperparameters and inflations."""
    rng = np.random.default_rng(seed)
    prior = hyperprior(dim)
    hyperparameters = prior.centre + 0.5 * rng.standard_normal(len(prior.centre))
    u = rng.standard_normal((n, dim))
    y = np.column_stack([np.sin(u @ rng.standard_normal(dim) + k) for k in range(outputs)])
    return Process(hyperparameters, prior, u, y, inflation=1.0 + 3.0 * rng.random(n))


def textbook_kernel(given: Process, left: FloatArray, right: FloatArray) -> FloatArray:
    """4 + linear⟨v, v'⟩ + quadratic⟨v, v'⟩² + smooth·exp(−½|v − v'|²), entry by entry."""
    dim = given.u.shape[1]
    metric = np.eye(dim)
    metric[np.tril_indices(dim, -1)] = given.hyperparameters[dim:-4]
    smooth, linear, quadratic = np.exp(given.hyperparameters[-4:-1]) ** 2

    def scaled(u: FloatArray) -> FloatArray:
        return (metric @ u) / np.exp(given.hyperparameters[:dim])

    def entry(v: FloatArray, w: FloatArray) -> float:
        rbf = smooth * np.exp(-0.5 * ((v - w) ** 2).sum())
        return float(4.0 + linear * (v @ w) + quadratic * (v @ w) ** 2 + rbf)

    return np.array([[entry(scaled(a), scaled(b)) for b in right] for a in left])


def noisy_kernel(given: Process) -> FloatArray:
    noise = np.exp(given.hyperparameters[-1]) ** 2 + given.prior.noise_floor**2
    return textbook_kernel(given, given.u, given.u) + noise * np.diag(given.inflation)
