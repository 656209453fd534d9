"""Answers of the page of whole networks become rows and claims."""

import pytest

from bench.gpu.answer import Adapter
from bench.models.webgpu import (
    GpuModelsAnswer,
    GpuNetworkAnswer,
    GpuProfile,
    ProfiledKernel,
    Reading,
    TimedEngine,
    gpu_models_report,
)

PRODUCT = "matmul+bias:f32:m100k100n100"
"""Two million operations."""


def _engine(name: str, ms: float) -> TimedEngine:
    into = (ms / 2,) if name == "kernelzoo" else ()
    return TimedEngine(
        name=name, samples_ms=(ms,), overlapped_ms=(ms,), into_ms=into, difference=0.0
    )


def _network(name: str, fresh_ms: float, reused_ms: float) -> GpuNetworkAnswer:
    readings = ((False, fresh_ms), (False, 2 * fresh_ms), (True, reused_ms))
    kernels = (
        ProfiledKernel(workload=PRODUCT, calls=2, us=20.0),
        ProfiledKernel(workload="program:attention:abc", calls=1, us=0.1),
    )
    return GpuNetworkAnswer(
        name=name,
        flops=201_000_000,
        times={},
        timed=(_engine("kernelzoo", 4.0), _engine("onnxruntime-web 1.30.0", 9.0)),
        readings=tuple(Reading(piece_bytes=4, reused=reused, ms=ms) for reused, ms in readings),
        profile=GpuProfile(token_ms=1.0, kernels=kernels),
        failures={},
    )


def test_the_limit_is_the_fastest_product_and_reading_to_memory_or_just_reading_to_fresh_one() -> (
    None
):
    adapter = Adapter(
        vendor="nvidia",
        architecture="hopper",
        subgroup_min_size=32,
        subgroup_max_size=32,
        features=(),
        limits={},
    )
    contests = (_network("small", 0.5, 0.25), _network("large", 6.0, 3.0))
    answer = GpuModelsAnswer(
        commit="c", date="d", browser="b", adapter=adapter, peers={}, contests=contests
    )
    report = gpu_models_report(answer, {})
    small, _, large, _ = report.rows
    for row, limit_ms in ((small, 2.26), (large, 6.0)):
        assert row["limit_ms"] == pytest.approx(limit_ms)
        assert row["at_most"] == pytest.approx(9 / limit_ms)
    claims = [claim.what for claim in report.claims if "faster" in claim.what]
    assert claims == [
        "small: faster than onnxruntime-web",
        "large: faster than onnxruntime-web (at most 1.5 ×)",
        "large: faster than onnxruntime-web, outputs in given memory",
    ]
