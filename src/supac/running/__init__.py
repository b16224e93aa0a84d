"""Make runs: in this process, in children that can be killed, or on a cluster."""

from supac.running.executors import open_pool
from supac.running.futures import ExecutionError
from supac.running.simulator import Answer, InProcessPool, Request, Simulator, WorkerPool

__all__ = [
    "Answer", "ExecutionError", "InProcessPool", "Request", "Simulator", "WorkerPool", "open_pool",
]  # fmt: skip
