"""The table of the rules of the default search: what is left of the gap without each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from outside.paired import Change, Gaps, Pair, compare, extremes
from outside.rules import ALL, ALL_OF_RISK, all_rules_of
from pages import fitted, narrow_table
from supac.arrays import FloatArray


class Searched(Protocol):
    """A search without a rule."""

    @property
    def rule(self) -> str:
        """Return the name of the rule, or `all`."""

    @property
    def problem(self) -> str:
        """Return the name of the problem."""

    @property
    def seed(self) -> int:
        """Return the seed."""

    @property
    def version(self) -> str:
        """Return the version of the package."""

    @property
    def gaps(self) -> list[float]:
        """Return the share of the gap left at each checkpoint."""


def page(made: Sequence[Searched], now: int, missing: int, checkpoints: Sequence[int]) -> str:
    """Return the page: all rules, their worst seeds, and each problem.

    Of the searches, so many are of the version that is measured `now`, which lacks others.
    """
    text = [
        "What is left of the gap between the prior's objective and the best known without a rule "
        "of the default search, by the gap with all rules: geometric means over the problems of "
        "the ratio of searches with the same seed, ± the standard error over the problems of the "
        "logarithm. Gaps below 0.01 % count as that. Above 1 the rule earns something. Worse and "
        "better: problems, at the last checkpoint, with the probability of a sign test; those "
        "that end alike do not count. Pairs are of one version of the package; rules that have "
        "gone are told by the versions that had them. Command: `make bench-ablation`; "
        "ablation.jsonl has the version of each search.",
        "",
        f"Of the version that is measured now {now} searches are made, {missing} are missing; of "
        f"earlier ones there are {len(made) - now}.",
        "",
    ]
    gaps = _by_rule(made)
    changes = {
        rule: compare(_with_all(gaps, rule), each)
        for rule, each in gaps.items()
        if rule not in (ALL, ALL_OF_RISK) and _with_all(gaps, rule).keys() & each.keys()
    }
    if not changes:
        return fitted("\n".join(text))
    text += ["## Rules", "", _rules(changes, checkpoints), ""]
    text += ["## Worst seeds", "", _worst(changes, gaps, checkpoints), ""]
    text += [f"## Problems, at {checkpoints[-1]} runs", "", _problems(changes), ""]
    return fitted("\n".join(text))


def _by_rule(made: Sequence[Searched]) -> dict[str, dict[Pair, FloatArray]]:
    found: dict[str, dict[Pair, FloatArray]] = {}
    for each in made:
        found.setdefault(each.rule, {})[each.problem, each.seed, each.version] = np.array(each.gaps)
    return found


def _with_all(gaps: Mapping[str, Gaps], rule: str) -> Gaps:
    """Return the searches with all rules that see what those without this one do."""
    return gaps.get(all_rules_of(rule), {})


def _rules(changes: Mapping[str, Change], checkpoints: Sequence[int]) -> str:
    rows = []
    for rule, change in changes.items():
        worse, better, chance = change.signs(len(checkpoints) - 1)
        factors = [
            f"{factor:.2f}" + (f" ± {error:.2f}" if np.isfinite(error) else "")
            for factor, error in zip(change.factor, change.factor_error, strict=True)
        ]
        rows.append([rule, str(change.pairs), *factors, f"{worse}, {better} (p = {chance:.2g})"])
    columns = [f"at {each}" for each in checkpoints]
    return narrow_table(["without", "pairs", *columns, "worse, better"], rows)


def _worst(
    changes: Mapping[str, Change], gaps: Mapping[str, Gaps], checkpoints: Sequence[int]
) -> str:
    last = len(checkpoints) - 1
    rows = []
    for rule in changes:
        whole, without = _with_all(gaps, rule), gaps[rule]
        cells = [
            f"{problem} {seed}: {100 * before:.2g} → {100 * after:.2g}" if after != before else "–"
            for pair in extremes(whole, without, last)
            for before, after in [(whole[pair][last], without[pair][last])]
            for problem, seed, _ in [pair]
        ]
        rows.append([rule, *cells])
    head = f"at {checkpoints[-1]} runs, per cent of the gap"
    return f"Problem, seed, and {head} with the rule and without it.\n\n" + narrow_table(
        ["without", "grows most", "shrinks most"], rows
    )


def _problems(changes: Mapping[str, Change]) -> str:
    """Return the mean logarithm of the ratio of each problem, with its error over the seeds."""
    names = list(dict.fromkeys(name for each in changes.values() for name in each.problems))
    rows = [[name, *(_log_ratio(change, name) for change in changes.values())] for name in names]
    said = "Mean over the seeds of the natural logarithm of the ratio, ± its standard error.\n\n"
    return said + narrow_table(["problem", *changes], rows)


def _log_ratio(change: Change, name: str) -> str:
    if name not in change.problems:
        return "–"
    place = change.problems.index(name)
    value, error = change.logs[place, -1], change.errors[place, -1]
    if value == 0.0:
        return "0"
    return f"{value:+.2f}" + (f" ± {error:.2f}" if np.isfinite(error) else "")
