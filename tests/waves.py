"""A smooth risk; processes that make runs import this file, so it imports little."""

from __future__ import annotations

import numpy as np

from supac.arrays import FloatArray


def wave(x: FloatArray) -> float:
    """Compute a risk between 0.2 and 0.8: (dim,) → float."""
    return 0.5 + 0.3 * float(np.sin(x).mean())
