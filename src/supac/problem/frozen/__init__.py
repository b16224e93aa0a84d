"""Distributions in the user's units, spelled as `scipy.stats` spells its own."""

from supac.problem.frozen.joint import Frozen
from supac.problem.frozen.marginal import FrozenMarginal

__all__ = ["Frozen", "FrozenMarginal"]
