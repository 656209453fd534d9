"""The settings of a kernel that quantises activations on WebAssembly."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.integer_products import PER_WORD
from kernelzoo.domain.workload import MAX_REDUCTION, Workload
from services.tuner import ir
from services.tuner.schedules.base.wasm_config import WasmConfig

MAX_VECTORS = 6
MAX_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmQuantisationConfig(WasmConfig):
    """A range has so many `vectors` of extremes, bytes are made of one vector of words at a time. A
    slice makes `chunk` vectors of them; the range is one slice."""

    family: ClassVar = "quantisation"
    vectors: int
    chunk: int

    def fault(self, workload: Workload) -> str:
        if self.fma:
            return "nothing is multiplied and added; fma must be false"
        if not 1 <= self.vectors <= MAX_VECTORS or not 1 <= self.chunk <= MAX_CHUNK:
            return f"vectors must be at most {MAX_VECTORS} and chunk at most {MAX_CHUNK}"
        if (self.chunk if finds_range(workload.program) else self.vectors) != 1:
            return "a range has no chunks, and bytes are made of one vector at a time"
        return ""


def finds_range(program: Program) -> bool:
    """Returns whether a program is the range of activations."""
    return _is("quantise_range", program, 1)


def makes_bytes(program: Program) -> bool:
    """Returns whether a program makes bytes of activations, a vector of words at least."""
    return _is("quantise", program, PER_WORD * ir.LANES)


def _is(name: str, program: Program, least: int) -> bool:
    (n, *others) = program.inputs[0].shape or (0,)
    if others or n < least or (n % PER_WORD > 0 and name == "quantise"):
        return False
    if n > MAX_REDUCTION and name == "quantise_range":
        return False
    return program == Workload.of(name, (n,)).program
