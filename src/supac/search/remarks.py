"""Remarks on a round that went worse than usual, which a search may get over."""

from __future__ import annotations

from supac.search.note import Note
from supac.search.restart import SETTLED

RIDGE = Note(
    "ridge",
    "the runs do not determine the surrogate, which was fitted with a ridge; a larger first batch, "
    "`first` in [run] of a problem file or SuPAC(first=…), avoids it",
)
EXTRAPOLATES = Note(
    "extrapolates",
    "the surrogate's mean risk is outside the range of all risks seen: it extrapolates; larger "
    "batches, `batch` in [run] of a problem file or SuPAC(batch=…), avoid it",
)
REJECTED = Note(
    "rejected",
    "a step made things worse than predicted and was taken back; if many are, larger batches, "
    "`batch` in [run] of a problem file or SuPAC(batch=…), help",
)
PASSING = (EXTRAPOLATES, REJECTED, SETTLED)
"""Remarks that say nothing against a search which has made progress since."""
