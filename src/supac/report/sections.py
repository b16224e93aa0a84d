"""The other sections of a report."""

from __future__ import annotations

import math

from supac.guarantee.certificate import Certificate, sizes_in_words
from supac.problem import names_of
from supac.record.checksums import CODE
from supac.record.many_parameters import FEW, not_in_fields
from supac.record.run import Run, by_kind
from supac.report import elements as html
from supac.report import figures, findings
from supac.report.account import Account
from supac.report.beginnings import words_on_beginnings
from supac.report.check import Level
from supac.report.elements import Markup
from supac.report.fit_checks import mean_is_better, saturation
from supac.report.next_steps import next_steps
from supac.report.verdict import Verdict, so_far
from supac.report.words import at_most, count_of, listed, loss_name, number, objective_words
from supac.running.terminal import duration

_MARKS = {Level.TRUST: "✓", Level.LOOK: "!", Level.DO_NOT_TRUST: "✗"}
_MOST_ITERATIONS = 40
_FIRST_ROWS = 12  # parameters on the first screen
_SHORT = 6  # parameters whose table is about as high as a single picture
_FAR = 3.0  # times the misfit from which on a guarantee needs a word of explanation


def badge(level: Level, words: str = "") -> Markup:
    """Return a level as a coloured word with a sign, for readers who see no colours."""
    kind, mark = level.name.lower().replace("_", "-"), _MARKS[level]
    outer = f'<span class="badge {kind}"><span aria-hidden="true">{mark}</span> $words</span>'
    return html.fill(outer, words=words or level.words)


def in_short(run: Account, verdict: Verdict) -> Markup:
    """Return the first screen: verdict, guarantee, fit, parameters, and what to do next."""
    steps = next_steps(run, verdict)
    advice = (
        html.joined([Markup("<h3>What to do next</h3>"), html.items(steps)]) if steps else Markup()
    )
    pictures = findings.fit_pictures(run, last=findings.FIRST)
    short = not pictures and len(run.learnt) > _SHORT  # the parameters take more room
    return html.section(
        "in-short",
        banner=_banner(run),
        level=_badge_so_far(run, verdict),
        sentence=verdict.sentence if run.record.ending else "The run has not come to its end.",
        guarantee=_in_noise_units(run),
        remark=_beside_the_verdict(run),
        fit=pictures or _course(run),
        below=advice if short else "",
        parameters=findings.ranges(run, _FIRST_ROWS),
        beside="" if short else advice,
    )


def _badge_so_far(run: Account, verdict: Verdict) -> Markup:
    """Return the verdict as a badge; a grey one before the end, when there is none."""
    if run.record.ending is not None:
        return badge(verdict.level)
    return Markup('<span class="badge preliminary">preliminary</span>')


def _banner(run: Account) -> Markup:
    """Say that a run has not come to its end."""
    if run.record.stop_reason is not None:
        return Markup()
    words = f"{so_far(run)} All that follows is preliminary."
    return html.fill('<p class="banner">$words</p>', words=words)


def _in_noise_units(run: Account) -> str:
    """Return the guarantee in one sentence, in units of the noise where these are known."""
    certificate = run.certificate
    if certificate is None:
        return "Nothing is guaranteed on new data yet." if run.data else ""
    if certificate.weakness or certificate.residual is None:
        return claim(certificate)
    sets = f"these {certificate.draws} parameter sets"
    sets = "draws of the posterior" if certificate.subject == "posterior" else sets
    each = sizes_in_words(certificate.in_units, sign="")
    return (
        f"With probability at least {1.0 - certificate.delta:.4g}, simulations with {sets} fit new "
        "data of the same kind, on average, no worse than an equivalent misfit, a constant error "
        f"of {at_most(certificate.residual)} noise standard deviations, would"
        f"{f' ({each})' if each else ''}.{_limits_of_it(certificate)}{_on_these_data(run)}"
    )


