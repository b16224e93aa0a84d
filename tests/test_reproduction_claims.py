"""The paper's claims on tables that are made up: all hold, and each can fail alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXPERIMENT = Path(__file__).parents[1] / "experiments" / "reproduction"
Rule = Callable[[int, int], float]
"""The objective of a repeat after so many queries."""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the pictures need the extra plot")
    monkeypatch.syspath_prepend(EXPERIMENT)


def falling(pace: float, end: float = 0.12) -> Rule:
    """From 0.53 to `end`, with repeats that differ: more where it is slow."""
    noise = 0.005 if pace < 1000.0 else 0.02
    return lambda repeat, queries: (
        (end + (0.53 - end) * np.exp(-queries / pace)) * (1.0 + noise * (repeat % 5 - 2))
    )


def failing(some: set[int], rule: Rule) -> Rule:
    """The same, but for repeats that end far above where they began."""
    return lambda repeat, queries: (
        0.53 + 1e-4 * queries if repeat in some and queries else rule(repeat, queries)
    )


def as_in_the_paper() -> dict[str, Rule]:
    """Rules with which every claim holds."""
    from settings import (  # noqa: PLC0415
        COMPOSITE,
        EXTREMES,
        GRID,
        MANY_DRAWS,
        MOMENTA,
        SCALAR,
        SELECTED,
        ce,
        descent,
    )  # fmt: skip

    rules: dict[str, Rule] = {ce(*each): falling(250.0) for each in GRID}
    rules |= {ce(*each): falling(250.0) for each in EXTREMES} | {MANY_DRAWS: falling(250.0)}
    rules[ce(0.01, 0.1)] = falling(300.0)
    rules[ce(10.0, 1.0)] = lambda repeat, queries: 0.13 + 0.05 * (repeat % 4)
    rules |= {COMPOSITE: falling(20.0, 0.119), SCALAR: falling(30.0, 0.119)}
    for batch in (80, 160):
        rules[descent(batch, 0.025)] = falling(2500.0, 0.126)
        rules[descent(batch, 0.05)] = falling(2000.0, 0.126)
        rules[descent(batch, 0.07)] = failing(set(range(10)), falling(2000.0, 0.126))
    rules[descent(80, 0.05)] = failing(set(range(10)), falling(2000.0, 0.126))
    rules[descent(160, 0.05)] = failing({0, 1, 2, 3}, falling(2000.0, 0.126))
    for batch, size in SELECTED:
        for momentum in MOMENTA:
            rules[descent(batch, size, momentum)] = falling(2000.0 + 5000.0 * momentum, 0.126)
            bad = set(range(3 if batch == 160 else 2)) if momentum == 0.5 else set(range(6))
            rules[descent(batch, 2 * size, momentum)] = failing(bad, falling(2000.0, 0.126))
    return rules


def make(folder: Path, rules: dict[str, Rule], meta_end: float = 1.0, slowness: float = 6.0) -> Any:
    folder.mkdir(exist_ok=True)
    import calibration  # noqa: PLC0415
    import meta  # noqa: PLC0415
    import records  # noqa: PLC0415
    import settings  # noqa: PLC0415

    wanted = {each.name: each for each in settings.settings(settings.FULL, many_draws=2)}
    assert set(wanted) == set(rules)
    tables = records.Folder(folder)
    for name, setting in wanted.items():
        for repeat in range(setting.repeats):
            looks = [look for look in (0, *setting.looks) if look <= setting.budget]
            curve = tuple((look, float(rules[name](repeat, look))) for look in looks)
            run = calibration.Calibration(curve, setting.budget, 0.1, 9.0, 5.0, 4.0, 9.5)
            tables.keep_run(records.PAPER_DATA, setting, repeat, run)
    experiments = [each for each in meta.experiments(quick=False) if each.learner == meta.SGD]
    for each in experiments:
        begin, end = (0.6, 0.23) if each.temperature == 0.1 else (0.14, 0.049)
        epochs = np.arange(151)
        train = meta_end * end + (begin - meta_end * end) * np.exp(-epochs / slowness)
        tests = tuple((1.01 * value, 1.03 * value) for value in train)
        lesson = meta.Lesson(
            tuple(epochs.tolist()), tuple(40.0 * epochs), tuple(train), tests, float(train[-1]), 9.0
        )
        tables.keep_lesson(each, lesson)
    return records.Results(tables, records.PAPER_DATA, wanted, experiments)


def verdicts(results: Any) -> dict[str, bool]:
    import claims  # noqa: PLC0415

    found = [*claims.claims(results), *claims.ours(results)]
    assert len({each.says for each in found}) == len(found) == 28
    return {each.says: each.held for each in found}


def test_all_claims_can_hold(tmp_path: Path) -> None:
    results = make(tmp_path, as_in_the_paper())
    assert all(verdicts(results).values()), verdicts(results)


def changes() -> Iterator[tuple[str, dict[str, Rule], list[str]]]:
    """A name, what is changed, and beginnings of the claims that no longer hold."""
    sys.path.insert(0, str(EXPERIMENT))
    from settings import COMPOSITE, MANY_DRAWS, SCALAR, ce, descent  # noqa: PLC0415

    sys.path.remove(str(EXPERIMENT))
    calm, ce_rule = falling(2000.0, 0.126), falling(250.0)
    yield (
        "ours are worse",
        {COMPOSITE: falling(20.0, 0.13), SCALAR: falling(30.0, 0.13)},
        ["SuPAC() on the outputs is at least", "SuPAC() on the risk is at least"],
    )
    yield "descents are calm", {descent(160, 0.05): falling(900.0, 0.126)}, ["much more stable"]
    yield (
        "most descents fail",
        {
            descent(160, 0.05): lambda repeat, queries: (
                (3.6 if repeat < 12 and queries > 2000 else 1.0) * calm(repeat, queries)
            )
        },
        ["4 of 20"],
    )
    yield "descent is better", {descent(80, 0.025): falling(900.0, 0.115)}, ["better on average"]
    yield (
        "no erratic steps",
        {
            descent(80, 0.05): calm,
            descent(80, 0.07): calm,
            descent(160, 0.07): calm,
        },
        ["step size 0.07"],
    )
    yield (
        "small steps are as good",
        {descent(160, 0.025): falling(1900.0, 0.126)},
        ["with 160 queries a step, size 0.025"],
    )
    yield (
        "a corner of the grid is bad",
        {ce(2.0, 0.75): lambda repeat, queries: 0.01 * (queries > 5000) + ce_rule(repeat, queries)},
        ["similar performance"],
    )
    yield "a corner of the grid is slow", {ce(0.5, 0.25): falling(320.0)}, ["after the fourth"]
    yield "large steps are stable", {ce(10.0, 1.0): falling(250.0)}, ["instability"]
    yield "small limits are fast", {ce(0.01, 0.1): falling(200.0)}, ["slower for"]
    yield "small limits stay behind", {ce(0.01, 0.1): falling(1000.0)}, ["… but as good"]
    yield "Nesterov is better", {descent(160, 0.05, 0.9): falling(100.0)}, ["no setting of"]
    yield (
        "momentum is fast",
        {descent(80, 0.025, 0.95): falling(2000.0, 0.126)},
        ["at the original size"],
    )
    yield (
        "all of twice the step fail",
        {descent(160, 0.1, 0.5): failing(set(range(8)), calm)},
        ["with twice the step and momentum"],
    )
    yield "high momentum is safe", {descent(80, 0.05, 0.9): calm}, ["with twice the step and more"]
    yield "many draws change nothing", {MANY_DRAWS: falling(300.0)}, []


@pytest.mark.parametrize(("changed", "broken"), [
    pytest.param(rules, broken, id=name) for name, rules, broken in changes()])  # fmt: skip
def test_each_claim_can_fail(tmp_path: Path, changed: dict[str, Rule], broken: list[str]) -> None:
    found = verdicts(make(tmp_path, as_in_the_paper() | changed))
    failed = [says for says, held in found.items() if not held]
    assert len(failed) == len(broken)
    for says in failed:
        assert says.startswith(tuple(broken))


@pytest.mark.parametrize(
    ("meta_end", "slowness", "broken"), [(1.1, 6.0, ("from a bound", "the same")),
                                         (1.0, 20.0, ("the first 15",))],
)  # fmt: skip
def test_claims_of_meta_learning_can_fail(
    tmp_path: Path, meta_end: float, slowness: float, broken: tuple[str, ...]
) -> None:
    found = verdicts(make(tmp_path, as_in_the_paper(), meta_end, slowness))
    failed = [says.split(": ")[1] for says, held in found.items() if not held]
    assert len(failed) == 2 * len(broken)
    assert all(says.startswith(broken) for says in failed)


def test_pages_of_anything_can_be_written(tmp_path: Path) -> None:
    """Whatever of the runs is there: nothing, one setting, all but one."""
    import page  # noqa: PLC0415
    import settings  # noqa: PLC0415

    results = make(tmp_path / "all", as_in_the_paper())
    names = list(results.settings)
    (tmp_path / "reproduction").mkdir()
    for kept in ([], names[:1], names[2:3], names[-4:-3], names[1:], names[:-8]):
        some = replace(results, settings={name: results.settings[name] for name in kept})
        text = page.write_page(tmp_path, some, settings.FULL).read_text()
        assert all(f"| {name} |" in text for name in kept)


def test_rows_that_were_made_otherwise_do_not_count(tmp_path: Path) -> None:
    results = make(tmp_path, as_in_the_paper())
    name = next(iter(results.settings))
    other = replace(results.settings[name], budget=100)
    assert results.repeats(name)
    assert not replace(results, settings={name: other}).repeats(name)
    assert not replace(results, data="other").repeats(name)
