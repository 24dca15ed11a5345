"""What happens between one patch of targets and one patch of sources.

Targets xi = xi_c + eta come WIDTH at a time, sources y = c + delta (for moments) BLOCK at a time;
both lie in the lanes of the vectors. Exponentials are powers of 2: exponents are multiplied by
log2(e) beforehand (names ending in 2). Everything is relative to `pull`, a guess of the mean: with
it e^{<eta, y>} stays near 1 where it matters, and what is summed for the mean is y - pull.

Flat arrays: eta (3 WIDTH,), delta (3 BLOCK,): coordinate after coordinate; f, total (4 WIDTH,): Z
and its gradient; power (p WIDTH,): the monomials e_alpha(eta), row after row; rows (4 p,): four
coefficients per monomial; sources (4 stride,): coordinates and log2 of the masses.
"""

from pde.kernels.compile import kernel
from pde.kernels.exponential import C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11
from pde.kernels.lanes import (
    first_lanes,
    larger,
    last_bits_to_exponent,
    load,
    multiply_add,
    splat,
    store,
    sum_of,
)

WIDTH = 32  # targets handled together
BLOCK = 64  # sources handled together for moments
ROUND = 1.5 * 2.0**52 + 1023.0  # t + ROUND holds the nearest integer + 1023 in its last bits

# 2^r on [-1/2, 1/2] at the 8 Chebyshev nodes: relative error 5.6e-11
S0, S1, S2, S3 = 0.9999999999595618, 0.6931471805568324, 0.24022651213498092, 0.055504109063258665
S4, S5 = 0.009618025613318034, 0.0013333478473685416
S6, S7 = 0.00015469729214118296, 1.5303700711365693e-05
SHORT_ERROR = 5.6e-11


@kernel
def exp2(t):
    """2^t in every lane, -1022 <= t < 1023, to rounding."""
    shifted = t + splat(ROUND)
    r = t - (shifted - splat(ROUND))
    r2 = r * r
    r4 = r2 * r2
    low = multiply_add(
        r2, multiply_add(r, splat(C3), splat(C2)), multiply_add(r, splat(C1), splat(C0))
    )
    middle = multiply_add(
        r2, multiply_add(r, splat(C7), splat(C6)), multiply_add(r, splat(C5), splat(C4))
    )
    high = multiply_add(
        r2, multiply_add(r, splat(C11), splat(C10)), multiply_add(r, splat(C9), splat(C8))
    )
    fraction = multiply_add(r4, multiply_add(r4, high, middle), low)
    return fraction * last_bits_to_exponent(shifted)


@kernel
def exp2_short(t):
    """2^t in every lane, -1022 <= t < 1023, to SHORT_ERROR."""
    shifted = t + splat(ROUND)
    r = t - (shifted - splat(ROUND))
    r2 = r * r
    low = multiply_add(
        r2, multiply_add(r, splat(S3), splat(S2)), multiply_add(r, splat(S1), splat(S0))
    )
    high = multiply_add(
        r2, multiply_add(r, splat(S7), splat(S6)), multiply_add(r, splat(S5), splat(S4))
    )
    return multiply_add(r2 * r2, high, low) * last_bits_to_exponent(shifted)


@kernel
def weigh(sources, stride, j, stop, xi2, lower2):
    """2^(<xi, y> + log2 w - lower) for eight sources from j; 0 from `stop` on."""
    t = load(sources, 3 * stride + j) - splat(lower2)
    t = multiply_add(splat(xi2[0]), load(sources, j), t)
    t = multiply_add(splat(xi2[1]), load(sources, stride + j), t)
    t = multiply_add(splat(xi2[2]), load(sources, 2 * stride + j), t)
    return first_lanes(exp2(larger(t, splat(-1022.0))), stop - j)


@kernel
def total_weight(sources, stride, first, last, xi2, lower2):
    """sum_j w_j e^{<xi, y_j> - lower}."""
    total = splat(0.0)
    for j in range(first, last, 8):
        total = total + weigh(sources, stride, j, last, xi2, lower2)
    return sum_of(total)


@kernel
def weigh_block(sources, stride, first, last, xi2, lower2, centre, a, delta):
    """a_j = w_j e^{<xi_c, y_j> - lower} and delta_j = y_j - c for BLOCK sources from `first`."""
    c0, c1, c2 = splat(centre[0]), splat(centre[1]), splat(centre[2])
    for v in range(0, BLOCK, 8):
        j = first + v
        store(a, v, weigh(sources, stride, j, last, xi2, lower2))
        store(delta, v, load(sources, j) - c0)
        store(delta, BLOCK + v, load(sources, stride + j) - c1)
        store(delta, 2 * BLOCK + v, load(sources, 2 * stride + j) - c2)


