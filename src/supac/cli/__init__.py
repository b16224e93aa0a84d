"""The command line: one module per group of commands, in the order of `supac --help`."""

from supac.cli import demo, problems, stores
from supac.cli.app import app

__all__ = ["app", "demo", "problems", "stores"]
