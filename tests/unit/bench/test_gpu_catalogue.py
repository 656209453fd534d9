"""Dozens of points, no more and no fewer, for layers of real models on every model of GPU."""

import pytest

from bench.gpu.cases import GPU_CASES
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import GPU_MODELS, GpuModel
from kernelzoo.domain.operators import OPERATORS, Family
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.registry import lite_space
from tests.examples import one_in

LAYERS = (
    "batch_matmul_nt+scale:f32:b12m384k64n384",
    "matmul:f32:m4k768n768",
    "matmul_nt:f32:m384k768n768",
    "matmul_tn:f32:m384k768n768",
    "matmul_i8+scales:f32:m1k768n3072",
    "matmul_nt_i8+scales:f32:m128k768n768",
    "conv2d:f32:b1h56w56c64o256kh1kw1stride1pad0",
    "depthwise_conv2d:f32:b1h112w112c32kh3kw3stride1pad1",
    "depthwise_conv2d:f32:b1h14w14c576kh3kw3stride2pad1",
    "max_pool2d:f32:b1h112w112c64kh3kw3stride2pad1",
    "avg_pool2d:f32:b1h7w7c2048kh7kw7stride7pad0",
    "softmax:f32:m4608n384",
    "softmax:f32:m1n1000",
    "layer_norm:f32:m384n768",
    "layer_norm:f32:m1n768",
    "rms_norm:f32:m1n4096",
    "row_sum:f32:m384n768",
    "row_mean:f32:m384n768",
    "row_max:f32:m384n768",
    "gather:f32:m384k50265n768",
    "transpose:f32:m384n768",
    "matmul_q4:f32:m1k2048n3072",
    "matmul_q4z:f32:m4k896n1152",
    "matmul_q8:f32:m1k576n960",
    "matmul_q8z:f32:m1k896n1152block128",
    "gather_q4:f32:m64k49152n576",
    *(f"gather_{form}:f32:m64k49152n576" for form in ("q4z", "q8", "q8z")),
    *(f"matmul_{form}:f32:m384k768n768:constant=b" for form in ("u8i8", "u8i7", "u8i8z", "u8i7z")),
    "quantise_range:f32:n294912",
    "matmul_u8i8q:f32:m3136k64n256:constant=b",
    "depthwise_conv2d_u8i8q:f32:b1h56w56c144kh3kw3stride1pad1",
    "concat:f32:m384n64k64",
    "slice:f32:m384n2304start768size768",
    "pad:f32:m384n768pad4",
    *(
        f"{name}:f32:n{entries}"
        for name, operator in OPERATORS.items()
        for entries in (768, 802_816)
        if operator.family is Family.ELEMENTWISE and len(operator.axes) == 1
    ),
)

REPEATED = ("K1", "4096", "stem", "K0-f16", "K1-f16", "K2-f16", "K3-f16", "4096-f16", "logits-f16")
"""Cases whose spaces are made as those of others; a space of products takes a while to order."""

CASES = tuple(case.workload for case in GPU_CASES if case.name not in REPEATED)
CATALOGUE = (*CASES, *map(Workload.parse, LAYERS))


LARGER = {"binding-256m"}
"""A tensor's own need: no schedule helps an adapter that lacks it."""


def plain_of(space: tuple[Candidate, ...]) -> int:
    """Candidates for an adapter without any feature."""
    return sum(not set(candidate.requires) - LARGER for candidate in space)


def test_every_operator_is_in_the_catalogue() -> None:
    assert {workload.operator.name for workload in CATALOGUE} == set(OPERATORS)


@pytest.mark.parametrize("gpu", one_in(5, GPU_MODELS.values()), ids=lambda gpu: gpu.name)
def test_a_layer_has_20_to_80_points_on_every_gpu_even_without_features(gpu: GpuModel) -> None:
    measured = [each for each in CATALOGUE if each.is_measured]
    spaces = {each.key: lite_space(each, TargetKind.WEBGPU, gpu) for each in measured}
    sizes = {key: (plain_of(space), len(space)) for key, space in spaces.items()}
    outside = {
        key: (least, most) for key, (least, most) in sizes.items() if least < 20 or most > 80
    }
    assert outside == {}
