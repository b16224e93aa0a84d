"""What the experiment gave, as tables and a picture, beside what the paper reports."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Record = dict[str, Any]

PUBLISHED = Path(__file__).parents[3] / "shared" / "reference" / "published"
PUBLISHED_PRIORS = (*range(10), *range(10, 151, 5))
"""Epochs behind the columns of the published test objectives."""
COLOURS = {"closed": "#0b6e99", "plain": "#5b9bb8", "published": "#b8a13a"}
NAMES = {
    "closed": "closed form, on the surrogates",
    "plain": "moment matching alone",
    "published": "the paper, published",
}
SPENT = "queries a task, pass by pass"


def write_report(folder: Path, records: list[Record]) -> None:
    """README.md, results.csv and meta_learning.svg."""
    temperatures = sorted({each["temperature"] for each in records}, reverse=True)
    text = ["# Meta-learning: what was measured", "", _INTRODUCTION, ""]
    for temperature in temperatures:
        own = [each for each in records if each["temperature"] == temperature]
        text += [f"## λ = {temperature}", "", *_bounds(own, temperature), ""]
        text += [*_queries(own), ""]
        text += _few(own)
    (folder / "README.md").write_text("\n".join(text))
    _write_csv(folder / "results.csv", records)
    _draw(folder / "meta_learning.svg", records, temperatures)


_INTRODUCTION = """Written by `run.py`; see there for what is done. Objectives are means over the
test tasks of each environment, from scratch under each prior and judged by 10,000 fresh draws;
where there are several environments, their mean and in brackets their range. Training objectives
are means over the training tasks, as their models see them; the last one also by fresh draws.

Environments are drawn from our own seeds; they are not the paper's, and differ among themselves as
the ranges show. Its stochastic gradient on the same ones is in docs/reproduction.md."""


def published(temperature: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean test objective at `PUBLISHED_PRIORS`, and training objective an epoch."""
    name = str(temperature).replace(".", "_")
    test, train = (PUBLISHED / f"meta_{kind}_lambda_{name}.csv" for kind in ("test", "train"))
    if not (test.exists() and train.exists()):
        return None
    return np.loadtxt(test).mean(axis=0), np.loadtxt(train)


def _bounds(records: list[Record], temperature: float) -> list[str]:
    """Test and training objectives of each learner after so many passes."""
    rows = []
    for learner in COLOURS:
        own = [each for each in records if each["learner"] == learner]
        if own:
            rows += _rows(learner, own)
    known = published(temperature)
    if known is not None:
        test, train = known
        some = [0, 1, 5, 10, 15, 30, 60, 100, 150]
        for each in some:
            found = test[PUBLISHED_PRIORS.index(each)]
            trained = f"{train[each - 1]:.4f}" if 0 < each <= len(train) else ""
            rows.append(f"| {NAMES['published']} | {each} | {found:.4f} | {trained} |")
    return [
        "| learner | passes | test objective | training objective |",
        "|---|---|---|---|",
        *rows,
    ]


def _few(records: list[Record]) -> list[str]:
    """What pseudo-tasks do to a prior that few tasks have taught."""
    own = [each for each in records if each["learner"].startswith("pseudo")]
    if not own:
        return []
    lines = [
        f"Learnt on {own[0]['tasks']} tasks only:",
        "",
        "| pseudo-tasks | test objective | training objective, fresh draws | narrowest direction |",
        "|---|---|---|---|",
    ]
    rows = [
        f"| {each['learner'].removeprefix('pseudo-')} | {np.mean(each['test'][-1]):.4f} | "
        f"{each['train_end']:.4f} | {min(each['deviations']):.3f} |"
        for each in own
    ]
    return [*lines, *rows, ""]


def _rows(learner: str, records: list[Record]) -> list[str]:
    rows = []
    for k, passes in enumerate(records[0]["looks"]):
        test = [np.mean(each["test"][k]) for each in records]
        train = [_training(each, passes) for each in records] if passes else []
        rows.append(f"| {NAMES[learner]} | {passes} | {_range(test)} | {_range(train)} |")
    end = [each["train_end"] for each in records]
    return [*rows, f"| … by fresh draws | {records[0]['passes']} |  | {_range(end)} |"]