@kernel
def add_moments(a, delta, degree, third, chain, base, partial):
    """partial_alpha += a_j delta_j^alpha for |alpha| <= degree, BLOCK sources into eight lanes.

    The products a delta_1^i delta_2^j are kept in `base`; from each of them the powers of delta_3
    are run through in registers (not for d = 2, where `third` is false).
    """
    z = 2 * BLOCK
    z0, z1, z2, z3 = load(delta, z), load(delta, z + 8), load(delta, z + 16), load(delta, z + 24)
    z += 32
    z4, z5, z6, z7 = load(delta, z), load(delta, z + 8), load(delta, z + 16), load(delta, z + 24)
    for v in range(0, BLOCK, 8):
        store(base, v, load(a, v))
    r = 0
    for shell in range(degree + 1):
        for j in range(shell + 1):
            row = r * BLOCK
            if shell > 0:
                previous = row - (shell if j == 0 else shell + 1) * BLOCK
                x = 0 if j == 0 else BLOCK
                for v in range(0, BLOCK, 8):
                    store(base, row + v, load(base, previous + v) * load(delta, x + v))
            b0, b1, b2 = load(base, row), load(base, row + 8), load(base, row + 16)
            b3, b4, b5 = load(base, row + 24), load(base, row + 32), load(base, row + 40)
            b6, b7 = load(base, row + 48), load(base, row + 56)
            p = 8 * chain[r, 0]
            total = ((b0 + b1) + (b2 + b3)) + ((b4 + b5) + (b6 + b7))
            store(partial, p, load(partial, p) + total)
            if third:
                for k in range(1, degree - shell + 1):
                    b0, b1, b2, b3 = b0 * z0, b1 * z1, b2 * z2, b3 * z3
                    b4, b5, b6, b7 = b4 * z4, b5 * z5, b6 * z6, b7 * z7
                    p = 8 * chain[r, k]
                    total = ((b0 + b1) + (b2 + b3)) + ((b4 + b5) + (b6 + b7))
                    store(partial, p, load(partial, p) + total)
            r += 1


@kernel
def coefficients_of(partial, scale, degree, raised, count, first, moments, rows):
    """Four coefficients per monomial, from rows[first]: of F and of its three derivatives.

    F(eta) = sum_alpha K_alpha e_alpha(eta), K_alpha = |alpha|! a_|alpha| moments_alpha.
    """
    p = 0
    for q in range(degree + 1):
        while p < count[q]:
            moments[p] = scale[q] * sum_of(load(partial, 8 * p))
            p += 1
    slopes = count[degree - 1] if degree > 0 else 0
    for p in range(slopes):
        i = first + 4 * p
        rows[i] = moments[p]
        rows[i + 1] = moments[raised[p, 0]]
        rows[i + 2] = moments[raised[p, 1]]
        rows[i + 3] = moments[raised[p, 2]]
    for p in range(slopes, count[degree]):
        rows[first + 4 * p] = moments[p]


@kernel
def fill_powers(eta, n, parent, axis, inverse, power):
    """power = e_alpha(eta) for the first n monomials."""
    for v in range(0, WIDTH, 8):
        store(power, v, splat(1.0))
    for p in range(1, n):
        factor = splat(inverse[p])
        for v in range(0, WIDTH, 8):
            previous = load(power, parent[p] * WIDTH + v)
            store(power, p * WIDTH + v, previous * load(eta, axis[p] * WIDTH + v) * factor)


@kernel
def contract(rows, first, n_slopes, n_values, power, f):
    """f_k = sum_p rows[p, k] power_p: Z and, with the first n_slopes monomials, its gradient."""
    a0 = a1 = a2 = a3 = splat(0.0)
    b0 = b1 = b2 = b3 = splat(0.0)
    c0 = c1 = c2 = c3 = splat(0.0)
    d0 = d1 = d2 = d3 = splat(0.0)
    for p in range(n_slopes):
        i, j = first + 4 * p, p * WIDTH
        q0, q1, q2, q3 = (
            load(power, j),
            load(power, j + 8),
            load(power, j + 16),
            load(power, j + 24),
        )
        k = splat(rows[i])
        a0, a1 = multiply_add(k, q0, a0), multiply_add(k, q1, a1)
        a2, a3 = multiply_add(k, q2, a2), multiply_add(k, q3, a3)
        k = splat(rows[i + 1])
        b0, b1 = multiply_add(k, q0, b0), multiply_add(k, q1, b1)
        b2, b3 = multiply_add(k, q2, b2), multiply_add(k, q3, b3)
        k = splat(rows[i + 2])
        c0, c1 = multiply_add(k, q0, c0), multiply_add(k, q1, c1)
        c2, c3 = multiply_add(k, q2, c2), multiply_add(k, q3, c3)
        k = splat(rows[i + 3])
        d0, d1 = multiply_add(k, q0, d0), multiply_add(k, q1, d1)
        d2, d3 = multiply_add(k, q2, d2), multiply_add(k, q3, d3)
    for p in range(n_slopes, n_values):
        k, j = splat(rows[first + 4 * p]), p * WIDTH
        a0 = multiply_add(k, load(power, j), a0)
        a1 = multiply_add(k, load(power, j + 8), a1)
        a2 = multiply_add(k, load(power, j + 16), a2)
        a3 = multiply_add(k, load(power, j + 24), a3)
    store(f, 0, a0), store(f, 8, a1), store(f, 16, a2), store(f, 24, a3)
    store(f, 32, b0), store(f, 40, b1), store(f, 48, b2), store(f, 56, b3)
    store(f, 64, c0), store(f, 72, c1), store(f, 80, c2), store(f, 88, c3)
    store(f, 96, d0), store(f, 104, d1), store(f, 112, d2), store(f, 120, d3)


