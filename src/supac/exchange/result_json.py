"""Write a result as JSON, and read it back.

    {"format": "supac result", "version": 2, …, "posterior": …, "history": {…}, …}

Distributions, parameters and bounds are written as in stores; an unknown number is null, an
infinite one "inf" or "-inf". "summary" holds the quantiles for readers without `supac`.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from supac.codec import Spec, UnknownSpecError, from_spec, from_spec_or_name, to_spec
from supac.exchange.table import vacant
from supac.families import Distribution, as_distribution
from supac.guarantee.certificate import Certificate
from supac.guarantee.origin import UNKNOWN_LOSS
from supac.guarantee.provenance import Provenance
from supac.problem import Parameters
from supac.record import encoding
from supac.record.coarse_use import CoarseUse
from supac.record.earlier_roles import with_roles
from supac.record.record import Counts, Record
from supac.record.result import Result
from supac.record.run import Round, Run, Status
from supac.record.settings import Settings

FORMAT = "supac result"
VERSION = 3
_WITH_ROLES = 3  # from this version on runs say why they were made
_ENDS = {"p05": 0.05, "median": 0.5, "p95": 0.95}
_ENDING = (*encoding.ESTIMATE, "notes", "posterior", "validation", "failure_loss")
_LATER = (
    "note_codes",
    "advice",
    "certificate",
    "held_out",
    "uncertified",
    "evidence",
    "range_check",
)
"""Parts of an ending that files of earlier versions may lack."""
COARSE = "coarse"
"""Key of the costs and savings of a coarse model, which files without one lack."""
_COUNTS = ("queries", "failed", "known", "seconds")
_RUN = (*encoding.RUN_COLUMNS, "outputs")
_SETTINGS = ("on_failure", "prior", "bound", "loss", "data")
_OWN_CLASS = (
    "a parameter's prior, or that of all, is of a class of your own, {}, which no file can name: "
    "keep draws in your units instead, result.sample(n, seed), or result.posterior.theta for a "
    "script that has the class"
)


class ResultFormatError(ValueError):
    """A text that holds no result, or one that this version cannot read."""


def to_json(result: Result, certificate: Certificate | None, *, runs: bool) -> str:
    """Return a result as JSON, with or without its runs."""
    record, ending = result.record, encoding.ending_to_spec(result, _member)
    told: dict[str, Spec] = {
        "format": FORMAT,
        "version": VERSION,
        "stop_reason": ending.pop("stopped"),
        **ending,
        **{name: getattr(result, name) for name in _COUNTS},
        "summary": _summary(result.posterior, result.prior, result.parameters),
        "start": _member(result.start, "start"),
        "parameters": _readable(result.parameters, _OWN_CLASS),  # without them draws are latent
        **{name: to_spec(getattr(record.settings, name)) for name in _SETTINGS},
        "prior": to_spec(result.prior),
        "held_out_data": to_spec(record.settings.held_out),
        "history": {
            name: each.astype(np.float64).tolist() for name, each in record.history.items()
        },
        "certificate": encoding.certificate_to_spec(certificate),
        "provenance": record.provenance.to_spec(),
        "rounds": None,
        "runs": None,
    }
    if record.coarse_use is not None:
        told[COARSE] = asdict(record.coarse_use)
    if runs:
        told["rounds"] = [
            {"ids": each.ids, "proposal": _member(each.proposal)} for each in record.rounds
        ]
        every = record.runs
        told["runs"] = {name: [to_spec(getattr(run, name)) for run in every] for name in _RUN}
        told["runs"]["role"] = [run.role.name.lower() for run in every]
    else:
        told["validation"] = None
    # One line per key is compact, and still easy to read and to compare.
    lines = [
        f"{json.dumps(name)}: {json.dumps(_strict(value), ensure_ascii=False, allow_nan=False)}"
        for name, value in told.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_text(text: str, path: Path, *, force: bool) -> None:
    """Write a result to a file; replace an existing one only with `force`."""
    # Half of a character, in a message of the simulator say, becomes an escape of JSON's.
    vacant(path, force=force).write_text(text, encoding="utf-8", errors="backslashreplace")


def read_result(path: str | os.PathLike[str]) -> Result:
    """Read the result that `Result.to_json` wrote to a file."""
    try:
        return Result.from_json(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultFormatError(f"{os.fspath(path)}: {error}") from error


def from_json(text: str) -> Record:
    """Return the record behind a result; ResultFormatError without one."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultFormatError(f"this is no JSON: {error}") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise ResultFormatError('this is no result: it has no "format": "supac result"')
    _check_version(told.get("version"))
    try:
        return _record(_upgraded(told) if told["version"] == 1 else told)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ResultFormatError(f"this result is damaged: {error!r}") from error


