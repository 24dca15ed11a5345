"""Initial laws: total mass 1, closed-form moments, samples that follow the density."""

from functools import lru_cache

import numpy as np
import pytest

from meshes import circle, icosphere
from pde import initial
from pde.initial.laws import Law

E3 = np.array([0.0, 0.0, 1.0])
AXIS = np.array([0.48, -0.6, 0.64])
AXIS2 = np.array([0.6, -0.8])
ANGLES = np.random.default_rng(5).normal(size=(3, 3))
LAMBDA = ANGLES @ ANGLES.T + 0.3 * np.eye(3)

SMOOTH = [
    initial.uniform(),
    initial.von_mises_fisher(AXIS, 0.0),
    initial.von_mises_fisher(AXIS, 5.0),
    initial.bumps([AXIS, E3], [0.5, 0.7], [1.0, 2.0], floor=0.1),
    initial.angular_central_gaussian(LAMBDA),
    initial.random_band_limited(3, degree=5, amplitude=0.9),
    initial.uniform(2),
    initial.von_mises_fisher(AXIS2, 3.0),
    initial.bumps([AXIS2], 0.4, floor=0.05),
    initial.angular_central_gaussian(LAMBDA[:2, :2]),
    initial.random_band_limited(4, degree=6, amplitude=0.8, d=2),
]


@lru_cache
def mesh_of(d):
    return icosphere(16) if d == 3 else circle(256)


def mesh_for(law):
    return mesh_of(law.dim)


@pytest.mark.parametrize("law", SMOOTH, ids=repr)
def test_total_mass_is_one(law):
    mesh = mesh_for(law)
    assert isinstance(law, Law)
    assert mesh.average(law) @ mesh.areas == pytest.approx(1.0, abs=1e-10)
    assert law(mesh.centers).min() > 0.0


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("kappa", [0.5, 40.0, 1e5])
def test_von_mises_fisher_mean_length(d, kappa):
    from scipy.special import ive

    # Normalisation and mean in any dimension: |E x| = I_{d/2} / I_{d/2-1}.
    law = initial.von_mises_fisher(np.eye(d)[0], kappa)
    x = law.draw(40_000, np.random.default_rng(1))
    length = ive(d / 2, kappa) / ive(d / 2 - 1, kappa)
    spread = np.std(x[:, 0]) / np.sqrt(len(x))
    assert abs(x[:, 0].mean() - length) < 5 * spread
    # density at the mode against the Gaussian limit for large kappa, O(1/kappa)
    gauss = (kappa / (2 * np.pi)) ** ((d - 1) / 2)
    assert abs(law(np.eye(d)[:1])[0] / gauss - 1.0) < 3.0 * d / kappa


@pytest.mark.parametrize("radius", [0.3, 2.0])
def test_spots_cover_their_cap(radius):
    # area 2 pi (1 - cos r) on the sphere, 2 r on the circle
    sphere, ring = initial.spot(E3, radius), initial.spot(AXIS2, radius)
    assert sphere(E3[None])[0] == pytest.approx(0.5 / np.pi / (1 - np.cos(radius)), rel=1e-13)
    assert ring(AXIS2[None])[0] == pytest.approx(0.5 / radius, rel=1e-13)
    for law, center in ((sphere, E3), (ring, AXIS2), (initial.spot(np.eye(4)[0], radius), None)):
        x = law.draw(20_000, np.random.default_rng(0))
        angle = np.arccos(np.clip(x @ (np.eye(4)[0] if center is None else center), -1, 1))
        assert angle.max() <= radius + 1e-12
        assert law(x).min() > 0.0
        d = law.dim
        r = np.linspace(0, radius, 2001)
        density = np.sin(r) ** (d - 2)
        mean = np.trapezoid(r * density, r) / np.trapezoid(density, r)
        assert abs(angle.mean() - mean) < 5 * angle.std() / np.sqrt(len(x)) + 1e-6


@pytest.mark.parametrize("law", SMOOTH, ids=repr)
def test_samples_have_the_moments_of_the_density(law):
    nodes = mesh_for(law).quadrature(8)
    masses = nodes.weights * law(nodes.points)
    n = 50_000
    x = initial.sample(law, n, seed=11)
    assert x.shape == (n, law.dim)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-14)
    for power in (1, 2, 3):
        for axis in np.eye(law.dim):
            exact = masses @ (nodes.points @ axis) ** power
            values = (x @ axis) ** power
            assert abs(values.mean() - exact) < 5 * values.std() / np.sqrt(n) + 1e-9


