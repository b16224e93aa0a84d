"""Tests that need an extra: skipped where it is missing, without importing it for all tests."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs(*modules: str) -> None:
    """Skip the file that calls this if one of the modules is not installed."""
    for name in modules:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)
