"""A line on the last round in a store, for `supac show --follow` without a terminal."""

from __future__ import annotations

import time

from supac.record.record import Record
from supac.report.standing import words_on_time


def line_of(run: Record) -> str:
    """Return the line of the last round in a store."""
    queries, info = int(run.history["queries"][-1]), run.rounds[-1].info
    made = f"{queries} of {run.budget} runs" if run.coarse_use is None else run.spent_words
    return (
        f"{time.strftime('%H:%M:%S')} {made}: objective "
        f"{info.objective:.4g}, mean risk {info.mean_risk:.4g}, KL {info.kl:.3g}; time left: "
        f"{words_on_time(run)}"
    )
