"""Values as JSON and back: nothing that is not registered is ever called."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import supac
from supac import codec, marginals
from supac.codec import (
    UnknownSpecError,
    describe,
    differences,
    fingerprint,
    from_spec,
    register,
    to_spec,
)


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test registers."""
    monkeypatch.setattr(codec, "_REGISTRY", dict(codec._REGISTRY))
    monkeypatch.setattr(codec, "_NAMES", dict(codec._NAMES))


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any = None


VALUES = [
    supac.gaussian([0.1, -0.2], [[1.0, 0.3], [0.3, 2.0]]),
    supac.product(supac.beta(2.0, 3.0), supac.gamma(0.7, 1.1)),
    supac.student_t(np.zeros(2), np.eye(2), 5.0),
    supac.mixture([supac.gaussian([0.0], [[1.0]]), supac.gaussian([2.0], [[0.5]])]),
    supac.Catoni(0.05, n=100, delta=0.05),
    supac.MaurerLangfordSeeger(n=50, delta=0.1),
    supac.SuPAC(),
    supac.SuPAC.paper(),
    supac.Welsch(3.0),
    marginals.LogNormal(2.0, 0.5, unit="1/d"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_come_back_equal_through_json(value: object) -> None:
    again = from_spec(json.loads(json.dumps(to_spec(value))))
    assert again == value
    assert fingerprint(again) == fingerprint(value) != ""


def test_parameters_come_back_with_their_order() -> None:
    given = supac.Parameters({"b": marginals.Normal(0.0, 1.0), "a": marginals.Uniform(0.0, 1.0)})
    again = from_spec(json.loads(json.dumps(to_spec(given))))
    assert list(again.marginals.items()) == list(given.marginals.items())
    assert "latent" not in to_spec(given)  # as older files, which have no such argument


def test_a_registered_class_keeps_its_tuples() -> None:
    register(Pair)
    assert from_spec(to_spec(Pair((1, 2), "x"))) == Pair((1, 2), "x")
    with pytest.raises(ValueError, match="Pair is registered already"):
        register(Pair)


def test_a_file_may_know_a_class_by_another_name() -> None:
    register(name="Twin", later=("second",))(Pair)
    assert to_spec(Pair(1)) == {"class": "Twin", "first": 1}
    assert from_spec({"class": "Twin", "first": 1}) == Pair(1)
    with pytest.raises(UnknownSpecError, match="Twin with"):
        from_spec({"class": "Twin", "third": 1})


def test_arguments_that_mean_nothing_any_more_are_ignored() -> None:
    register(name="Triplet", later=("second",), dropped=("third",))(Pair)
    assert from_spec({"class": "Triplet", "first": 1, "third": 7}) == Pair(1)
    assert "third" not in to_spec(Pair(1))
    with pytest.raises(UnknownSpecError, match="Triplet with"):
        from_spec({"class": "Triplet", "first": 1, "fourth": 7})


@pytest.mark.parametrize(
    "spec",
    [
        {"class": "os.system", "command": "true"},
        {"class": "Catoni", "temperature": 0.1, "more": 1},
        {"class": ["Catoni"]},
        {"other": "my.function"},
        {"items": 3},
        {"class": "Welsch", "width": -1.0},
    ],
)
def test_what_is_not_on_the_list_cannot_be_made(spec: Any) -> None:
    with pytest.raises(UnknownSpecError):
        from_spec([spec])


def test_of_other_objects_the_name_is_kept() -> None:
    assert to_spec(describe) == {"other": "supac.codec.describe"}
    assert fingerprint(describe) == ""
    assert describe(object()) == "<object object>"  # without its address


def test_differences_are_named_by_their_place() -> None:
    one, other = (
        to_spec({"prior": supac.gaussian([mean], [1.0]), "bound": bound})
        for mean, bound in ((0.0, supac.Catoni(0.1)), (1.0, supac.Thiemann(10, 0.1)))
    )
    assert differences(one, one) == []
    assert differences(one, other) == [
        "[prior].theta[0]: 0.0 in the store, 1.0 now",
        "[bound]: Catoni in the store, Thiemann now",
    ]
    assert differences(float("nan"), float("nan"), "risk") == []
