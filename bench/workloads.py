"""What the benchmarks measure: workloads by short names, and what they should reach, as data."""

from dataclasses import dataclass

from kernelzoo.domain.workload import Workload

OF_LIMIT = {True: 0.92, False: 0.80}
"""Wanted share of the register-only limit, by whether a kernel may fuse products and sums."""

OF_BANDWIDTH = 0.9
"""Wanted share of what a loop that only reads the weights reaches, where memory is the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`name` is what tables call `workload`. `speedup` is wanted against the better peer.

    `reads_once` says that memory is the limit, not arithmetic: every weight is used once.
    """

    name: str
    workload: Workload
    speedup: float
    reads_once: bool = False


def case(name: str, key: str, speedup: float, *, reads_once: bool = False) -> Case:
    workload = Workload.parse(key)
    return Case(name=name, workload=workload, speedup=speedup, reads_once=reads_once)


PAPER = (
    case("K0", "matmul:f32:m384k768n768", 1.8),
    case("K1", "matmul:f32:m640k768n3072", 1.8),
    case("K2", "batch_matmul:f32:b12m384k384n64", 2.1),
    case("K3", "batch_matmul:f32:b120m64k64n64", 2.5),
)
"""The kernels of nnJIT's section 7.3."""

DECODE = (
    case("decode", "matmul:f32:m1k768n3072", 1.0, reads_once=True),
    case("logits", "matmul:f32:m1k768n50257", 1.0, reads_once=True),
)
"""One token of a language model."""

CONSTANT = tuple(
    case(
        f"{each.name}-constant",
        f"{each.workload.key}:constant=b",
        each.speedup,
        reads_once=each.reads_once,
    )
    for each in (*PAPER[:2], *DECODE)
)
"""Where b is weights that never change, so that it may be packed beforehand."""
