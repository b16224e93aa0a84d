"""Convert values to JSON and back, for stores, result files and fingerprints."""

from supac.codec.specs import (
    Spec,
    TooLargeError,
    UnknownSpecError,
    check_size,
    describe,
    differences,
    fingerprint,
    from_spec,
    from_spec_or_name,
    function_identity,
    register,
    to_spec,
)

__all__ = [
    "Spec",
    "TooLargeError",
    "UnknownSpecError",
    "check_size",
    "describe",
    "differences",
    "fingerprint",
    "from_spec",
    "from_spec_or_name",
    "function_identity",
    "register",
    "to_spec",
]
