"""Results as two device classes may have them."""

from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload, workload_key
from kernelzoo.formats.results import CandidateTrial, ClassResults, Config
from services.tuner.schedules.registry import lite_space

K0 = Workload.of("matmul", (384, 768, 768))
CLASS = "0123456789abcdef:r2-011:wasm+relaxed-simd+simd128"
AT = "2026-11-20T13:40:14+00:00"


def trial(config: Config, *times_ns: float, outcome: Outcome = Outcome.OK) -> CandidateTrial:
    return CandidateTrial(
        config=config,
        requires=("simd128",),
        outcome=outcome,
        times_ns=times_ns,
        compile_ns=3_000_000,
        measured_at=AT,
    )


def results(workload: Workload = K0, device_class: str = CLASS) -> ClassResults:
    """Results of the first candidates of the space: three that ran, then one failure of each
    kind."""
    space = [candidate.config for candidate in lite_space(workload, TargetKind.WASM)]
    failures = [outcome for outcome in Outcome if outcome is not Outcome.OK]
    ran = (
        trial(space[0], 7e6, 7.2e6),
        trial(space[1], 6e6, 6.4e6, 6.2e6),
        trial(space[2], 9e6),
    )
    failed = (
        trial(config, outcome=outcome) for config, outcome in zip(space[3:], failures, strict=False)
    )
    return ClassResults(
        workload_key=workload_key(workload.key), device_class=device_class, trials=(*ran, *failed)
    )
