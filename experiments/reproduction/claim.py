"""A statement of the paper, and whether our runs bear it out."""

from __future__ import annotations

from dataclasses import dataclass

LEVEL = 0.01
"""Of the tests that must find a difference; those that must find none have 0.05."""


@dataclass(frozen=True)
class Claim:
    """One statement."""

    says: str
    test: str
    """What must be seen for it to hold."""
    seen: str
    held: bool
    remark: str = ""
    """What is to be known where it is not held."""