def _beside_the_verdict(run: Account) -> Markup:
    """Say why a limit may be far above the misfit; nothing where it is not."""
    limit = None if run.certificate is None else run.certificate.residual
    typical = [each.typical for each in run.misfits]
    if not typical or limit is None or limit < _FAR * max(typical):
        return Markup()
    words = (
        "The verdict is about the search and its fit to these data; the guarantee is what can be "
        "proven of new ones. It pays for how few independent data there are and for how much was "
        "learnt from them, so that it may be far above the misfit: that is no doubt of the fit."
    )
    return html.fill('<p class="small">$words</p>', words=words)


def _limits_of_it(certificate: Certificate) -> str:
    """Return why a guarantee says less than it seems, or than an earlier one; "" if it does not."""
    told = [certificate.cap_in_words, certificate.earlier_in_words]
    return "".join(f" {each[:1].upper()}{each[1:]}." for each in told if each)


def _on_these_data(run: Account) -> str:
    """Return how far fresh runs are from the data at hand, in noises; "" if that is not known."""
    off = [number(each.typical, 2) for each in sorted(run.misfits, key=lambda m: m.typical)]
    if not off:
        return ""
    ends = " to ".join(dict.fromkeys((off[0], off[-1])))
    words = f" On these data the fresh runs are typically {ends} noise standard deviations off."
    told = [saturation(run), mean_is_better(run, held_out=False)]
    return words + "".join(f" {each}" for each in told if each)


def _course(run: Account) -> Markup:
    """Draw how the objective fell, where there is no fit to data to be drawn."""
    if not len(run.history["queries"]):
        return Markup()
    shown = html.figure(figures.convergence(run, "first"), "Objective and mean risk on the way")
    return html.joined([html.legend(posterior="objective", prior="mean risk"), shown])


def numbers(run: Account) -> Markup:
    """Return the section with mean risk, KL, objective and the number of runs."""
    error, risk = run.mean_risk_error, number(run.mean_risk)
    made = f"{run.made:,}" if run.budget is None else f"{run.made:,} of {run.budget:,}"
    if run.record.coarse_use is not None:
        made = run.record.spent_words
    goal = "mean risk plus a multiple of KL" if run.data is None else (
        "the bound at this mean risk and KL"
    )  # fmt: skip
    return html.section(
        "numbers",
        mean_risk=risk + f" ± {number(error, 2)}" if math.isfinite(error) else risk,
        kl=number(run.kl),
        objective=number(run.objective),
        goal=goal,
        runs=made + _not_simulated(run),
    )


def _not_simulated(run: Account) -> str:
    """Count the runs that failed and the draws that were refused."""
    failed = f", {len(run.failures)} failed" if run.failures else ""
    return failed + (f", {len(run.record.refused)} refused" if run.record.refused else "")


def claim(certificate: Certificate) -> str:
    """Return what a certificate says, in one or two sentences."""
    told = [certificate.weakness, "" if certificate.vacuous else certificate.in_words]
    words = "".join(f" {each[:1].upper()}{each[1:]}." for each in told if each)
    return f"{certificate.statement}.{words}"


def asked(run: Account) -> Markup:
    """Return the section that describes the problem."""
    names, seen, record = _parameter_words(run), run.observations, run.record
    rows = [("parameters", ", ".join(names) or "not known")]
    if seen is not None:
        what = f"{seen.measured} numbers in {listed(list(seen.labels))}"
        if seen.experiments is not None:
            what += f" of {len(set(seen.experiments))} experiments"
        rows.append(("data", f"{what}, {seen.rows} rows"))
    loss = loss_name(record.settings.loss)
    if loss:
        rows.append(("loss", loss))
    bound = record.bound
    rows.append(("objective", "not known" if bound is None else objective_words(bound)))
    if run.budget is not None:
        unit = "runs" if record.coarse_use is None else "fine runs' worth"
        rows.append(("budget", f"{run.budget:,} {unit}"))
    if record.coarse_use is not None:
        rows.append(("levels", record.coarse_use.sentence))
    if record.seconds > 0.0:
        each = duration(record.seconds_a_run)
        rows.append(("cost", f"{duration(record.seconds)} of simulation, {each} a run"))
    if record.known:
        rows.append(("known before", f"{record.known:,} runs made elsewhere"))
    many = count_of(len(run.names), "parameter", "parameters")
    return html.section("asked", parameters=many, facts=html.facts(rows))


