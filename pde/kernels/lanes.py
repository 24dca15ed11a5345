"""Eight float64 numbers that are worked on at once: a vector register, spelled out.

Loops over arrays are left to the compiler. Where sums must stay in registers over a long loop,
kernels name the vectors themselves: `a = load(x, i)` takes eight neighbours of a 1-d array,
arithmetic is elementwise, `multiply_add(a, b, c)` is a b + c (fused where the processor can).
LLVM splits the eight into what the processor has.
"""

import operator

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, models, overload, register_model

LANES = 8
_double = ir.DoubleType()
_vector = ir.VectorType(_double, LANES)
_bits = ir.VectorType(ir.IntType(64), LANES)


class LanesType(types.Type):
    """numba's type of eight float64 numbers."""

    def __init__(self):
        super().__init__(name="Lanes")


lanes = LanesType()


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """Stored as an LLVM vector."""

    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _vector)


def _address(context, builder, array_type, array, index):
    """Pointer to a vector that begins at array[index]; neither bounds nor negative indices."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _vector.as_pointer())


def _splat(builder, number):
    one = builder.insert_element(ir.Constant(_vector, ir.Undefined), number, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_vector, ir.Undefined), mask)


def _call(builder, name, result, args):
    function_type = ir.FunctionType(result, [a.type for a in args])
    return builder.call(builder.module.declare_intrinsic(name, fnty=function_type, tys=()), args)


@intrinsic
def load(typing_context, array, index):
    """array[index : index + 8] of a contiguous 1-d array."""

    def generate(context, builder, signature, args):
        pointer = _address(context, builder, signature.args[0], *args)
        return builder.load(pointer, align=8)

    return lanes(array, types.intp), generate


@intrinsic
def store(typing_context, array, index, value):
    """array[index : index + 8] = value."""

    def generate(context, builder, signature, args):
        pointer = _address(context, builder, signature.args[0], *args[:2])
        builder.store(args[2], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


@intrinsic
def splat(typing_context, number):
    """The same number eight times."""

    def generate(context, builder, signature, args):
        return _splat(builder, args[0])

    return lanes(types.float64), generate


@intrinsic
def multiply_add(typing_context, a, b, c):
    """a b + c."""

    def generate(context, builder, signature, args):
        return _call(builder, "llvm.fmuladd.v8f64", _vector, args)

    return lanes(lanes, lanes, lanes), generate


@intrinsic
def sum_of(typing_context, a):
    """Sum of the eight numbers, in a fixed order."""

    def generate(context, builder, signature, args):
        v = args[0]
        for half in (4, 2, 1):
            mask = [ir.Constant(ir.IntType(32), i + half if i < half else 0) for i in range(LANES)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), mask)
            v = builder.fadd(v, builder.shuffle_vector(v, v, mask))
        return builder.extract_element(v, ir.IntType(32)(0))

    return types.float64(lanes), generate


@intrinsic
def larger(typing_context, a, b):
    """Elementwise maximum (no NaN)."""

    def generate(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return lanes(lanes, lanes), generate


@intrinsic
def first_lanes(typing_context, a, n):
    """The first n lanes of a, zeros in the others."""

    def generate(context, builder, signature, args):
        number = ir.IntType(64)
        bits = ir.VectorType(number, LANES)
        one = builder.insert_element(ir.Constant(bits, ir.Undefined), args[1], ir.IntType(32)(0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        limit = builder.shuffle_vector(one, ir.Constant(bits, ir.Undefined), mask)
        position = ir.Constant(bits, [ir.Constant(number, i) for i in range(LANES)])
        inside = builder.icmp_signed("<", position, limit)
        return builder.select(inside, args[0], ir.Constant(_vector, [0.0] * LANES))

    return lanes(lanes, types.intp), generate


@intrinsic
def last_bits_to_exponent(typing_context, a):
    """See pde.kernels.exponential."""

    def generate(context, builder, signature, args):
        shift = ir.Constant(_bits, [ir.Constant(ir.IntType(64), 52)] * LANES)
        return builder.bitcast(builder.shl(builder.bitcast(args[0], _bits), shift), _vector)

    return lanes(lanes), generate


def _elementwise(operation, instruction):
    @intrinsic
    def apply(typing_context, a, b):
        def generate(context, builder, signature, args):
            return getattr(builder, instruction)(*args)

        return lanes(lanes, lanes), generate

    @overload(operation)
    def choose(a, b):
        if a is lanes and b is lanes:
            return lambda a, b: apply(a, b)
        return None


_elementwise(operator.add, "fadd")
_elementwise(operator.sub, "fsub")
_elementwise(operator.mul, "fmul")
