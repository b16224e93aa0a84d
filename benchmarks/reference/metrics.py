"""How far draws are from reference draws."""

from __future__ import annotations

from importlib import import_module

import numpy as np
from scipy.stats import gaussian_kde

from supac.arrays import FloatArray

_FOLDS, _SEED = 5, 1
_GRID = 400
_MARGIN = 0.1  # of the range of all draws, beyond its ends


def c2st(reference: FloatArray, draws: FloatArray) -> float:
    """Return how often a neural network tells which sample a point is from: 0.5 is best.

    The network, its training and the five folds are those of sbibm.
    """
    network = import_module("sklearn.neural_network")
    selection = import_module("sklearn.model_selection")
    middle, width = reference.mean(axis=0), reference.std(axis=0, ddof=1)
    both = (np.concatenate([reference, draws]) - middle) / width
    own = np.repeat([0.0, 1.0], [len(reference), len(draws)])
    size = 10 * reference.shape[1]
    told = network.MLPClassifier((size, size), max_iter=10_000, random_state=_SEED)
    folds = selection.KFold(_FOLDS, shuffle=True, random_state=_SEED)
    return float(selection.cross_val_score(told, both, own, cv=folds).mean())


def mmtv(reference: FloatArray, draws: FloatArray) -> float:
    """Return the mean over parameters of the total variation between marginals, from 0 to 1."""
    return float(np.mean([_variation(a, b) for a, b in zip(reference.T, draws.T, strict=True)]))


def _variation(one: FloatArray, other: FloatArray) -> float:
    both = np.concatenate([one, other])
    margin = _MARGIN * np.ptp(both)
    grid = np.linspace(both.min() - margin, both.max() + margin, _GRID)
    away = np.abs(gaussian_kde(one)(grid) - gaussian_kde(other)(grid))
    return min(0.5 * float(np.trapezoid(away, grid)), 1.0)


def gskl(reference: FloatArray, draws: FloatArray) -> float:
    """Return the mean of both KL divergences between the Gaussians with their moments."""
    moments = [(x.mean(axis=0), np.atleast_2d(np.cov(x.T))) for x in (reference, draws)]
    return 0.5 * (_kl(*moments[0], *moments[1]) + _kl(*moments[1], *moments[0]))


def _kl(m: FloatArray, c: FloatArray, other_m: FloatArray, other_c: FloatArray) -> float:
    away = other_m - m
    trace = np.trace(np.linalg.solve(other_c, c)) + away @ np.linalg.solve(other_c, away)
    volume = np.linalg.slogdet(other_c)[1] - np.linalg.slogdet(c)[1]
    return float(0.5 * (trace - len(m) + volume))
