"""Runs, rounds, endings and states as JSON and rows, and back; for stores and result files.

Floats keep all their digits: an array is its bytes, in a row or as `pack` writes them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cache
from typing import Any, get_args

import numpy as np

from supac.arrays import FloatArray, frozen, points, vector
from supac.codec import Spec, from_spec, to_spec
from supac.families import Distribution, ParametricFamily
from supac.guarantee.certificate import Certificate
from supac.problem import Batch, Evaluations, Planned, Role
from supac.record.earlier_roles import roles_by_geometry, stage_by_last_step
from supac.record.ending import Ending, Estimate, StopReason, ValidationBatch
from supac.record.run import Purpose, Round, Run, Status
from supac.record.timeline import Span
from supac.search.algorithm import Abandoned, Info, LastStep, Momentum, State
from supac.search.coarse_runs import CoarseRuns, CoarseStage, Together
from supac.search.note import Note, code_of
from supac.search.stages import Stage
from supac.search.tuning import DEFAULT, Tuning
from supac.shape.evidence import Evidence
from supac.shape.ranges import RangeCheck
from supac.surrogate.memory import Memory

PLAN = ("role", "step", "expected", "level")
"""Columns of a run that say why it was made; those of earlier formats lack them."""
RUN_COLUMNS = (
    "task", "id", "x", "status", "risk", "seconds", "message", "attempts", "source", "purpose",
    *PLAN,
)  # fmt: skip
"""Of the table of runs; outputs have a table of their own."""
MANY_NUMBERS = 1_000
"""Of a θ, from which on a row has them compressed."""
ESTIMATE = tuple(each.name for each in fields(Estimate))
_OF_RANGES = ("wider", "factors", "combinations")


def number(told: Spec) -> float:
    """Return a float; NaN for None, since strict JSON has no NaN."""
    return np.nan if told is None else float(told)


def numbers(told: Sequence[Spec]) -> FloatArray:
    """Return floats as an array, NaN for None."""
    return frozen(np.array([number(each) for each in told], dtype=np.float64))


def run_to_row(run: Run) -> tuple[Any, ...]:
    """Return the columns of a run without its outputs."""
    risk, expected = (  # SQLite has no −0
        None if np.isnan(each) else float(each) + 0.0 for each in (run.risk, run.expected)
    )
    return (
        int(run.task), int(run.id), array_to_bytes(run.x), str(run.status.value), risk,
        float(run.seconds), _text(run.message), int(run.attempts), _text(run.source), run.purpose,
        run.role.name.lower(), int(run.step), expected, int(run.level),
    )  # fmt: skip


def _text(words: str) -> str:
    """Escape what UTF-8 cannot hold: a message may quote the bytes of a file's name."""
    return words.encode(errors="backslashreplace").decode()


def run_from_row(told: Mapping[str, Any]) -> Run:
    """Invert `run_to_row`, from its columns by name; those of earlier formats are None."""
    return run_from(told, x=array_from_bytes(told["x"]), outputs=None)


def run_from(told: Mapping[str, Any], *, x: FloatArray, outputs: FloatArray | None) -> Run:
    """Make a run of the values of its other fields; without a role, of an earlier format."""
    if told["purpose"] not in get_args(Purpose):
        raise ValueError(f"it was made for {told['purpose']!r}")
    run = Run(
        int(told["id"]), x, Status(told["status"]), number(told["risk"]), outputs,
        number(told["seconds"]), str(told["message"]), int(told["attempts"]), str(told["source"]),
        told["purpose"], int(told["task"]),
    )  # fmt: skip
    return run if told["role"] is None else run.as_planned(_planned_from(told, x))


def _planned_from(told: Mapping[str, Any], x: FloatArray) -> Planned:
    role, step, level = Role[told["role"].upper()], int(told["step"]), int(told["level"])
    if step < -1 or level < 0:
        raise ValueError(f"it was made for step {step} on level {level}")
    return Planned(x, role, step, number(told["expected"]), level)


def span_to_row(span: Span) -> tuple[Any, ...]:
    """Return the columns of a span after its task and id."""
    ended = None if np.isnan(span.ended) else float(span.ended)
    x = None if span.x is None else array_to_bytes(span.x)
    return float(span.started), ended, _text(span.worker), x


