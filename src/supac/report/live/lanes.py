"""The timeline: a lane for each worker, a bar for each run."""

from __future__ import annotations

import math
import re

from supac.record.timeline import Span, stretches
from supac.report import elements as html
from supac.report.elements import Markup
from supac.report.live.charts import kind_of, legend_of_runs
from supac.report.live.panel import RunPanel
from supac.report.live.snapshot import LOST, RUNNING, Begun, Snapshot
from supac.report.words import count_of, percent
from supac.running.terminal import duration

_LATEST = 150  # runs of the upper chart, if there are many more
_ON_PHONES = 30  # runs a worker of the chart for narrow pages, and at most three times as many
_BROAD, _NARROW = 940, 380  # pixels
_UNITS = ((60.0, 1.0, "s"), (7200.0, 60.0, "min"), (math.inf, 3600.0, "h"))
_NAMED = 6  # long runs that are listed


class Clock:
    """Times since the first run without the pauses in which no process was there."""

    def __init__(self, spans: list[Span], now: float):
        self.parts = stretches(spans, now)
        """Beginning and end of each time in which runs were made."""

    def since(self, time: float) -> float:
        """Return the seconds in which runs were made before a time."""
        return sum(max(min(time, end) - start, 0.0) for start, end in self.parts)


def timeline_section(snapshot: Snapshot) -> Markup:
    """Return the section with the timeline; a sentence where the store has none."""
    spans = snapshot.spans
    if not spans:
        words = "The store does not say when its runs were made."
        body = html.paragraph(words if snapshot.runs else "No run has begun yet.")
        return html.fill(html.read_part("live/timeline.html"), legend="", charts=body, lists="")
    ids = sorted(spans, key=lambda i: spans[i].started)
    kinds = {run.id: kind_of(run) for run in snapshot.runs}
    kinds |= {each.id: RUNNING if snapshot.live else LOST for each in snapshot.begun}
    narrow = _narrow_chart(snapshot, ids, kinds)
    if len(ids) <= 2 * _LATEST:
        charts = _scroll(_chart(snapshot, "timeline", ids, kinds))
    else:
        every = _scroll(_chart(snapshot, "timeline-all", ids, kinds))
        charts = html.joined(
            [
                _scroll(_chart(snapshot, "timeline", ids[-_LATEST:], kinds)),
                html.fill(
                    "<details id='all-runs'><summary>All $count runs</summary>$all</details>",
                    count=f"{len(ids):,}",
                    all=every,
                ),
            ]
        )
    return html.fill(
        html.read_part("live/timeline.html"),
        legend=legend_of_runs(set(kinds.values())),
        charts=html.joined([charts, narrow]),
        lists=html.joined([_workers(snapshot), _long_runs(snapshot)]),
    )


def _scroll(picture: Markup) -> Markup:
    return html.fill(
        '<div class="scroll" role="region" tabindex="0" aria-label="Timeline">'
        '<div class="broad">$picture</div></div>',
        picture=picture,
    )


def _narrow_chart(snapshot: Snapshot, ids: list[int], kinds: dict[int, str]) -> Markup:
    """Draw the latest runs for a phone, on which the whole timeline would hide its workers."""
    workers = {snapshot.spans[i].worker for i in ids}
    latest = ids[-_ON_PHONES * min(len(workers), 3) :]
    told = f"The latest {len(latest)} runs." if len(latest) < len(ids) else ""
    return html.fill(
        '<div class="narrow">$picture<p class="small">$told</p></div>',
        picture=_chart(snapshot, "timeline-narrow", latest, kinds, _NARROW),
        told=told,
    )


