"""The report as one self-contained HTML page, without scripts or external files."""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from supac.guarantee.certificate import Certificate
from supac.record.calibrated import Calibrated
from supac.report import findings, sections
from supac.report.account import Account, account_of
from supac.report.verdict import assess
from supac.report.words import escape


def write_report(
    run: Calibrated,
    path: str | os.PathLike[str],
    *,
    title: str = "",
    certificate: Certificate | None = None,
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
    force
        Replace an existing file.

    """
    target = Path(path)
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists already; pass force=True to replace it")
    page = make_page(account_of(run, title=title, certificate=certificate))
    target.write_text(page, encoding="utf-8")
    return target


def make_page(run: Account) -> str:
    """Return the page as text."""
    verdict, part = assess(run), files("supac.report")
    parts = [
        sections.in_short(run, verdict),
        sections.asked(run),
        sections.guaranteed(run),
        findings.what_was_learnt(run),
        findings.how_well_it_fits(run),
        sections.search(run),
        sections.failures(run),
        sections.trusted(verdict),
        sections.again(run),
        part.joinpath("glossary.html").read_text(encoding="utf-8").strip(),
    ]
    body = "\n".join(filter(None, parts))
    return Template(part.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=escape(run.title),
        style=part.joinpath("style.css").read_text(encoding="utf-8"),
        contents=_contents(body),
        body=body,
    )


def _contents(body: str) -> str:
    """Return links to the sections."""
    found = re.findall(r'<section id="([a-z-]+)">\n<h2>(.*?)</h2>', body)
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading in found)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'
