"""Make runs: in this process, in children that can be killed, or on a cluster."""

from supac.running.answer import Answer, Request, Simulator
from supac.running.executors import open_pool
from supac.running.pool import InProcessPool, WorkerPool
from supac.running.watchdog import ExecutionError

__all__ = [
    "Answer",
    "ExecutionError",
    "InProcessPool",
    "Request",
    "Simulator",
    "WorkerPool",
    "open_pool",
]
