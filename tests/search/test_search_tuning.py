"""Numbers of the search's rules: kept with a search, and switches of its rules."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.codec import from_spec, to_spec
from supac.problem import Role
from supac.search.tuning import DEFAULT, Tuning

PLANE = supac.gaussian(np.zeros(2), np.eye(2))


def decay(x: FloatArray) -> FloatArray:
    times = np.linspace(0.0, 5.0, 10)
    simulated = 3.0 * np.exp(-np.exp(0.5 * x[0]) * times) * (1.0 + x[1])
    return np.asarray((simulated - np.exp(-times)) / 0.1)


def search(tuning: Tuning | None = None, budget: int = 40, **options: Any) -> supac.Result:
    return supac.minimize(
        supac.Composite(decay, supac.Welsch()),
        PLANE,
        supac.Catoni(0.01),
        budget=budget,
        validation=0,
        algorithm=supac.SuPAC(tuning=tuning),
        **options,
    )


def roles(result: supac.Result) -> set[Role]:
    return {Role(each) for each in result.evaluations.role}


def other(part: str, **numbers: Any) -> Tuning:
    """The usual numbers with others in one part."""
    return replace(DEFAULT, **{part: replace(getattr(DEFAULT, part), **numbers)})


def test_every_number_is_read_back_from_json() -> None:
    def scaled(part: Any) -> Any:
        values = {each.name: getattr(part, each.name) for each in fields(part)}
        return replace(
            part,
            **{
                name: scaled(value) if is_dataclass(value) else type(value)(2 * value)
                for name, value in values.items()
            },
        )

    tuning = scaled(DEFAULT)
    assert tuning != DEFAULT
    assert from_spec(json.loads(json.dumps(to_spec(tuning)))) == tuning
    algorithm = supac.SuPAC(tuning=tuning)
    assert from_spec(json.loads(json.dumps(to_spec(algorithm)))) == algorithm
    assert "tuning" not in to_spec(supac.SuPAC())  # as stores of earlier versions have it


def test_a_search_goes_on_with_the_numbers_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a later version are for searches that it begins."""
    store, whole = tmp_path / "run.supac", search(budget=40)
    search(budget=25, store=store)
    later = other("moving", gain=0.01)
    monkeypatch.setattr("supac.search.supac.DEFAULT", later)
    assert search(budget=40).posterior != whole.posterior
    assert search(budget=40, store=store).posterior == whole.posterior


DELETED = {"far": 20.0, "ignored": 1e12}
"""Numbers of the screening that earlier versions had, and wrote into stores."""


def as_before(tuning: Tuning) -> Any:
    """What an earlier version wrote of a tuning."""
    spec = to_spec(tuning)
    spec["emulator"]["screening"] |= DELETED
    return spec


def test_a_store_with_numbers_of_deleted_rules_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, whole = tmp_path / "run.supac", search(budget=40)
    with monkeypatch.context() as earlier:
        earlier.setattr("supac.record.encoding._tuning_to_spec", as_before)
        search(budget=25, store=store)
    assert b"ignored" in store.read_bytes()
    assert search(budget=40, store=store).posterior == whole.posterior
    unknown = as_before(DEFAULT)
    unknown["emulator"]["screening"]["surprises"] = 3
    with pytest.raises(ValueError, match="ScreeningTuning with"):
        from_spec(unknown)


def test_rules_can_be_switched_off() -> None:
    usual = search()
    assert {Role.MEAN, Role.BESIDE, Role.TELLS} <= roles(usual)
    assert roles(search(other("moving", gain=np.inf, again=np.inf))).isdisjoint(
        {Role.MEAN, Role.BESIDE, Role.AHEAD}
    )
    assert Role.TELLS not in roles(search(other("placement", explained=np.inf)))
    assert Role.AHEAD not in roles(search(other("placement", ahead_gain=np.inf)))
    assert Role.PROBE not in roles(search(other("placement", inside=0.0)))
    still = search(other("trust", grow=1.0, shrink=1.0, farther=1.0, rise=np.inf))
    assert set(still.history["radius"].tolist()) <= {2.0, 8.0}  # 8 where a run ahead confirms
