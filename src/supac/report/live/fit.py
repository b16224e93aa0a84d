"""Observed against simulated, round by round: the band of each round's runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.problem_file import Observations
from supac.record.run import Round
from supac.report import elements as html
from supac.report.elements import Markup
from supac.report.figures import ERROR, unit_of
from supac.report.live.panel import RunPanel
from supac.report.live.snapshot import Snapshot
from supac.report.svg import Range, span
from supac.report.words import count_of

_ROUNDS, _PICTURES, _POINTS, _LINES = 14, 12, 60, 12  # at most
_NUMBERS = 40_000  # at most, on the page
_ENOUGH = 20  # runs, from which on bands are between quantiles
_LEAST = 4  # runs of a band: where a round has fewer, the latest before it are in it, too


@dataclass(frozen=True, eq=False)
class RoundRuns:
    """Simulated outputs of one round."""

    words: str
    """Description for the slider."""
    ids: tuple[int, ...]
    outputs: FloatArray
    """(n, m)."""

    @property
    def band(self) -> FloatArray:
        """Lower and upper limit, and median: (3, m)."""
        ends = (0.05, 0.95, 0.5) if len(self.outputs) >= _ENOUGH else (0.0, 1.0, 0.5)
        return np.quantile(self.outputs, ends, axis=0)


def rounds_of_runs(snapshot: Snapshot) -> list[RoundRuns]:
    """Return the successful runs that some of the rounds drew, and the fresh ones at the end."""
    account, observations = snapshot.account, snapshot.account.observations
    if observations is None:
        return []
    good = {run.id for run in snapshot.runs if run.ok}
    drawn = {run.id for run in snapshot.record.light_runs if run.role.drawn}
    batches = _of_rounds(snapshot.record.rounds, good, drawn)
    if not batches:
        first = [run.id for run in snapshot.runs if run.purpose == "search"]
        batches = [("round 1, under way", first)]
    fresh = [run.id for run in snapshot.runs if run.purpose == "validation"]
    batches += [("fresh runs of the posterior", fresh)] if fresh else []
    found = []
    for words, ids in batches:
        kept = tuple(i for i in sorted(ids) if i in good)
        outputs = account.outputs_of(kept) if kept else None
        if outputs is not None and outputs.shape == (len(kept), len(observations.values)):
            from_to = "5 % to 95 %" if len(kept) >= _ENOUGH else "from the lowest to the highest"
            told = f"{words}: {from_to} of {count_of(len(kept), 'run', 'runs')}"
            found.append(RoundRuns(told, kept, outputs))
    return found


def _of_rounds(
    rounds: Sequence[Round], good: set[int], random: set[int]
) -> list[tuple[str, list[int]]]:
    """Return the name and the successful runs of some rounds, with the latest before small ones."""
    count, batches = len(rounds), []
    earlier: list[int] = []
    chosen = np.linspace(0, count - 1, min(count, _ROUNDS)).round().astype(int).tolist()
    for k, each in enumerate(rounds):
        drawn = [i for i in each.ids if i in random] or each.ids
        own = sorted(good.intersection(drawn))
        if k in chosen:
            added = earlier[::-1][: max(_LEAST - len(own), 0)]
            words = f"round {k + 1} of {count}{' and runs just before it' * bool(added)}"
            batches.append((words, [*added, *own]))
        earlier = [*earlier, *own][-_LEAST:]
    return batches


def fit_section(observations: Observations | None, rounds: list[RoundRuns]) -> Markup:
    """Return the section with a slider over the rounds; "" without data or outputs."""
    if observations is None or not rounds:
        return Markup()
    parts = observations.parts[:_PICTURES]
    points = min(_POINTS, max(len(rows) for _, _, rows in parts))
    lines = _NUMBERS // (len(rounds) * len(parts) * points) - 3
    pictures = [
        html.fill(
            "<figure><figcaption>$name</figcaption>$picture</figure>",
            name=", ".join(filter(None, (observations.columns[column], experiment))),
            picture=_picture(observations, rounds, i, max(min(lines, _LINES), 0)),
        )
        for i, (experiment, column, _) in enumerate(parts)
    ]
    left = len(observations.parts) - len(parts)
    measured = f"measured{ERROR if observations.noise_known else ''}"
    return html.fill(
        html.read_part("live/fit.html"),
        legend=html.legend(posterior="simulated", data=measured),
        last=len(rounds) - 1,
        words=rounds[-1].words,
        pictures=html.joined(pictures),
        more=f"The first {len(parts)} of {len(observations.parts)} outputs." if left > 0 else "",
    )


def _picture(observations: Observations, rounds: list[RoundRuns], part: int, lines: int) -> Markup:
    """Draw a part of an observed column, with one group of marks a round."""
    experiment, column, rows = observations.parts[part]
    every = np.arange(1.0, observations.rows + 1.0)
    times = (every if observations.times is None else observations.times)[rows]
    order = np.argsort(times, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, _POINTS).round().astype(int))]
    x, places = times[order], column * observations.rows + rows[order]
    data, noise = observations.values[places], observations.noise[places]
    low, high = data - noise, data + noise
    if observations.logarithmic:
        low, high = data * np.exp(-noise), data * np.exp(noise)
    bands = [each.band[:, places] for each in rounds]
    panel = RunPanel(f"fit-{part}", span(x, room=0.03), _view((data, low, high), bands))
    for k, (each, band) in enumerate(zip(rounds, bands, strict=True)):
        panel.group(k, on=k == len(rounds) - 1)
        if len(x) > 1:
            panel.area(x, band[0], band[1], "posterior")
            panel.line(x, band[2], "posterior")
            for run, outputs in list(zip(each.ids, each.outputs[:, places], strict=True))[:lines]:
                panel.run_line(run, x, outputs)
        else:
            for run, outputs in zip(each.ids, each.outputs[:, places], strict=True):
                panel.run_dot(run, float(x[0]), float(outputs[0]), "posterior", f"run {run}")
        panel.end_group()
    panel.bars(x, low, high, "data")
    panel.dots(x, data, "data")
    name = observations.columns[column] + (f" of {experiment}" if experiment else "")
    label = "row" if observations.times is None else observations.time_label or "time"
    error = " with their standard error" if observations.noise_known else ""
    words = f"{name}: the data{error}, and the runs of a round as a band"
    return panel.draw(words, label, unit_of(observations, column))


def _view(measured: tuple[FloatArray, ...], bands: list[FloatArray]) -> Range:
    """Return a range with the data and the last band, and part of the first bands."""
    inner = span(*measured, bands[-1])
    outer, room = span(np.array(inner), *bands), inner[1] - inner[0]
    return max(outer[0], inner[0] - 0.6 * room), min(outer[1], inner[1] + 0.6 * room)