def span_from_row(started: Any, ended: Any, worker: Any, x: Any) -> Span:
    """Invert `span_to_row`."""
    point = None if x is None else array_from_bytes(x)
    return Span(float(started), number(ended), str(worker), point)


def array_to_bytes(array: FloatArray) -> bytes:
    """Little-endian doubles."""
    return array.astype("<f8").tobytes()


def array_from_bytes(data: bytes) -> FloatArray:
    """Invert `array_to_bytes`."""
    return frozen(np.frombuffer(data, dtype="<f8"))


def round_to_row(number: int, told: Round, family: ParametricFamily) -> tuple[Any, ...]:
    """Return the columns of a round."""
    return (
        int(told.task),
        number,
        np.array(told.ids, dtype="<i8").tobytes(),
        b"",  # marks of draws, before format 5
        _proposal_to_column(told.proposal, family),
        json.dumps(info_to_spec(told.info)),
    )


def round_from_row(
    family: ParametricFamily | None,
    task: int,
    ids: bytes,
    proposal: str | bytes,
    info: str,
) -> Round:
    """Invert `round_to_row`; without the family, the proposal is not known."""
    return Round(
        tuple(np.frombuffer(ids, dtype="<i8").tolist()),
        None if family is None else _proposal_from_column(proposal, family),
        info_from_spec(json.loads(info)),
        task,
    )


def drawn_from_row(told: Round, marks: bytes) -> dict[tuple[int, int], bool]:
    """Return which runs of a round were drawn, by task and id, from a row of an earlier format."""
    drawn = np.frombuffer(marks, dtype="?").tolist()
    if drawn and len(drawn) != len(told.ids):
        raise ValueError(f"{len(drawn)} marks for {len(told.ids)} runs")
    return {(told.task, i): own for i, own in zip(told.ids, drawn, strict=False)}


def _proposal_to_column(member: Distribution | None, family: ParametricFamily) -> str | bytes:
    """Return JSON; of a θ of many numbers, its family as JSON, a line end, and packed numbers."""
    if member is None or len(member.theta) < MANY_NUMBERS:
        return json.dumps(None if member is None else member_to_spec(member, family))
    other = json.dumps(_other_family(member, family)).encode()
    return other + b"\n" + compress_numbers(member.theta)


def _proposal_from_column(column: str | bytes, family: ParametricFamily) -> Distribution:
    """Invert `_proposal_to_column`."""
    if isinstance(column, str):
        return member_from_spec(json.loads(column), family)
    other, _, data = column.partition(b"\n")
    kind = _family_from_spec(json.loads(other), family)
    return Distribution(kind, decompress_numbers(data, kind.size))


def compress_numbers(array: FloatArray) -> bytes:
    """Compress numbers, bit for bit: their first bytes together, which are much alike."""
    apart = np.frombuffer(array_to_bytes(array), dtype=np.uint8).reshape(-1, 8)
    return zlib.compress(apart.T.tobytes(), 1)


def decompress_numbers(data: bytes, count: int) -> FloatArray:
    """Invert `compress_numbers`, for so many numbers; ValueError if there are more or fewer."""
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(data, 8 * count)
    except zlib.error as error:
        raise ValueError(f"its numbers cannot be read: {error}") from error
    more = reader.decompress(reader.unconsumed_tail, 1)
    if len(found) != 8 * count or more or not reader.eof or reader.unused_data:
        raise ValueError(f"there are not {count} numbers")
    return array_from_bytes(np.frombuffer(found, dtype=np.uint8).reshape(8, -1).T.tobytes())


