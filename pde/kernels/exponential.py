"""Exponentials that the compiler can turn into vector instructions.

`math.exp` is a scalar call. Here 2^t = 2^n 2^r with an integer n and |r| <= 1/2: the fraction is a
polynomial, the integer power is written straight into the exponent bits of a float64.
"""

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from pde.kernels.compile import kernel

# 2^r interpolated at the 12 Chebyshev nodes of [-1/2, 1/2]. The error is at most
# 2 (1/4)^12 max|(2^r)^(12)| / 12! < 5e-18, far below rounding.
C0 = 1.0
C1 = 0.6931471805599453
C2 = 0.24022650695910158
C3 = 0.055504108664821625
C4 = 0.009618129107587256
C5 = 0.001333355814640647
C6 = 0.00015403530463724353
C7 = 1.5252733841556773e-05
C8 = 1.3215432535912375e-06
C9 = 1.0178057087733941e-07
C10 = 7.074194297288521e-09
C11 = 4.4558179083360645e-10

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.6931471803691238  # its last 21 bits are zero: products with |n| < 2^21 are exact
LN2_LOW = 1.9082149292705877e-10

# Adding it to an integer -1023 <= n <= 1023 leaves n + 1023 in the last bits of the sum.
INTEGER_IN_LAST_BITS = 1.5 * 2.0**52 + 1023.0

_unary = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()])
_binary = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()] * 2)


@intrinsic
def maximum(typing_context, a, b):
    """The larger of two numbers (no NaN): unlike `max`, LLVM can vectorise a running maximum."""

    def generate(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.maxnum", [ir.DoubleType()], _binary)
        return builder.call(function, args)

    return types.float64(types.float64, types.float64), generate


@intrinsic
def _last_bits_to_exponent(typing_context, x):
    """The float64 whose sign and exponent bits are the last twelve bits of x."""

    def generate(context, builder, signature, args):
        bits = builder.bitcast(args[0], ir.IntType(64))
        shifted = builder.shl(bits, ir.Constant(ir.IntType(64), 52))
        return builder.bitcast(shifted, ir.DoubleType())

    return types.float64(types.float64), generate


@intrinsic
def round_down(typing_context, x):
    """floor(x) as a float64 (`math.floor` gives an integer, which costs two conversions)."""

    def generate(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.floor", [ir.DoubleType()], _unary)
        return builder.call(function, args)

    return types.float64(types.float64), generate


@kernel(fastmath={"contract", "reassoc"})
def exp2_fraction(r):
    """2^r for |r| <= 1/2, relative error below 3e-16."""
    r2 = r * r
    r4 = r2 * r2
    low = (C0 + C1 * r) + r2 * (C2 + C3 * r)
    middle = (C4 + C5 * r) + r2 * (C6 + C7 * r)
    high = (C8 + C9 * r) + r2 * (C10 + C11 * r)
    return low + r4 * (middle + r4 * high)


@kernel
def exp2_integer(n):
    """2^n for an integer n <= 1023 given as float64, exactly; 0 from n = -1023 downwards."""
    return _last_bits_to_exponent(maximum(n, -1023.0) + INTEGER_IN_LAST_BITS)


@kernel
def exp(x):
    """e^x to 4e-16, also where the result is denormal; 0 below and at -inf, inf above. No NaN."""
    x = -maximum(-maximum(x, -800.0), -800.0)
    n = round_down(x * LOG2_E + 0.5)
    r = ((x - n * LN2_HIGH) - n * LN2_LOW) * LOG2_E
    # Two factors, because 2^n itself may lie beyond the normal range.
    half = round_down(0.5 * n)
    return exp2_fraction(r) * exp2_integer(half) * exp2_integer(n - half)