def test_band_limited_samples_solve_their_distribution_functions():
    # The Kolmogorov-Smirnov distance of heights to the exact marginal is of size n^{-1/2}.
    law = initial.random_band_limited(3, degree=5, amplitude=0.9)
    x = np.sort(initial.sample(law, 20_000, seed=2)[:, 2])
    nodes, weights = np.polynomial.legendre.leggauss(40)
    longitudes = 2 * np.pi * np.arange(24) / 24
    ring = np.stack([np.cos(longitudes), np.sin(longitudes)], axis=1)

    def mass_below(z):
        height = 0.5 * (z + 1) * (nodes + 1) - 1
        points = np.empty((40, 24, 3))
        points[..., :2] = np.sqrt(1 - height**2)[:, None, None] * ring
        points[..., 2] = height[:, None]
        values = law(points.reshape(-1, 3)).reshape(40, 24).mean(axis=1) * 2 * np.pi
        return 0.5 * (z + 1) * weights @ values

    quantiles = np.linspace(0.05, 0.95, 19)
    exact = np.array([mass_below(z) for z in np.quantile(x, quantiles)])
    assert np.abs(exact - quantiles).max() < 2.0 / np.sqrt(len(x))


def test_band_limited_amplitude_is_reached():
    law = initial.random_band_limited(8, degree=4, amplitude=0.5)
    deviation = np.abs(law(icosphere(48).centers) * 4 * np.pi - 1.0).max()
    assert 0.48 < deviation <= 0.5
    np.testing.assert_array_equal(
        law(np.eye(3)), initial.random_band_limited(8, degree=4, amplitude=0.5)(np.eye(3))
    )
    assert not np.allclose(law(np.eye(3)), initial.random_band_limited(9)(np.eye(3)))


def test_any_density_is_sampled_from_its_cells():
    density = lambda x: 1.0 + x[:, 2] + 2.0 * x[:, 0] ** 2  # noqa: E731  (not normalised)
    n = 100_000
    x = initial.sample(density, n, seed=3)
    # int (1 + z + 2 x^2) = 4 pi (1 + 2/3); E z = (1/3) / (5/3), E x^2 = (1/3 + 2/5) / (5/3)
    assert abs(x[:, 2].mean() - 0.2) < 5 * x[:, 2].std() / np.sqrt(n)
    assert abs((x[:, 0] ** 2).mean() - 0.44) < 5 * (x[:, 0] ** 2).std() / np.sqrt(n)
    ring = initial.sample(lambda x: 1.0 + x[:, 0], n, seed=3, d=2)
    assert abs(ring[:, 0].mean() - 0.5) < 5 * ring[:, 0].std() / np.sqrt(n)
    assert ring.shape == (n, 2)


def test_samples_fill_the_cells_evenly():
    # Uniform points of a uniform density's cells: as far from the centers as they should be.
    from pde.initial import _sample_cells

    x = _sample_cells(lambda x: np.ones(len(x)), 60_000, np.random.default_rng(0), 3)
    mesh = icosphere(64)
    distance = np.linalg.norm(x - mesh.centers[mesh.locate(x)], axis=1)
    nodes = mesh.quadrature(2)
    owner = np.repeat(np.arange(mesh.n_cells), np.diff(nodes.offsets))
    exact = nodes.weights @ np.linalg.norm(nodes.points - mesh.centers[owner], axis=1)
    assert distance.mean() == pytest.approx(exact / (4 * np.pi), rel=0.01)


@pytest.mark.parametrize("law", [*SMOOTH[:6], lambda x: 1 + x[:, 0]], ids=lambda law: repr(law)[:9])
def test_seeds_decide(law):
    a, b, c = (initial.sample(law, 100, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    assert initial.sample(law, 0, seed=0).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: initial.von_mises_fisher([1.0, 1.0, 0.0], 1.0), "mean must be unit vectors"),
        (lambda: initial.von_mises_fisher(E3, -1.0), "kappa must be >= 0, got -1"),
        (lambda: initial.bumps([E3], 0.0), "widths > 0"),
        (lambda: initial.bumps([E3], 1.0, 0.0), "must have mass"),
        (lambda: initial.bumps([E3], [1.0, 2.0]), "widths must hold one number, or one for each"),
        (lambda: initial.spot(E3, 4.0), "radius must be at most pi"),
        (lambda: initial.angular_central_gaussian(-np.eye(3)), "positive definite"),
        (lambda: initial.random_band_limited(0, amplitude=1.0), "amplitude must be < 1"),
        (lambda: initial.random_band_limited(0, degree=0), "degree must be >= 1"),
        (lambda: initial.uniform(1), "d must be >= 2"),
        (lambda: initial.sample(initial.uniform(), -1, 0), "n must be >= 0, got -1"),
        (lambda: initial.sample(lambda x: x[:, 0], 1, 0), "f must be a density"),
        (lambda: initial.sample(lambda x: x[:, 0], 1, 0, d=4), "d must be 2 or 3"),
        (lambda: initial.uniform(2)(np.eye(3)), "d = 2"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
