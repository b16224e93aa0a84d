"""Runs of different versions of the simulator can be told apart."""

from __future__ import annotations

import json

from supac.record.checksums import CODE
from supac.record.simulator_versions import (
    SimulatorVersion,
    runs_by_simulator,
    version_numbers,
    versions_of,
    versions_with,
)

A, B = {"simulator": "a", "data": "d"}, {"simulator": "b", "data": "d"}


def test_each_run_belongs_to_the_version_that_made_it() -> None:
    versions = versions_with((), A, [])
    assert versions_with(versions, A, [0, 1, 2]) == versions
    versions = versions_with(versions, B, [0, 1, 3])  # run 2 was lost, and is made anew
    assert version_numbers(versions, [0, 1, 2, 3, 4]) == [1, 1, 2, 1, 2]
    back = versions_with(versions, A, [0, 1, 2, 3, 4])
    assert version_numbers(back, [0, 2, 4, 5]) == [1, 2, 2, 1]
    made = runs_by_simulator(back, range(6))
    assert [(each.number, each.runs, each.checksum) for each in made] == [(1, 4, "a"), (2, 2, "b")]
    assert made[0].since == "" < made[1].since


def test_a_version_without_runs_is_forgotten() -> None:
    first = versions_with(versions_with((), A, []), B, [])
    assert [dict(each.files) for each in first] == [{"simulator": "b"}]
    later = versions_with(versions_with(first, A, [0]), B, [0])
    assert later == first


def test_code_that_does_not_matter_makes_no_version() -> None:
    then, now = ({"simulator": name, "simulator" + CODE: "same"} for name in "ab")
    assert len(versions_with(versions_with((), then, []), now, [0])) == 1


def test_versions_survive_json_and_older_descriptions() -> None:
    versions = versions_with(versions_with((), A, []), B, [0, 1, 2, 5])
    text = json.dumps({"files": B, "simulators": [each.to_spec() for each in versions]})
    assert versions_of(text) == versions
    assert versions[1].to_spec()["before"] == [[0, 2], [5, 5]]
    assert versions_of(json.dumps({"files": A})) == (SimulatorVersion({"simulator": "a"}),)
    assert versions_of("no JSON") == versions_of("3") == ()
