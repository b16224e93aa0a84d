"""Outcomes of runs, in a file of its own: the workers that make runs import nothing else."""

from __future__ import annotations

from enum import StrEnum

LARGEST_RISK = 1e100
"""Risks are smaller, or the run has failed: squares of larger ones, and their sums, overflow."""


class Status(StrEnum):
    """Outcome of a run."""

    OK = "ok"
    RAISED = "raised"
    INVALID = "invalid"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    REFUSED = "refused"
    """Not simulated, since a constraint does not hold; it counts as the largest risk."""
    LOST = "lost"
    """Taken by the machine: no run of a record has it, since lost runs are made again."""
