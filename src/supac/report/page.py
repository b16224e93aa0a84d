"""The report as one self-contained HTML page, without scripts or external files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from supac.exchange.table import vacant
from supac.guarantee.certificate import Certificate
from supac.posterior.prediction import Prediction
from supac.record.calibrated import Calibrated
from supac.report import findings, sections
from supac.report.account import Account, account_of
from supac.report.elements import Markup, fill, read_part, section
from supac.report.predictions import what_is_predicted
from supac.report.verdict import assess


def write_report(
    run: Calibrated,
    path: str | os.PathLike[str],
    *,
    title: str = "",
    certificate: Certificate | None = None,
    predictions: Sequence[Prediction] | None = None,
    force: bool = False,
) -> Path:
    """Write a run as one self-contained HTML page; return its path.

    Parameters
    ----------
    run
        A `Result`, or a store read with `read_store`; the simulator is not run.
    path
        The page to write.
    title
        Heading; by default the title of the problem file.
    certificate
        Certificate of this run's posterior, from `certify`.
    predictions
        Predictions to show; by default those of its posterior that lie beside the store, in
        files such as run.scenario.supac.
    force
        Replace an existing file.

    """
    target = vacant(Path(path), force=force)
    about = account_of(run, title=title, certificate=certificate, predictions=predictions)
    page = make_page(about)
    target.write_text(page, encoding="utf-8")
    return target


def make_page(run: Account) -> str:
    """Return the page as text."""
    verdict = assess(run)
    parts = [
        sections.in_short(run, verdict),
        findings.how_well_it_fits(run),
        findings.what_was_learnt(run),
        what_is_predicted(run),
        sections.guaranteed(run),
        sections.trusted(verdict),
        sections.asked(run),
        sections.numbers(run),
        sections.search(run),
        sections.failures(run),
        sections.again(run),
        section("words"),
    ]
    body = "\n".join(filter(None, parts))
    headings = re.findall(r'<section id="([a-z-]+)">\n<h2>(.*?)</h2>', body)
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading in headings)
    return fill(
        read_part("page.html"),
        title=run.title,
        state="" if run.record.stop_reason is not None else "unfinished",
        style=Markup(read_part("style.css")),
        contents=Markup(f'<nav aria-label="Contents"><ul>{links}</ul></nav>'),
        body=Markup(body),
    )
