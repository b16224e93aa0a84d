"""Sections of the report about the posterior: the parameters and the fit to the data."""

from __future__ import annotations

import math

import numpy as np

from supac.problem import Role
from supac.problem_file import Observations
from supac.record.local_ranges import words_on_local_ranges
from supac.record.many_parameters import FEW, shown
from supac.record.parameter_change import LOCAL, correlations, joint_kl
from supac.report import elements as html
from supac.report import figures, many
from supac.report.account import Account
from supac.report.bayes import words_on_ranges
from supac.report.elements import Markup
from supac.report.scores import SCORES, score_cells
from supac.report.words import listed, number, percent, with_range

_SMALL = Markup(
    '<p class="small">Data minus the mean prediction of the fresh runs, in the unit of the column. '
    "± is half the width of the band, its median over the rows. It is wider than the simulations "
    "above, and may be wider than a prediction of a larger share: it counts the noise and whatever "
    "is wrong with the simulator, and the fewer the data, the more it allows for bad luck.</p>"
)
_IN_NOISES = Markup(
    '<p class="small">In units of the noise, at the median of the fresh runs. A typical misfit '
    "near 1 is as good as the noise allows; a mean misfit far from 0 is a bias.</p>"
)
_OF_SCORES = Markup(
    '<p class="small">Medians over the fresh runs. NSE: Nash–Sutcliffe efficiency, 1 for a perfect '
    "fit, below 0 where the mean of these data would be a better model. KGE: Kling–Gupta "
    "efficiency, 1 for a perfect fit. Bias: what is simulated too much, of the sum of the "
    "measurements. RMSE: root mean square error, in the unit of the column. The band is that of "
    "the simulations with their noise: near 90 % of the measurements lie in it where the model and "
    "the noise are right.</p>"
)
_FITTED = (
    "The noise depends on parameters, so that misfits in its units are near 1 whatever the fit: "
    "compare them with the spread of the measurements, where these show a course beyond their "
    "scatter."
)
_MOST_PICTURES = 60
FIRST = 4  # pictures of the fit on the first screen; the others are below
_SAME = 1e-6  # by which two distributions may differ by rounding
_PICTURE = "<figure><figcaption>$name</figcaption>$picture</figure>"


def what_was_learnt(run: Account) -> Markup:
    """Return the section with prior and posterior of each parameter."""
    rows = run.learnt
    if not rows:
        words = "There is no posterior yet." if run.posterior is None else "The prior is not known."
        return html.section("nothing learnt", words=words)
    if len(rows) > FEW:
        return many.what_was_learnt(run)
    caption = "Median (5 % to 95 %) of each parameter, before the data and after"
    named = '$name <span class="small">$unit</span>'
    pictures = [
        html.fill(
            _PICTURE,
            name=html.fill(named, name=row.name, unit=row.unit) if row.unit else row.name,
            picture=figures.marginal(row, i),
        )
        for i, row in enumerate(rows)
    ]
    return html.section(
        "learnt",
        table=html.table(
            caption, many.HEADINGS, map(many.cells, rows), numbers=(2, 3, 5), stacked=True
        ),
        legend=html.legend(prior="prior", posterior="posterior"),
        pictures=html.joined(pictures),
        fields=html.joined(map(many.field_pictures, run.fields)),
        informed=_informed(run),
        ranges=_words_on_ranges(run),
        correlated=_correlated(run),
    )


def _words_on_ranges(run: Account) -> str:
    """Say what the ranges are, and if they are local."""
    local = words_on_local_ranges(run.record)
    return f"{local[:1].upper()}{local[1:]}. " * bool(local) + words_on_ranges(run.record)


def _informed(run: Account) -> Markup:
    """Group the parameters by how much the data changed them."""
    meanings = {
        "pinned down": "to less than a third of the prior’s spread",
        "narrowed": "to less than four fifths of it",
        "moved only": "elsewhere, but as uncertain as before",
        "hardly informed": "as in the prior; other data are needed to learn them",
        LOCAL: "the data leave more open than these ranges say",
    }
    lines: list[object] = []
    for words, meaning in meanings.items():
        names = [row.name for row in run.learnt if row.words == words]
        if names:
            group = f"<strong>{words.capitalize()}</strong> ({meaning}): $names."
            lines.append(html.fill(group, names=listed(names)))
    gaussian = run.posterior is not None and run.posterior.family.is_gaussian
    if len(run.learnt) > 1 and gaussian and _product_prior(run):
        total = run.posterior_kl
        rest = joint_kl(run.learnt, total)
        lines.append(
            f"Of {number(total)} nats in all, {number(rest)} are due to correlations: combinations "
            "of parameters are better known than each parameter alone."
            if rest > 0.05
            else "The data inform single parameters, not combinations of them."
        )
    return html.items(lines)


