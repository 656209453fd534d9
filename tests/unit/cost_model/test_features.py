"""The model is told these of a candidate and a device."""

import math

import pytest

from fixtures.analytic import CORES
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass, Engine, GpuProbeLevels
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.cost_model.dataset import ProbedDevice
from services.tuner.cost_model.features import Columns, features
from services.tuner.cost_model.usage import usage
from services.tuner.schedules.base.rules import block_bytes, live_vectors, register_elements
from services.tuner.schedules.registry import lite_space

EVERY_FAMILY = (
    "matmul:f32:m384k768n768",
    "matmul:f32:m1k768n3072",
    "batch_matmul_nt:f32:b12m64k64n64",
    "conv2d+bias+relu:f32:b1h28w28c128o128kh3kw3stride1pad1",
    "conv2d:f32:b1h28w28c256o256kh1kw1stride2pad0",
    "depthwise_conv2d:f32:b1h28w28c192kh3kw3stride1pad1",
    "max_pool2d:f32:b1h56w56c64kh3kw3stride2pad1",
    "layer_norm:f32:m384n768",
    "gelu:f32:n49152",
)
DEVICE = CORES[0].probed
GPU = ProbedDevice(
    hardware="0" * 16,
    device_class=DeviceClass.parse(f"{'0' * 16}:r101-010:webgpu+shader-f16"),
    engine=Engine(name="Paper", version="1"),
    peak_gflops=1024,
    probe=GpuProbeLevels(peak_gflops=1024, bandwidth_gbps=512, dispatch_us=2),
)


@pytest.mark.parametrize("key", EVERY_FAMILY)
def test_every_candidate_of_every_family_has_a_usage(key: str) -> None:
    for candidate in lite_space(Workload.parse(key), TargetKind.WASM):
        used = usage(candidate)
        assert used is not None
        assert used.live_vectors > 0
        assert used.block_bytes > 0
        assert 0 <= used.waste < 1


def test_the_usage_of_a_contraction_is_that_of_table_1() -> None:
    candidate = lite_space(Workload.of("matmul", (384, 768, 768)), TargetKind.WASM)[0]
    config, used = dict(candidate.config), usage(candidate)
    assert used is not None
    tile_m, tile_n = int(config["tile_m"]), int(config["tile_n"])
    assert used.live_vectors == live_vectors(tile_m, tile_n, fma=bool(config["fma"]))
    assert used.register_elements == register_elements(tile_m, int(config["unroll_k"]), tile_n)
    assert used.block_bytes == block_bytes(int(config["block_m"]), 768, int(config["block_n"]))


def test_a_config_of_a_target_that_is_not_known_yet_has_features_by_its_own_names() -> None:
    candidate = Candidate(
        workload=Workload.of("matmul", (384, 768, 768)),
        target=TargetKind.WEBGPU,
        config=(("split_k", 4), ("stage", "shared"), ("subgroups", True), ("warps", 8)),
        requires=("subgroups",),
    )
    assert usage(candidate) is None
    found = features(candidate, DEVICE)
    config = {name: value for name, value in found.items() if name.startswith("config.")}
    assert config == {
        "config.split_k": math.log2(5),
        "config.stage=shared": 1.0,
        "config.subgroups": 1.0,
        "config.warps": math.log2(9),
        "config.requires_subgroups": 1.0,
    }
    assert not any(name.startswith("use.") for name in found)


def test_a_kernel_of_webgpu_is_told_by_its_settings_and_by_what_was_probed_of_the_gpu() -> None:
    workload = Workload.of("matmul", (384, 768, 768))
    candidate = lite_space(workload, TargetKind.WEBGPU)[0]
    found = features(candidate, GPU)
    assert usage(candidate) is None
    for name, value in candidate.config:
        column = f"config.{name}={value}" if isinstance(value, str) else f"config.{name}"
        assert column in found
    assert found["device.bandwidth_gbps"] == math.log2(513)
    assert (found["device.webgpu"], "device.wasm" in found) == (1.0, False)
    balance = 1024 / 512
    assert found["fit.intensity"] == math.log2(workload.flops / workload.bytes_moved / balance)


def test_what_a_row_lacks_is_a_gap_and_what_the_model_does_not_know_is_left_out() -> None:
    matrix = Columns(("a", "b")).matrix([{"b": 2.0, "c": 3.0}])
    assert math.isnan(matrix[0, 0])
    assert matrix[0, 1] == 2.0


PROGRAMS = (
    (
        "a: f32[64, 96]\nb: f32[96, 32]\np[i: 64, j: 32] = sum over k: 96 of a[i, k] * b[k, j]\n"
        "c[i: 64, j: 32] = tanh(p[i, j])"
    ),
    (
        "a: f32[1, 9, 9, 8]\nw: f32[3, 3, 8]\nc[b: 1, y: 7, x: 7, c: 8] = sum over r: 3, q: 3 of "
        "a[b, y + r, x + q, c] * w[r, q, c]"
    ),
    (
        "a: f32[64, 96]\ntop[i: 64] = max over k: 96 of a[i, k]\n"
        "c[i: 64]: i32 = min over k: 96 of (k if a[i, k] == top[i] else 96)"
    ),
    "a: f32[640]\nc[] = sum over k: 640 of a[k]",
)


@pytest.mark.parametrize("text", PROGRAMS, ids=["product", "windows", "argmax", "number"])
def test_a_program_has_features_though_it_has_no_extents_of_its_own(text: str) -> None:
    workload = Workload.of_program("any", parsed(text))
    for target, device in ((TargetKind.WASM, DEVICE), (TargetKind.WEBGPU, GPU)):
        for candidate in lite_space(workload, target):
            told = features(candidate, device)
            assert told["workload.program"] == told["workload.is_program"] == 1
            assert told["workload.flops"] == math.log2(1 + workload.flops)
            assert math.isfinite(told["fit.intensity"])
