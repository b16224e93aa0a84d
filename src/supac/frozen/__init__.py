"""Distributions in the user's units, spelled as `scipy.stats` spells its own."""

from supac.frozen.joint import Frozen
from supac.frozen.marginal import FrozenMarginal

__all__ = ["Frozen", "FrozenMarginal"]