def _check_version(version: object) -> None:
    if version is None:
        raise ResultFormatError("this result is damaged: it has no version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ResultFormatError(
            f"this result is damaged: its version must be a number from 1 on, not {version!r}"
        )
    if version > VERSION:
        raise ResultFormatError(
            f"the result has version {version} of its format, and this supac reads none after "
            f"{VERSION}: use a newer supac"
        )


def _record(told: dict[str, Any]) -> Record:
    start, parameters = _distribution(told["start"]), from_spec(told["parameters"])
    ending = encoding.ending_from_spec(
        {
            "stopped": told["stop_reason"],
            **{name: told[name] for name in _ENDING},
            **{name: told[name] for name in _LATER if name in told},
        },
        _distribution,
    )
    family = ending.posterior.family
    if isinstance(parameters, Parameters) and len(parameters) != family.dim:
        raise ValueError(f"{len(parameters)} parameters, but {family.dim} coordinates")
    settings = {name: from_spec_or_name(told[name]) for name in _SETTINGS}
    settings["held_out"] = from_spec_or_name(told.get("held_out_data"))
    settings |= {"start": start, "prior": parameters or settings["prior"], "budget": None}
    runs, rounds, counts = _runs(told["runs"], family.dim), _rounds(told), None
    if runs and told["version"] < _WITH_ROLES:
        drawn = {
            (0, i): bool(own)
            for each in told["rounds"]
            for i, own in zip(each["ids"], each["drawn"], strict=True)
        }
        runs = with_roles(runs, {(0, run.id) for run in runs}, rounds, drawn)
    if told["runs"] is None:
        queries, failed, known = (int(told[name]) for name in _COUNTS[:3])
        counts = Counts(queries, failed, known, encoding.number(told["seconds"]))
    family = family if start is None else start.family
    record = Record(
        Settings.of(settings), family, runs=runs, rounds=rounds, ending=ending, counts=counts
    )
    if told.get(COARSE) is not None:
        record.note_coarse(_coarse_use(told[COARSE]))
    missing = record.told_ids() - {run.id for run in runs}
    if missing and counts is None:
        raise ValueError(f"its rounds name runs that are not there: {sorted(missing)[:3]}")
    has_sizes = counts is None and told["version"] >= _WITH_ROLES
    if has_sizes and record.history["queries"].tolist() != told["history"]["queries"]:
        raise ValueError("its rounds have other numbers of runs than its history")
    if "provenance" in told:
        record.provenance = Provenance.from_spec(told["provenance"])
    return record


def _coarse_use(told: dict[str, Any]) -> CoarseUse:
    """Return the costs and savings of a coarse model; an unknown number is NaN."""
    numbers = {name: encoding.number(told[name]) for name in ("cost", "differs")}
    return CoarseUse(**{**told, **numbers})


def _distribution(spec: Spec) -> Distribution:
    found = as_distribution(from_spec(spec))
    if found is None:
        raise TypeError("posterior and start must be distributions")
    return found


def _rounds(told: dict[str, Any]) -> list[Round]:
    """Return rounds with their diagnostics; without runs, with ids that only count them."""
    history, batches = dict(told["history"]), told["rounds"]
    queries = [int(each) for each in history.pop("queries")]
    diagnostics = zip(*history.values(), strict=True)
    infos = [
        encoding.info_from_spec({**dict(zip(history, row, strict=True)), "notes": ()})
        for row in diagnostics
    ]
    if batches is None:
        ids = [tuple(range(*ends)) for ends in pairwise([0, *queries])]
        return [Round(mine, None, info) for mine, info in zip(ids, infos, strict=True)]
    rounds = []
    for each, info in zip(batches, infos, strict=True):
        proposal = as_distribution(from_spec(each["proposal"]))
        if proposal is None:
            raise ValueError("a round without a proposal")
        rounds.append(Round(tuple(each["ids"]), proposal, info))
    return rounds


