"""The command line: one module per group of commands, which `app.py` lists."""

from supac.cli.app import app

__all__ = ["app"]
