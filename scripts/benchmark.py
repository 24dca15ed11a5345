"""Timings of the kernels, against other libraries and against each other.

    python scripts/benchmark.py kernel     direct sums, against torch and KeOps where installed
    python scripts/benchmark.py fast       the fast kernel against direct sums, by size and beta
    python scripts/benchmark.py step       a right-hand side and an implicit step, part by part
    python scripts/benchmark.py output     results on disk and pictures: size and time
    python scripts/benchmark.py large      a large run: set-up, memory, step, save

`--frequencies 64 128` chooses the meshes of `fast`, `step` and `large`: 10 f^2 + 2 cells.
`--quick` runs tiny sizes, `--out DIR` stores the table. Everything is compared within one run and
by the best of several repetitions: absolute times depend on the machine and on its other work.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pde import Measure, log_partition
from sphere_attention_scripts.benchmark_fast import fast_figures
from sphere_attention_scripts.benchmark_large import large_figures
from sphere_attention_scripts.benchmark_output import output_figures
from sphere_attention_scripts.benchmark_step import best_time, step_figures
from validation.study import aligned

Row = Sequence[object]
Frequencies = Sequence[int] | None


def table(title: str, header: Sequence[str], rows: Sequence[Row]) -> str:
    """Right-aligned columns under a title; floats with four digits."""
    cells = [[f"{c:.4g}" if isinstance(c, float) else str(c) for c in row] for row in rows]
    return f"{title}\n{aligned(header, cells)}"


def random_problem(n_targets: int, n_sources: int, beta: float) -> tuple[np.ndarray, Measure]:
    """Targets beta x with x uniform on the sphere, uniform sources with uneven masses."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n_targets + n_sources, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return beta * points[:n_targets], Measure(points[n_targets:], rng.random(n_sources))


def torch_mean(xi: np.ndarray, mu: Measure) -> Callable[[], np.ndarray]:
    """The softmax mean by scaled_dot_product_attention, the log-weights given as its mask."""
    import torch

    query, key = torch.from_numpy(xi), torch.from_numpy(mu.points)
    mask = torch.from_numpy(np.log(mu.weights)).expand(len(xi), -1)
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(query, key, key, attn_mask=mask, scale=1.0).numpy()


def torch_fused_mean(xi: np.ndarray, mu: Measure) -> Callable[[], np.ndarray]:
    """The same with a batch and a head dimension: only so torch takes its fused kernel."""
    import torch

    query, key = torch.from_numpy(xi)[None, None], torch.from_numpy(mu.points)[None, None]
    mask = torch.from_numpy(np.log(mu.weights)).expand(len(xi), -1)[None, None]
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(query, key, key, attn_mask=mask, scale=1.0)[0, 0].numpy()


def keops_mean(xi: np.ndarray, mu: Measure) -> Callable[[], np.ndarray]:
    """The softmax mean by a symbolic matrix of KeOps."""
    from pykeops.numpy import LazyTensor

    x, y = LazyTensor(xi[:, None, :]), LazyTensor(mu.points[None, :, :])
    log_weights = LazyTensor(np.log(mu.weights)[None, :, None])
    return lambda: ((x | y) + log_weights).sumsoftmaxweight(y, axis=1)


def kernel(quick: bool, frequencies: Frequencies = None) -> str:
    """Pairs of a target and a source per second, float64, d = 3."""
    n_targets, n_sources = (200, 500) if quick else (8192, 40962)
    xi, mu = random_problem(n_targets, n_sources, beta=50.0)
    expected = log_partition(xi, mu)[1]
    pairs = n_targets * n_sources
    ours = best_time(lambda: log_partition(xi, mu))
    rows: list[Row] = [("log_partition", pairs / ours / 1e9, 1.0, 0.0)]
    for name, module, peer in (
        ("torch attention", "torch", torch_mean),
        ("torch attention, fused", "torch", torch_fused_mean),
        ("KeOps", "pykeops", keops_mean),
    ):
        if importlib.util.find_spec(module) is None:
            rows.append((name, "not installed", "", ""))
            continue
        mean = peer(xi, mu)
        duration = best_time(mean, repetitions=2)
        difference = float(np.abs(mean() - expected).max())
        rows.append((name, pairs / duration / 1e9, duration / ours, difference))
    header = ("kernel", "1e9 pairs/s", "our speed-up", "difference of mean")
    return table(f"{n_targets} targets, {n_sources} sources", header, rows)


def fast(quick: bool, frequencies: Frequencies = None) -> str:
    """The fast kernel against direct sums: time, error, growth with the number of cells."""
    return table(*fast_figures(quick, frequencies=frequencies))


def step(quick: bool, frequencies: Frequencies = None) -> str:
    """Parts of a right-hand side against reading its operator once."""
    return "\n\n".join(table(*figures) for figures in step_figures(quick, frequencies))


def output(quick: bool, frequencies: Frequencies = None) -> str:
    """Size and time of results on disk and of pictures."""
    return table(*output_figures(quick))


def large(quick: bool, frequencies: Frequencies = None) -> str:
    """What a large run costs: set-up, memory, each part of a step, each part of a save."""
    return table(*large_figures(quick, frequencies))


BENCHMARKS = {"kernel": kernel, "fast": fast, "step": step, "output": output, "large": large}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=BENCHMARKS, help="what to time")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument(
        "--frequencies", type=int, nargs="+", metavar="F", help="of fast, step, large: the meshes"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="store the table in DIR/benchmark-NAME.txt"
    )
    options = parser.parse_args(arguments)
    text = BENCHMARKS[options.name](options.quick, options.frequencies)
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"benchmark-{options.name}.txt").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
