"""Routines of LANES simulations as vector instructions: one vector for each quantity.

Statements of `routines.py` are run once, at compilation, with operands that write LLVM code instead
of computing. As Python code of a loop they would take Numba ten times as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

# Contraction lets a·b + c be one instruction; nothing that would reorder sums.
FAST = ("contract", "nsz", "arcp")
_DOUBLE = ir.DoubleType()
_LARGEST = 709.782712893384  # the exponent of the largest number
_LEAST = -708.0  # an exponent whose exponential is a normal number
_LOG2_E = 1.4426950408889634
_LOG_2 = (0.6931471803691238, 1.9082149292705877e-10)  # the first times n without rounding
_SHIFTER = 1.5 * 2.0**52  # what is added to it loses its fraction
_DEGREE = 13


def uncounted() -> dict[str, Any]:
    """Return the option of `numba.njit` by which references to arrays are not counted.

    Functions with it cannot allocate: Numba refuses to compile those that do. It is private, so
    none where this version of Numba does not know it.
    """
    return {"_nrt": False} if hasattr(cpu_target.options, "_nrt") else {}


class Vector:
    """Value of a quantity in all lanes."""

    def __init__(self, code: Code, value: ir.Value):
        self.code, self.value = code, value

    def _do(self, operation: str, left: Any, right: Any) -> Vector:
        operands = (self.code.vector(left), self.code.vector(right))
        return Vector(self.code, getattr(self.code.builder, operation)(*operands, flags=FAST))

    def __add__(self, other: Any) -> Vector:
        return self._do("fadd", self, other)

    def __radd__(self, other: Any) -> Vector:
        return self._do("fadd", other, self)

    def __sub__(self, other: Any) -> Vector:
        return self._do("fsub", self, other)

    def __rsub__(self, other: Any) -> Vector:
        return self._do("fsub", other, self)

    def __mul__(self, other: Any) -> Vector:
        return self._do("fmul", self, other)

    def __rmul__(self, other: Any) -> Vector:
        return self._do("fmul", other, self)

    def __truediv__(self, other: Any) -> Vector:
        return self._do("fdiv", self, other)

    def __rtruediv__(self, other: Any) -> Vector:
        return self._do("fdiv", other, self)

    def __abs__(self) -> Vector:
        return self.code.call("llvm.fabs", self)

    def _compare(self, operator: str, other: Any) -> ir.Value:
        return self.code.builder.fcmp_ordered(operator, self.value, self.code.vector(other))

    def __gt__(self, other: Any) -> ir.Value:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> ir.Value:
        return self._compare(">=", other)


class Code:
    """Writes vector instructions; also the module `math` of the statements."""

    def __init__(self, builder: ir.IRBuilder, lanes: int):
        self.builder, self.lanes = builder, lanes
        self.type = ir.VectorType(_DOUBLE, lanes)

    def vector(self, operand: Any) -> ir.Value:
        """Return the operand in all lanes: a vector, a scalar or a number."""
        if isinstance(operand, Vector):
            return operand.value
        if isinstance(operand, ir.Value):
            place = ir.Constant(ir.IntType(32), 0)
            nothing = ir.Constant(self.type, ir.Undefined)
            one = self.builder.insert_element(nothing, operand, place)
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), None)
            return self.builder.shuffle_vector(one, nothing, everywhere)
        return ir.Constant(self.type, [float(operand)] * self.lanes)

    def call(self, name: str, *operands: Any) -> Vector:
        """Call an intrinsic function of LLVM."""
        kind = ir.FunctionType(self.type, [self.type] * len(operands))
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            self.builder.module, kind, f"{name}.v{self.lanes}f64"
        )
        return Vector(self, self.builder.call(function, [self.vector(each) for each in operands]))

    def exp(self, x: Vector) -> Vector:
        """Compute the exponential to one unit in the last place; below −708 that of −708.

        exp(x) = 2ⁿ exp(r) with r = x − n log 2. LLVM's own would be a call for each lane, and an
        eighth of the time of a simulation.
        """
        overflows = x > _LARGEST
        x = self.choose(overflows, _LARGEST, x)
        x = self.choose(0.0 - x > -_LEAST, _LEAST, x)
        shifted = x * _LOG2_E + _SHIFTER
        n = shifted - _SHIFTER
        r = x - n * _LOG_2[0] - n * _LOG_2[1]
        series = Vector(self, self.vector(1.0 / math.factorial(_DEGREE)))
        for k in range(_DEGREE - 1, 1, -1):
            series = series * r + 1.0 / math.factorial(k)
        found = self._times_power(1.0 + (r + r * r * series), shifted)
        return self.choose(overflows, math.inf, found)

    def _times_power(self, x: Vector, shifted: Vector) -> Vector:
        """Multiply by 2ⁿ, where n is in the last bits of `shifted`, by adding to the exponent."""
        integers, builder = ir.VectorType(ir.IntType(64), self.lanes), self.builder
        bits, n = (builder.bitcast(each.value, integers) for each in (x, shifted))
        mantissa = ir.Constant(integers, [52] * self.lanes)
        scaled = builder.add(bits, builder.shl(n, mantissa))
        return Vector(self, builder.bitcast(scaled, self.type))

    def log(self, x: Vector) -> Vector:
        """Compute the natural logarithm."""
        return self.call("llvm.log", x)

    def copysign(self, size: float, sign: Vector) -> Vector:
        """Give `size` the sign of the other."""
        return self.call("llvm.copysign", size, sign)

    def choose(self, condition: ir.Value, value: Any, other: Any) -> Vector:
        """Choose in each lane."""
        return Vector(self, self.builder.select(condition, self.vector(value), self.vector(other)))


class Scalars:
    """Array of values that are the same in all lanes."""

    def __init__(self, code: Code, start: ir.Value):
        self.code, self.start = code, start

    def __getitem__(self, place: int) -> Vector:
        builder = self.code.builder
        pointer = builder.gep(self.start, [ir.Constant(ir.IntType(64), place)])
        return Vector(self.code, self.code.vector(builder.load(pointer)))


class Work:
    """The work array: quantity q of all lanes at q·LANES."""

    def __init__(self, code: Code, start: ir.Value):
        self.code, self.start = code, start

    def _pointer(self, place: int) -> ir.Value:
        offset = ir.Constant(ir.IntType(64), place * self.code.lanes)
        pointer = self.code.builder.gep(self.start, [offset])
        return self.code.builder.bitcast(pointer, self.code.type.as_pointer())

    def __getitem__(self, place: int) -> Vector:
        value = self.code.builder.load(self._pointer(place), align=8)
        return Vector(self.code, value)

    def __setitem__(self, place: int, value: Any) -> None:
        self.code.builder.store(self.code.vector(value), self._pointer(place), align=8)


def routine(arguments: str, statements: Sequence[str], lanes: int) -> Any:
    """Return a function for compiled code that runs the statements in all lanes."""
    names = arguments.split(", ")
    program = compile("\n".join(statements), "<routine>", "exec")

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, given: Any) -> Any:
        code = Code(builder, lanes)
        # Values that find no register are kept on the stack, each in one cache line.
        builder.function.attributes.alignstack = 64
        scope: dict[str, Any] = {"math": code, "choose": code.choose}
        for name, kind, value in zip(names, signature.args, given, strict=True):
            if isinstance(kind, types.Array):
                start = context.make_array(kind)(context, builder, value).data
                scope[name] = Work(code, start) if name == "W" else Scalars(code, start)
            else:
                scope[name] = Vector(code, code.vector(value))
        exec(program, scope)
        return context.get_dummy_value()

    def typed(typing: Any, *kinds: Any) -> Any:
        return types.void(*kinds), generate

    # Numba looks at the names of the arguments.
    text = f"lambda typing, {arguments}: typed(typing, {arguments})"
    return intrinsic(eval(text, {"typed": typed}))
