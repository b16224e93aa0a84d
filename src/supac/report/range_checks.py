"""The check of a verdict whether ranges cover what the data leave open."""

from __future__ import annotations

from supac.record.local_ranges import advice_on_local_ranges, words_on_local_ranges
from supac.report.account import Account
from supac.report.check import Answer, Level


def covers_what_is_open(run: Account) -> Answer:
    """Return None where nobody has checked it: of many parameters, say."""
    ending = run.record.ending
    if ending is None or ending.range_check is None:
        return None
    words = words_on_local_ranges(run.record)
    if not words:
        return Level.TRUST, "Yes, as far as the model of the risk knows."
    return Level.LOOK, (
        f"No, {words}. So ranges, bands of predictions and what follows from them hold near this "
        f"posterior alone. What helps: {advice_on_local_ranges(run.record)}."
    )
