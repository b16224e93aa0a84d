"""Where runs are made: in this process, in children that can be killed, or on a cluster."""

from supac.running.answer import Answer, Simulator, Simulators
from supac.running.executors import open_flight
from supac.running.flight import ExecutionError, Flight

__all__ = ["Answer", "ExecutionError", "Flight", "Simulator", "Simulators", "open_flight"]
