"""What a method gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dimension.problem import WideProblem
from outside.problem import Gaussian


@dataclass
class Answer:
    """Posteriors after at most so many runs, where there are any, and what they cost."""

    posteriors: dict[int, Gaussian] = field(default_factory=dict)
    runs: dict[int, int] = field(default_factory=dict)
    """Runs made for each of them."""
    rounds: list[float] = field(default_factory=list)
    """Processor seconds of each round of a search, without its simulations."""


Method = Callable[[WideProblem, int, Sequence[int]], Answer]
"""(problem, seed, checkpoints) → answer."""
