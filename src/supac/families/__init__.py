"""Exponential and other parametric families of distributions, and their members."""

from supac.families.divergence import Density, Divergence
from supac.families.family import Distribution, Family, ParametricFamily, Whitening
from supac.families.gaussian import DiagonalGaussian, Gaussian, NormalWhitening, gaussian
from supac.families.known_covariance import (
    FixedGaussian,
    ScaledGaussian,
    fixed_gaussian,
    scaled_gaussian,
)
from supac.families.low_rank import LowRankGaussian, low_rank_gaussian
from supac.families.mixture import Mixture, mixture, split_mixture
from supac.families.product import Product, product
from supac.families.student import StudentT, student_t
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
    "Bernoulli", "Beta", "Density", "DiagonalGaussian", "Distribution", "Divergence", "Exponential",
    "Family", "FixedGaussian", "Gamma", "Gaussian", "LowRankGaussian", "Mixture", "NormalWhitening",
    "ParametricFamily", "Pareto", "Poisson", "Product", "ScaledGaussian", "StudentT", "Whitening",
    "bernoulli", "beta", "exponential", "fixed_gaussian", "gamma", "gaussian", "low_rank_gaussian",
    "mixture", "pareto", "poisson", "product", "scaled_gaussian", "split_mixture", "student_t",
]  # fmt: skip
