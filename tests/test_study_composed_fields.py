"""The study of composed fields: its exact solutions solve the equation, its bars can be missed."""

from dataclasses import replace

import numpy as np
import pytest

from pde.fields.one_body import Drift
from pde.fields.prescribed import along_great_circle
from pde.fields.time_dependent import TimeDependent
from validation import composed_fields, convergence
from validation.composed_fields import cases, particles_error, quadrature

CASES = [(d, case) for d in (2, 3) for case in cases(d)]


@pytest.mark.parametrize(("d", "case"), CASES, ids=lambda v: getattr(v, "name", v))
def test_the_densities_solve_the_continuity_equation(d, case):
    """d_t log rho + <v, grad log rho> + div v = 0 at random points, with v of the exact law."""
    t, h = 0.7, 1e-3
    x = np.random.default_rng(d).normal(size=(10, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    mu = quadrature(case.density(t), d)
    log_rho = lambda s, y=x: np.log(case.density(s)(y))  # noqa: E731
    rate = (8 * (log_rho(t + h) - log_rho(t - h)) - (log_rho(t + 2 * h) - log_rho(t - 2 * h))) / (
        12 * h
    )
    v = case.field.velocity(x, mu, t)
    speed = np.linalg.norm(v, axis=1)
    along = along_great_circle(lambda y: log_rho(t, y), x, v / speed[:, None])
    residual = rate + speed * along + case.field.divergence(x, mu, t)
    assert np.abs(rate).max() > 0.05
    np.testing.assert_allclose(residual, 0.0, atol=1e-8)


@pytest.mark.parametrize(("d", "case"), CASES, ids=lambda v: getattr(v, "name", v))
def test_means_and_flows_belong_to_the_densities(d, case):
    start, later = quadrature(case.density(0.0), d), quadrature(case.density(0.6), d)
    assert later.total == pytest.approx(1.0, abs=1e-9)
    if case.mean is not None:
        np.testing.assert_allclose(later.mean(), case.mean(0.6), rtol=0, atol=1e-9)
    else:
        np.testing.assert_allclose(
            later.mean(), start.push(case.flow(0.6)).mean(), rtol=0, atol=1e-8
        )


def test_parameters_of_the_beginning_of_a_step_would_be_noticed():
    """Frozen within each step, a(t) leaves every stepper with first order: the bar is missed."""
    case = cases(3)[2]
    A = case.field.now(0.0).A / composed_fields.speed(0.0)
    cloud = quadrature(case.density(0.0), 3)

    def error(steps):
        def frozen(t):
            # The stages at the end of a step belong to it.
            begun = np.ceil(t * steps - 1e-9) - 1.0
            return Drift(composed_fields.speed(max(begun, 0.0) / steps) * A)

        return particles_error(replace(case, field=TimeDependent(frozen)), cloud, "ssprk54", steps)

    study = convergence.study(error, [20, 40])
    assert 0.7 < study.order[-1] < 1.3
    missed = composed_fields.promised({}, {("time", "ssprk54"): study})
    assert [bar.met for bar in missed] == [False, False]
