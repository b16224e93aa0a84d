"""The table of runs as data for the page's script, and the failures by cause."""

from __future__ import annotations

import json
import math
from typing import Any

from supac.record.run import Run, by_kind, quoted
from supac.report import elements as html
from supac.report.elements import Markup
from supac.report.live.charts import purpose_words
from supac.report.live.lanes import run_link
from supac.report.live.snapshot import LOST, RUNNING, Snapshot
from supac.report.words import count_of, percent

_MESSAGE = 300  # characters of a message
_EXAMPLES = 5  # runs of a cause that are named
_CAUSES = 12


def table_data(snapshot: Snapshot) -> dict[str, Any]:
    """Return headings, rows and messages; numbers have four digits.

    A row is run, round (0 for fresh runs, None before it is told), status, seconds, risk, worker,
    start in seconds since 1970, the place of its message, its purpose, and the parameters.
    """
    names, units = snapshot.account.names, snapshot.account.units
    messages: dict[str, int] = {}
    rows = []
    for run, point in zip(snapshot.runs, snapshot.points, strict=True):
        span = snapshot.spans.get(run.id)
        rows.append(
            [
                run.id, snapshot.rounds_of.get(run.id), run.source or run.status.value,
                _short(run.seconds), _short(run.risk), "" if span is None else span.worker,
                None if span is None else round(span.started, 1),
                messages.setdefault(run.message[:_MESSAGE], len(messages)),
                "" if run.source else purpose_words(run),
                *(_short(float(point[i])) for i in snapshot.columns),
            ]
        )  # fmt: skip
    status = RUNNING if snapshot.live else LOST
    for each in snapshot.begun:
        seconds = _short(each.seconds) if snapshot.live else None
        place = messages.setdefault("", len(messages))
        values = [_short(value) for value in snapshot.point_of(each)]
        worker, start = each.span.worker, round(each.span.started, 1)
        rows.append([each.id, None, status, seconds, None, worker, start, place, "", *values])
    headings = [
        "run",
        "round",
        "status",
        "seconds",
        "risk",
        "worker",
        "begun",
        "message",
        "made for",
    ]
    headings += [f"{names[i]} ({units[i]})" if units[i] else names[i] for i in snapshot.columns]
    return {"headings": headings, "rows": rows, "messages": list(messages)}


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def script_data(value: object) -> Markup:
    """Return JSON for a script element, which nothing in it can end."""
    words = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(words.replace("<", "\\u003c"))


def runs_section(snapshot: Snapshot) -> Markup:
    """Return the section of the table, which the script fills."""
    left = len(snapshot.account.names) - len(snapshot.columns)
    more = (
        f"Of {len(snapshot.account.names)} parameters the table has the {len(snapshot.columns)} "
        "that changed most; `supac export` writes all."
        if left > 0
        else ""
    )
    return html.fill(html.read_part("live/runs.html"), more=more)


def failures_section(snapshot: Snapshot) -> Markup:
    """Return the section of failures by cause; "" without any."""
    failures = [run for run in snapshot.runs if run.failed]
    refused = [run for run in snapshot.runs if run.status.value == "refused"]
    if not failures and not refused:
        return Markup()
    made = max(sum(not run.source for run in snapshot.runs), 1)
    causes = by_kind(failures) + ([refused] if refused else [])
    rows = [
        (
            group[0].status.value, f"{len(group):,}", percent(len(group) / made),
            quoted(group)[:_MESSAGE] or "–", _examples(group),
        )
        for group in causes[:_CAUSES]
    ]  # fmt: skip
    headings = ("outcome", "runs", "share", "message", "examples")
    words = f"{count_of(len(failures), 'run', 'runs')} of {made:,} failed."
    if len(causes) > _CAUSES:
        words += f" The {_CAUSES} most common of {len(causes)} causes:"
    return html.fill(
        html.read_part("live/failures.html"),
        words=words,
        table=html.table("Failures by cause", headings, rows, numbers=(1, 2), stacked=True),
    )


def _examples(runs: list[Run]) -> Markup:
    return Markup(", ".join(run_link(run.id) for run in runs[:_EXAMPLES]))
