"""The public functions `minimize`, `resume` and `reoptimize`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

from supac.calibration.old_keywords import OldKeywords
from supac.calibration.search import Options, Path, Risk, Search, SharedOptions, shows
from supac.codec import Spec, UnknownSpecError, from_spec
from supac.exchange.known import KnownRuns
from supac.exchange.other_runs import Known
from supac.families import Density, Distribution
from supac.problem import Bound, Function, Parameters
from supac.problem.problem import parameters_of
from supac.record.result import Result
from supac.record.store.store import read_config
from supac.running.execution import Execution
from supac.search.supac import SuPAC


@shows(Options)
def minimize(
    risk: Risk,
    prior: Density | Parameters,
    bound: Bound,
    *,
    budget: int,
    **options: Unpack[Options],
) -> Result:
    """Minimise bound(π[risk], KL(π, prior)) over distributions π, in at most `budget` runs.

    Parameters
    ----------
    risk, proxy
        x (dim,) → float, or `Composite(simulate, loss)`, which needs far fewer runs; and a cheap
        approximation of the risk, (n, dim) → (n,), so that only the difference is learnt.
    prior, start
        A distribution, or `Parameters`: then risk and proxy take the user's units. `start` is the
        first posterior, whose family is searched: needed if that of the prior is not exponential.
    bound, algorithm, callback
        Such as `Catoni(temperature=0.01)`, and `SuPAC()`, the default. `callback` is called with an
        `Iteration` after each round; a true return value stops the search.
    budget, validation, shape
        Runs in all, and those that check the posterior at the end: by default a fifth, at most 60.
        `"auto"` returns a mixture where that is clearly better, `"gaussian"` the family of `start`.
    known, provenance
        Earlier runs to learn from: a table or a store by its path, a result, or a pair of points
        and outputs (or risks) of another tool; and what only you know:
        `Provenance(prior_is_independent=False)` if the prior was made from these data.
    execution, store, seed
        An `Execution`, or just its workers, such as 8 processes; a file that keeps every run, from
        which an interrupted search continues; same seed, same result.

    """
    return Search.of(options, risk=risk, prior=prior, bound=bound, budget=budget).run()


@shows(SharedOptions)
def resume(
    store: Path,
    risk: Risk,
    *,
    budget: int | None = None,
    prior: Density | Parameters | None = None,
    bound: Bound | None = None,
    proxy: Function | None = None,
    known: Known = None,
    **options: Unpack[SharedOptions],
) -> Result:
    """Continue the search in `store`, to the same result as without the interruption.

    The file holds all settings but functions: pass the risk again, and any other object of your
    own. `execution` may be other workers, such as 8, or an `Execution`; what is not given of it is
    the file's. `budget` may be larger, and `shape` another; other changes are refused.
    """
    _check_names("resume", options)
    config = read_config(store)
    if config["proxy"] is not None and proxy is None:
        raise _only_a_name(store, "proxy", config["proxy"])
    given: dict[str, Any] = {"budget": budget, "prior": prior, "bound": bound, **options}
    given = _told(given)
    kept = {name: _from_file(store, name, config[name]) for name in _KEPT if name not in given}
    execution = {name: config[name] for name in Execution().settings}
    others = {"risk": risk, "store": store, "proxy": proxy, "known": known}
    return Search.of(given, execution, **others, **kept).run()


_KEPT = (
    "prior",
    "bound",
    "budget",
    "algorithm",
    "start",
    "validation",
    "shape",
    "seed",
    "tolerance",
)
"""Arguments that a resumed search has from its file."""


def _from_file(store: Path, name: str, spec: Spec) -> Any:
    try:
        return from_spec(spec)
    except UnknownSpecError as error:
        raise _only_a_name(store, name, error) from error


def _only_a_name(store: Path, name: str, word: object) -> ValueError:
    return ValueError(f"{os.fspath(store)} has only the name of {name}, {word}: pass {name}= again")


@shows(SharedOptions)
def reoptimize(
    result: Result,
    risk: Risk,
    *,
    budget: int,
    prior: Density | Parameters | None = None,
    bound: Bound | None = None,
    store: Path | None = None,
    seed: int = 0,
    **options: Unpack[SharedOptions],
) -> Result:
    """Minimise another bound, or with another prior, from the runs of an earlier result.

    The surrogate of the risk depends on neither, so few new runs suffice: the search begins at the
    earlier posterior with the earlier runs. `prior`, `bound` and the treatment of failed runs are
    by default the earlier ones; `budget` counts new runs only; other arguments as in `minimize`.
    """
    _check_names("reoptimize", options)
    result.record.check_runs()
    own, new = result.parameters, parameters_of(prior)
    if new is not None and (own is None or new.names != own.names):
        raise ValueError(f"prior must have the parameters of the result, not {prior!r}")
    same = new is None or (own and new.marginals == own.marginals)
    risk, batch = result.record.risk_as_stored(risk), min(budget, 10)
    others: dict[str, Any] = {
        "risk": risk,
        "prior": prior or own or result.prior,
        "bound": bound or result.bound,
        "budget": budget,
        "algorithm": SuPAC(first=batch, batch=batch),
        "start": _searched(result) if same else None,  # latent points mean the same
        "known": KnownRuns.of_record(result.record),
        "store": store,
        "seed": seed,
        "provenance": result.record.next_provenance(prior, bound, risk),
    }
    return Search.of(_told(options), {"on_failure": result.on_failure}, **others).run()


def _searched(result: Result) -> Distribution:
    """Return the member of the searched family that is nearest to the posterior."""
    found, posterior = result.record.family, result.posterior
    family = None if found is None else found.exponential
    if posterior.family == family or family is None:
        return posterior
    return Distribution(family, family.from_moments(*posterior.family.moments(posterior.theta)))


def _check_names(function: str, options: Mapping[str, Any]) -> None:
    """Raise the TypeError of Python for options that a function does not have."""
    for name in options:
        if name not in SharedOptions.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _told(options: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out options that are None, but for former keywords, where None is a value."""
    former = OldKeywords.__annotations__
    return {name: value for name, value in options.items() if value is not None or name in former}
