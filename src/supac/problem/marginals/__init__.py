"""Priors of single parameters in the user's units, as transformations of a standard normal."""

from supac.problem.marginals.laws import Beta, Gamma, HalfCauchy, Of, Triangular
from supac.problem.marginals.marginal import Marginal
from supac.problem.marginals.transformed import (
    HalfNormal,
    Laplace,
    LogitNormal,
    LogLaplace,
    LogNormal,
    LogUniform,
    Normal,
    Truncated,
    Uniform,
)

__all__ = [
    "Beta",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "Laplace",
    "LogLaplace",
    "LogNormal",
    "LogUniform",
    "LogitNormal",
    "Marginal",
    "Normal",
    "Of",
    "Triangular",
    "Truncated",
    "Uniform",
]
