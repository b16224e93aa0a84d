"""One page: claims, tables, pictures, and where we differ from the paper."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import numpy as np

from calibration import ASTRAY, HOPELESS, PATIENCE, STEPS_A_DAY
from claim import Claim
from claims import claims, ours
from figures import UPDATES, draw_all, published
from meta import SGD
from meta_claims import meta_claims
from records import EMBEDDED, PAPER_DATA, Results, Row
from settings import (
    BUDGET,
    END_DRAWS,
    LOOK_DRAWS,
    SELECTED,
    STANDARD,
    Scale,
    ce,
    descent,
)
from supac.arrays import FloatArray

_NAME, _CHECKSUM = PAPER_DATA.split()
_DATA = {
    EMBEDDED: "the embedded digester, which is synthetic; `--data FOLDER` takes another",
    PAPER_DATA: f"the paper's ({_NAME}, checksum of its files {_CHECKSUM}), which its authors "
    "publish; without `--data` the same is run on an embedded digester",
}
SOURCES = {
    ce(*STANDARD): "supac_ce",
    descent(*SELECTED[1]): "gd_eta0.05_n160",
    descent(*SELECTED[0]): "gd_eta0.025_n80",
}
"""Settings of which the paper's tables are published."""


def write_page(out: Path, results: Results, scale: Scale) -> Path:
    """`out`/reproduction.md, and its pictures beside the tables."""
    pictures = draw_all(results.folder.path, results)
    text = [
        "# The paper, reproduced",
        "",
        *_introduction(results, scale),
        "",
        "## Claims",
        "",
        "A difference counts where chance would show it in fewer than 1 of 100 cases, so "
        "that *not held* may also mean that so few repeats cannot tell. Where there are several "
        "environments in meta-learning, their mean counts.",
        "",
        *_claims([*claims(results), *meta_claims(results)]),
        "",
        "Ours, on the same task:",
        "",
        *_claims(list(ours(results))),
        "",
        "## Pictures",
        "",
    ]
    for name, words in pictures:
        alt = words.partition(". ")[0].removesuffix(".")
        text += [f"![{alt}](reproduction/{name})", "", words, ""]
    text += ["## Numbers", "", *_settings(results), "", *_lessons(results), ""]
    text += ["## Where we differ from the paper", "", *_differences(results, scale), ""]
    page = out / "reproduction.md"
    page.write_text("\n".join(map(_wrapped, text)))
    return page


