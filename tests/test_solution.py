"""Solutions: what belongs together, measures, and the way to the disk and back."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde import SelfAttention, Simulation, initial
from pde.measure import Measure
from pde.solution import Solution
from pde.tokens.normalisation import NormalisedTokens


def cells(mesh, count=3):
    states = np.random.default_rng(4).random((count, mesh.n_cells))
    times = np.linspace(0, 1, count)
    masses = states @ mesh.areas
    return Solution(times, states, {"mass": masses}, mesh, metadata={"beta": 50.0})


def test_measures_carry_the_cells_masses():
    solution = cells(icosphere(3))
    for mu, mass in zip(solution.measures, solution.diagnostics["mass"], strict=True):
        assert mu.n == 92
        np.testing.assert_allclose(mu.total, mass, rtol=1e-14)
        np.testing.assert_array_equal(mu.points, solution.mesh.centroids)


def test_measures_of_several_fields_are_the_first_ones():
    mesh = circle(4)
    both = np.stack([np.ones(4), np.zeros(4)], axis=1)
    np.testing.assert_array_equal(
        Solution([0.0], [both], mesh=mesh).measures[0].weights, mesh.areas
    )


def test_measures_of_particles_and_of_the_system():
    points = np.eye(3)
    assert Solution([0.0], [points], weights=[1.0, 2.0, 3.0]).measures[0].total == 6.0
    doubled = Solution([0.0], [points], to_measure=lambda x: Measure(x, np.full(3, 2.0)))
    assert doubled.measures[0].total == 6.0


@pytest.mark.parametrize("mesh", [icosphere(3), circle(7)], ids=["sphere", "circle"])
def test_saved_and_opened_is_the_same(tmp_path, mesh):
    solution = cells(mesh)
    solution.save(tmp_path / "s.nc")
    opened = Solution.open(tmp_path / "s.nc")
    np.testing.assert_array_equal(opened.times, solution.times)
    np.testing.assert_array_equal(opened.states, solution.states)
    np.testing.assert_array_equal(opened.diagnostics["mass"], solution.diagnostics["mass"])
    assert opened.metadata == {"beta": 50.0}
    for before, after in zip(solution.measures, opened.measures, strict=True):
        np.testing.assert_array_equal(after.points, before.points)
        np.testing.assert_array_equal(after.weights, before.weights)


def test_index_is_the_nearest_time():
    solution = Solution([0.0, 1.0, 4.0], np.tile(np.eye(2), (3, 1, 1)))
    assert [solution.index(t) for t in (-1.0, 0.4, 0.6, 3.0, 9.0)] == [0, 0, 1, 2, 2]


def test_what_does_not_belong_together_is_refused(tmp_path):
    with pytest.raises(ValueError, match="states must hold 2 states, as times, got 1"):
        Solution([0.0, 1.0], [np.eye(3)])
    with pytest.raises(ValueError, match=r"diagnostics\['mass'\] must hold 1, got 2"):
        Solution([0.0], [np.eye(3)], {"mass": np.ones(2)})
    with pytest.raises(ValueError, match="holds no states"):
        Solution([], np.empty((0, 4, 3))).save(tmp_path / "s.nc")
    with pytest.raises(ValueError, match="holds no states"):
        Solution([], np.empty((0, 4, 3))).index(0.0)


def test_tokens_with_lengths_count_by_their_directions(tmp_path):
    """Pre-LN tokens grow; measures and pictures show their directions, also from a file."""
    tokens = NormalisedTokens(SelfAttention(np.eye(3), np.eye(3), 1.0), "pre_ln")
    start = initial.sample(initial.uniform(), 8, seed=1)
    solution = Simulation(tokens, start).run(2.0)
    path = tmp_path / "tokens.nc"
    solution.save(path)
    read = Solution.open(path)
    assert np.linalg.norm(read.states[-1], axis=1).min() > 1.1
    expected = tokens.measure(solution.states[-1]).points
    np.testing.assert_allclose(read.measures[-1].points, expected, rtol=0, atol=1e-15)
    assert read.directions[0] == pytest.approx(start, abs=0)
    read.plot(tmp_path / "tokens.png")
    assert (tmp_path / "tokens.png").stat().st_size > 5000
