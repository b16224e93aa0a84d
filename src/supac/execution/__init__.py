"""Where runs are made: in this process, in children that can be killed, or on a cluster."""

from supac.execution.answer import Answer, Simulator, Simulators
from supac.execution.executors import open_flight
from supac.execution.flight import ExecutionError, Flight

__all__ = ["Answer", "ExecutionError", "Flight", "Simulator", "Simulators", "open_flight"]
