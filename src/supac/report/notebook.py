"""Records, certificates and parameters as HTML for notebooks, and the summary of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import count

import numpy as np
from rich.console import Console

from supac.codec.text import visible
from supac.guarantee.certificate import Certificate
from supac.problem import Parameters
from supac.problem.fields import Field
from supac.record.best_run import BestRun
from supac.record.many_parameters import FEW, shown
from supac.record.parameter_change import quantiles
from supac.record.record import Record
from supac.report import elements as html
from supac.report.account import Account, account_of
from supac.report.elements import Markup
from supac.report.findings import FIRST, fit_pictures
from supac.report.many import bar
from supac.report.sections import badge, claim
from supac.report.tables import state, summary
from supac.report.verdict import assess
from supac.report.words import number, with_range

_ROWS = 12  # of more parameters than these, the table shows as many
_outputs = count()


class Summary:
    """A run in short: the table of `supac show` as text, and HTML in a notebook."""

    def __init__(self, record: Record):
        record.check_search()
        self._record = record

    def __str__(self) -> str:
        console = Console(
            width=max(Console().width, 80),
            color_system=None,
            force_terminal=False,
            force_jupyter=False,
        )
        with console.capture() as captured:
            console.print(summary(self._record, _title(self._record), console.width))
        return "\n".join(visible(line).rstrip() for line in captured.get().splitlines()).rstrip()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_of_record(self._record)


def _title(record: Record) -> str:
    return account_of(record).title


def html_of_record(record: Record) -> str:
    """Return verdict, guarantee, fit and parameters of a search."""
    run = account_of(record)
    verdict = assess(run)
    parts: list[object] = [
        html.fill(
            "<p><strong>$title</strong> $level</p>", title=run.title, level=badge(verdict.level)
        ),
        html.paragraph(_numbers(run)),
        "" if run.certificate is None else html.paragraph(claim(run.certificate)),
        fit_pictures(run, last=FIRST),
        _learnt(run),
        html.items([f"{check.question} {check.answer}" for check in verdict.reasons]),
    ]
    return as_output(parts)


def _numbers(run: Account) -> str:
    """Return the state, the numbers of runs, and the objective."""
    words = str(state(run.record)).rstrip(".")
    made = f"{run.made:,} runs" + (f" of {run.budget:,}" if run.budget is not None else "")
    made = made if run.record.coarse_use is None else run.record.spent_words
    words = f"{words[:1].upper()}{words[1:]}. {made}"
    words += f", {len(run.failures)} failed" if run.failures else ""
    if not math.isfinite(run.objective):
        return f"{words}."
    error = f" ± {number(run.mean_risk_error, 2)}" if math.isfinite(run.mean_risk_error) else ""
    return (
        f"{words}; objective {number(run.objective)}, mean risk {number(run.mean_risk)}{error}, "
        f"KL {number(run.kl)} nats."
    )


def _learnt(run: Account) -> Markup:
    """Return prior and posterior of the parameters; of many, those that changed most."""
    rows = run.learnt
    few = rows if len(rows) <= FEW else [rows[i] for i in shown(rows, run.record.parameters, _ROWS)]
    if not few:
        return Markup()
    cells = [
        (row.name, row.unit, with_range(row.prior), with_range(row.posterior), bar(row.width))
        for row in few
    ]
    left = len(rows) - len(few)
    caption = "Median (5 % to 95 %) of each parameter" if not left else (
        f"Median (5 % to 95 %) of the {len(few)} parameters that changed most, of {len(rows)}"
    )  # fmt: skip
    headings = ("parameter", "unit", "prior", "posterior", "width")
    return html.table(caption, headings, cells, numbers=(2, 3))


def html_of_certificate(certificate: Certificate) -> str:
    """Return the claim, and what it assumes, folded."""
    lists = {
        "Signs that an assumption does not hold": certificate.warnings,
        "This assumes that": certificate.assumptions,
        "It does not guarantee": certificate.not_guaranteed,
    }
    folded = [
        html.fill("<p>$heading</p>$all", heading=heading, all=html.items(each))
        for heading, each in lists.items()
        if each
    ]
    about = (
        f"Mean risk on the data {number(certificate.mean_risk)} from {certificate.draws:,} fresh "
        f"draws, {certificate.failed} failed; KL {number(certificate.kl)} nats; n = "
        f"{certificate.n:,}; δ = {certificate.delta:g}; bound of {certificate.bound}."
    )
    details = "<details><summary>what it assumes</summary>$folded</details>"
    return as_output(
        [
            html.fill("<p><strong>$claim</strong></p>", claim=claim(certificate)),
            html.paragraph(about),
            html.fill(details, folded=html.joined(folded)),
        ]
    )


def html_of_parameters(parameters: Parameters) -> str:
    """Return the priors as a table, a field as one row."""
    given = list(parameters.marginals.items())[:FEW]
    ends = quantiles(parameters.prior, parameters)
    rows = []
    for name, prior in given:
        low, middle, high = np.median(ends[:, parameters.columns(name)], axis=1).tolist()
        marginal = prior.prior if isinstance(prior, Field) else prior
        kind = type(marginal).__name__
        if isinstance(prior, Field):
            kind = f"field of {' × '.join(map(str, prior.shape))} points, {kind}"
        rows.append((name, marginal.unit, kind, with_range((low, middle, high))))
    left = len(parameters.marginals) - len(given)
    caption = "Priors: median (5 % to 95 %)" + (f", without {left} more" if left else "")
    headings = ("parameter", "unit", "prior", "range")
    return as_output([html.table(caption, headings, rows, numbers=(3,))])


def html_of_best_run(run: BestRun) -> str:
    """Return the parameters of a run as a table."""
    named = list(zip(run.parameters.items(), run.units, strict=True))[:FEW]
    rows = [(name, number(value, 5), unit) for (name, value), unit in named]
    words = f"Run {run.id}, the best, with risk {number(run.risk, 4)}"
    return as_output([html.table(words, ("parameter", "value", "unit"), rows, numbers=(1,))])


def as_output(parts: Iterable[object]) -> str:
    """Return parts as one output, with a style of its own and ids that no other output has."""
    body = html.joined(part for part in parts if part != "")
    own = rf"\1supac-{next(_outputs)}-"
    body = Markup(re.sub(r'( id="|aria-labelledby="|url\(#)', own, body))
    return f'<div class="supac"><style>{html.read_part("notebook.css")}</style>{body}</div>'