def _training(record: Record, passes: int) -> float:
    """Mean over the meta-steps of one pass: the bounds under the priors before each."""
    history = record["history"]
    steps = [
        objective
        for done, objective in zip(history["passes"], history["objective"], strict=True)
        if passes - 1 < done - 1e-9 and done <= passes + 1e-9
    ]
    return float(np.mean(steps))


def _range(values: list[Any]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{np.mean(values):.4f} ({min(values):.4f}–{max(values):.4f})"


def spent(record: Record) -> list[float]:
    """Queries a task in each pass."""
    history, found, before = record["history"], [], 0.0
    for done, queries in zip(history["passes"], history["queries"], strict=True):
        if abs(done - round(done)) < 1e-9:
            found.append((queries - before) / record["tasks"])
            before = queries
    return found


def _queries(records: list[Record]) -> list[str]:
    """What was spent, and what it takes to restart each task in each pass."""
    lines = [
        f"| learner | environments | {SPENT} | in all | minutes |",
        "|---|---|---|---|---|",
    ]
    for learner in COLOURS:
        own = [each for each in records if each["learner"] == learner]
        if not own:
            continue
        table = np.array([spent(each) for each in own])
        mean = table.mean(axis=0)
        shown = ", ".join(f"{value:.0f}" for value in mean[:6]) + ", …" * (len(mean) > 6)
        whole = [each["seconds"] / 60.0 for each in own if not each.get("resumed")]
        minutes = f"{np.mean(whole):.1f}" if whole else "unknown"
        lines.append(f"| {NAMES[learner]} | {len(own)} | {shown} | {mean.sum():.0f} | {minutes} |")
    lines += ["", "Minutes on one core, for learning alone; unknown of runs that were resumed."]
    for each in records:
        if each["learner"] == "restart":
            queries, bounds = (
                ", ".join(format(value, shape) for value in each[name])
                for name, shape in (("queries", ".0f"), ("bounds", ".4f"))
            )
            lines += [
                "",
                f"Restarting all training tasks in each pass instead, under the same priors "
                f"(environment {each['environment']}): {queries} queries a task, "
                f"{sum(each['queries']):.0f} in all instead of {sum(spent(each)):.0f}; mean "
                f"objectives by fresh draws {bounds}, with reuse {each['train_end']:.4f} in the "
                "last.",
            ]
    return lines


def _write_csv(path: Path, records: list[Record]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["learner", "environment", "temperature", "passes", "test_mean", "test_q20", "test_q80"]
        )
        for each in (record for record in records if "test" in record):
            for passes, test in zip(each["looks"], each["test"], strict=True):
                low, high = np.quantile(test, [0.2, 0.8])
                row = [np.mean(test), low, high]
                writer.writerow(
                    [each["learner"], each["environment"], each["temperature"], passes]
                    + [f"{value:.6f}" for value in row]
                )


def _draw(path: Path, records: list[Record], temperatures: list[float]) -> None:
    figure = Figure(figsize=(5.2 * len(temperatures), 3.8), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(temperatures)))
    for axes, temperature in zip(panels, temperatures, strict=True):
        _panel(axes, [each for each in records if each["temperature"] == temperature], temperature)
    panels[0].set_ylabel("mean objective of new tasks")
    panels[0].legend(frameon=False, fontsize=8)
    with rc_context({"svg.hashsalt": "supac"}):
        figure.savefig(path, metadata={"Date": None})


def _panel(axes: Axes, records: list[Record], temperature: float) -> None:
    named: set[str] = set()
    for each in records:
        learner = each["learner"]
        if learner not in COLOURS:
            continue
        axes.plot(
            each["looks"],
            [np.mean(row) for row in each["test"]],
            "o-",
            ms=3,
            lw=1.2,
            color=COLOURS[learner],
            label=None if learner in named else NAMES[learner],
        )
        named.add(learner)
    known = published(temperature)
    if known is not None:
        axes.plot(
            PUBLISHED_PRIORS, known[0], color=COLOURS["published"], lw=2, label=NAMES["published"]
        )
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xticks([0, 1, 2, 5, 10, 20, 50, 150], ["0", "1", "2", "5", "10", "20", "50", "150"])
    axes.set(title=f"λ = {temperature}", xlabel="passes over the training tasks", ylim=(0.0, None))
    axes.spines[["top", "right"]].set_visible(False)
