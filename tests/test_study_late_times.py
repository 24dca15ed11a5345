"""Late times of a concentrating solution: errors of about half a cell's width, masses kept."""

import numpy as np

from validation import late_times
from validation.problems import concentrating


def test_exact_measures_concentrate_at_the_known_rate():
    references = concentrating.exact_measures(8)
    axis = concentrating.AXES[:, 0]
    spread = [mu.integrate(lambda x: 1 - (x @ axis) ** 2) for mu in references]
    # tan of the angle to E decays like e^{-t/2} in its slowest component, its square like e^{-t}
    assert abs(np.log(spread[4] / spread[5]) / 8.0 - 1.0) < 0.25
    shares = [concentrating.right_share(mu) for mu in references]
    np.testing.assert_array_equal(shares, shares[0])


def test_second_order_stays_within_half_a_width():
    run = late_times.solve(2, 6, concentrating.exact_measures(16))
    assert run.distances.max() < 0.6 * run.mesh.spacing
    assert run.shares[-1] < 3e-3
