"""Distributions in the user's units, with the interface of `scipy.stats`."""

from supac.problem.frozen.joint import Frozen
from supac.problem.frozen.marginal import FrozenMarginal

__all__ = ["Frozen", "FrozenMarginal"]
