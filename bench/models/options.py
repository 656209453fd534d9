"""The command line that benchmarks of whole networks share: where the networks are, and which."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from bench.models.cases import CASES, TINY, NetworkCase
from bench.options import parser
from workers.fleet.gpu import GpuChoice

FOLDER = Path(".kernelzoo/networks")
TUNED = "tuned.json"
"""This file has what screening found of every network in the folder."""
DEFAULT = tuple(case.name for case in CASES)


def network_parser(
    description: str,
    others: Sequence[NetworkCase] = (),
    default: Sequence[str] = DEFAULT,
) -> ArgumentParser:
    """`others` may be named as well as CASES; `default` are taken where none is."""
    made = parser(description)
    known = [case.name for case in (*CASES, *others, TINY)]
    made.add_argument("--folder", type=Path, default=FOLDER, help="where `make networks` writes")
    made.add_argument("--only", nargs="+", choices=known, default=list(default))
    return made


def add_untuned(made: ArgumentParser) -> None:
    made.add_argument("--untuned", action="store_true", help="screen no kernels beforehand")


def add_gpu(made: ArgumentParser, help_text: str) -> None:
    adapters = [GpuChoice.HARDWARE.value, GpuChoice.SOFTWARE.value]
    made.add_argument("--gpu", choices=adapters, help=help_text)


def chosen_cases(options: Namespace, others: Sequence[NetworkCase] = ()) -> list[NetworkCase]:
    return [case for case in (*CASES, *others, TINY) if case.name in options.only]
