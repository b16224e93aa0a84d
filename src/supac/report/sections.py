"""What a report says, section by section."""

from __future__ import annotations

import math

from supac.problem.parameters import names_of
from supac.record.run import Run, by_kind
from supac.report import figures
from supac.report.account import Account
from supac.report.elements import (
    Markup,
    code,
    details,
    facts,
    figure,
    items,
    legend,
    paragraph,
    section,
    table,
)
from supac.report.verdict import Level, Verdict
from supac.report.words import at_most, count_of, escape, listed, number
from supac.running.progress import duration

_MARKS = {Level.TRUST: "✓", Level.LOOK: "!", Level.DO_NOT_TRUST: "✗"}
_MOST_ITERATIONS = 40


def badge(level: Level, words: str = "") -> Markup:
    """A level in a word; the sign says it without the colour."""
    kind = level.name.lower().replace("_", "-")
    return Markup(
        f'<span class="badge {kind}"><span aria-hidden="true">{_MARKS[level]}</span> '
        f"{words or level.words}</span>"
    )


def mark(level: Level) -> Markup:
    """How one check came out."""
    return badge(level, "fine" if level is Level.TRUST else level.words)


def in_short(run: Account, verdict: Verdict) -> str:
    """The verdict and the numbers that matter."""
    reasons = [
        Markup(f"<strong>{escape(check.question)}</strong> {escape(check.answer)}")
        for check in verdict.reasons
    ]
    tiles = [
        ("mean risk", _with_error(run), "the misfit of the posterior’s simulations, on average"),
        ("KL", f"{number(run.kl)} nats", "how far the data moved the posterior from the prior"),
        ("objective", number(run.objective), _objective_words(run)),
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


def _with_error(run: Account) -> str:
    error = run.mean_risk_error
    return number(run.mean_risk) + (f" ± {number(error, 2)}" if math.isfinite(error) else "")


def _objective_words(run: Account) -> str:
    if run.data is None:
        return "what was minimised: mean risk, and a price for leaving the prior"
    return "what was minimised: the bound at this mean risk and KL"


def _runs(run: Account) -> str:
    made = f"{run.made:,}" if run.budget is None else f"{run.made:,} of {run.budget:,}"
    return f"{made}, {len(run.failures)} failed" if run.failures else made


def _certificate_sentence(run: Account) -> str:
    certificate = run.certificate
    if certificate is None:
        return "This report was given no certificate; see “What is guaranteed”."
    return (
        f"With probability at least {100.0 * (1.0 - certificate.delta):.6g} %, simulations with "
        "parameters drawn from this posterior have a mean risk of at most "
        f"{at_most(min(certificate.value, certificate.ceiling))} on new data of the same kind."
    )


def asked(run: Account) -> str:
    """The question, before any answer."""
    names = [f"{n} ({u})" if u else n for n, u in zip(run.names, run.units, strict=True)]
    many = count_of(len(names), "parameter", "parameters")
    words = (
        f"A simulator has {many} whose values are uncertain. Before the data, a prior says which "
        "values are plausible. Which values are plausible after them? A risk says how badly a "
        "simulation with given values fits. The answer, the posterior, is the distribution with a "
        "low mean risk that does not stray further from the prior than the data justify: it "
        "minimises the objective below."
    )
    observations = run.observations
    rows: list[tuple[str, object]] = [("parameters", ", ".join(names) if names else "not known")]
    if observations is not None:
        what = f"{observations.measured} numbers in {listed(list(observations.columns))}"
        rows.append(("data", f"{what}, {observations.rows} rows"))
    rows.append(("objective", _bound_words(run)))
    if run.budget is not None:
        rows.append(("budget", f"{run.budget:,} runs"))
    if run.seconds > 0.0:
        each = duration(run.seconds / max(run.made, 1))
        rows.append(("cost", f"{duration(run.seconds)} of simulation, {each} a run"))
    if run.known:
        rows.append(("known before", f"{run.known:,} runs made elsewhere"))
    return section("asked", "What was asked", paragraph(words), facts(rows))


def _bound_words(run: Account) -> str:
    """What is minimised."""
    if run.bound is None:
        return "not known"
    if run.data is None:
        price = getattr(run.bound, "temperature", None)
        return str(run.bound) if price is None else f"mean risk + {price:g}·KL (Catoni’s)"
    name = {
        "MaurerLangfordSeeger": "Maurer–Langford–Seeger",
        "TolstikhinSeldin": "Tolstikhin–Seldin",
    }
    kind = type(run.bound).__name__
    price = getattr(run.bound, "temperature", "")
    return (
        f"the bound of {name.get(kind, kind)}{f', temperature {price},' if price else ''} for "
        f"{count_of(run.data, 'independent datum', 'independent data')}, δ = "
        f"{getattr(run.bound, 'delta', math.nan):g}, risks up to {run.ceiling:g}"
    )


def _how_to_certify(run: Account) -> tuple[str, str]:
    store = run.origin.store
    words = (
        "The objective is minimised on an estimate; it is not a guarantee yet. A certificate makes "
        "fresh runs of the simulator and says what holds on new data, with which probability"
    )
    if run.data is None:
        words += "; N is the number of independent data behind the risk"
    if not run.origin.problem_file:  # only `supac run` leaves what `supac certify` needs
        how = (
            "certificate = result.certify(risk, n=N)\n"
            'supac.write_report(result, "report.html", certificate=certificate)'
        )
        return paragraph(f"{words}:"), code("How to certify", how)
    count = "" if run.data is not None else " --n N"
    how = (
        f"supac certify {store}{count} --out certificate.json\n"
        f"supac report {store} --certificate certificate.json --force"
    )
    return paragraph(f"{words}:"), code("How to certify", how)


def guaranteed(run: Account) -> str:
    """The certificate, or how to get one."""
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
    vacuous = "It is vacuous: no risk is ever larger." if certificate.vacuous else ""
    return section(
        "guaranteed",
        "What is guaranteed",
        paragraph(_certificate_sentence(run), "claim"),
        paragraph(vacuous) if vacuous else "",
        facts(rows),
        "<h3>This assumes that</h3>" + items(certificate.assumptions),
        "<h3>Corrected for</h3>" + items(certificate.corrections)
        if certificate.corrections
        else "",
        "<h3>It does not guarantee</h3>" + items(certificate.not_guaranteed),
    )


def search(run: Account) -> str:
    """Objective against queries, and the iterations."""
    history = run.history
    if not len(history["queries"]):
        return section("search", "How the search went", paragraph("No batch has ended yet."))
    caption = (
        "The objective of the posterior behind each batch, estimated from the runs until then; "
        "below it the mean risk, and between them the price of leaving the prior."
    )
    if run.validated:
        caption += " The ring at the end is the returned posterior, checked with fresh runs."
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
        "Step: how far, in KL, the posterior moved next. Predicted: what the model expected of the "
        "next posterior’s objective. k̂: below 0.7 the runs cover it by themselves, above it only "
        "the model does. Wrong: runs so far that failed, or are far from what all others predict.",
        "small",
    )
    listing = table(f"One row a batch{many}", ("runs", *columns), rows, numbers=range(1, 8))
    keys = legend(("posterior", "objective"), ("prior", "mean risk"))
    return section(
        "search",
        "How the search went",
        keys,
        figure(figures.convergence(run), caption),
        details(f"Batches{many}" if many else "All batches", listing + meaning),
    )