def decompress_all(data: bytes, most: int) -> FloatArray:
    """Invert `compress_numbers`, for as many numbers as there are, of `most` bytes."""
    found = zlib.decompressobj().decompress(data, most)
    return decompress_numbers(data, len(found) // 8)


def member_to_spec(member: Distribution, family: ParametricFamily) -> Spec:
    """Its θ, and its family unless that is the run's own."""
    return {"family": _other_family(member, family), "theta": pack(member.theta)}


def _other_family(member: Distribution, family: ParametricFamily) -> Spec:
    return None if member.family == family else to_spec(member.family)


def member_from_spec(spec: Spec, family: ParametricFamily) -> Distribution:
    """The distribution again."""
    return Distribution(_family_from_spec(spec["family"], family), unpack(spec["theta"]))


def _family_from_spec(spec: Spec, family: ParametricFamily) -> ParametricFamily:
    kind = family if spec is None else from_spec(spec)
    if not isinstance(kind, ParametricFamily) or kind.dim != family.dim:
        raise ValueError(f"{kind!r} is no family of {family.dim} coordinates")
    return kind


_NOTES = ("notes", "note_codes")
_DIAGNOSTICS = tuple(each.name for each in fields(Info) if each.name != "notes")


def info_to_spec(info: Info) -> Spec:
    """Return the diagnostics of a round as JSON."""
    numbers = {name: float(getattr(info, name)) for name in _DIAGNOSTICS}
    return numbers | notes_to_spec(info.notes)


def info_from_spec(spec: Spec) -> Info:
    """Invert `info_to_spec`."""
    values = {name: number(value) for name, value in spec.items() if name not in _NOTES}
    return Info(**values, notes=notes_from_spec(spec))


def notes_to_spec(notes: Sequence[str]) -> dict[str, Spec]:
    """Return notes as JSON: their words, and their codes if any has one."""
    codes = [code_of(note) for note in notes]
    return {"notes": list(map(str, notes))} | ({"note_codes": codes} if any(codes) else {})


def notes_from_spec(spec: Mapping[str, Spec]) -> tuple[str, ...]:
    """Invert `notes_to_spec`; notes of earlier versions have no codes."""
    words = list(map(str, spec["notes"]))
    codes = [str(code) for code in spec.get("note_codes", [""] * len(words))]
    return tuple(Note(c, w) if c else w for c, w in zip(codes, words, strict=True))


def ending_to_spec(end: Ending, member: Callable[[Distribution], Spec]) -> Spec:
    """Return an ending as JSON; `member` converts its distributions."""
    return {
        **{name: getattr(end, name) for name in ESTIMATE},
        "stopped": end.stop_reason.value,
        **notes_to_spec(end.notes),
        "advice": list(end.advice),
        "posterior": member(end.posterior),
        "validation": [
            {"ids": list(each.ids), "posterior": member(each.posterior)} for each in end.validation
        ],
        "failure_loss": end.failure_loss,
        "certificate": certificate_to_spec(end.certificate),
        "held_out": certificate_to_spec(end.held_out),
        "uncertified": end.uncertified,
        "evidence": None if end.evidence is None else asdict(end.evidence),
        "range_check": _range_check_to_spec(end.range_check),
    }


def ending_from_spec(spec: Spec, member: Callable[[Spec], Distribution]) -> Ending:
    """Invert `ending_to_spec`; version 0.1 has only the ids of the returned posterior's runs."""
    batches = spec.get("validation")
    if batches is None:
        batches = [{"ids": spec.get("fresh", ()), "posterior": spec["posterior"]}]
    values = {name: number(spec.get(name)) for name in ESTIMATE if name != "validated"}
    return Ending(
        posterior=member(spec["posterior"]),
        stop_reason=StopReason(spec["stopped"]),
        notes=notes_from_spec(spec),
        advice=tuple(map(str, spec.get("advice", ()))),
        validation=tuple(
            ValidationBatch(tuple(map(int, each["ids"])), member(each["posterior"]))
            for each in batches
            if each["ids"]
        ),
        failure_loss=number(spec.get("failure_loss")),
        certificate=_certificate_from_spec(spec.get("certificate")),
        held_out=_certificate_from_spec(spec.get("held_out")),
        uncertified=str(spec.get("uncertified", "")),
        evidence=_evidence_from_spec(spec.get("evidence")),
        range_check=_range_check_from_spec(spec.get("range_check")),
        validated=int(spec["validated"]),
        **values,
    )


# Optional parts of a state, their classes, and the names of their fields in files: most are of
# version 0.1, and later ones may be missing.
_PARTS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    (
        "last_step",
        LastStep,
        ("radius", "previous", "gain", "nats", "shift", "promised", "step", "runs"),
    ),
    ("momentum", Momentum, ("phi", "velocity")),
    ("abandoned", Abandoned, ("abandoned", "abandoned_objectives", "abandoned_runs")),
)
# From an array to a field of this type.
_FIELDS: dict[str, Callable[[FloatArray], Any]] = {
    "FloatArray": lambda array: array,
    "float": lambda array: float(array[0]),
    "int": lambda array: int(array[0]),
}


