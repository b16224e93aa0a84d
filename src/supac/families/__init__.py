"""Exponential and other parametric families of distributions, and their members."""

from supac.families.family import Density as Density
from supac.families.family import Distribution, Divergence, Family, ParametricFamily
from supac.families.family import Whitening as Whitening
from supac.families.family import as_distribution as as_distribution
from supac.families.gaussian import DiagonalGaussian, Gaussian, gaussian
from supac.families.gaussian import NormalWhitening as NormalWhitening
from supac.families.mixture import Mixture, mixture, split_mixture
from supac.families.product import Product, product
from supac.families.restricted import (
    FixedGaussian,
    LowRankGaussian,
    ScaledGaussian,
    fixed_gaussian,
    low_rank_gaussian,
    scaled_gaussian,
)
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

# The public names; those imported under their own names are for the other packages.
__all__ = [
    "Bernoulli", "Beta", "DiagonalGaussian", "Distribution", "Divergence", "Exponential", "Family",
    "FixedGaussian", "Gamma", "Gaussian", "LowRankGaussian", "Mixture", "ParametricFamily",
    "Pareto", "Poisson", "Product", "ScaledGaussian", "StudentT", "bernoulli", "beta",
    "exponential", "fixed_gaussian", "gamma", "gaussian", "low_rank_gaussian", "mixture", "pareto",
    "poisson", "product", "scaled_gaussian", "split_mixture", "student_t",
]  # fmt: skip
