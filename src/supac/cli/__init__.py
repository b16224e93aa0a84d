"""The command line: a module for each group of commands, which `supac --help` lists in order."""

from supac.cli import demo, problems, stores
from supac.cli.app import app

__all__ = ["app", "demo", "problems", "stores"]
