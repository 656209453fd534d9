"""What the benchmarks measure: workloads by short names, as data."""

from dataclasses import dataclass

from kernelzoo.domain.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`name` is what tables call `workload`."""

    name: str
    workload: Workload


def case(name: str, key: str) -> Case:
    return Case(name=name, workload=Workload.parse(key))


PAPER = (
    case("K0", "matmul:f32:m384k768n768"),
    case("K1", "matmul:f32:m640k768n3072"),
    case("K2", "batch_matmul:f32:b12m384k384n64"),
    case("K3", "batch_matmul:f32:b120m64k64n64"),
)
"""The kernels of nnJIT's section 7.3."""

DECODE = (
    case("decode", "matmul:f32:m1k768n3072"),
    case("logits", "matmul:f32:m1k768n50257"),
)
"""One token of a language model: every weight is read once, so memory is the limit."""
