"""A statement of the paper, and whether our runs bear it out."""

from __future__ import annotations

from dataclasses import dataclass

LEVEL = 0.01
"""Level of tests that must find a difference; tests that must find none have 0.05."""


@dataclass(frozen=True)
class Claim:
    """State what the paper says, what was tested and seen, and whether it holds."""

    says: str
    test: str
    """Condition for it to hold."""
    seen: str
    held: bool
    remark: str = ""
    """Explanation to print if it does not hold."""
