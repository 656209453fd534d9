"""A page is told which target to run."""

import pytest

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import AdviceBasis, HitLevel
from services.gateway.manifests import advise
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.zoo import ServedKernel, TimingWire

QUORUM = 5


def served(target: TargetKind, timing: TimingWire | None) -> ServedKernel:
    kernel = Kernel(
        candidate="0" * 32,
        sha256="0" * 64,
        url=f"/v1/artifacts/{'0' * 64}.{target}",
        size_bytes=1,
        abi=1,
        target=target,
        requires=[],
        tensors=[],
        scratch_bytes=0,
        range_extent=1,
        layouts=[],
        dispatches=[],
    )
    return ServedKernel(
        tolerance=1e-6,
        level=HitLevel.DEFAULT,
        kernel=kernel,
        fallback=kernel,
        state=None,
        version=None,
        evidence=None,
        timing=timing,
        grounds=None,
    )


def timed(best_ns: float, identities: int = QUORUM) -> TimingWire:
    return TimingWire(best_ns=best_ns, identities=identities)


@pytest.mark.parametrize(
    ("wasm", "webgpu", "target", "basis"),
    [
        (timed(2e6), timed(1e6), "webgpu", "measured"),
        (timed(1e6), timed(2e6), "wasm", "measured"),
        (timed(1e6), timed(1e6), "wasm", "measured"),
        (timed(2e6), timed(1e6, QUORUM - 1), "wasm", "none"),
        (timed(2e6, QUORUM - 1), timed(1e6), "wasm", "none"),
        (timed(2e6), None, "wasm", "none"),
        (None, timed(1e6), "wasm", "none"),
        (None, None, "wasm", "none"),
    ],
)
def test_the_faster_target_is_advised_once_a_quorum_has_timed_both(
    wasm: TimingWire | None, webgpu: TimingWire | None, target: str, basis: str
) -> None:
    advice = advise(served(TargetKind.WASM, wasm), served(TargetKind.WEBGPU, webgpu), quorum=QUORUM)
    assert (advice.target, advice.basis) == (TargetKind(target), AdviceBasis(basis))


def test_a_target_without_a_kernel_is_never_advised() -> None:
    gpu = served(TargetKind.WEBGPU, None)
    cpu = served(TargetKind.WASM, timed(1e6))
    assert advise(None, gpu, quorum=QUORUM).target is TargetKind.WEBGPU
    assert advise(cpu, None, quorum=QUORUM).target is TargetKind.WASM