def _chart(
    snapshot: Snapshot, name: str, ids: list[int], kinds: dict[int, str], width: int = _BROAD
) -> Markup:
    """Draw some of the runs over time."""
    spans = {i: snapshot.spans[i] for i in ids}
    clock = Clock(list(spans.values()), snapshot.now)
    ends = {i: span.ended if span.ended > 0.0 else snapshot.now for i, span in spans.items()}
    total = max(clock.since(end) for end in ends.values()) or 1.0
    size, unit = next((size, unit) for most, size, unit in _UNITS if total < most)
    workers = sorted({span.worker for span in spans.values()}, key=_natural)
    height = min(max(320 // len(workers), 8), 34)
    panel = RunPanel(
        name, (0.0, 1.01 * total / size), (0.0, float(len(workers))),
        width, height * len(workers) + 56, 84, 44, 12,
    )  # fmt: skip
    durations = {run.id: run.seconds for run in snapshot.runs}
    for start, _ in clock.parts[1:]:
        panel.upright(clock.since(start) / size, "a pause: no process was making runs")
    for i, span in spans.items():
        lane = len(workers) - 1 - workers.index(span.worker)
        # Without the start of its process, which may be long.
        seconds = durations.get(i, ends[i] - span.started)
        long = " long" if snapshot.is_long(seconds) else ""
        words = f"run {i}, {kinds.get(i, '')}, {duration(max(seconds, 1e-6))}"
        times = clock.since(span.started) / size, clock.since(ends[i]) / size
        panel.run_bar(i, times, lane, kinds.get(i, "ok") + long, words)
    for lane, worker in enumerate(reversed(workers)):
        if height >= 14 or lane == len(workers) - 1:
            panel.lane_label(lane, _lane_name(worker))
    told = f"Timeline of {count_of(len(ids), 'run', 'runs')} on {len(workers)} workers"
    return panel.draw(told, f"{unit} since the first of them began", y_ticks=False)


def _natural(name: str) -> tuple[object, ...]:
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))


def _lane_name(worker: str) -> str:
    if not worker:
        return "submitted"
    name = f"worker {worker}" if worker.isdigit() else worker
    return name if len(name) <= 11 else f"…{name[-10:]}"


def _workers(snapshot: Snapshot) -> Markup:
    """Return a table of the workers: runs, busy share, and what each is doing."""
    clock = Clock(list(snapshot.spans.values()), snapshot.now)
    total = sum(end - start for start, end in clock.parts) or 1.0
    doing = {each.span.worker: each for each in reversed(snapshot.begun)} if snapshot.live else {}
    rows = []
    for worker in sorted({span.worker for span in snapshot.spans.values()}, key=_natural):
        own = [span for span in snapshot.spans.values() if span.worker == worker]
        busy = sum((s.ended if s.ended > 0.0 else snapshot.now) - s.started for s in own)
        if worker:
            made, share = f"{len(own):,}", percent(min(busy / total, 1.0))
            rows.append((_lane_name(worker), made, share, _doing(snapshot, doing.get(worker))))
    headings = ("worker", "runs", "busy", "now")
    return html.table("Workers", headings, rows, numbers=(1, 2)) if rows else Markup()


def _doing(snapshot: Snapshot, each: Begun | None) -> Markup | str:
    if each is None:
        return "–"
    told = f", where {duration(snapshot.usual)} is usual" if snapshot.is_long(each.seconds) else ""
    return html.fill(
        "$run for $time$told", run=run_link(each.id), time=duration(each.seconds), told=told
    )


def run_link(run: int) -> Markup:
    """Return a button that selects a run."""
    return Markup(f'<button type="button" class="link" data-run="{run}">run {run}</button>')


def _long_runs(snapshot: Snapshot) -> Markup:
    """Name the runs that took far longer than usual."""
    long = [run for run in snapshot.runs if not run.source and snapshot.is_long(run.seconds)]
    if not long:
        return Markup()
    long.sort(key=lambda run: -run.seconds)
    told = [
        html.fill("$run ($time)", run=run_link(run.id), time=duration(run.seconds))
        for run in long[:_NAMED]
    ]
    more = f" and {len(long) - _NAMED} more" if len(long) > _NAMED else ""
    return html.fill(
        "<p>Took far longer than the usual $usual: $runs$more.</p>",
        usual=duration(snapshot.usual),
        runs=Markup(", ".join(told)),
        more=more,
    )