def _parameter_words(run: Account) -> list[str]:
    """Return the parameters with their units, fields as one; the first of very many."""
    names = [f"{n} ({u})" if u else n for n, u in zip(run.names, run.units, strict=True)]
    parameters = run.record.parameters
    if parameters is not None:
        alone = not_in_fields(len(names), parameters)
        names = [names[i] for i in alone]
        for name, field in parameters.fields.items():
            unit = f" in {field.prior.unit}" if field.prior.unit else ""
            names.append(f"{name} (a field of {' × '.join(map(str, field.shape))} points{unit})")
    left = len(names) - FEW
    return names if left <= 0 else [*names[:FEW], f"and {left} more"]


def _how_to_certify(run: Account) -> Markup:
    """Return the section with the commands that make a certificate."""
    ending = run.record.ending
    reason = "the search has not ended" if ending is None else ending.uncertified
    if run.record.never_certified:
        return html.section("never guaranteed", reason=run.record.never_certified)
    commands = (
        f"supac certify {run.store} --draws 20 --out certificate.json\n"
        f"supac report {run.store} --certificate certificate.json --force"
    )
    if not run.source[0]:  # `supac certify` needs a problem file
        commands = (
            'certificate = result.certify(risk, draws=20, subject="ensemble")\n'
            'supac.write_report(result, "report.html", certificate=certificate)'
        )
    return html.section(
        "not guaranteed",
        reason=f": {reason}" if reason else "",
        commands=html.code("How to certify", commands),
    )


def guaranteed(run: Account) -> Markup:
    """Return the section with the certificate, or with the commands that make one."""
    certificate = run.certificate
    if certificate is None:
        return _how_to_certify(run)
    posterior, held_out = certificate.subject == "posterior", run.record.held_out
    limit = f"; at most {at_most(certificate.mean_risk_upper)}" if posterior else ""
    rows = [
        (
            "mean risk on the data",
            f"{number(certificate.mean_risk)} from {certificate.draws:,} "
            f"fresh draws, {certificate.failed} failed{limit}",
        ),
        ("KL to the prior" if posterior else "mean log density ratio", number(certificate.kl)),
        ("bound", certificate.bound),
        ("independent data", f"{certificate.n:,}"),
        (
            "probability of failure",
            f"δ = {certificate.delta:g}, {certificate.delta_pac:.3g} of it for the data",
        ),
    ]
    if run.attainable is not None:
        rows.append(("the best to hope for", f"{run.attainable.sentence}."))
    if held_out is not None:
        new = "; ".join((*held_out.assumptions[-1:], *held_out.warnings))
        rows.append(("held-out data", f"{claim(held_out)} Both hold together. It assumes: {new}."))
    lists = {
        "Signs that an assumption does not hold": certificate.warnings,
        "This assumes that": certificate.assumptions,
        "Corrected for": certificate.corrections,
        "It does not guarantee": certificate.not_guaranteed,
    }
    return html.section(
        "guaranteed",
        claim=claim(certificate),
        facts=html.facts(rows),
        lists=Markup(
            "\n".join(
                f"<h3>{heading}</h3>{html.items(all_)}" for heading, all_ in lists.items() if all_
            )
        ),
    )


def search(run: Account) -> Markup:
    """Return the section with the objective and the table of batches."""
    history = run.history
    count = len(history["queries"])
    if not count:
        return html.section("no search")
    ring = " The ring at the end is the returned posterior, validated with fresh runs."
    columns = {
        "objective": "objective", "mean risk": "mean_risk", "KL": "kl", "step": "step_kl",
        "predicted": "predicted", "k̂": "k_hat", "wrong": "wrong",
    }  # fmt: skip
    rows = [
        (f"{history['queries'][i]:.0f}", *(number(float(history[c][i])) for c in columns.values()))
        for i in range(max(count - _MOST_ITERATIONS, 0), count)
    ]
    many = "" if count <= _MOST_ITERATIONS else f" (the last {_MOST_ITERATIONS})"
    return html.section(
        "search",
        legend=html.legend(posterior="objective", prior="mean risk"),
        picture=figures.convergence(run),
        ring=ring if run.validated else "",
        beginnings=words_on_beginnings(run.record),
        summary=f"Batches{many}" if many else "All batches",
        batches=html.table(
            f"One row per batch{many}", ("runs", *columns), rows, numbers=range(1, 8)
        ),
    )