def certificate_to_spec(certificate: Certificate | None) -> Spec:
    """Return a certificate as JSON."""
    return None if certificate is None else json.loads(certificate.to_json())


def _evidence_from_spec(spec: Spec) -> Evidence | None:
    if spec is None:
        return None
    values = {name: number(spec[name]) for name in ("log", "error", "temperature")}
    return Evidence(**values, runs=int(spec["runs"]))


def _range_check_to_spec(found: RangeCheck | None) -> Spec:
    """Return a check as JSON, its arrays as lists."""
    if found is None:
        return None
    arrays = {name: getattr(found, name).tolist() for name in _OF_RANGES}
    return {**arrays, "unknown": found.unknown}


def _range_check_from_spec(spec: Spec) -> RangeCheck | None:
    if spec is None:
        return None
    wider, factors = (numbers(spec[name]) for name in _OF_RANGES[:2])
    combinations = np.array(spec["combinations"], dtype=np.float64).reshape(-1, len(wider))
    return RangeCheck(wider, factors, frozen(combinations), bool(spec["unknown"]))


def _certificate_from_spec(spec: Spec) -> Certificate | None:
    return None if spec is None else Certificate.from_json(json.dumps(spec))


def state_to_spec(state: State) -> Spec:
    """Return all of a state but its seed and its evaluations, as JSON."""
    batch, family = state.batch, state.posterior.family
    emulator = {} if state.emulator is None else state.emulator.to_arrays()
    memory: dict[str, Spec] = {word: pack(array) for word, array in emulator.items()}
    for name, kind, words in _PARTS:
        part = getattr(state, name)
        if part is not None:
            values = [np.atleast_1d(getattr(part, each.name)) for each in fields(kind)]
            memory |= {word: pack(value) for word, value in zip(words, values, strict=True)}
    return {
        "theta": pack(state.posterior.theta),
        "memory": memory,
        "batch": None
        if batch is None
        else {
            "x": pack(batch.x),
            "proposal": member_to_spec(batch.proposal, family),
            "role": [Role(each).name.lower() for each in batch.role],
            "step": batch.step.tolist(),
            "expected": pack(batch.expected),
            "level": batch.level.tolist(),
        },
        "untested": [_part_to_spec(each) for each in state.untested],
        "tuning": _tuning_to_spec(state.tuning),
        "stage": state.stage.value,
        **({} if state.horizon == 1.0 else {"horizon": [state.horizon, state.horizon_since]}),
        **({} if state.coarse is None else {"coarse": _coarse_to_spec(state.coarse)}),
    }


def _coarse_to_spec(coarse: CoarseRuns[State]) -> Spec:
    """Return what is done with the coarse runs of a search as JSON, without these."""
    together = coarse.together
    return {
        "stage": coarse.stage.value,
        "numbers": pack(np.array([coarse.cost, coarse.differs])),
        "useful": coarse.useful,
        "idle": coarse.idle,
        "settled": coarse.settled,
        "search": None if coarse.search is None else state_to_spec(coarse.search),
        "together": None
        if together is None
        else {
            "previous": pack(together.previous),
            "gain": pack(np.array([together.gain, together.nats, together.shift])),
            "count": together.count,
        },
    }


CoarseNumbers = tuple[float, float, bool, int]
"""Cost of a coarse run in fine ones, the share of differences that it misses, whether it is of use,
and the coarse runs by which the search of the coarse model had settled."""


def coarse_numbers(spec: Spec) -> CoarseNumbers | None:
    """Return these numbers of a state as JSON; None if there is no coarse model."""
    told = spec.get("coarse") if isinstance(spec, dict) else None
    if told is None:
        return None
    cost, differs = unpack(told["numbers"]).tolist()
    return cost, differs, bool(told["useful"]), int(told.get("settled", 0))


def _coarse_from_spec(spec: Spec, start: State, evaluations: Evaluations) -> CoarseRuns[State]:
    """Invert `_coarse_to_spec`; `evaluations` are the runs of all levels."""
    cost, differs = unpack(spec["numbers"]).tolist()
    search, told, together = spec["search"], spec["together"], None
    if told is not None:
        gain, nats, shift = unpack(told["gain"]).tolist()
        together = Together(unpack(told["previous"]), gain, nats, shift, int(told["count"]))
    return CoarseRuns(
        CoarseStage(spec["stage"]),
        evaluations,
        cost,
        bool(spec["useful"]),
        differs,
        None if search is None else state_from_spec(search, start, evaluations),
        int(spec["idle"]),
        together,
        int(spec.get("settled", 0)),
    )


