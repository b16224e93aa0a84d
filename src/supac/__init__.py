"""Calibrate expensive simulators with PAC-Bayes guarantees."""

from supac import marginals, simulators
from supac.algorithm import Algorithm, Info, Problem, State
from supac.bounds import (
    Bound,
    Catoni,
    MaurerLangfordSeeger,
    McAllester,
    Thiemann,
    TolstikhinSeldin,
)
from supac.composite import Composite, MeanSquare, RootMeanSquare, SquareLoss
from supac.evaluate import EvaluationError
from supac.evaluations import Evaluations
from supac.families import (
    Bernoulli,
    Beta,
    DiagonalGaussian,
    Distribution,
    Exponential,
    Family,
    FixedGaussian,
    Gamma,
    Gaussian,
    Pareto,
    Poisson,
    Product,
    ScaledGaussian,
    bernoulli,
    beta,
    exponential,
    fixed_gaussian,
    gamma,
    gaussian,
    pareto,
    poisson,
    product,
    scaled_gaussian,
)
from supac.gradient import GradientDescent, Nesterov
from supac.minimize import Iteration, Result, StopReason, minimize
from supac.parameters import Parameters
from supac.steps import FixedStep, TrustRegion
from supac.supac import SuPAC
from supac.surrogate import (
    GaussianProcess,
    Importance,
    OutputEmulator,
    Ridge,
    Surrogate,
    Uniform,
    Voronoi,
)

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Bernoulli",
    "Beta",
    "Bound",
    "Catoni",
    "Composite",
    "DiagonalGaussian",
    "Distribution",
    "EvaluationError",
    "Evaluations",
    "Exponential",
    "Family",
    "FixedGaussian",
    "FixedStep",
    "Gamma",
    "Gaussian",
    "GaussianProcess",
    "GradientDescent",
    "Importance",
    "Info",
    "Iteration",
    "MaurerLangfordSeeger",
    "McAllester",
    "MeanSquare",
    "Nesterov",
    "OutputEmulator",
    "Parameters",
    "Pareto",
    "Poisson",
    "Problem",
    "Product",
    "Result",
    "Ridge",
    "RootMeanSquare",
    "ScaledGaussian",
    "SquareLoss",
    "State",
    "StopReason",
    "SuPAC",
    "Surrogate",
    "Thiemann",
    "TolstikhinSeldin",
    "TrustRegion",
    "Uniform",
    "Voronoi",
    "bernoulli",
    "beta",
    "exponential",
    "fixed_gaussian",
    "gamma",
    "gaussian",
    "marginals",
    "minimize",
    "pareto",
    "poisson",
    "product",
    "scaled_gaussian",
    "simulators",
]
