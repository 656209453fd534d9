"""A workload tuned for WebGPU by the whole stack: real workers, a real browser, a software GPU."""

from collections.abc import Iterator

import pytest

from cli.gateway_client import GatewayClient
from cli.stack.plan import FleetPlan, plan_fleet
from cli.stack.supervisor import Stack
from cli.tune import winners_of
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.gateway.wire.zoo import ManifestEntry, ZooEntry
from tests.running import eventually, rows
from workers.fleet.gpu import GpuChoice

pytestmark = pytest.mark.timeout(300)

WORKLOAD = Workload.parse("matmul:f32:m64k64n64")
BOTH = (TargetKind.WASM, TargetKind.WEBGPU)
PATIENCE_S = 150


@pytest.fixture
def gateway(stack: Stack) -> Iterator[GatewayClient]:
    """A stack with one agent that measures both targets."""
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as client:
        for target in BOTH:
            client.register(WORKLOAD, target)
        fleet = FleetPlan.chromium(1, BOTH, GpuChoice.SOFTWARE)
        stack.launch(plan_fleet(stack.place, stack.keys, stack.url, fleet))
        yield client


def winners(gateway: GatewayClient) -> dict[TargetKind, ZooEntry]:
    return {entry.target: entry for entry in winners_of(WORKLOAD.key, BOTH, gateway.entries())}


@pytest.mark.slow
def test_an_agent_tunes_both_targets_and_a_page_is_told_the_faster(
    stack: Stack, gateway: GatewayClient
) -> None:
    eventually(lambda: len(winners(gateway)) == len(BOTH), "a winner of each target", PATIENCE_S)
    eventually(lambda: _all_tried(gateway), "compiling the space of this GPU")
    any_gpu, own = gateway.jobs(WORKLOAD.key, TargetKind.WEBGPU)
    assert (any_gpu.space, any_gpu.measurements) == ("any", 0)
    assert own.space == gpu_model("google", "swiftshader").name
    assert own.measurements > 0
    assert rows(stack, "SELECT count(*) FROM measurement WHERE verdict = 'rejected'") == [(0,)]
    assert rows(stack, "SELECT count(DISTINCT identity_id) FROM agent_session") == [(1,)]

    wasm, webgpu = (winners(gateway)[target] for target in BOTH)
    (entry,) = gateway.manifest(WORKLOAD.key, wasm.device_class, webgpu.device_class).entries
    assert entry.webgpu is not None
    assert entry.webgpu.kernel.sha256 == webgpu.artifact
    assert b"@compute" in gateway.artifact(entry.webgpu.kernel)
    faster = min(BOTH, key=lambda target: _best_ns(entry, target))
    assert (entry.advice.target, entry.advice.basis) == (faster, "measured")


def _all_tried(gateway: GatewayClient) -> bool:
    _, own = gateway.jobs(WORKLOAD.key, TargetKind.WEBGPU)
    return own.compiled + own.failed == own.candidates > 0


def _best_ns(entry: ManifestEntry, target: TargetKind) -> float:
    served = {TargetKind.WASM: entry.wasm, TargetKind.WEBGPU: entry.webgpu}[target]
    assert served is not None
    assert served.timing is not None
    return served.timing.best_ns