def _product_prior(run: Account) -> bool:
    """Return True for independent Gaussian priors, for which `joint_kl` holds."""
    if run.prior is None or not run.prior.family.is_gaussian:
        return False
    covariance = run.prior.covariance
    return np.count_nonzero(covariance - np.diag(np.diag(covariance))) == 0


def _correlated(run: Account) -> Markup:
    r = np.eye(1) if run.posterior is None else correlations(run.posterior)
    if len(r) < 2 or not np.isfinite(r).all():
        return Markup()
    pairs = sorted(zip(*np.tril_indices(len(r), -1), strict=True), key=lambda at: -abs(r[at]))
    strong = [
        f"{run.names[j]} and {run.names[i]}: {number(round(float(r[i, j]), 2), 2)}"
        for i, j in pairs[:8]
        if abs(r[i, j]) > 0.3
    ]
    latent = run.record.parameters is not None
    where = " in latent coordinates, in which every prior is normal" if latent else ""
    caption = f"Correlations of the posterior{where}. Blue: positive; orange: negative."
    words = "The strongest:" if strong else "No two parameters are correlated by more than 0.3."
    return html.joined(
        [
            Markup("<h3>Correlations</h3>"),
            html.figure(figures.correlation_map(run.names, r), caption) if len(r) <= 40 else "",
            html.paragraph(words),
            html.items(strong),
        ]
    )


def ranges(run: Account, most: int) -> Markup:
    """Return the parameters with their ranges before and after, at most so many."""
    rows = run.learnt
    if not rows:
        return Markup()
    chosen = shown(rows, run.record.parameters, most)
    if most < len(rows) <= FEW:
        chosen = sorted(sorted(range(len(rows)), key=lambda i: rows[i].width)[:most])
    left = len(rows) - len(chosen)
    caption = "Median and 5 % to 95 % of each parameter" if not left else (
        f"Median and 5 % to 95 % of the {len(chosen)} best known parameters; {left} more below"
    )  # fmt: skip
    cells = []
    for i in chosen:
        row = rows[i]
        median, _, ends = with_range(row.posterior).partition(" (")
        power = ends.partition(")")[2]
        value = html.fill(
            '<strong>$median</strong> $unit<br><span class="small">$ends</span>',
            median=f"{median}{power}",
            unit=row.unit,
            ends=f"{ends.partition(')')[0]}" if not power else f"({ends}",
        )
        name = Markup(html.text(row.name).replace("_", "_<wbr>"))
        cells.append((name, value, figures.parameter_range(row, i)))
    legend = html.legend(**{"prior band": "before the data", "posterior": "after"})
    table = html.table(caption, ("parameter", "value", "range"), cells)
    return html.joined([table, legend])


def fit_pictures(run: Account, *, first: int = 0, last: int | None = None) -> Markup:
    """Draw simulations beside some of the data, with a legend; "" if either is unknown."""
    observations, draws = run.observations, figures.drawn_runs(run)
    if observations is None or not draws:
        return Markup()
    parts = _parts(observations)[first:]
    pictures = [
        html.fill(_PICTURE, name=name, picture=figures.fit(observations, run, i))
        for i, name in parts[:last]
    ]
    if not pictures:
        return Markup()
    kind = "few" if len(_parts(observations)) <= figures.FEW else "pictures"
    kinds = {}
    if "prior" in draws:
        kinds["prior band"] = f"{_first_runs(run, len(draws['prior']))}: 90 % of them"
    if "posterior" in draws:
        kinds["posterior"] = f"{_posterior_runs(run)}: median, 50 % and 90 %"
    kinds["data"] = f"measured{figures.ERROR if observations.noise_known else ''}"
    if run.record.held_out_data is not None:
        kinds["held-out"] = "held out"
    left = len(parts) - len(pictures)
    more = f'<p class="small">{left} more are below.</p>' if left > 0 else ""
    return html.joined(
        [
            Markup('<div class="chart">'),
            html.legend(**kinds),
            Markup(f'<div class="multiples {kind}">'),
            *pictures,
            Markup(f"</div>{more}</div>"),
        ]
    )


def _first_runs(run: Account, count: int) -> str:
    """Name the runs that the search made first, and say how they are spread beside the prior."""
    words, prior, first = f"the first {count} runs", run.prior, run.first_round
    around = None if first is None else first.proposal
    if prior is None or first is None or around is None or around.dim != prior.dim:
        return words
    spread, own = (np.sqrt(np.diag(each.covariance)) for each in (prior, around))
    centred = bool((np.abs(around.mean - prior.mean) <= _SAME * spread).all())
    ratios = own / spread
    if not centred or not np.ptp(ratios) <= _SAME * ratios.mean():
        return f"{words}, around where the search began"
    width = float(ratios.mean())
    if Role.NARROW in {each.role for each in run.record.light_runs if each.id in first.ids}:
        return f"{words}, near the prior’s centre"
    if abs(width - 1.0) <= _SAME:
        return f"{words}, drawn from the prior"
    return f"{words}, spread {number(width, 2)} times as wide as the prior"


