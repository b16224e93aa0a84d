"""Sections of the report about the posterior: the parameters and the fit to the data."""

from __future__ import annotations

import math

import numpy as np

from supac.record.parameter_change import ParameterChange, correlations, joint_kl
from supac.report import figures
from supac.report.account import Account
from supac.report.elements import Markup, figure, items, legend, paragraph, section, table
from supac.report.words import escape, listed, number, with_range


def what_was_learnt(run: Account) -> str:
    """Return the section with prior and posterior of each parameter."""
    rows = run.learnt
    if not rows:
        words = "There is no posterior yet." if run.posterior is None else "The prior is not known."
        return section("learnt", "What was learnt", paragraph(words))
    cells = [
        (
            row.name, row.unit, with_range(row.prior), with_range(row.posterior),
            _bar(row.width), "–" if math.isnan(row.kl) else f"{row.kl:.2f}", row.words,
        )
        for row in rows
    ]  # fmt: skip
    headings = ("parameter", "unit", "prior", "posterior", "width", "KL", "in a word")
    caption = "Median (5 % to 95 %) of each parameter, before the data and after"
    reading = (
        "Width is the ratio of posterior to prior standard deviation, on the scale on which the "
        "prior is normal: 1 if nothing was learnt, 0.1 if a tenth of the uncertainty is left. KL, "
        "in nats, also counts a shift. The ranges belong to the distribution that minimises the "
        "objective; they are not credible intervals."
    )
    pictures = "".join(
        f"<figure><figcaption>{escape(row.name)}{_unit(row)}</figcaption>"
        f"{figures.marginal(row, i)}</figure>"
        for i, row in enumerate(rows)
    )
    return section(
        "learnt",
        "What was learnt",
        table(caption, headings, cells, numbers=(2, 3, 5)),
        paragraph(reading, "small"),
        legend(("prior", "prior"), ("posterior", "posterior")),
        f'<div class="multiples">{pictures}</div>',
        paragraph("All curves have the same height: compare positions and widths only.", "small"),
        _informed(rows, run),
        _correlated(run),
    )


def _bar(width: float) -> Markup:
    inner = f'<span style="width:{100 * min(max(width, 0.0), 1.0):.0f}%"></span>'
    return Markup(f'<span class="bar" aria-hidden="true">{inner}</span>{width:.2f}')


def _unit(row: ParameterChange) -> str:
    return f' <span class="small">{escape(row.unit)}</span>' if row.unit else ""


def _informed(rows: list[ParameterChange], run: Account) -> str:
    """Group the parameters by how much the data changed them."""
    meanings = {
        "pinned down": "to less than a third of the prior’s spread",
        "narrowed": "to less than four fifths of it",
        "moved only": "elsewhere, but as uncertain as before",
        "hardly informed": "as in the prior; other data are needed to learn them",
    }
    lines: list[object] = []
    for words, meaning in meanings.items():
        names = [row.name for row in rows if row.words == words]
        if names:
            group = f"<strong>{words.capitalize()}</strong> ({meaning})"
            lines.append(Markup(f"{group}: {escape(listed(names))}."))
    if len(rows) > 1 and _product_prior(run):
        total = run.posterior_kl
        rest = joint_kl(rows, total)
        lines.append(
            f"Of {number(total)} nats in all, {number(rest)} are due to correlations: combinations "
            "of parameters are better known than each parameter alone."
            if rest > 0.05
            else "The data inform single parameters, not combinations of them."
        )
    return "<h3>What the data did and did not inform</h3>" + items(lines)


def _product_prior(run: Account) -> bool:
    """Return True for independent Gaussian priors, for which `joint_kl` holds."""
    if run.prior is None or not run.prior.family.is_gaussian:
        return False
    covariance = run.prior.covariance
    return np.count_nonzero(covariance - np.diag(np.diag(covariance))) == 0


def _correlated(run: Account) -> str:
    if run.posterior is None or run.posterior.dim < 2:
        return ""
    r = correlations(run.posterior)
    if not np.isfinite(r).all():
        return ""
    pairs = sorted(
        ((abs(r[i, j]), i, j) for i in range(len(r)) for j in range(i)), key=lambda each: -each[0]
    )
    strong = [
        f"{run.names[j]} and {run.names[i]}: {number(round(float(r[i, j]), 2), 2)}"
        for size, i, j in pairs[:8]
        if size > 0.3
    ]
    named = run.record.parameters is not None
    where = " in latent coordinates, in which every prior is normal" if named else ""
    caption = f"Correlations of the posterior{where}. Blue: positive; orange: negative."
    words = "The strongest:" if strong else "No two parameters are correlated by more than 0.3."
    picture = figures.correlation_map(run.names, r) if len(r) <= 40 else ""
    return (
        "<h3>Correlations</h3>"
        + (figure(picture, caption) if picture else "")
        + paragraph(words)
        + (items(strong) if strong else "")
    )


def how_well_it_fits(run: Account) -> str:
    """Return the section that compares simulations with data; "" if either is unknown."""
    observations = run.observations
    known = run.first if run.fresh is None else run.fresh
    # Outputs that are no residuals of these data cannot be drawn beside them.
    if observations is None or known is None or known.shape[1] != len(observations.values):
        return ""
    shown = run.fresh is not None
    pictures = "".join(
        f"<figure><figcaption>{escape(name)}</figcaption>"
        f"{figures.fit(observations, run, i)}</figure>"
        for i, name in enumerate(observations.columns)
    )
    kinds = [("prior", "first batch, drawn from the prior")]
    kinds += [("posterior", f"{run.validated} fresh runs of the posterior")] if shown else []
    return section(
        "fit",
        "How well it fits",
        legend(*kinds, ("data", "measured, with its standard error")),
        f'<div class="multiples wide">{pictures}</div>',
        _misfit(run) if shown else paragraph("There are no fresh runs of the posterior to show."),
    )


def _misfit(run: Account) -> str:
    """Return the table of misfits by observed column."""
    rows = [
        (each.column, f"{each.measured}", number(each.typical, 2), number(each.mean, 2), each.far)
        for each in run.misfits
    ]
    headings = ("column", "measured", "typical misfit", "mean misfit", "over 3 noises off")
    words = (
        "In units of the noise, at the median of the fresh runs. A typical misfit near 1 is as "
        "good as the noise allows; a mean misfit far from 0 is a bias."
    )
    listing = table("Misfit by observed column", headings, rows, numbers=(1, 2, 3, 4))
    return listing + paragraph(words, "small")
