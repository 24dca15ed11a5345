"""The command `sphere-attention weights`: one attention head of a file of trained weights.

Nothing heavy is imported before the arguments are in order (see `weights_report` for the work).
"""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "particles driven by the matrices of one trained attention head, with a report on them"

EPILOG = """\
Arrays are taken as layers store them that compute W x: keys, queries and values (n k, d), the
output (d, n k), for n heads of dimension k. One head of a BERT-like model:

  sphere-attention weights model.safetensors --heads 12 --head 3 \\
      --key encoder.layer.0.attention.self.key.weight \\
      --query encoder.layer.0.attention.self.query.weight \\
      --value encoder.layer.0.attention.self.value.weight \\
      --output encoder.layer.0.attention.output.dense.weight

Without --output the value matrix must be square. Biases, gains and positions are left out.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = SUMMARY.capitalize() + "."
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", type=Path, metavar="FILE", help="weights (.npz or .safetensors)")
    for part, default in (("key", "K"), ("query", "Q"), ("value", "V")):
        parser.add_argument(
            f"--{part}",
            default=default,
            metavar="NAME",
            help=f"name of the array of {part} matrices (default: {default})",
        )
    parser.add_argument(
        "--output", metavar="NAME", help="name of the output matrix (default: none, V is square)"
    )
    parser.add_argument(
        "--heads", type=int, default=1, metavar="N", help="heads that the arrays hold (default: 1)"
    )
    parser.add_argument(
        "--head", type=int, default=0, metavar="I", help="which of them, from 0 on (default: 0)"
    )
    temperature = parser.add_mutually_exclusive_group()
    temperature.add_argument(
        "--beta", type=float, metavar="BETA", help="inverse temperature (default: 1/sqrt(k))"
    )
    temperature.add_argument(
        "--layer-norm",
        action="store_true",
        help="beta = d/sqrt(k): tokens of length sqrt(d), as layer normalisation leaves them",
    )
    parser.add_argument(
        "--particles", type=int, default=128, metavar="N", help="random tokens (default: 128)"
    )
    parser.add_argument(
        "--until", type=float, default=20.0, metavar="T", help="final time (default: 20)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="SEED", help="of the tokens")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="keep weights.txt, weights.csv, weights.png there"
    )


def run_weights(arguments: argparse.Namespace) -> int:
    """Read the head, print the report, run the tokens; raises what the reader raises."""
    from pde.fields.weights import read_head
    from sphere_attention_scripts.weights_report import report_on

    head = read_head(
        arguments.file,
        arguments.key,
        arguments.query,
        arguments.value,
        arguments.output,
        arguments.head,
        arguments.heads,
    )
    beta = head.beta(arguments.layer_norm) if arguments.beta is None else arguments.beta
    title = f"{arguments.file.name}, head {arguments.head} of {arguments.heads}"
    report_on(
        head, beta, title, arguments.particles, arguments.until, arguments.seed, arguments.out
    )
    return 0
