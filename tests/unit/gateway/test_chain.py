"""The order of the fallback chain, and which shape is the nearest."""

from math import inf

import pytest

from kernelzoo.domain.device import Hardware
from kernelzoo.domain.kinship import families
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.domain.zoo import HitLevel
from kernelzoo.store.chain import OfferRow
from services.gateway.chain import choose, shape_distance

KEY = "matmul:f32:m64k768n768"
CONVOLUTION = "conv2d:f32:b1h56w56c64o64kh3kw3stride1pad1"


def offer(level: HitLevel, neighbour: str = "", workload: str = KEY) -> OfferRow:
    return OfferRow(
        workload_key=WorkloadKey(workload),
        level=level,
        candidate_id=f"{level}{neighbour}",
        neighbour=neighbour,
        rho_distance=None,
        relative_time=None,
        classes=1,
        identities=5,
    )


STEPS = tuple(level for level in HitLevel if level not in (HitLevel.EXACT, HitLevel.DEFAULT))


def test_the_chain_is_the_device_its_kin_everybody_the_model_and_a_shape() -> None:
    assert STEPS == ("device", "architecture", "vendor", "common", "model", "shape")
    for first, level in enumerate(STEPS):
        offers = [offer(each, KEY if each is HitLevel.SHAPE else "") for each in STEPS[first:]]
        assert choose(reversed(offers))[KEY].level == level


def test_of_similar_shapes_the_nearest_one_is_taken() -> None:
    near, far = "matmul:f32:m128k768n768", "matmul:f32:m64k768n4096"
    offers = [offer(HitLevel.SHAPE, far), offer(HitLevel.SHAPE, near)]
    assert choose(offers)[KEY].neighbour == near
    assert shape_distance(KEY, near) == 1
    assert choose([offer(HitLevel.SHAPE, "matmul:f32:m1k768n768")]) == {}
    assert shape_distance(KEY, "matmul:f32:m128k1536n1536") == pytest.approx(3**0.5)


def test_a_convolution_of_another_stride_is_no_neighbour() -> None:
    strided = CONVOLUTION.replace("stride1", "stride2")
    assert shape_distance(CONVOLUTION, strided) == inf
    assert choose([offer(HitLevel.SHAPE, strided, CONVOLUTION)]) == {}


def test_a_program_of_the_same_name_is_no_neighbour() -> None:
    one, other = (f"program:add_gelu:{digit * 16}" for digit in "01")
    assert shape_distance(one, other) == inf


def test_each_workload_is_chosen_for_alone() -> None:
    other = "relu:f32:n64"
    chosen = choose([offer(HitLevel.COMMON), offer(HitLevel.MODEL, workload=other)])
    assert {key: found.level for key, found in chosen.items()} == {KEY: "common", other: "model"}


def test_what_a_browser_does_not_tell_is_no_family() -> None:
    told = Hardware(
        cpu_architecture="x86-64", logical_cores=8, gpu_vendor="nvidia", gpu_architecture=""
    )
    silent = Hardware(
        cpu_architecture="", logical_cores=8, gpu_vendor="", gpu_architecture="ampere"
    )
    assert families(told, TargetKind.WASM) == {"architecture": "x86-64", "common": ""}
    assert families(told, TargetKind.WEBGPU) == {"vendor": "nvidia", "common": ""}
    for target in MEASURED:
        assert families(silent, target) == families(None, target) == {"common": ""}
