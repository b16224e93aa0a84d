"""What a method gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dimension.problem import WideProblem
from outside.problem import Gaussian

EXTRA_RUNS = 2
"""Runs that a method may make beyond a checkpoint: a Newton step takes two more than parameters."""


@dataclass
class Answer:
    """Posteriors after a number of runs, `EXTRA_RUNS` more at most, and what they cost."""

    posteriors: dict[int, Gaussian] = field(default_factory=dict)
    runs: dict[int, int] = field(default_factory=dict)
    """Runs made for each of them."""
    rounds: list[float] = field(default_factory=list)
    """Processor seconds of each round of a search, without its simulations."""


Method = Callable[[WideProblem, int, Sequence[int]], Answer]
"""(problem, seed, checkpoints) → answer."""
