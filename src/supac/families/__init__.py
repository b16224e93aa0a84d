"""Exponential families and their members."""

from supac.families.family import Distribution, Family, NormalWhitening, Whitening
from supac.families.gaussian import (
    DiagonalGaussian,
    FixedGaussian,
    Gaussian,
    ScaledGaussian,
    fixed_gaussian,
    gaussian,
    scaled_gaussian,
)
from supac.families.product import Product, product
from supac.families.univariate import (
    Bernoulli,
    Beta,
    Exponential,
    Gamma,
    Pareto,
    Poisson,
    bernoulli,
    beta,
    exponential,
    gamma,
    pareto,
    poisson,
)

__all__ = [
    "Bernoulli",
    "Beta",
    "DiagonalGaussian",
    "Distribution",
    "Exponential",
    "Family",
    "FixedGaussian",
    "Gamma",
    "Gaussian",
    "NormalWhitening",
    "Pareto",
    "Poisson",
    "Product",
    "ScaledGaussian",
    "Whitening",
    "bernoulli",
    "beta",
    "exponential",
    "fixed_gaussian",
    "gamma",
    "gaussian",
    "pareto",
    "poisson",
    "product",
    "scaled_gaussian",
]
