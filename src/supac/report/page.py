"""One page that holds everything: no network, no script, the fonts of the reader's system."""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path

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
    """Write a run as one self-contained HTML page: where it is.

    Parameters
    ----------
    run
        A `Result`, or what `read_store` tells of a store; nothing is run.
    path
        Of the page; a file that is there already is kept, unless `force`.
    title
        By default that of the problem file.
    certificate
        What `certify` gave for this run's posterior.
    force
        Replace the file.

    """
    target = Path(path)
    if target.exists() and not force:
        raise FileExistsError(f"{target} is there already; pass force=True to replace it")
    page = make_page(account_of(run, title=title, certificate=certificate))
    target.write_text(page, encoding="utf-8")
    return target


def make_page(run: Account) -> str:
    """The page as text."""
    verdict = assess(run)
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
        sections.glossary(),
    ]
    body = "\n".join(part for part in parts if part)
    style = files("supac.report").joinpath("style.css").read_text(encoding="utf-8")
    title = escape(run.title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title} – supac report</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<p class="small">Calibration report</p>
<h1>{title}</h1>
{_contents(body)}
</header>
<main id="content">
{body}
</main>
</body>
</html>
"""


def _contents(body: str) -> str:
    """Links to the sections."""
    found = re.findall(r'<section id="([a-z-]+)">\n<h2>(.*?)</h2>', body)
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading in found)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'
