"""Roles of runs, and stages of searches, of earlier formats, which kept neither.

Roles are told from where the runs lie, by the rules that searches went by when they were made;
stages from the last step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.families import Distribution
from supac.problem import Planned, Role
from supac.record.run import Round, Run
from supac.search.algorithm import State
from supac.search.stages import Stage

_AT_THE_CENTRE = 1e-6  # standard deviations: no draw comes as near
_NARROW, _WIDE = 0.3, 1.3  # widths of a narrow beginning, and of the look after it

Key = tuple[int, int]


def roles_by_geometry(
    x: FloatArray,
    proposal: Distribution | None,
    drawn: BoolArray,
    before: Sequence[Distribution | None],
    *,
    first: bool,
) -> list[Role]:
    """Return the roles of a batch; `before` are the proposals of earlier ones of the search.

    Points that were chosen because they tell most and probes of tails cannot be told apart.
    """
    central = _at_the_centre(x, proposal)
    look = bool(before) and _is_wide(proposal, before[0])
    own = Role.OPENING if first else Role.LOOK if look else Role.DRAW
    if (drawn & central).any():
        others = Role.AHEAD, Role.BESIDE
    else:
        others = Role.NARROW if first else Role.TELLS, own
    return [
        others[0] if not draw else Role.MEAN if centre else others[1]
        for draw, centre in zip(drawn, central, strict=True)
    ]


def with_roles(
    runs: Iterable[Run], unknown: set[Key], rounds: Sequence[Round], drawn: Mapping[Key, bool]
) -> list[Run]:
    """Return runs with roles where these are unknown; `drawn` marks draws, by task and id."""
    known = {(run.task, run.id): run for run in runs}
    tasks: dict[int, list[Round]] = {}
    for told in rounds:
        before = tasks.setdefault(told.task, [])
        keys = [(told.task, i) for i in told.ids]
        lost = [key for key in keys if key in unknown]
        proposals = [each.proposal for each in before]
        for key, role in zip(lost, _roles(known, lost, told, drawn, proposals), strict=True):
            run = known[key]
            known[key] = run.as_planned(Planned(run.x, role, len(before)))
        before.append(told)
    return list(known.values())


def _roles(
    runs: Mapping[Key, Run],
    keys: Sequence[Key],
    told: Round,
    drawn: Mapping[Key, bool],
    before: Sequence[Distribution | None],
) -> list[Role]:
    """Return the roles of runs of one round."""
    if not keys:
        return []
    x = np.array([runs[key].x for key in keys])
    marks = np.array([drawn.get(key, True) for key in keys])
    roles = roles_by_geometry(x, told.proposal, marks, before, first=not before)
    return [Role.KNOWN if runs[key].source else role for key, role in zip(keys, roles, strict=True)]


def stage_by_last_step(state: State, start: Distribution, *, settled: bool) -> Stage:
    """Return the stage of a search; `settled` if a step so far had gained little."""
    last, left, tuning = state.last_step, state.abandoned, state.tuning.moving
    if last is None and left is not None:
        return Stage.AFRESH if state.posterior == start else Stage.AGAIN
    if last is None:
        return Stage.BEGUN if (state.evaluations.role != Role.KNOWN).any() else Stage.OPENING
    if not settled:
        return Stage.MOVING if last.nats > tuning.gain else Stage.BEGUN
    return Stage.RESUMED if last.nats > tuning.again else Stage.SETTLED


def _at_the_centre(x: FloatArray, proposal: Distribution | None) -> BoolArray:
    """Mark points at the very centre of a Gaussian: (n,)."""
    whitening = None if proposal is None else proposal.whiten().normal
    if whitening is None:
        return np.zeros(len(x), dtype=bool)
    z = whitening.points(x)
    return np.asarray(np.einsum("ij,ij->i", z, z) < _AT_THE_CENTRE**2)


def _is_wide(proposal: Distribution | None, first: Distribution | None) -> bool:
    """Return True if a proposal is the start as a look has it, after a narrow first one."""
    if proposal is None or first is None or proposal.family != first.family:
        return False
    if proposal.whiten().normal is None:
        return False
    wider = (_WIDE / _NARROW) ** 2 * first.covariance
    return np.allclose(proposal.mean, first.mean) and np.allclose(
        proposal.covariance, wider, rtol=1e-6
    )