def _runs(columns: dict[str, Any] | None, dim: int) -> list[Run]:
    if columns is None:
        return []
    if set(columns) not in (set(_RUN), set(_RUN) - set(encoding.PLAN)):
        raise ValueError(f"the columns of its runs are {', '.join(columns)}")
    runs = []
    for row in zip(*columns.values(), strict=True):
        told: dict[str, Any] = dict.fromkeys(_RUN) | dict(zip(columns, row, strict=True))
        outputs = None if told["outputs"] is None else encoding.numbers(told["outputs"])
        runs.append(encoding.run_from(told, x=encoding.numbers(told["x"]), outputs=outputs))
        if len(runs[-1].x) != dim:
            raise ValueError(f"run {told['id']} has {len(runs[-1].x)} coordinates")
    return runs


def _upgraded(told: dict[str, Any]) -> dict[str, Any]:
    """Return a result of version 1 as one of version 2: its runs were kept as evaluations."""
    new = told | dict.fromkeys(("loss", "data", "failure_loss", "rounds", "validation"))
    columns = told["runs"]
    if columns is None:
        return new
    ok, iteration, outputs = columns["ok"], columns["iteration"], columns["outputs"]
    known, learnt = told["known"], len(told["history"]["queries"])
    failed = {tuple(run["x"]): run for run in columns["failures"]}
    # It kept neither times nor sources of single runs; imported ones came first.
    rest = told["seconds"] - sum(run["seconds"] for run in columns["failures"])
    seconds = rest / max(sum(ok[known:]), 1)
    rows = [
        {
            "task": 0,
            "x": x,
            "status": Status.OK if ok[i] else Status.INVALID,
            "risk": columns["risk"][i] if ok[i] else None,
            "seconds": 0.0 if i < known else seconds,
            "message": "",
            "attempts": 1,
            "source": "earlier runs" if i < known else "",
            "purpose": "validation" if 0 < learnt <= iteration[i] else "search",
            "outputs": outputs[i] if ok[i] and outputs else None,
            **failed.get(tuple(x), {}),
            "id": i,
        }
        for i, x in enumerate(columns["x"])
    ]
    batches = []
    for k, proposal in enumerate(columns["proposals"]):
        ids = [i for i, mine in enumerate(iteration) if mine == k]
        drawn = [columns["drawn"][i] for i in ids]
        batches.append({"ids": ids, "drawn": drawn, "proposal": proposal, "posterior": proposal})
    losses = [risk for risk, good in zip(columns["risk"], ok, strict=True) if not good]
    return new | {
        "failure_loss": next((loss for loss in losses if loss is not None), None),
        "rounds": batches[:learnt],
        "validation": batches[learnt:] if learnt else [],
        "loss": None if outputs is None else to_spec(UNKNOWN_LOSS),
        "runs": {name: [row[name] for row in rows] for name in _RUN if name not in encoding.PLAN},
    }


def _readable(value: Distribution | Parameters | None, words: str) -> Spec:
    """Return a spec that can be read back; `words` are those of the error, with the class."""
    spec = to_spec(value)
    try:
        from_spec(spec)
    except UnknownSpecError as error:
        raise ValueError(words.format(error)) from error
    return spec


def _member(member: Distribution | None, name: str = "posterior") -> Spec:
    return _readable(
        member,
        f"the {name} is of a family of your own, {{}}, which no file can name: keep its theta, "
        f"result.{name}.theta, instead",
    )


def _summary(
    posterior: Distribution, prior: object, parameters: Parameters | None
) -> list[dict[str, Spec]]:
    """Return prior and posterior quantiles of every parameter, in the user's units."""
    # Imported here: SciPy's distributions take longer to import than this package.
    from supac.problem.frozen import Frozen  # noqa: PLC0415

    after = Frozen(posterior, parameters)
    known = as_distribution(prior)
    before = None if known is None else Frozen(known, parameters)
    units = [""] * posterior.dim if parameters is None else parameters.units
    rows = []
    for i, (name, unit) in enumerate(zip(after.names, units, strict=True)):
        row: dict[str, Spec] = {"name": name, "unit": unit}
        for word, each in (("prior", before), ("posterior", after)):
            try:
                law = None if each is None else each.marginal(i)
            except TypeError:  # of a mixture of whole numbers, say
                law = None
            row[word] = law and {key: float(law.ppf(share)) for key, share in _ENDS.items()}
        rows.append(row)
    return rows


def _strict(spec: Spec) -> Spec:
    """Replace NaN by None and infinite floats by strings, as strict JSON requires."""
    if isinstance(spec, float) and not np.isfinite(spec):
        return None if np.isnan(spec) else str(spec)
    if isinstance(spec, list):
        return [_strict(each) for each in spec]
    if isinstance(spec, dict):
        return {key: _strict(each) for key, each in spec.items()}
    return spec
