"""Cost and savings of a coarse model in a search, for those who read its record."""

from __future__ import annotations

from dataclasses import dataclass

COARSE_SINCE = "coarse_since"
"""Key of a store's description: rounds that were told before the coarse model changed."""


@dataclass(frozen=True)
class CoarseUse:
    """Numbers of a search with a coarse model."""

    cost: float
    """Cost of a coarse run in fine ones; NaN before it is measured."""
    useful: bool
    """False if the coarse model was left after the first runs."""
    differs: float
    """Share of the squared differences between fine runs that it misses; NaN before it is known."""
    fine: int
    """Fine runs, those of the validation included."""
    runs: int
    """Coarse runs."""
    failed: int
    """Failed ones of them."""
    settled: int
    """Coarse runs after which the search of the coarse model had settled; 0 before."""
    before: int
    """Fine runs up to the first ones beyond that search."""
    failure: str = ""
    """Message of the first coarse run that failed; "" if none has."""
    known: int = 0
    """Coarse runs that were made elsewhere, and cost nothing."""

    @property
    def spent(self) -> float:
        """Cost of all runs, in fine ones."""
        return self.fine + self.runs * self.cost

    @property
    def saved(self) -> float:
        """Estimate of the fine runs that were saved.

        The search of the fine model alone would have settled after about as many fine runs as that
        of the coarse model did after coarse ones.
        """
        return (self.settled - self.before if self.settled else 0) - self.runs * self.cost

    @property
    def saved_error(self) -> float:
        """Rough standard error of that: searches of one problem differ by a quarter."""
        return 0.25 * self.settled

    @property
    def sentence(self) -> str:
        """Say what was spent, and what that saved."""
        failed = f", {self.failed} of them failed ({self.failure})" if self.failed else ""
        spent = (
            f"{self.fine} fine runs and {self.runs} coarse ones{failed}: as much as "
            f"{self.spent:.3g} fine runs, a coarse one counting {self.cost:.3g}"
        )
        if self.known:
            spent += f", with {self.known} further coarse ones that were made elsewhere"
        if not self.useful:
            return f"{spent}; the coarse model was of no use"
        if not self.settled:
            return spent
        about = f"{self.saved:.0f} ± {self.saved_error:.0f}"
        return f"{spent}; it has saved about {about} of them"
