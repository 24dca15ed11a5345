"""Error against seconds: the interpolation between meshes, and the study at a tiny size."""

from validation import work_precision as study


def test_the_fastest_order_at_an_error():
    runs = [
        study.Run(order, 10, error, seconds, 1)
        for order, error, seconds in [
            (2, 1e-2, 1.0),
            (2, 1e-4, 100.0),  # second order: a tenth of the error costs ten times as much
            (4, 1e-2, 4.0),
            (4, 1e-6, 400.0),
        ]
    ]
    assert study.fastest(runs, 1e-2) == 2
    assert study.fastest(runs, 1e-4) == 4
    assert study.fastest(runs, 1e-9) == 0