def _wrapped(line: str) -> str:
    """Return a line of text in lines of at most 100 characters, unless it is of a table."""
    if line.startswith("|"):
        return line
    mark = "- " if line.lstrip().startswith("- ") else ""
    indent = " " * (len(line) - len(line.lstrip()) + len(mark))
    return fill(line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _introduction(results: Results, scale: Scale) -> list[str]:
    sittings = results.folder.read("sittings")
    core = results.seconds / 60.0
    on_gpu = any("--device cuda" in row["command"] for row in sittings)
    by_clock = " (by the clock where a GPU simulated)" if on_gpu else ""
    runs = sum(len(results.repeats(name)) for name in results.settings)
    queries = sum(int(results.end(name, "queries").sum()) for name in results.settings)
    lessons = sum(bool(results.rows(each)) for each in results.experiments)
    lines = [
        "The experiments of *Learning via Surrogate PAC-Bayes*, run by a program, which wrote "
        f"this page: {runs:,} calibrations of ADM1, a digester of 30 parameters, with "
        f"{queries:,} queries, and {lessons} runs of meta-learning, in {core:.0f} min of "
        f"processor time{by_clock}. The tables lie in `{results.folder.path.name}/` beside the "
        "pictures.",
        "",
        f"Data: {_DATA.get(results.data, f'{results.data}, given by --data')}.",
        "",
        "SuPAC-CE is the paper's algorithm, with kl_max and alpha_max as limits of its steps; "
        "`SuPAC()` is ours, which sees the simulator's outputs, or like all others the risk alone. "
        "The objective is Catoni's bound without its constants, by fresh simulations that no "
        "algorithm has seen. In meta-learning an environment is a family of random tasks, 100 to "
        "learn a prior from and 40 new ones to test it on, and an epoch visits each of the 100 "
        "once.",
        "",
        *_sittings(sittings),
    ]
    if scale.quick:
        lines += [
            "",
            "**A quick run**: a small one of each, with few repeats and few queries. It shows that",
            "everything works; what needs more, most of the claims, is left out.",
        ]
    return lines


def _sittings(rows: list[Row]) -> list[str]:
    """What was run when, and how long it took."""
    sittings = {row["began"]: row for row in rows}  # the row of its end replaces that of its begin
    lines = ["| command | runs | processes / cores | minutes |", "|---|---|---|---|"]
    for row in sittings.values():
        command = f'make reproduce ARGS="{row["command"]}"' if row["command"] else "make reproduce"
        runs, minutes = "some", "did not end"
        if row["minutes"]:
            runs, minutes = row["runs"], f"{float(row['minutes']):.1f}"
        lines.append(f"| `{command}` | {runs} | {row['processes']} / {row['cores']} | {minutes} |")
    return [
        *lines,
        "",
        "Minutes are those of the clock, with all else that ran on the machine then; the processes "
        "share the processor time told above.",
    ]


def _claims(found: list[Claim]) -> list[str]:
    if not found:
        return ["None can be checked with the runs that there are."]
    lost = [each for each in found if not each.held]
    lines = [f"{len(found) - len(lost)} of {len(found)} are held.", ""]
    for each in found:
        lines += [
            f"- {'Held' if each.held else '**Not held**'}: {each.says}.",
            f"  - Held if {each.test}.",
            f"  - Seen: {each.seen}.",
        ]
    if any(each.remark for each in lost):
        lines += ["", "On what is not held:", ""]
        lines += [f"- {each.says}: {each.remark}" for each in lost if each.remark]
    return lines


def _settings(results: Results) -> list[str]:
    """The end of each setting, and the published one where it is at hand."""
    lines = [
        "ADM1: the objective after all queries, from fresh draws of each run. "
        "SuPAC-CE is followed by kl_max / alpha_max, a descent by queries a step × step size, "
        "one with momentum by that before.",
        "",
        "| setting | queries | repeats | median | quantiles 0.2–0.8 | mean risk | given up |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, setting in results.settings.items():
        end = results.end(name)
        if not len(end):
            continue
        low, middle, high = np.quantile(end, [0.2, 0.5, 0.8])
        risk = np.median(results.end(name, "mean_risk"))
        given_up = int((results.end(name, "queries") < 0.9 * setting.budget).sum())
        lines.append(
            f"| {name} | {setting.budget} | {len(end)} | {middle:.4f} | {low:.4f}–{high:.4f} | "
            f"{risk:.4f} | {given_up or ''} |"
        )
    return [*lines, *_published_ends(results), *_on_the_way(results)]


def _published_ends(results: Results) -> list[str]:
    """The end of the settings whose tables are published, beside the published ones."""
    rows = []
    for name in (each for each in SOURCES if each in results.settings):
        known, end = published(SOURCES[name]), results.end(name)
        whole = results.on_paper_data and results.settings[name].budget == BUDGET
        if known is not None and whole and len(end):
            rows.append(f"| {name} | {_quantiles(end)} | {_quantiles(known[:, -1])} |")
    if not rows:
        return []
    return [
        "",
        "Beside the published ones, medians (quantiles 0.2–0.8):",
        "",
        "| setting | ours | published |",
        "|---|---|---|",
        *rows,
    ]


def _quantiles(values: FloatArray) -> str:
    low, middle, high = np.quantile(values, [0.2, 0.5, 0.8])
    return f"{middle:.4f} ({low:.4f}–{high:.4f})"


def _on_the_way(results: Results) -> list[str]:
    """SuPAC-CE's median beside the published one."""
    known, name = published("supac_ce"), ce(*STANDARD)
    if known is None or not (results.on_paper_data and results.repeats(name)):
        return []
    at = [160 + 32 * (update - 1) for update in UPDATES[1:]]
    queries, objective = results.curve(name)
    common = [int(each) for each in queries if each in at]
    ours = {int(q): m for q, m in zip(queries, np.median(objective, axis=0), strict=True)}
    theirs = dict(zip(at, np.median(known[:, 1:], axis=0), strict=True))
    return [
        "",
        f"SuPAC-CE on the way, medians, {LOOK_DRAWS} fresh draws a look:",
        "",
        "| queries | ours | published |",
        "|---|---|---|",
        *(f"| {each} | {ours[each]:.3f} | {theirs[each]:.3f} |" for each in common),
    ]


def _lessons(results: Results) -> list[str]:
    lines = [
        "Meta-learning by stochastic gradient or in closed form: queries a task, and mean "
        "objectives. Those of new tasks are before and after, with the standard error over them; "
        "those of training tasks are from fresh draws; published are those of new tasks after.",
        "",
        "| learner | epochs | queries | before | after | training | published |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in results.experiments:
        if not results.rows(each):
            continue
        lesson = results.columns(each)
        test, error = lesson["test_mean"], lesson["test_error"]
        known = published(f"meta_test_lambda_{str(each.temperature).replace('.', '_')}")
        end = ""
        if known is not None and each.learner == SGD and each.epochs == 150:
            end = f"{known.mean(axis=0)[-1]:.4f}"
        seen = int(np.flatnonzero(~np.isnan(test))[-1])
        lines.append(
            f"| {each.name.removeprefix('stochastic ')} | {each.epochs} | "
            f"{lesson['queries'][-1]:.0f} | {test[0]:.4f} | "
            f"{test[seen]:.4f} ± {error[seen]:.4f} | {lesson['train_end'][-1]:.4f} | {end} |"
        )
    return lines


def _differences(results: Results, scale: Scale) -> list[str]:
    if not results.experiments:
        learnt = ""
    else:
        learnt = (
            f" In meta-learning they come from {results.experiments[0].weight_draws:,} instead of "
            "10,000, to save time."
        )
    return [
        f"- **Weights** come from draws worth {scale.weight_draws:,}, the paper's number; those of "
        "earlier posteriors count by their importance, and fresh ones come in pairs on both sides "
        "of the mean (`ReusedVoronoi`), where the authors draw all of them anew at each step, "
        f"independently.{learnt}",
        "- **Repeats** are more than the paper's where it judges by eye: of descents with "
        f"{scale.preliminary:,} queries {scale.preliminary_repeats} instead of 20, of the heavy "
        f"ball with momentum 0.5 and 0.95 at the original size {scale.speed_repeats} instead of "
        f"8. They are fewer where that saves minutes: {scale.grid_repeats} for each cell of the "
        f"grid, {', '.join(map(str, scale.extreme_repeats))} instead of 8 for the limits far from "
        "the usual ones, in the order of the table, and "
        f"{scale.ahead_repeats} of Nesterov's momentum, which the paper has not.",
        "- **Fresh draws**: as in the paper, an objective on the way comes from "
        f"{LOOK_DRAWS} of them, and one failed run among them (risk 3) adds 0.02; the last one "
        f"comes from {END_DRAWS:,}, but of descents with {scale.preliminary:,} queries from "
        f"{LOOK_DRAWS} as well.",
        "- **ADM1** is our own, in the variant that follows the operator splitting of the authors' "
        f"code, with {STEPS_A_DAY} steps a day; a partly failed run is a failed run.",
        "- **Descents** step in natural logarithms of the parameters, on the mean and a free root "
        "of the covariance, as in the authors' code; the text does not say.",
        "- **Momentum**: steps are (1 − momentum) times the size, as in the authors' solver. That "
        "takes its gradients where it stands, a heavy ball, and the claims are judged on it. The "
        "text has Nesterov's acceleration, whose gradients are taken ahead: that is `Nesterov`, "
        "for comparison.",
        f"- **Given up** is a descent of which {PATIENCE} batches in a row have a mean objective "
        f"above {HOPELESS:g}, three times the prior's; its last objective counts from there on.",
        f"- **Astray**: a run of a descent with a parameter more than {ASTRAY:g} logarithms from "
        "its median counts as failed without being made. Others that take absurdly many steps are "
        "stopped by the simulator, and count as failed, too.",
        "- **Limits** of the extreme settings are read as (kl_max, alpha_max) = (0.01, 0.1), "
        "(0.1, 0.1), (5, 0.9), (10, 1): the appendix prints 1 − alpha_max.",
        "- **Algorithm 2** is run with the prior θ_p in the update, and the least squares of η·T, "
        "as the authors' code has it and its text misprints.",
        "- **Meta-learning** uses the risk of the authors' code, which its text misprints, the "
        "sign of the meta-gradient that finite differences confirm, and as in that code the sum of "
        "a mini-batch's gradients over the number of all tasks. Environments are drawn from seeds "
        "of our own, and differ: see experiments/meta_learning. One is run unless others are "
        "asked for (`--environments 3 1 2`). A training objective is the last one that a task's "
        "surrogate predicts; the authors weight all runs anew.",
        "- **New tasks** are optimised with the limits of a first visit, kl_max 0.5 and alpha_max "
        "0.3; the authors' code leaves them at the defaults of its solver, 10 and 0.9. So large "
        "steps fail now and then: of the 40 published new tasks, λ = 0.01, one ends at 0.825 "
        "under the first prior, where without it the mean is 0.125 instead of 0.142, and the first "
        "15 epochs make 79 % of the decrease instead of 83 %.",
        "- **Claims**: ± is a standard deviation between repeats unless it says otherwise. Which "
        "two gradient descents are run to the end is the paper's choice, not one from our runs.",
        "- **Seeds** are ours: repeat k has seed k.",
    ]