def failures(run: Account) -> str:
    """How many runs failed, and why, with an example of each kind."""
    if not run.failures:
        words = f"None of the {run.made + run.known:,} runs failed."
        return section("failures", "Failures", paragraph(words))
    kinds = by_kind(run.failures)
    rows = [
        (runs[0].status.value, f"{len(runs)}", runs[0].message[:500], _where(run, runs[0]))
        for runs in kinds[:10]
    ]
    fate = {
        "penalise": "A failed run counts as the largest risk and teaches where not to go.",
        "drop": "Failed runs were left out: all numbers here are about runs that do not fail.",
        "raise": "The first failure ends a search.",
    }.get(run.on_failure, "")
    more = len(kinds) - len(rows)
    rest = f" {count_of(more, 'more kind is', 'more kinds are')} not shown." if more > 0 else ""
    return section(
        "failures",
        "Failures",
        paragraph(f"{len(run.failures)} of {run.made + run.known:,} runs failed. {fate}{rest}"),
        table("Failures by kind", ("how", "runs", "an example", "where"), rows, numbers=(1,)),
    )


def _where(run: Account, example: Run) -> str:
    """The parameters of a run, in the user's units."""
    x = example.x if run.parameters is None else run.parameters.from_latent(example.x[None])[0]
    names = names_of(run.parameters, len(x))
    told = [f"{name} = {number(float(v))}" for name, v in zip(names, x, strict=True)]
    return ", ".join(told[:6]) + (", …" if len(told) > 6 else "")


def trusted(verdict: Verdict) -> str:
    """Every check with its answer."""
    rows = [(check.question, check.answer, mark(check.level)) for check in verdict.checks]
    return section(
        "trust",
        "Can it be trusted?",
        paragraph(Markup(f"{badge(verdict.level)} {escape(verdict.sentence)}"), "verdict"),
        table("What was checked", ("question", "answer", "verdict"), rows),
    )


def again(run: Account) -> str:
    """All that it takes to make the run again."""
    origin = run.origin
    rows: list[tuple[str, object]] = []
    if origin.problem_file:
        command = Markup(f"<code>supac run {escape(origin.problem_file)}</code>")
        rows.append(("command", command))
    for name, value in (
        ("seed", origin.seed),
        ("algorithm", origin.algorithm),
        ("begun", origin.created),
        ("made with", origin.made_with),
        ("store", origin.store),
    ):
        if value not in (None, ""):
            rows.append((name, value))
    rows += [(f"SHA-256 of the {name}", Markup(f"<code>{escape(value)}</code>"))
             for name, value in origin.checksums]  # fmt: skip
    text = ""
    if origin.text:
        name = f"The problem file, {origin.problem_file}"
        text = details(name, code(name, origin.text))
    words = "The same problem, seed and versions give the same numbers, on any number of workers."
    if not rows:
        words = (
            "This report was made from a result in memory: the script that made it has the rest."
        )
    return section(
        "again", "How to make it again", paragraph(words), facts(rows) if rows else "", text
    )


def glossary() -> str:
    """The words of this page that are not everybody's."""
    words = [
        ("risk", "how badly a simulation with given parameter values fits: 0 is perfect"),
        ("prior", "which parameter values are plausible before the data are looked at"),
        ("posterior", "the distribution of parameter values that minimises the objective"),
        ("mean risk", "the mean of the risk over parameter values drawn from the posterior"),
        ("KL", "Kullback–Leibler divergence of the posterior from the prior, in nats: 0 if they "
               "are the same; a parameter known ten times better than before adds about 1.8"),
        ("objective", "a PAC-Bayes bound: it grows with the mean risk and with KL, so that a good "
                      "fit counts only as far as the number of data supports it"),
        ("certificate", "the value of the bound for fresh runs, a limit on the mean risk on new "
                        "data of the same kind that holds with a stated probability"),
    ]  # fmt: skip
    return section("words", "Words used here", facts(words))
