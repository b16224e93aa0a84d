"""The error that a simulator returns in the place of a Jacobian."""

from __future__ import annotations


class JacobianError(ValueError):
    """Mistake in a Jacobian: it ends a search, whatever is done on failures."""


def is_wrong(jacobian: object) -> bool:
    """Return True for an error in the place of a Jacobian."""
    return isinstance(jacobian, JacobianError)
