"""How the tests share a machine when several processes run them (`pytest -n`, as `make test`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

WORKER = "PYTEST_XDIST_WORKER" in os.environ
if WORKER:  # before NumPy is imported: as many processes as cores leave each one core
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine is no fault of the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# What one process runs, in this order; every other file is a group of its own.
GROUPS = {
    # They kill processes, wait for them or count their seconds: never two of them at a time.
    "processes": (
        "tests/faults", "tests/cli/test_commands.py", "tests/cli/test_elsewhere.py",
        "tests/cli/test_safety.py", "tests/running", "tests/test_dask.py",
        "tests/test_executors.py", "tests/test_program.py", "tests/test_umbridge.py",
    ),
    # They run ADM1: the first of them compiles it, and the others need not.
    "compiled": (
        "tests/simulators/adm1", "tests/examples/test_documents.py", "tests/cli/test_demo.py",
        "tests/problem_file",
    ),
}  # fmt: skip


def group_of(test: str) -> str:
    """By where a test is: tests of one file share what is slow to make."""
    return next(
        (group for group, places in GROUPS.items() if test.startswith(places)),
        test.partition("::")[0],
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The large groups begin first, so that no process is left with one at the end."""
    if WORKER:
        ranks = {group: rank for rank, group in enumerate(GROUPS)}
        items.sort(key=lambda item: ranks.get(group_of(item.nodeid), len(ranks)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Whole groups, one after the other."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return ByGroup(config, log)
