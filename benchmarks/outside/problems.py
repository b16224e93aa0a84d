"""The catalogue: every problem by its name, and what is known about its objective.

Those for development may be looked at while the search is changed; those for judgement are for the
table alone, and nothing is tuned on them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from outside import boxes, development, fields, gr4j, life, petab_problems, physics, textbook
from outside.problem import OutsideProblem, Role

BEST = Path(__file__).parents[1] / "results" / "outside-best.json"
JUDGEMENT = {
    **life.PROBLEMS,
    **physics.PROBLEMS,
    **gr4j.PROBLEMS,
    **petab_problems.JUDGEMENT,
    **boxes.JUDGEMENT,
}
MAKERS = {
    **development.PROBLEMS,
    **textbook.PROBLEMS,
    **fields.PROBLEMS,
    **petab_problems.DEVELOPMENT,
    **boxes.DEVELOPMENT,
    **JUDGEMENT,
}
ROLES: dict[str, Role] = {
    name: "judgement" if name in JUDGEMENT else "development" for name in MAKERS
}


@dataclass(frozen=True)
class Known:
    """Objectives that tell how far a posterior has come."""

    prior: float
    best: float
    how: str
    """How the best posterior was found."""


@cache
def problem(name: str) -> OutsideProblem:
    """Return the problem of this name; OSError or ImportError where it needs what is not here."""
    if name not in MAKERS:
        raise KeyError(f"no problem is called {name!r}; there are {', '.join(MAKERS)}")
    return MAKERS[name]()


def known() -> dict[str, Known]:
    """Read the objectives of the priors and of the best posteriors known."""
    kept = json.loads(BEST.read_text()) if BEST.exists() else {}
    return {name: Known(**values) for name, values in kept.items()}
