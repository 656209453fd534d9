"""States as data what the WebGPU benchmark measures, and what it should reach on a data-centre
GPU."""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelzoo.domain.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCase:
    """`speedup` is wanted against the better peer, `of_limit` of the register-only limit; None
    where nothing is.

    `reads_once` says that memory is the limit, not arithmetic: every weight is used once. `moves`
    says that it is, and that a copy of the output's size is what is to be held against.
    """

    name: str
    workload: Workload
    speedup: float | None = None
    of_limit: float | None = None
    reads_once: bool = False
    moves: bool = False


def case(
    name: str,
    key: str,
    speedup: float | None = None,
    *,
    of_limit: float | None = None,
    reads_once: bool = False,
    moves: bool = False,
) -> GpuCase:
    return GpuCase(
        name=name,
        workload=Workload.parse(key),
        speedup=speedup,
        of_limit=of_limit,
        reads_once=reads_once,
        moves=moves,
    )


GPU_CASES = (
    case("K0", "matmul:f32:m384k768n768", 2.0),
    case("K1", "matmul:f32:m640k768n3072", 3.5, of_limit=0.59),
    case("K2", "batch_matmul:f32:b12m384k384n64", 4.0),
    case("K3", "batch_matmul:f32:b120m64k64n64", 3.5),
    case("4096", "matmul:f32:m4096k4096n4096", 1.9, of_limit=0.67),
    case("decode", "matmul:f32:m1k768n3072", reads_once=True),
    case("logits", "matmul:f32:m1k768n50257", reads_once=True),
    case("conv", "conv2d:f32:b1h56w56c64o64kh3kw3stride1pad1"),
    case("stem", "conv2d:f32:b1h224w224c3o64kh7kw7stride2pad3"),
    case("softmax", "softmax:f32:m16384n1024", moves=True),
    case("layer-norm", "layer_norm:f32:m16384n1024", moves=True),
    case("gelu", "gelu:f32:n16777216", moves=True),
    case("add", "add:f32:n16777216", moves=True),
    case("K0-f16", "matmul:f16:m384k768n768"),
    case("K1-f16", "matmul:f16:m640k768n3072"),
    case("K2-f16", "batch_matmul:f16:b12m384k384n64"),
    case("K3-f16", "batch_matmul:f16:b120m64k64n64"),
    case("4096-f16", "matmul:f16:m4096k4096n4096"),
    case("decode-f16", "matmul:f16:m1k768n3072", reads_once=True),
    case("logits-f16", "matmul:f16:m1k768n50257", reads_once=True),
    case("softmax-f16", "softmax:f16:m16384n1024", moves=True),
)
"""K0 to K3 are of nnJIT's section 7.3, conv and stem of ResNet-50. What moves is 64 MiB each way
in f32, more than the 50 MB that an H200 keeps in its second-level cache."""


def _layer(model: str, hidden: int, projected: int, inner: int, tokens: int) -> Iterator[GpuCase]:
    """The products of a token with the weights of one layer, and with those of the head: queries,
    keys and values; their output; gate and up; down."""
    for name, k, n in (
        ("qkv", hidden, projected),
        ("out", hidden, hidden),
        ("gate-up", hidden, 2 * inner),
        ("down", inner, hidden),
        ("head", hidden, tokens),
    ):
        yield case(f"{model}-{name}", f"matmul_q4:f32:m1k{k}n{n}", reads_once=True)


QUANTISED_CASES = (
    *_layer("llama-1b", 2048, 3072, 8192, 128_256),
    *_layer("qwen-0.5b", 896, 1152, 4864, 151_936),
    *_layer("smollm-135m", 576, 960, 1536, 49_152),
)
"""Weights of 4 bits of Llama-3.2-1B, Qwen2-0.5B and SmolLM-135M, measured where they are asked for
(`--quantised`). No peer of the page takes such weights as an operator of its own."""

INTEGER_CASES = (
    case("K0-u8i8", "matmul_u8i8:f32:m384k768n768:constant=b"),
    case("4096-u8i8", "matmul_u8i8:f32:m4096k4096n4096:constant=b"),
)
"""Products of integers beside those of f32, measured where `--only` names them. No peer of the page
takes integers as an operator of its own."""

TINY_QUANTISED = case("tiny-q4", "matmul_q4:f32:m1k64n64", reads_once=True)

TINY = case("tiny", "matmul:f32:m64k64n64")
"""To see that the benchmark works."""

QUICK = ("K0", "K3")
"""An adapter that is a CPU can do these in a minute or two."""

CASES = {
    each.name: each for each in (*GPU_CASES, *INTEGER_CASES, *QUANTISED_CASES, TINY, TINY_QUANTISED)
}
"""All of them by name."""
