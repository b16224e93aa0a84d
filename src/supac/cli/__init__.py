"""The command line: a module for each group of commands, which `supac --help` lists in order."""

from supac.cli import demo, problems, report, stores
from supac.cli.app import app

__all__ = ["app", "demo", "problems", "report", "stores"]
