"""What each rule of the default search is worth: searches without it, with the same seeds.

    make bench-ablation                                # goes on where it was; takes a night
    make bench-ablation ARGS="--only screening.early --seeds 0:2 --problems growth,fhn"
    make bench-ablation ARGS=--report                  # the table, as far as it is

Searches are kept one by one in ablation.jsonl, by rule, problem, seed and version of the package:
one that is there is not made again. `--version` names those of an earlier version that is still
the same, bit for bit. The table is ablation.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

# One thread a process, before NumPy reads it, and this package, wherever the script is started.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import outside.problems as p
import supac
from outside import ablation_table, rules
from outside.development import ADM1_DATA
from outside.methods import at
from outside.problem import OutsideProblem
from outside.runs import keep, read, run_all
from outside.studies import all_problems

RESULTS = Path(__file__).parents[1] / "results"
CHECKPOINTS = (30, 60, 100)
_DRAWS = {"adm1": 16_384}
_USUAL_DRAWS = 1024
_UNKNOWN = 15.0  # seconds of a search of a problem that none was made of


@dataclass(frozen=True)
class Search:
    """A search without a rule: the share of the gap left at each checkpoint."""

    rule: str
    problem: str
    seed: int
    version: str
    gaps: list[float]
    seconds: float
    """Of the search and its scores."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What is not to be made again."""
        return self.rule, self.problem, self.seed


def problem_named(name: str) -> OutsideProblem:
    """Return a problem with the draws that score it; `adm1` is that of residuals."""
    if name == "adm1":
        found = p.problem("adm1_raw").easier
        assert found is not None
    else:
        found = p.problem(name)
    return replace(found, draws=_DRAWS.get(name, _USUAL_DRAWS))


def search(rule: str, name: str, seed: int, version: str = "") -> Search:
    """Make one search of as many runs as the last checkpoint, and score it at each."""
    began = time.perf_counter()
    variant = {
        **{each.name: each.variant for each in rules.rules()},
        rules.ALL: rules.baseline(risk_alone=False),
        rules.ALL_OF_RISK: rules.baseline(risk_alone=True),
    }[rule]
    problem, fact = problem_named(name), p.known()["adm1_raw" if name == "adm1" else name]
    moments = variant.moments(problem, seed, max(CHECKPOINTS))
    assert moments is not None
    posteriors = [at(moments, runs).posterior for runs in CHECKPOINTS]
    gaps = [problem.gap_left(problem.objective(q), fact.best, fact.prior) for q in posteriors]
    seconds = round(time.perf_counter() - began, 2)
    return Search(rule, name, seed, version or version_of_package(), gaps, seconds)


def version_of_package() -> str:
    """Return what git calls the state of the package, whatever else of the repository changed."""
    folder = Path(str(supac.__file__)).parent
    made = [
        subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
        for words in (("rev-parse", "--short=12", "HEAD:./"), ("status", "--porcelain", "--", "."))
    ]
    tree, changed = (each.stdout.strip() for each in made)
    return f"{tree or 'unknown'}{'-dirty' if changed else ''}"


def jobs(
    names: Iterable[str], problems: Sequence[str], seeds: Iterable[int], made: Sequence[Search]
) -> list[tuple[str, str, int]]:
    """Return the searches that are missing: suspects first, then by seed and cheap problems.

    A problem that a rule does not concern needs no search without it.
    """
    there = {each.key for each in made}
    cheap = sorted(problems, key=lambda name: seconds_of(name, made))
    wanted = [rule for rule in rules.rules() if rule.name in set(names)]
    listed = [
        job
        for suspect in (True, False)
        for seed in seeds
        for name in cheap
        for rule in wanted
        if rule.suspect is suspect and rule.concerns(p.problem(_source(name)))
        for job in ((rules.all_rules_of(rule.name), name, seed), (rule.name, name, seed))
    ]
    return [job for job in dict.fromkeys(listed) if job not in there]


def _source(name: str) -> str:
    return "adm1_raw" if name == "adm1" else name


def seconds_of(problem: str, made: Sequence[Search]) -> float:
    """Return the mean time of the searches of a problem so far."""
    found = [each.seconds for each in made if each.problem == problem]
    return float(np.mean(found)) if found else _UNKNOWN


def problems_here() -> list[str]:
    """Return the problems that need no other environment, and ADM1 where its data are.

    Those with uniform priors are among them once their best objective is known.
    """
    known = p.known()
    boxes = [name for name in rules.BOXES if name in known]
    return [*all_problems(), *boxes, *(["adm1"] if ADM1_DATA.is_dir() else [])]


def main() -> None:
    """Make the searches that are missing, then the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", help="a,b,c of the rules; all by default")
    parser.add_argument("--problems", help="a,b,c; all that are here by default")
    parser.add_argument("--seeds", default="0:10", help="first:end")
    parser.add_argument("--jobs", type=int, default=1, choices=(1, 2), help="processes")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no search after these")
    parser.add_argument("--version", default=version_of_package(), help="of the rows to go on with")
    parser.add_argument("--report", action="store_true", help="make no searches")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    options = parser.parse_args()
    named = [each.name for each in rules.rules()]
    only = options.only.split(",") if options.only else named
    if unknown := set(only) - set(named):
        parser.error(f"--only {', '.join(sorted(unknown))}: not one of {', '.join(named)}")
    path = options.folder / "ablation.jsonl"
    problems = options.problems.split(",") if options.problems else problems_here()
    first, _, end = options.seeds.partition(":")
    seeds = range(int(first), int(end))
    kept = read(path, Search)
    made = [each for each in kept if each.version == options.version]
    wanted = jobs(only, problems, seeds, made)
    if not options.report:
        found = make(path, wanted, made, options)
        made, kept = [*made, *found], [*kept, *found]
        wanted = jobs(only, problems, seeds, made)
    text = ablation_table.page(kept, len(made), len(wanted), CHECKPOINTS)
    (options.folder / "ablation.md").write_text(text, encoding="utf-8")
    print(text)


def make(
    path: Path,
    wanted: Sequence[tuple[str, str, int]],
    made: Sequence[Search],
    options: argparse.Namespace,
) -> list[Search]:
    """Make searches and keep each as it ends, until there are no more or the time is over."""
    began, done = time.perf_counter(), list[Search]()
    step = 10 * options.jobs  # so many are begun before the clock is looked at
    for start in range(0, len(wanted), step):
        if time.perf_counter() - began > 60.0 * options.minutes:
            break
        for outcome in run_all(search, wanted[start : start + step], options.jobs):
            found = replace(outcome, version=options.version)
            keep(path, found)
            done.append(found)
        known = [*made, *done]
        left = sum(seconds_of(name, known) for _, name, _ in wanted[start + step :])
        print(
            f"{len(known)} searches, {max(0, len(wanted) - start - step)} to make: "
            f"{left / options.jobs / 3600.0:.1f} h left",
            flush=True,
        )
    return done


if __name__ == "__main__":
    main()
