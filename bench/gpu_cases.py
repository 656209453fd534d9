"""What the WebGPU benchmark measures, and what it should reach on a data-centre GPU, as data."""

from dataclasses import dataclass

from kernelzoo.domain.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCase:
    """`speedup` is wanted against the better peer, `of_limit` of the register-only limit; None
    where nothing is.

    `reads_once` says that memory is the limit, not arithmetic: every weight is used once.
    """

    name: str
    workload: Workload
    speedup: float | None = None
    of_limit: float | None = None
    reads_once: bool = False


def case(
    name: str,
    key: str,
    speedup: float | None = None,
    *,
    of_limit: float | None = None,
    reads_once: bool = False,
) -> GpuCase:
    return GpuCase(
        name=name,
        workload=Workload.parse(key),
        speedup=speedup,
        of_limit=of_limit,
        reads_once=reads_once,
    )


GPU_CASES = (
    case("K0", "matmul:f32:m384k768n768", 2.0),
    case("K1", "matmul:f32:m640k768n3072", 3.5, of_limit=0.59),
    case("K2", "batch_matmul:f32:b12m384k384n64", 4.0),
    case("K3", "batch_matmul:f32:b120m64k64n64", 3.5),
    case("4096", "matmul:f32:m4096k4096n4096", 1.9, of_limit=0.67),
    case("decode", "matmul:f32:m1k768n3072", reads_once=True),
    case("logits", "matmul:f32:m1k768n50257", reads_once=True),
    case("conv", "conv2d:f32:b1h56w56c64o64r3q3s1p1"),
)
"""K0 to K3 are of nnJIT's section 7.3, conv is of ResNet-50's first stage."""

QUICK = ("K0", "K3")
"""What an adapter that is a CPU can do in a minute or two."""
