"""The other sections of a report."""

from __future__ import annotations

import math
import re

from supac.problem.parameters import names_of
from supac.record.run import Run, by_kind
from supac.report import elements as html
from supac.report import figures
from supac.report.account import Account
from supac.report.elements import Markup, facts, items, paragraph, section
from supac.report.verdict import Level, Verdict
from supac.report.words import at_most, count_of, escape, listed, number
from supac.running.terminal import duration

_MARKS = {Level.TRUST: "✓", Level.LOOK: "!", Level.DO_NOT_TRUST: "✗"}
_MOST_ITERATIONS = 40


def badge(level: Level, words: str = "") -> Markup:
    """Return a level as a coloured word with a sign, for readers who see no colours."""
    kind = level.name.lower().replace("_", "-")
    return Markup(
        f'<span class="badge {kind}"><span aria-hidden="true">{_MARKS[level]}</span> '
        f"{words or level.words}</span>"
    )


def in_short(run: Account, verdict: Verdict) -> str:
    """Return the section with the verdict and the main numbers."""
    reasons = [
        Markup(f"<strong>{escape(check.question)}</strong> {escape(check.answer)}")
        for check in verdict.reasons
    ]
    error, goal = run.mean_risk_error, "the bound at this mean risk and KL"
    risk = number(run.mean_risk) + (f" ± {number(error, 2)}" if math.isfinite(error) else "")
    goal = "mean risk plus a multiple of KL" if run.data is None else goal
    tiles = [
        ("mean risk", risk, "the mean misfit of simulations from the posterior"),
        ("KL", f"{number(run.kl)} nats", "the divergence of the posterior from the prior"),
        ("objective", number(run.objective), f"what was minimised: {goal}"),
        ("runs", _runs(run), "of the simulator"),
    ]
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{escape(value)}</dd><dd class='small'>{escape(words)}</dd></div>"
        for name, value, words in tiles
    )
    return section(
        "in-short",
        "In short",
        f'<p class="verdict">{badge(verdict.level)} {escape(verdict.sentence)}</p>',
        items(reasons) if reasons else "",
        f'<dl class="tiles">{cells}</dl>',
        paragraph(_certificate_sentence(run)),
    )


def _runs(run: Account) -> str:
    made = f"{run.made:,}" if run.budget is None else f"{run.made:,} of {run.budget:,}"
    return f"{made}, {len(run.failures)} failed" if run.failures else made


def _certificate_sentence(run: Account) -> str:
    certificate = run.certificate
    if certificate is None:
        return "There is no certificate; see “What is guaranteed”."
    return (
        f"With probability at least {100.0 * (1.0 - certificate.delta):.6g} %, simulations with "
        "parameters drawn from this posterior have a mean risk of at most "
        f"{at_most(min(certificate.value, certificate.ceiling))} on new data of the same kind."
    )


def asked(run: Account) -> str:
    """Return the section that describes the problem."""
    names = [f"{n} ({u})" if u else n for n, u in zip(run.names, run.units, strict=True)]
    many = count_of(len(names), "parameter", "parameters")
    words = (
        f"A simulator has {many} with uncertain values. The prior describes them before the data. "
        "The risk of given values measures how badly a simulation with them fits the data. The "
        "posterior is the distribution that minimises the objective below: its mean risk is low, "
        "and it differs from the prior no more than the data justify."
    )
    observations = run.observations
    rows: list[tuple[str, object]] = [("parameters", ", ".join(names) if names else "not known")]
    if observations is not None:
        what = f"{observations.measured} numbers in {listed(list(observations.columns))}"
        rows.append(("data", f"{what}, {observations.rows} rows"))
    rows.append(("objective", _bound_words(run)))
    if run.budget is not None:
        rows.append(("budget", f"{run.budget:,} runs"))
    if run.record.seconds > 0.0:
        each = duration(run.record.seconds / max(run.made, 1))
        rows.append(("cost", f"{duration(run.record.seconds)} of simulation, {each} a run"))
    if run.record.known:
        rows.append(("known before", f"{run.record.known:,} runs made elsewhere"))
    return section("asked", "What was asked", paragraph(words), facts(rows))


