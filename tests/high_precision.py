"""The log-partition function with fifty digits: the oracle of the kernel tests."""

from decimal import Decimal, getcontext

import numpy as np

getcontext().prec = 50


def _dot(a, b):
    return sum(
        (Decimal(float(x)) * Decimal(float(y)) for x, y in zip(a, b, strict=True)), Decimal()
    )


def log_partition(xi, points, weights):
    """log Z, mean and covariance by definition, in decimal arithmetic, rounded at the end."""
    log_z, mean, covariance = [], [], []
    for target in xi:
        atoms = [
            (Decimal(float(w)) * _dot(target, y).exp(), [Decimal(float(c)) for c in y])
            for y, w in zip(points, weights, strict=True)
            if w > 0
        ]
        z = sum(a for a, _ in atoms)
        d = range(len(target))
        m = [sum(a * y[k] for a, y in atoms) / z for k in d]
        log_z.append(float(z.ln()))
        mean.append([float(v) for v in m])
        covariance.append(
            [
                [float(sum(a * (y[i] - m[i]) * (y[k] - m[k]) for a, y in atoms) / z) for k in d]
                for i in d
            ]
        )
    return np.array(log_z), np.array(mean), np.array(covariance)
