"""Notes are recognised by their codes, whatever words a version has for them."""

from __future__ import annotations

import json
import pickle

from supac.calibration.diagnostics import notes_on_the_way
from supac.record.encoding import info_from_spec, info_to_spec
from supac.search.algorithm import NO_STEP, Info
from supac.search.note import Note, code_of, is_among
from supac.search.remarks import REJECTED, RIDGE


def test_a_note_is_its_words_with_a_code() -> None:
    assert NO_STEP.startswith("no step within the trust region")
    copy = pickle.loads(pickle.dumps(NO_STEP))
    assert (copy, code_of(copy)) == (NO_STEP, "no step")
    assert code_of("words of version 0.1") == ""


def test_other_words_of_the_same_code_are_the_same_note() -> None:
    other = Note(REJECTED.code, "a step was worse than predicted")
    assert is_among(other, (RIDGE, REJECTED))
    assert not is_among(other, (RIDGE,))
    assert is_among(str(REJECTED), (REJECTED,))  # as earlier stores have it
    assert not is_among("a step was worse than predicted", (REJECTED,))


def test_codes_are_kept_and_older_rounds_have_none() -> None:
    info = Info(0.1, 0.2, 0.3, notes=(NO_STEP, "of my own"))
    again = info_from_spec(json.loads(json.dumps(info_to_spec(info))))
    assert again.notes == info.notes
    assert [code_of(note) for note in again.notes] == ["no step", ""]
    spec = info_to_spec(info)
    del spec["note_codes"]
    assert info_from_spec(spec).notes == info.notes


def test_what_a_search_got_over_is_known_by_its_code() -> None:
    """A converged search may find no step, also if another version has worded the note."""
    other = Note(NO_STEP.code, "nothing to be gained here")
    steps = [Info(0.1, 1.0, 1.0, alpha=1.0, step_kl=0.01, radius=4.0), Info(notes=(other,))]
    assert notes_on_the_way([10, 15], steps) == ()
    unknown = Info(notes=("nothing to be gained here",))
    assert len(notes_on_the_way([10, 15], [steps[0], unknown])) == 1
