"""How the tests share a machine when several processes run them (`pytest -n`, as `make test`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WORKER = "PYTEST_XDIST_WORKER" in os.environ

# Tests that kill processes, wait for them or count their seconds: never two of them at a time.
PROCESSES = (
    "test_dask.py", "test_executors.py", "test_program.py", "test_umbridge.py",
    "test_cli_problems.py", "test_cli_elsewhere.py", "test_cli_safety.py", "faults",
)  # fmt: skip
# Tests that run ADM1: one process compiles it, and the others need not.
COMPILED = ("adm1", "test_cli.py", "test_problem_file.py", "examples/test_documents.py")

if WORKER:  # before NumPy is imported: as many processes as cores leave each one core
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def group_of(path: Path) -> tuple[int, str]:
    """What runs in one process, in order, and its rank: what takes longest begins first."""
    name = path.relative_to(TESTS).as_posix()
    for rank, (group, members) in enumerate([("processes", PROCESSES), ("compiled", COMPILED)]):
        if name.startswith(members):
            return rank, group
    return 2, name


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file is one group, since its tests share what is slow to make; some files are together."""
    if WORKER:
        items.sort(key=lambda item: group_of(item.path))
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group_of(item.path)[1]))
