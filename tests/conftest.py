"""Which tests share a process (`pytest -n`, as `make test`), and which ones are slow.

`make test-fast` leaves out the slow ones: those of the places in SLOW, and those with the marker
`slow`, which is for a single test of a second or more in a file of quick ones.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ("real_slurm",)  # the fixture of tests/slurm

WORKER = "PYTEST_XDIST_WORKER" in os.environ
if WORKER:  # before NumPy is imported: as many processes as cores leave each one core
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Otherwise each of the many processes that the tests start compiles the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A busy machine is no fault of the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Files that one process runs, in this order; every other file is a group of its own.
GROUPS = {
    "slurm": ("tests/slurm",),  # waits for most of its time: begun first, beside all others
    # They run ADM1: the first of them compiles it, and the others need not.
    "compiled": (
        "tests/simulators/adm1", "tests/examples/test_documents.py", "tests/cli/test_demo.py",
        "tests/problem_file/test_problem_file.py",
    ),
}  # fmt: skip
# The longest of the others: begun next, so that no process is left with one of them at the end.
LONG = (
    "tests/faults", "tests/running", "tests/cli", "tests/examples", "tests/search",
    "tests/calibration", "tests/emulator", "tests/experiments", "tests/problem_file",
)  # fmt: skip
SLOW = (
    # Processes, clusters, compilers, a browser, documents and experiments.
    *GROUPS["slurm"], "tests/faults", "tests/cli/test_commands.py", "tests/cli/test_demo.py",
    "tests/cli/test_elsewhere.py", "tests/cli/test_posterior_commands.py",
    "tests/cli/test_watch.py", "tests/record/test_timeline.py",
    "tests/cli/test_safety.py", "tests/cli/test_run_again.py", "tests/running",
    "tests/examples", "tests/experiments", "tests/report/test_browser.py",
    "tests/simulators/adm1/test_cuda.py", "tests/simulators/adm1/test_simulator.py",
    # Searches from end to end, many in each file.
    "tests/calibration/test_generic.py", "tests/calibration/test_honest_endings.py",
    "tests/calibration/test_noise.py", "tests/calibration/test_settled.py",
    "tests/cli/test_petab_commands.py", "tests/cli/test_second_study.py",
    "tests/cli/test_seen_before.py",
    "tests/emulator/test_far_runs.py", "tests/emulator/test_view.py",
    "tests/exchange/test_other_runs.py", "tests/guarantee/test_counted.py",
    "tests/guarantee/test_ensemble.py", "tests/guarantee/test_every_posterior.py",
    "tests/guarantee/test_held_out.py",
    "tests/meta/test_meta_certificates.py", "tests/meta/test_meta_learn.py",
    "tests/posterior/test_attainable.py", "tests/posterior/test_measured_outputs.py",
    "tests/posterior/test_observed_outputs.py",
    "tests/problem_file/test_observed.py", "tests/search/test_known_runs.py",
    "tests/search/test_many_parameters.py", "tests/search/test_observation.py",
    "tests/search/test_restart.py",
)  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def _hears_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C interrupt: a shell starts its background jobs, and all theirs, deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def group_of(test: str) -> str:
    """Return the group of a test: tests of one file share what is slow to make."""
    return next(
        (group for group, places in GROUPS.items() if test.startswith(places)),
        test.partition("::")[0],
    )


def _rank(test: str) -> int:
    """Return the place of a test's group in the order in which groups are begun."""
    first = [*GROUPS, *LONG]
    group = group_of(test)
    return next((i for i, place in enumerate(first) if group.startswith(place)), len(first))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests; begin with large groups, so that no process is left with one at the end."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
    if WORKER:
        items.sort(key=lambda item: _rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use all cores, at most four, and one process more for the tests that mostly wait."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(cores, 4) + ("not slow" not in config.option.markexpr)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give each process whole groups, one after the other."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return ByGroup(config, log)