def _posterior_runs(run: Account) -> str:
    """Name the runs that stand for the posterior."""
    if run.fresh is not None:
        return f"{run.validated} fresh runs of the posterior"
    return f"the latest {0 if run.latest is None else len(run.latest)} runs of the search"


def how_well_it_fits(run: Account) -> Markup:
    """Return the section that compares simulations with data; "" if either is unknown."""
    if not figures.drawn_runs(run):
        return Markup()
    pictures = fit_pictures(run, first=FIRST)
    return html.section(
        "fit without fresh runs" if run.fresh is None else "fit",
        pictures=pictures,
        bands=html.joined([_residuals(run), _bands(run)]),
        misfits=html.joined([_scores(run), _misfits(run)]),
    )


def _scores(run: Account) -> Markup:
    """Return the table of scores that do not depend on the noise; "" without data."""
    if not run.scores:
        return Markup()
    both = any(each.held_out for each in run.scores)
    headings = ["column", *(["data"] if both else []), "measured", *SCORES, "90 % band holds"]
    headings.append("width of it")
    rows = [
        [
            f"{each.column}{f' ({each.unit})' if each.unit else ''}",
            *([each.part] if both else []),
            f"{each.measured}",
            *score_cells(each),
            percent(each.covered) if math.isfinite(each.covered) else "–",
            number(each.width, 2),
        ]
        for each in run.scores
    ]
    numbers = range(2 if both else 1, len(headings))
    table = html.table("Scores of the fit by observed column", headings, rows, numbers=numbers)
    return html.joined([table, _OF_SCORES])


def _misfits(run: Account) -> Markup:
    """Return the table of misfits in units of the noise; "" if that is not known."""
    headings = ["column", "measured", "typical misfit", "mean misfit", "beyond 3 noises"]
    rows: list[list[object]] = [
        [each.column, f"{each.measured}", number(each.typical, 2), number(each.mean, 2), each.far]
        for each in run.misfits
    ]
    if not rows:
        return Markup()
    fitted = any(each.fitted for each in run.misfits)
    if fitted:
        headings.append("of the spread")
        for row, each in zip(rows, run.misfits, strict=True):
            row.append("–" if math.isnan(each.of_spread) else percent(each.of_spread))
    numbers = range(1, len(headings))
    table = html.table("Misfit by observed column", headings, rows, numbers=numbers)
    told = html.fill('<p class="small">$words</p>', words=_FITTED)
    return html.joined([table, _IN_NOISES, told if fitted else ""])


def _parts(seen: Observations) -> list[tuple[int, str]]:
    """Return number and name of the parts of the data to be drawn: columns, by experiment."""
    named = [
        f"{seen.columns[column]}, {experiment}" if experiment else seen.columns[column]
        for experiment, column, _ in seen.parts
    ]
    return list(enumerate(named))[:_MOST_PICTURES]


def _residuals(run: Account) -> Markup:
    """Draw residuals in time where they are doubted, or where there are no bands to show them."""
    found, seen = run.autocorrelation, run.observations
    refused = isinstance(run.bands, str)
    if seen is None or not run.residual_series or not (refused or (found and found.doubted)):
        return Markup()
    worst = [name for name, _ in found.series] if found else []
    ordered = sorted(
        (each for each in run.residual_series if len(each.residuals) > 1),
        key=lambda each: worst.index(each.name) if each.name in worst else len(worst),
    )
    label = "row" if seen.times is None else seen.time_label or "time"
    pictures = [
        html.fill(
            _PICTURE,
            name=each.name,
            picture=figures.residuals(each.name, each.times, each.residuals, label, i),
        )
        for i, each in enumerate(ordered[:FIRST])
    ]
    return html.joined(
        [
            Markup("<h3>Residuals in time</h3>"),
            html.paragraph(
                "Measured minus simulated, the mean of the fresh runs, in units of the noise. Of "
                "independent noise 95 % lie in the band, and neighbours have nothing in common."
            ),
            Markup('<div class="multiples wide">'),
            *pictures,
            Markup("</div>"),
        ]
    )


def _bands(run: Account) -> Markup:
    """Say what the bands are and assume, or why there are none."""
    bands = run.bands
    if isinstance(bands, str):
        words = f"Where new measurements will lie is not known; {bands}."
        return html.paragraph(words) if bands else Markup()
    seen, test = run.observations, run.record.held_out_data
    assert seen is not None
    pictures = [
        html.fill(_PICTURE, name=name, picture=figures.band(seen, test, bands, i))
        for i, name in _parts(seen)
        if seen.columns[seen.parts[i][1]] in bands.blocks
    ]
    told = f"{bands.statement[:1].upper()}{bands.statement[1:]}"
    return html.joined(
        [
            Markup("<h3>Where new measurements will lie</h3>"),
            html.paragraph(f"{told}. This assumes that {bands.assumption}."),
            Markup('<div class="multiples wide">'),
            *pictures,
            Markup("</div>"),
            _SMALL,
        ]
    )