def failures(run: Account) -> Markup:
    """Return the section with the failed runs, grouped by reason."""
    total = run.made + run.record.known
    if not run.failures:
        return html.section("failures", words=f"None of the {total:,} runs failed.", table="")
    kinds = by_kind(run.failures)
    rows = [
        (runs[0].status.value, f"{len(runs)}", runs[0].message[:500], _where(run, runs[0]))
        for runs in kinds[:10]
    ]
    fate = {
        "penalise": "A failed run counts as the largest risk.",
        "drop": "Failed runs were left out: all numbers are about successful runs.",
        "raise": "The first failure ends a search.",
    }.get(run.record.settings.on_failure, "")
    more = len(kinds) - len(rows)
    rest = f" {count_of(more, 'more kind is', 'more kinds are')} not shown." if more > 0 else ""
    headings = ("how", "runs", "an example", "where")
    return html.section(
        "failures",
        words=f"{len(run.failures)} of {total:,} runs failed. {fate}{rest}",
        table=html.table("Failures by kind", headings, rows, numbers=(1,), stacked=True),
    )


def _where(run: Account, example: Run) -> str:
    """Return the parameter values of a run, in the user's units."""
    parameters = run.record.parameters
    x = example.x if parameters is None else parameters.from_latent(example.x[None])[0]
    names = names_of(parameters, len(x))
    told = [f"{name} = {number(float(v))}" for name, v in zip(names, x, strict=True)]
    return ", ".join(told[:6]) + (", …" if len(told) > 6 else "")


def trusted(verdict: Verdict) -> Markup:
    """Return the section with every check."""
    rows = [
        (
            check.question,
            html.prose(check.answer),
            badge(check.level, "" if check.level else "fine"),
        )
        for check in verdict.checks
    ]
    return html.section(
        "trust",
        level=badge(verdict.level),
        sentence=verdict.sentence,
        checks=html.table(
            "What was checked", ("question", "answer", "verdict"), rows, stacked=True
        ),
    )


def again(run: Account) -> Markup:
    """Return the section with everything needed to repeat the run."""
    record, (file, text, checksums) = run.record, run.source
    if record.path is None:
        words = "This report was made from a result in memory; its script has the settings."
        return html.section("again", words=words, facts="", text="")
    known = {
        "command": html.fill("<code>supac run $file</code>", file=file) if file else "",
        "seed": record.settings.seed,
        "algorithm": record.settings.algorithm,
        "begun": record.created,
        "made with": record.made_with,
        "store": run.store,
    }
    titles = {"fixed": "fixed values and settings", "known": "known runs"}
    sums = {
        f"SHA-256 of the {titles.get(name, name)}": html.fill("<code>$value</code>", value=value)
        for name, value in checksums.items()
        if not name.endswith(CODE)
    }
    if len(record.simulators) > 1:
        sums |= {
            f"simulator, version {each.number}": html.fill(
                "$words<br><code>$value</code>",
                words=f"{each.words}, SHA-256",
                value=each.checksum,
            )
            for each in record.simulators
        }
        sums.pop("SHA-256 of the simulator", None)
    rows = [(name, value) for name, value in (known | sums).items() if value not in (None, "")]
    name = f"The problem file, {file}"
    words = "The same problem, seed and versions give the same numbers, on any number of workers."
    problem = "<details><summary>$name</summary>$code</details>"
    return html.section(
        "again",
        words=words,
        facts=html.facts(rows),
        text=html.fill(problem, name=name, code=html.code(name, text)) if text else "",
    )