def _bound_words(run: Account) -> str:
    """Describe the objective."""
    if run.record.bound is None:
        return "not known"
    if run.data is None:
        price = getattr(run.record.bound, "temperature", None)
        return str(run.record.bound) if price is None else f"mean risk + {price:g}·KL (Catoni’s)"
    names = re.sub(r"(?<=[a-z]{2})(?=[A-Z])", "–", type(run.record.bound).__name__)
    price = getattr(run.record.bound, "temperature", "")
    return (
        f"the bound of {names}{f', temperature {price},' if price else ''} for "
        f"{count_of(run.data, 'independent datum', 'independent data')}, δ = "
        f"{getattr(run.record.bound, 'delta', math.nan):g}, risks up to {run.ceiling:g}"
    )


def _how_to_certify(run: Account) -> tuple[str, str]:
    store, count = run.store, "" if run.data is not None else " --n N"
    words = (
        "The objective was minimised on an estimate and guarantees nothing yet. A certificate uses "
        "fresh runs of the simulator and gives a limit that holds on new data with a stated "
        "probability"
    )
    if run.data is None:
        words += "; N is the number of independent data behind the risk"
    how = (
        f"supac certify {store}{count} --out certificate.json\n"
        f"supac report {store} --certificate certificate.json --force"
    )
    if not run.source[0]:  # `supac certify` needs one
        how = (
            "certificate = result.certify(risk, n=N)\n"
            'supac.write_report(result, "report.html", certificate=certificate)'
        )
    return paragraph(f"{words}:"), html.code("How to certify", how)


def guaranteed(run: Account) -> str:
    """Return the section with the certificate, or with the commands that make one."""
    certificate = run.certificate
    if certificate is None:
        return section("guaranteed", "What is guaranteed", *_how_to_certify(run))
    rows = [
        ("mean risk on the data", f"{number(certificate.mean_risk)} from {certificate.draws:,} "
         f"fresh draws, {certificate.failed} failed; at most "
         f"{at_most(certificate.mean_risk_upper)}"),
        ("bound", certificate.bound),
        ("independent data", f"{certificate.n:,}"),
        ("probability of failure", f"δ = {certificate.delta:g}: {certificate.delta_monte_carlo:g} "
         f"for the draws, {certificate.delta_pac:g} for the data"),
    ]  # fmt: skip
    lists = {
        "This assumes that": certificate.assumptions,
        "Corrected for": certificate.corrections,
        "It does not guarantee": certificate.not_guaranteed,
    }
    return section(
        "guaranteed",
        "What is guaranteed",
        paragraph(_certificate_sentence(run), "claim"),
        paragraph("It is vacuous: no risk is larger.") if certificate.vacuous else "",
        facts(rows),
        *(f"<h3>{heading}</h3>{items(texts)}" for heading, texts in lists.items() if texts),
    )


