"""Memory of an emulator: all that it carries from one fit to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from supac.arrays import BoolArray, FloatArray

_OF = "hyperparameters of "
_COARSE, _CORRECTS = "coarse ", "corrects"
_UNNAMED = ""  # hyperparameters from stores that held those of all processes in one vector
_VECTOR = "phi"  # their name there
_ON_SCALE = "on the user's scale"


@dataclass(frozen=True, eq=False)
class Memory:
    """Hold hyperparameters by name of process, labels of runs, and when both were found."""

    hyperparameters: Mapping[str, FloatArray]
    outliers: BoolArray
    """Labels of all runs: (n,)."""
    inflation: FloatArray
    """Factors on the noise variance of all runs: (n,)."""
    threshold: float
    """Excess risk above which a run may be an outlier."""
    restarted: int
    """Number of runs when the hyperparameters were last fitted from their defaults."""
    fitted: int
    """Number of runs when they were last fitted."""
    coarse: Memory | None = None
    """Memory of the emulator of coarse runs, if there is one."""
    corrects: bool = False
    """True if the last fit was of what the outputs differ from the coarse ones."""
    on_scale: BoolArray | None = None
    """Parameters on the user's scale, of those that may be; None if none may be: (k,)."""

    def start(self, default: Mapping[str, FloatArray]) -> Mapping[str, FloatArray]:
        """Return hyperparameters to go on from: those of the processes that it knows.

        Those of a process of another name or size remain the default ones.
        """
        known = self.hyperparameters
        if _UNNAMED in known:
            ends = np.cumsum([len(each) for each in default.values()])
            if len(known[_UNNAMED]) != ends[-1]:
                return default
            return dict(zip(default, np.split(known[_UNNAMED], ends[:-1]), strict=True))
        return {
            name: known[name] if name in known and len(known[name]) == len(centre) else centre
            for name, centre in default.items()
        }

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return all of it as arrays, by the names that stores have for them."""
        values = (self.outliers, self.inflation, self.threshold, self.restarted, self.fitted)
        words = ("wrong", "inflation", "delta", "restarted", "fitted")
        pairs = zip(words, values, strict=True)
        kept = {word: np.atleast_1d(np.asarray(value, dtype=np.float64)) for word, value in pairs}
        named = self.hyperparameters.items()
        if self.on_scale is not None:
            kept[_ON_SCALE] = self.on_scale.astype(np.float64)
        arrays = {**{_OF + name if name else _VECTOR: each for name, each in named}, **kept}
        if self.coarse is not None:
            arrays[_CORRECTS] = np.array([float(self.corrects)])
            below = self.coarse.to_arrays().items()
            arrays |= {_COARSE + word: each for word, each in below}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> Memory | None:
        """Return it again, bit for bit; None if there is none. Read stores of any version."""
        if "wrong" not in arrays:
            return None
        named = {
            word.removeprefix(_OF): each for word, each in arrays.items() if word.startswith(_OF)
        }
        return cls(
            named or {_UNNAMED: arrays[_VECTOR]},
            arrays["wrong"] > 0.5,
            arrays["inflation"],
            float(arrays["delta"][0]),
            int(arrays["restarted"][0]),
            int(arrays["fitted"][0]),
            cls.from_arrays(
                {
                    w.removeprefix(_COARSE): each
                    for w, each in arrays.items()
                    if w.startswith(_COARSE)
                }
            ),
            bool(arrays.get(_CORRECTS, np.zeros(1))[0] > 0.5),
            arrays[_ON_SCALE] > 0.5 if _ON_SCALE in arrays else None,
        )
