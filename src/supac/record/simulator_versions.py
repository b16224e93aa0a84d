"""Versions of the simulator that made the runs of a store, told apart by checksums of its files."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from supac.record.checksums import CODE, changed_files

_ROLE = "simulator"


@dataclass(frozen=True)
class SimulatorVersion:
    """A version of the simulator, and the runs that others made before it."""

    files: Mapping[str, str]
    """Checksums of its files, and of the code that matters in them."""
    since: str = ""
    """Time at which the search went on with it, as ISO 8601; "" for the first version."""
    before: frozenset[int] = frozenset()
    """Ids of the runs that are older than this version."""

    @classmethod
    def of_files(cls, files: Mapping[str, str]) -> SimulatorVersion:
        """Return the version with these checksums, of which those of other files are left out."""
        own = {name: each for name, each in files.items() if name in (_ROLE, _ROLE + CODE)}
        return cls(own)

    def same_simulator(self, other: SimulatorVersion) -> bool:
        """Return True if no file differs, but for code that does not matter."""
        return not changed_files(self.files, other.files)

    def to_spec(self) -> dict[str, Any]:
        """Return the version for JSON, its runs as ranges of ids."""
        ids = sorted(self.before)
        starts = [i for i in ids if i - 1 not in self.before]
        ends = [i for i in ids if i + 1 not in self.before]
        ranges = [list(each) for each in zip(starts, ends, strict=True)]
        return {"files": dict(self.files), "since": self.since, "before": ranges}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> SimulatorVersion:
        """Invert `to_spec`."""
        before = frozenset(i for first, last in spec["before"] for i in range(first, last + 1))
        return cls(dict(spec["files"]), str(spec["since"]), before)


def versions_of(description: str) -> tuple[SimulatorVersion, ...]:
    """Return the versions that a store's description names, the oldest first; () if it has none."""
    try:
        told = json.loads(description)
        if "simulators" in told:
            return tuple(map(SimulatorVersion.from_spec, told["simulators"]))
        return (SimulatorVersion.of_files(told["files"]),)
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def versions_with(
    known: Sequence[SimulatorVersion], files: Mapping[str, str], made: Iterable[int]
) -> tuple[SimulatorVersion, ...]:
    """Return the versions after a search goes on with these files; `made` are the ids of its runs.

    A version that has made no run is forgotten.
    """
    now, ids = SimulatorVersion.of_files(files), frozenset(made)
    kept = [
        each
        for each, after in pairwise([*known, SimulatorVersion({}, before=ids)])
        if after.before - each.before
    ]
    if kept and kept[-1].same_simulator(now):
        return tuple(kept)
    if not kept:
        return (now,)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return (*kept, SimulatorVersion(now.files, moment, ids))


def version_numbers(versions: Sequence[SimulatorVersion], ids: Iterable[int]) -> list[int]:
    """Return the number of the simulator that made each run, from 1; the same one has one number.

    A simulator that was changed and changed back is the same.
    """
    numbers = _numbers(versions) or [1]
    found = []
    for run in ids:
        later = [i for i, each in enumerate(versions) if run in each.before]
        found.append(numbers[later[0] - 1 if later else -1])
    return found


def made_by_others(versions: Sequence[SimulatorVersion], ids: Iterable[int]) -> list[int]:
    """Return the ids of the runs that another simulator made than the last of the versions."""
    known, now = list(ids), (_numbers(versions) or [1])[-1]
    numbers = version_numbers(versions, known)
    return [run for run, number in zip(known, numbers, strict=True) if number != now]


def _numbers(versions: Sequence[SimulatorVersion]) -> list[int]:
    """Return the number of each version: that of the first one with the same simulator."""
    different: list[SimulatorVersion] = []
    numbers = []
    for each in versions:
        places = [i for i, other in enumerate(different) if other.same_simulator(each)]
        numbers.append(places[0] + 1 if places else len(different) + 1)
        different += [] if places else [each]
    return numbers


@dataclass(frozen=True)
class SimulatorRuns:
    """Number of runs that a version of the simulator made."""

    number: int
    runs: int
    checksum: str
    """SHA-256 of its files."""
    since: str
    """Time at which the search first went on with it; "" for the first version."""

    @property
    def words(self) -> str:
        """Count and version, with the time of its beginning."""
        since = f" (since {self.since})" if self.since else ""
        return f"{self.runs:,} by version {self.number}{since}"


def runs_by_simulator(
    versions: Sequence[SimulatorVersion], ids: Iterable[int]
) -> list[SimulatorRuns]:
    """Count the runs of each version of the simulator that made any, in the order of versions."""
    made = Counter(version_numbers(versions, ids))
    first = dict(reversed(list(zip(_numbers(versions), versions, strict=True))))
    return [
        SimulatorRuns(number, made[number], each.files.get(_ROLE, ""), each.since)
        for number, each in sorted(first.items())
        if made[number]
    ]