@kernel
def accumulate(f, eta2, offset, total):
    """total += e^{<eta, offset>} (f_0, offset f_0 + (f_1, f_2, f_3)), offset = c - pull."""
    o0, o1, o2 = splat(offset[0]), splat(offset[1]), splat(offset[2])
    for v in range(0, WIDTH, 8):
        t = multiply_add(o1, load(eta2, WIDTH + v), o2 * load(eta2, 2 * WIDTH + v))
        e = exp2(multiply_add(o0, load(eta2, v), t))
        w = e * load(f, v)
        store(total, v, load(total, v) + w)
        u = multiply_add(e, load(f, WIDTH + v), load(total, WIDTH + v))
        store(total, WIDTH + v, multiply_add(o0, w, u))
        u = multiply_add(e, load(f, 2 * WIDTH + v), load(total, 2 * WIDTH + v))
        store(total, 2 * WIDTH + v, multiply_add(o1, w, u))
        u = multiply_add(e, load(f, 3 * WIDTH + v), load(total, 3 * WIDTH + v))
        store(total, 3 * WIDTH + v, multiply_add(o2, w, u))


@kernel
def prepare_direct(sources, stride, first, xi2, lower2, pull, least, near):
    """near = y_j - pull (3 WIDTH,) and log2(w_j e^{<xi_c, y_j> - lower}), but at least `least`."""
    for v in range(0, WIDTH, 8):
        j = first + v
        y0, y1, y2 = load(sources, j), load(sources, stride + j), load(sources, 2 * stride + j)
        t = multiply_add(splat(xi2[0]), y0, load(sources, 3 * stride + j) - splat(lower2))
        t = multiply_add(splat(xi2[2]), y2, multiply_add(splat(xi2[1]), y1, t))
        store(near, v, y0 - splat(pull[0]))
        store(near, WIDTH + v, y1 - splat(pull[1]))
        store(near, 2 * WIDTH + v, y2 - splat(pull[2]))
        store(near, 3 * WIDTH + v, larger(t, splat(least)))


@kernel
def accumulate_direct(near, size, eta2, n_targets, short, total):
    """total += sum_j 2^(near_3 + <eta, near>) (1, near) over `size` sources, term by term."""
    for v in range(0, n_targets, 16):
        u = v + 8
        e0, e1, e2 = load(eta2, v), load(eta2, WIDTH + v), load(eta2, 2 * WIDTH + v)
        g0, g1, g2 = load(eta2, u), load(eta2, WIDTH + u), load(eta2, 2 * WIDTH + u)
        s0, s1 = load(total, v), load(total, WIDTH + v)
        s2, s3 = load(total, 2 * WIDTH + v), load(total, 3 * WIDTH + v)
        t0, t1 = load(total, u), load(total, WIDTH + u)
        t2, t3 = load(total, 2 * WIDTH + u), load(total, 3 * WIDTH + u)
        for j in range(size):
            o0, o1, o2 = splat(near[j]), splat(near[WIDTH + j]), splat(near[2 * WIDTH + j])
            exponent = splat(near[3 * WIDTH + j])
            s = multiply_add(e2, o2, multiply_add(e1, o1, multiply_add(e0, o0, exponent)))
            t = multiply_add(g2, o2, multiply_add(g1, o1, multiply_add(g0, o0, exponent)))
            if short:
                s, t = exp2_short(s), exp2_short(t)
            else:
                s, t = exp2(s), exp2(t)
            s0, t0 = s0 + s, t0 + t
            s1, t1 = multiply_add(s, o0, s1), multiply_add(t, o0, t1)
            s2, t2 = multiply_add(s, o1, s2), multiply_add(t, o1, t2)
            s3, t3 = multiply_add(s, o2, s3), multiply_add(t, o2, t3)
        store(total, v, s0), store(total, WIDTH + v, s1)
        store(total, 2 * WIDTH + v, s2), store(total, 3 * WIDTH + v, s3)
        store(total, u, t0), store(total, WIDTH + u, t1)
        store(total, 2 * WIDTH + u, t2), store(total, 3 * WIDTH + u, t3)
