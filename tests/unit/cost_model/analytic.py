"""A population of devices that exist on paper: a formula says how long a candidate takes.

It stands for a crowd in tests of the learning rule; tests/recorded has what real engines measured.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass, Engine, PrimitiveVector, ProbeLevels
from kernelzoo.domain.target import Target, TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.cost_model.observation import Observation, ProbedDevice
from services.tuner.cost_model.usage import usage
from services.tuner.schedules.registry import lite_space


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperCore:
    """`fused`: sums and products share units, so that a kernel that fuses them is twice as fast."""

    name: str
    registers: int
    l1_kib: int
    fused: bool

    @property
    def probed(self) -> ProbedDevice:
        target = Target.of(TargetKind.WASM, ("relaxed-simd", "simd128"))
        rho = PrimitiveVector(suite=2, bits=f"{int(self.fused)}01")
        device_id = sha256(self.name.encode()).hexdigest()[:16]
        return ProbedDevice(
            hardware=device_id,
            device_class=DeviceClass(device_id=device_id, rho=rho, target=target),
            engine=Engine(name="Paper", version="1"),
            peak_gflops=64,
            probe=ProbeLevels(
                mul_add_gflops=32 if self.fused else 64,
                fma_gflops=64,
                l1_kib=self.l1_kib,
                l1_gbps=512,
                l2_gbps=128,
                memory_gbps=16,
            ),
        )

    def time(self, candidate: Candidate) -> float:
        """Relative. Spills, a block beyond the cache, tails and loads each cost their share."""
        used = usage(candidate)
        assert used is not None
        spills = max(0, used.live_vectors - self.registers + 1) / self.registers
        misses = max(0.0, math.log2(used.block_bytes / (1024 * self.l1_kib)))
        unfused = self.fused and "relaxed-simd" not in candidate.requires
        cost = 1 + 2 * spills + 0.05 * misses + 0.5 * used.loads_per_product + used.waste
        return cost * (2 if unfused else 1)


CORES = tuple(
    PaperCore(name=f"core {number}", registers=registers, l1_kib=l1_kib, fused=fused)
    for number, (registers, l1_kib, fused) in enumerate(
        (registers, l1_kib, fused)
        for registers in (16, 32)
        for l1_kib in (32, 64, 128)
        for fused in (True, False)
    )
)
WORKLOADS = tuple(
    Workload.of("matmul", (m, k, n))
    for m in (32, 128)
    for k, n in ((64, 96), (768, 768), (256, 1024))
)


def observed(
    cores: tuple[PaperCore, ...] = CORES, workloads: tuple[Workload, ...] = WORKLOADS
) -> Iterator[Observation]:
    for core in cores:
        for workload in workloads:
            for candidate in lite_space(workload, TargetKind.WASM):
                yield Observation(
                    device=core.probed, candidate=candidate, relative_time=core.time(candidate)
                )
