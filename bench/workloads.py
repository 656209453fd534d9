"""Benchmarks measure these: workloads by short names, and what they should reach, as data."""

from dataclasses import dataclass
from enum import StrEnum

from kernelzoo.domain.workload import Workload

OF_LIMIT = {True: 0.92, False: 0.92}
"""Wanted share of the register-only limit of the same kind, by whether a kernel may fuse products
and sums."""

TAIL_SHARE = 0.95
"""Share of K0's share of the limit that is wanted where no tile divides the extents."""

TWO_THREADS = 1.8
"""Times one thread, on two free cores."""

OF_BANDWIDTH = 0.9
"""Wanted share of what a loop that only reads the weights reaches, where memory is the limit."""


class Limit(StrEnum):
    """A workload is measured against this besides its peers."""

    ARITHMETIC = "arithmetic"
    READING = "reading"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchCase:
    """`name` is what tables call `workload`. `speedup` is wanted against the better peer.

    `limit` is READING where every weight is used once, so that memory is what bounds it.
    """

    name: str
    workload: Workload
    speedup: float
    limit: Limit

    @property
    def reads_once(self) -> bool:
        return self.limit is Limit.READING

    @property
    def is_product(self) -> bool:
        """True if NumPy's BLAS has it."""
        return self.workload.operator.name in ("matmul", "batch_matmul")


def case(name: str, key: str, speedup: float, limit: Limit = Limit.NONE) -> BenchCase:
    return BenchCase(name=name, workload=Workload.parse(key), speedup=speedup, limit=limit)


PAPER = (
    case("K0", "matmul:f32:m384k768n768", 1.8, Limit.ARITHMETIC),
    case("K1", "matmul:f32:m640k768n3072", 1.8, Limit.ARITHMETIC),
    case("K2", "batch_matmul:f32:b12m384k384n64", 2.1, Limit.ARITHMETIC),
    case("K3", "batch_matmul:f32:b120m64k64n64", 2.5, Limit.ARITHMETIC),
)
"""The kernels of nnJIT's section 7.3."""

TINY = case("tiny", "matmul:f32:m64k64n64", 1.0)
"""To see that a benchmark works."""

TAILS = case("tails", "matmul:f32:m383k767n769", 1.0)
"""K0 with extents that no tile divides."""

DECODE = (
    case("decode", "matmul:f32:m1k768n3072", 1.0, Limit.READING),
    case("logits", "matmul:f32:m1k768n50257", 1.0, Limit.READING),
)
"""One token of a language model."""

CONSTANT = tuple(
    case(f"{each.name}-constant", f"{each.workload.key}:constant=b", each.speedup, each.limit)
    for each in (*PAPER[:2], *DECODE)
)
"""Workloads in which b is weights that never change, so that it may be packed beforehand."""

LAYERS = (
    case("conv3x3", "conv2d:f32:b1h56w56c64o64kh3kw3stride1pad1", 1.3),
    case("conv3x3-s2", "conv2d:f32:b1h56w56c128o128kh3kw3stride2pad1", 1.3),
    case("conv1x1", "conv2d:f32:b1h56w56c64o256kh1kw1stride1pad0", 1.3),
    case("conv1x1-deep", "conv2d:f32:b1h14w14c1024o256kh1kw1stride1pad0", 1.3),
    case("softmax", "softmax:f32:m4608n384", 1.3),
    case("layer-norm", "layer_norm:f32:m384n768", 1.3),
)
"""Convolutions of ResNet-50; softmax of 12 heads and layer norm of a BERT, 384 tokens."""
