"""Which of two targets a page should run (docs/adr/0012)."""

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import AdviceBasis
from services.gateway.wire.zoo import Advice, ServedKernel


def advise(wasm: ServedKernel | None, webgpu: ServedKernel | None, *, quorum: int) -> Advice:
    """At least one is given. `quorum`: identities whose times are believed."""
    wasm_ns, webgpu_ns = _known_ns(wasm, quorum), _known_ns(webgpu, quorum)
    if wasm_ns is not None and webgpu_ns is not None:
        faster = TargetKind.WEBGPU if webgpu_ns < wasm_ns else TargetKind.WASM
        return Advice(target=faster, basis=AdviceBasis.MEASURED)
    usual = TargetKind.WASM if wasm is not None else TargetKind.WEBGPU
    return Advice(target=usual, basis=AdviceBasis.NONE)


def _known_ns(served: ServedKernel | None, quorum: int) -> float | None:
    if served is None or served.timing is None or served.timing.identities < quorum:
        return None
    return served.timing.best_ns