def search(run: Account) -> str:
    """Return the section with the objective and the table of batches."""
    history = run.history
    if not len(history["queries"]):
        return section("search", "How the search went", paragraph("No batch has ended yet."))
    caption = (
        "Objective and mean risk of the posterior of each batch, estimated from the runs so far; "
        "their difference is the cost of KL."
    )
    if run.validated:
        caption += " The ring at the end is the returned posterior, validated with fresh runs."
    columns = {
        "objective": "objective", "mean risk": "mean_risk", "KL": "kl", "step": "step_kl",
        "predicted": "predicted", "k̂": "k_hat", "wrong": "wrong",
    }  # fmt: skip
    count = len(history["queries"])
    rows = [
        (f"{history['queries'][i]:.0f}", *(number(float(history[c][i])) for c in columns.values()))
        for i in range(max(count - _MOST_ITERATIONS, 0), count)
    ]
    many = "" if count <= _MOST_ITERATIONS else f" (the last {_MOST_ITERATIONS})"
    meaning = paragraph(
        "Step: KL from this posterior to the next. Predicted: objective of the next posterior "
        "according to the model. k̂: below 0.7 the weighted runs cover the posterior, above it only "
        "the model does. Wrong: number of runs that failed or are outliers.",
        "small",
    )
    listing = html.table(f"One row per batch{many}", ("runs", *columns), rows, numbers=range(1, 8))
    return section(
        "search",
        "How the search went",
        html.legend(("posterior", "objective"), ("prior", "mean risk")),
        html.figure(figures.convergence(run), caption),
        html.details(f"Batches{many}" if many else "All batches", listing + meaning),
    )


def failures(run: Account) -> str:
    """Return the section with the failed runs, grouped by reason."""
    if not run.failures:
        words = f"None of the {run.made + run.record.known:,} runs failed."
        return section("failures", "Failures", paragraph(words))
    kinds = by_kind(run.failures)
    rows = [
        (runs[0].status.value, f"{len(runs)}", runs[0].message[:500], _where(run, runs[0]))
        for runs in kinds[:10]
    ]
    fate = {
        "penalise": "A failed run counts as the largest risk.",
        "drop": "Failed runs were left out: all numbers are about successful runs.",
        "raise": "The first failure ends a search.",
    }.get(run.record.settings["on_failure"], "")
    more = len(kinds) - len(rows)
    rest = f" {count_of(more, 'more kind is', 'more kinds are')} not shown." if more > 0 else ""
    return section(
        "failures",
        "Failures",
        paragraph(
            f"{len(run.failures)} of {run.made + run.record.known:,} runs failed. {fate}{rest}"
        ),
        html.table("Failures by kind", ("how", "runs", "an example", "where"), rows, numbers=(1,)),
    )


def _where(run: Account, example: Run) -> str:
    """Return the parameter values of a run, in the user's units."""
    x = (
        example.x
        if run.record.parameters is None
        else run.record.parameters.from_latent(example.x[None])[0]
    )
    names = names_of(run.record.parameters, len(x))
    told = [f"{name} = {number(float(v))}" for name, v in zip(names, x, strict=True)]
    return ", ".join(told[:6]) + (", …" if len(told) > 6 else "")


def trusted(verdict: Verdict) -> str:
    """Return the section with every check."""
    rows = [
        (check.question, check.answer, badge(check.level, "" if check.level else "fine"))
        for check in verdict.checks
    ]
    return section(
        "trust",
        "Can it be trusted?",
        paragraph(Markup(f"{badge(verdict.level)} {escape(verdict.sentence)}"), "verdict"),
        html.table("What was checked", ("question", "answer", "verdict"), rows),
    )


def again(run: Account) -> str:
    """Return the section with everything needed to repeat the run."""
    record, (file, text, checksums) = run.record, run.source
    if record.path is None:
        words = "This report was made from a result in memory; its script has the settings."
        return section("again", "How to make it again", paragraph(words))
    known = {
        "command": _code(f"supac run {file}") if file else "",
        "seed": record.settings["seed"],
        "algorithm": record.settings["algorithm"],
        "begun": record.created,
        "made with": record.made_with,
        "store": run.store,
    }
    sums = {f"SHA-256 of the {name}": _code(value) for name, value in checksums.items()}
    rows = [(name, value) for name, value in (known | sums).items() if value not in (None, "")]
    words = "The same problem, seed and versions give the same numbers, on any number of workers."
    name = f"The problem file, {file}"
    return section(
        "again",
        "How to make it again",
        paragraph(words),
        facts(rows),
        html.details(name, html.code(name, text)) if text else "",
    )


def _code(words: str) -> Markup:
    return Markup(f"<code>{escape(words)}</code>")
