"""The live page as one self-contained HTML file, with a script of its own and nothing else."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import time

from supac.posterior.attainable import Attainable
from supac.record.ending import StopReason
from supac.record.record import Record
from supac.report import elements as html
from supac.report.account import account_of
from supac.report.beginnings import words_on_beginnings
from supac.report.elements import Markup
from supac.report.live.charts import kind_of, legend_of_runs, objective_chart, risk_chart
from supac.report.live.fit import fit_section, rounds_of_runs
from supac.report.live.lanes import timeline_section
from supac.report.live.runs import failures_section, runs_section, script_data, table_data
from supac.report.live.snapshot import Snapshot
from supac.report.words import count_of, escape, number
from supac.running.terminal import duration


def make_live_page(
    record: Record,
    *,
    title: str = "",
    interval: float | None = None,
    now: float | None = None,
    hope: Attainable | None = None,
) -> str:
    """Return the page as text; while the search goes on, it loads itself anew after `interval` s.

    It is made of the record alone: no run is made. Without an interval it stays as it is. `hope` is
    the limit that can be hoped for, which takes about a second to compute.
    """
    snapshot = Snapshot(account_of(record, title=title), time.time() if now is None else now)
    account, rounds = snapshot.account, rounds_of_runs(snapshot)
    parts = [
        fit_section(account.observations, rounds),
        _search(snapshot, hope),
        timeline_section(snapshot),
        failures_section(snapshot),
        runs_section(snapshot),
    ]
    body = "\n".join(filter(None, parts))
    script = html.read_part("live/live.js")
    again = "" if interval is None or not snapshot.live else f"{interval:g}"
    refresh = f'<noscript><meta http-equiv="refresh" content="{again}"></noscript>'
    places = {run: k for k, each in enumerate(rounds) for run in each.ids}
    data = {**table_data(snapshot), "rounds": [each.words for each in rounds], "places": places}
    state, badge, sentence = _state(snapshot)
    plain = f"{account.made}/{record.budget}"
    return html.fill(
        html.read_part("live/page.html"),
        hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        refresh=Markup(refresh if again else ""),
        title=account.title,
        short=f"{record.spent:.3g}/{record.budget}" if record.coarse_use else plain,
        style=Markup(html.read_part("style.css") + html.read_part("live/live.css")),
        live="1" if again else "0",
        interval=again,
        written=f"{snapshot.now:.0f}",
        time=time.strftime("%H:%M:%S on %Y-%m-%d", time.localtime(snapshot.now)),
        state=state,
        badge=badge,
        sentence=_with_code(sentence),
        contents=_contents(body),
        tiles=_tiles(snapshot),
        body=Markup(body),
        data=script_data(data),
        script=Markup(script),
    )


def _with_code(words: str) -> Markup:
    """Return words with commands between backticks as code."""
    return Markup(re.sub(r"`(.*?)`", r"<code>\1</code>", escape(words)))


def _contents(body: str) -> Markup:
    headings = re.findall(r'<section id="([a-z-]+)">\n<h2>(.*?)</h2>', body)
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading in headings)
    return Markup(f'<nav aria-label="Contents"><ul>{links}</ul></nav>')


def _state(snapshot: Snapshot) -> tuple[str, str, str]:
    """Return a class, a word and a sentence on the state of the search."""
    record = snapshot.record
    if snapshot.live:
        return "running", "running", _doing(snapshot)
    resume = "" if record.path is None else f" `supac resume {record.path.name}` continues it."
    if record.stop_reason is None:
        return "stopped", "stopped", f"Its process ended before the search did.{resume}"
    if record.stop_reason in (StopReason.INTERRUPTED, StopReason.USER):
        return "stopped", "interrupted", f"{record.stop_reason.sentence}{resume}"
    if record.stop_reason is StopReason.FAILURES:
        return "do-not-trust", "failed", record.stop_reason.sentence
    return "trust", "done", f"{record.stop_reason.sentence} `supac report` tells what was learnt."


def _doing(snapshot: Snapshot) -> str:
    """Say what the process that writes to the store is doing."""
    record, begun = snapshot.record, len(snapshot.begun)
    runs = count_of(begun, "run", "runs")
    if record.ending is not None:
        return f"The search has ended; {runs} of another command in progress."
    if snapshot.runs and max(snapshot.runs, key=lambda run: run.id).purpose == "validation":
        return f"Fresh runs check the posterior, {begun} in progress."
    number_of = len(record.rounds) + 1
    return f"Round {number_of}, {f'{runs} in progress' if begun else 'between its runs'}."


def _tiles(snapshot: Snapshot) -> Markup:
    """Return the numbers at the top."""
    record, account = snapshot.record, snapshot.account
    coarse = record.coarse_use
    spent = account.made if coarse is None else coarse.spent
    share = min(spent / max(record.budget, 1), 1.0)
    meter = f'<span class="meter"><span style="width:{100.0 * share:.1f}%"></span></span>'
    failed = f"{len(account.failures)} failed" if account.failures else "none failed"
    made = "runs", f"{account.made:,} of {record.budget:,}"
    if coarse is not None:
        made = "fine runs' worth", f"{spent:.3g} of {record.budget:,}"
    tiles: list[tuple[str, str, str]] = [(*made, Markup(f"{failed}{meter}"))]
    if coarse is not None:
        tiles.append(("coarse runs", f"{coarse.runs:,}", escape(coarse.sentence)))
    if snapshot.live:
        tiles.append(("time left", *_time_left(snapshot)))
    if len(account.history["queries"]):
        tiles += _estimates(snapshot)
    usual = "–" if math.isnan(snapshot.usual) else duration(snapshot.usual)
    total = duration(record.seconds) if record.seconds > 0.0 else "none"
    tiles.append(("a run takes", usual, f"at the median; {total} of simulation in all"))
    versions = record.simulators
    if len(versions) > 1:
        told = ", ".join(each.words for each in versions)
        tiles.append(("simulator", f"{len(versions)} versions", f"it was changed: {told}"))
    tile = '<div><dt>$name</dt><dd>$value</dd><dd class="small">$words</dd></div>'
    return html.joined([html.fill(tile, name=n, value=v, words=w) for n, v, w in tiles])


def _time_left(snapshot: Snapshot) -> tuple[str, str]:
    seconds = snapshot.seconds_left
    if snapshot.record.spent >= snapshot.record.budget:
        return "none", "the budget is spent"
    if math.isnan(seconds):
        return "–", "not known before a run has ended"
    clock = time.strftime("%H:%M", time.localtime(snapshot.now + seconds))
    return duration(max(seconds, 1e-3)), f"until {clock}, or earlier if nothing is left to gain"


def _estimates(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """Return objective and KL of one posterior: the returned, or the present one."""
    account, info = snapshot.account, snapshot.record.rounds[-1].info
    if snapshot.record.ending is not None:
        fresh = f"from {account.validated} fresh runs" if account.validated else "estimated"
        risk = number(account.mean_risk)
        return [
            ("objective", number(account.objective), f"mean risk {risk}, {fresh}"),
            ("KL to the prior", f"{number(account.kl)} nats", "of the returned posterior"),
        ]
    before = f"predicted; {number(info.objective)} was measured a round before"
    kl = number(snapshot.record.posterior_kl)
    return [
        ("objective", number(info.predicted), before),
        (
            "KL to the prior",
            f"{kl} nats",
            "of the same posterior",
        ),
    ]


def _search(snapshot: Snapshot, hope: Attainable | None) -> Markup:
    """Return the section with the charts of objective and risks."""
    if not snapshot.runs:
        return Markup()
    rounds = len(snapshot.account.history["queries"])
    ahead = "fresh runs" if snapshot.account.validated else "predicted"
    kinds = {kind_of(run) for run in snapshot.runs if not run.source}
    objective = html.legend(posterior="objective", prior="mean risk", ahead=ahead)
    return html.fill(
        html.read_part("live/search.html"),
        outlook=_with_code(_outlook(snapshot)),
        hope=""
        if hope is None
        else html.paragraph(f"{hope.sentence[:1].upper()}{hope.sentence[1:]}."),
        beginnings=words_on_beginnings(snapshot.record),
        objective=objective_chart(snapshot) if rounds else html.paragraph("No round has ended."),
        objective_legend=objective if rounds else "",
        risks=risk_chart(snapshot),
        risks_legend=legend_of_runs(kinds),
    )


def _outlook(snapshot: Snapshot) -> str:
    """Say what the next step and another 20 runs promise."""
    words = snapshot.promise.sentence
    reason = snapshot.record.stop_reason
    if snapshot.live or reason not in (StopReason.BUDGET, StopReason.CONVERGED):
        return words
    store = "run.supac" if snapshot.record.path is None else snapshot.record.path.name
    return f"{words} `supac resume {store} --budget {snapshot.record.budget + 20}` makes them."