def _part_to_spec(step: LastStep) -> Spec:
    return {each.name: pack(np.atleast_1d(getattr(step, each.name))) for each in fields(step)}


def _part_from_spec(spec: Spec) -> LastStep:
    return LastStep(
        **{each.name: _FIELDS[str(each.type)](unpack(spec[each.name])) for each in fields(LastStep)}
    )


@cache
def _tuning_to_spec(tuning: Tuning) -> Spec:
    return to_spec(tuning)


def state_from_spec(spec: Spec, start: State, evaluations: Evaluations) -> State:
    """Return the state again, bit for bit."""
    family = start.posterior.family
    memory, parts = {word: unpack(array) for word, array in spec["memory"].items()}, {}
    for name, kind, words in _PARTS:
        if words[1] in memory:  # "phi" may be that of another part
            known = {
                each.name: _FIELDS[str(each.type)](memory[word])
                for each, word in zip(fields(kind), words, strict=True)
                if word in memory
            }
            parts[name] = kind(**known)
    parts["emulator"] = Memory.from_arrays(memory)
    posterior = Distribution(family, unpack(spec["theta"]))
    untested = tuple(map(_part_from_spec, spec.get("untested", ())))
    tuning = from_spec(spec["tuning"]) if "tuning" in spec else DEFAULT
    if not isinstance(tuning, Tuning):
        raise TypeError("its tuning is of another class")
    state = State(
        start.seed, posterior, evaluations, None, untested=untested, tuning=tuning, **parts
    )
    if spec.get("coarse") is not None:
        coarse = _coarse_from_spec(spec["coarse"], replace(start, coarse=None), evaluations)
        state = replace(state, coarse=coarse)
    if "horizon" in spec:
        share, since = spec["horizon"]
        state = replace(state, horizon=float(share), horizon_since=int(since))
    last = state.last_step
    if last is not None and "step" not in memory:  # an earlier format has no numbers of steps
        state = replace(state, last_step=replace(last, number=state.iteration))
    if spec["batch"] is not None:
        state = replace(state, batch=_batch_from_spec(spec["batch"], state, start.posterior))
    if "stage" in spec:
        return replace(state, stage=Stage(spec["stage"]))
    settled = bool(memory["settled"][0]) if "settled" in memory else False
    return replace(state, stage=stage_by_last_step(state, start.posterior, settled=settled))


def _batch_from_spec(spec: Spec, state: State, start: Distribution) -> Batch:
    family = start.family
    x = points(unpack(spec["x"]), "x", family.dim)
    proposal, expected = member_from_spec(spec["proposal"], family), spec["expected"]
    risks = np.full(len(x), np.nan) if expected is None else unpack(expected).reshape(len(x))
    if "role" not in spec:
        drawn = vector(spec["drawn"], "drawn", len(x)).astype(bool)
        again = state.abandoned is not None and state.last_step is None
        at_start = again and np.allclose(proposal.mean, start.mean)
        first = at_start or bool((state.evaluations.role == Role.KNOWN).all())
        roles = roles_by_geometry(x, proposal, drawn, state.evaluations.proposals, first=first)
        return Batch.of(x, proposal, roles, state.iteration, risks)
    roles = [Role[str(each).upper()] for each in spec["role"]]
    step, level = (np.array(spec[name], dtype=np.intp) for name in ("step", "level"))
    if not len(roles) == len(step) == len(level) == len(x) or (step > state.iteration).any():
        raise ValueError("its batch has other roles or steps than runs")
    return Batch(x, proposal, np.array(roles, dtype=np.intp), step, risks, level)


def pack(array: FloatArray) -> Spec:
    """An array as JSON, bit for bit."""
    data = np.ascontiguousarray(array, dtype="<f8")
    return [base64.b64encode(data.tobytes()).decode(), list(np.shape(array))]


def unpack(spec: Spec) -> FloatArray:
    """Invert `pack`."""
    data, shape = spec
    return np.frombuffer(base64.b64decode(data), dtype="<f8").reshape(shape)
