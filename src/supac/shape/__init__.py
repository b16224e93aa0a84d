"""Posteriors of any shape from a model of the risk, at no run, and the evidence.

Over all distributions the minimiser of mean risk + λ·KL is π ∝ prior · exp(−risk/λ). Particles of
it come from the model, and a mixture of Gaussians fitted to them is a posterior like any other.
"""

from supac.shape.mixtures import fit_mixture
from supac.shape.particles import Particles, sample_around, sample_minimiser, sample_ray
from supac.shape.selection import MOST_PARAMETERS, Shape, choose_shape
from supac.shape.weighing import weigh_draws

__all__ = [
    "MOST_PARAMETERS",
    "Particles",
    "Shape",
    "choose_shape",
    "fit_mixture",
    "sample_around",
    "sample_minimiser",
    "sample_ray",
    "weigh_draws",
]
