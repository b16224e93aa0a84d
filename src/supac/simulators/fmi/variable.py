"""Variables of an FMU, and the elements of those that are arrays (FMI 3)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

_REAL = ("Real", "Float64", "Float32")
_TEXTUAL = ("String", "Binary", "Clock")
_MOST = 1_000  # elements of an array that are listed


@dataclass(frozen=True)
class Variable:
    """One variable of the model."""

    name: str
    reference: int
    type: str
    """As in the calls that get and set it: an enumeration is an integer."""
    causality: str
    variability: str
    initial: str
    unit: str
    """"" if none is declared."""
    start: str
    lower: float
    upper: float
    description: str
    is_difference: bool
    """True for a difference of two values, to which the offset of a unit does not apply."""
    shape: tuple[int, ...] = ()
    """Shape of an array; () for a single variable."""
    dimensions: tuple[int | None, ...] = ()
    """References of the structural parameters that the shape of an array is made of."""
    array: Variable | None = None
    """The array that this is an element of."""
    place: int = 0
    """Place of an element in its array, counted with the last index as the fastest."""

    @property
    def is_array(self) -> bool:
        """Return True for an array, also of one element."""
        return bool(self.shape)

    @property
    def size(self) -> int:
        """Return the number of values."""
        return math.prod(self.shape)

    def start_at(self, place: int) -> str:
        """Return the start value of an element: one stands for all; "" if they do not fit."""
        given = self.start.split()
        if len(given) == 1:
            return given[0]
        return given[place] if len(given) == self.size else ""

    def resized(self, sizes: Mapping[int, int]) -> Variable:
        """Return the array with a shape from other structural parameters, by their references."""
        pairs = zip(self.dimensions, self.shape, strict=True)
        shape = tuple(size if each is None else sizes.get(each, size) for each, size in pairs)
        return replace(self, shape=shape)

    @property
    def is_real(self) -> bool:
        """Return True for a scalar with real values."""
        return self.type in _REAL and not self.is_array

    @property
    def is_number(self) -> bool:
        """Return True for a scalar that can be recorded as a number."""
        return not self.is_textual and not self.is_array

    @property
    def is_textual(self) -> bool:
        """Return True if its values are no numbers."""
        return self.type in _TEXTUAL

    @property
    def is_parameter(self) -> bool:
        """Return True for a real parameter that is set before a run."""
        return self.is_real and self.causality == "parameter" and self.is_settable

    @property
    def is_settable(self) -> bool:
        """Return True if its start value may be set."""
        given = self.causality == "input" or self.initial in ("exact", "approx")
        return given and self.variability != "constant"

    @property
    def is_held(self) -> bool:
        """Return True for an input that keeps its value between the rows of a table."""
        return not self.is_real or self.variability != "continuous"


def elements(variable: Variable) -> Iterator[Variable]:
    """Return the elements of an array, the first thousand; or the variable itself."""
    if not variable.is_array:
        yield variable
        return
    for place in range(min(variable.size, _MOST)):
        rest, indices = place, []
        for size in reversed(variable.shape):
            rest, index = divmod(rest, size)
            indices.append(index + 1)
        yield _element(variable, tuple(reversed(indices)), place)


def find_element(name: str, variables: Mapping[str, Variable]) -> Variable | None:
    """Return the element with a name such as k[2] or A[1,3], with indices from 1; None if none."""
    match = re.fullmatch(r"(.+)\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]", name)
    array = None if match is None else variables.get(match[1].strip())
    if match is None or array is None:
        return None
    indices = tuple(int(each) for each in match[2].split(","))
    if len(indices) != len(array.shape):
        return None
    place = 0
    for index, size in zip(indices, array.shape, strict=True):
        if not 1 <= index <= size:
            return None
        place = place * size + index - 1
    return _element(array, indices, place)


def _element(array: Variable, indices: tuple[int, ...], place: int) -> Variable:
    return replace(
        array,
        name=f"{array.name}[{','.join(map(str, indices))}]",
        start=array.start_at(place),
        shape=(),
        dimensions=(),
        array=array,
        place=place,
    )
