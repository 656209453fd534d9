"""Runs compiled kernels in wasmtime, with shared memory and relaxed SIMD, against NumPy."""

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
import wasmtime
from numpy.typing import NDArray
from wasmtime import _ffi as ffi

from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import BYTE_DOTS
from kernelzoo.domain.workload import Role, Tensor, Workload
from services.tuner.codegen.wasm.module import assemble, lower
from services.tuner.compile import CompiledProgram, pack_kernels
from services.tuner.ir.nodes import Program
from services.tuner.passes.pipeline import PassSwitches

Floats = NDArray[np.float32]
Values = NDArray[np.generic]
NUMPY = {
    DType.F32: np.float32,
    DType.F16: np.float16,
    DType.I32: np.int32,
    DType.I8: np.int8,
}

ALIGNMENT_BYTES = 64
PAGE_BYTES = 65_536
SIGNED_DOT, UNSIGNED_DOT = BYTE_DOTS


@lru_cache(maxsize=2)
def engine(*, deterministic: bool = False) -> wasmtime.Engine:
    """Runs relaxed SIMD as this machine does, or as its specification has it for those that must
    agree: dot products of bytes with sign, of which two sum to an i16."""
    config = wasmtime.Config()
    config.wasm_relaxed_simd_deterministic = deterministic
    config.wasm_threads = True
    config.shared_memory = True
    config.wasm_simd = True
    config.wasm_relaxed_simd = True
    return wasmtime.Engine(config)


def module(body: bytes, *, deterministic: bool = False) -> wasmtime.Module:
    """Raises WasmtimeError for bytes that are no valid module."""
    return wasmtime.Module(engine(deterministic=deterministic), body)


class _SharedMemory(wasmtime.SharedMemory):
    """wasmtime-py 50.0.1 passes the address of its pointer where the pointer belongs."""

    def _as_extern(self) -> ffi.wasmtime_extern_t:
        union = ffi.wasmtime_extern_union(sharedmemory=self.ptr())
        return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY, union)


class Memory:
    """A shared memory and the kernels that are instantiated on it."""

    def __init__(self, memory_bytes: int, *, deterministic: bool = False) -> None:
        pages = -(-memory_bytes // PAGE_BYTES)
        self._deterministic = deterministic
        own = engine(deterministic=deterministic)
        self._store = wasmtime.Store(own)
        limits = wasmtime.Limits(pages, 65_536)
        memory = _SharedMemory(own, wasmtime.MemoryType(limits, shared=True))
        raw = (ctypes.c_ubyte * (pages * PAGE_BYTES)).from_address(
            ctypes.addressof(memory.data_ptr().contents)
        )
        self.bytes: NDArray[np.uint8] = np.ctypeslib.as_array(raw)
        self._memory = memory

    def place(self, start: int, array: Values) -> None:
        """Copies the bytes of `array` to address `start`."""
        flat = np.ascontiguousarray(array).ravel().view(np.uint8)
        self.bytes[start : start + flat.size] = flat

    def function(self, body: bytes, export: str = "main") -> wasmtime.Func:
        """A kernel of a module."""
        compiled = module(body, deterministic=self._deterministic)
        instance = wasmtime.Instance(self._store, compiled, [self._memory])
        main = instance.exports(self._store)[export]
        assert isinstance(main, wasmtime.Func)
        return main

    def call(self, function: wasmtime.Func, *arguments: int) -> None:
        function(self._store, *arguments)


class Kernel:
    """A module on its own shared memory; `values` is that memory as float32."""

    def __init__(
        self, body: bytes, memory_bytes: int, export: str = "main", *, deterministic: bool = False
    ) -> None:
        self._memory = Memory(memory_bytes, deterministic=deterministic)
        self.values: Floats = self._memory.bytes.view(np.float32)
        self._main = self._memory.function(body, export)

    def place(self, start: int, array: Values) -> None:
        """Copies the bytes of `array` to address `start`."""
        self._memory.place(start, array)

    def run(self, *arguments: int) -> None:
        self._memory.call(self._main, *arguments)


def inputs_of(workload: Workload, seed: int = 7) -> list[Floats]:
    """One array for each input: floats in [-0.5, 0.5], any int8, indices below their limit.

    The type says float32 throughout, as all inputs of nearly all workloads are.
    """
    random = np.random.default_rng(seed)
    return [_drawn(random, tensor) for tensor in workload.tensors[:-1]]


def _drawn(random: np.random.Generator, tensor: Tensor) -> Any:
    match tensor.dtype:
        case DType.F32 | DType.F16:
            drawn = random.random(tensor.shape, dtype=np.float32) - np.float32(0.5)
            return drawn.astype(NUMPY[tensor.dtype])
        case DType.I8:
            least = tensor.limit or 128
            return random.integers(-least, least, tensor.shape).astype(np.int8)
        case DType.I32:
            low, high = (0, tensor.limit) if tensor.limit else (-(1 << 31), 1 << 31)
            return random.integers(low, high, tensor.shape).astype(np.int32)


def packed_inputs(candidate: Candidate, artifact: Artifact, inputs: list[Floats]) -> list[Floats]:
    """The inputs, those that the artifact wants in a layout packed by its pack kernels."""
    packed = dict(zip((tensor.name for tensor in candidate.workload.tensors), inputs, strict=False))
    layouts = artifact.manifest.layouts
    for layout, pack in zip(layouts, pack_kernels(candidate, artifact.manifest), strict=True):
        assert pack.sha256 == layout.pack.sha256
        packed[layout.tensor] = execute(pack, [packed[layout.tensor]])
    return list(packed.values())


def expected(inputs: list[Floats]) -> NDArray[np.float64]:
    a, b = inputs
    return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)))


def execute(
    artifact: Artifact,
    inputs: list[Floats],
    slices: tuple[tuple[int, int], ...] | None = None,
    export: str = "main",
    start: int = ALIGNMENT_BYTES,
) -> Floats:
    """The output; `slices` of the range run in that order, by default the whole range at once.
    Tensors lie from address `start` on."""
    return executed(artifact, inputs, slices, export, start)[-1]


def executed(
    artifact: Artifact,
    inputs: list[Floats],
    slices: tuple[tuple[int, int], ...] | None = None,
    export: str = "main",
    start: int = ALIGNMENT_BYTES,
) -> list[Floats]:
    """The states and the output.

    Output and scratch start as NaN, so that reading what was never written shows.
    """
    manifest = artifact.manifest
    sizes = [tensor.size_bytes for tensor in manifest.tensors] + [manifest.scratch_bytes]
    starts, end = [], start
    for size in sizes:
        starts.append(end)
        end += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + ALIGNMENT_BYTES
    kernel = Kernel(artifact.body, end, export, deterministic=SIGNED_DOT in manifest.requires)
    kernel.values[start // 4 : end // 4] = np.nan
    for address, array in zip(starts, inputs, strict=False):
        kernel.place(address, array)
    pointers = starts if manifest.scratch_bytes else starts[:-1]
    for low, high in slices or ((0, manifest.range_extent),):
        kernel.run(*pointers, low, high)
    bytes_ = kernel.values.view(np.uint8)
    end = starts[len(manifest.tensors) - 1] + manifest.tensors[-1].size_bytes
    blank = np.full(ALIGNMENT_BYTES // 4, np.nan, np.float32).view(np.uint8)
    aligned = -(-end // 4) * 4
    guard = bytes_[aligned : aligned + ALIGNMENT_BYTES - 4]
    assert np.array_equal(guard, blank[: guard.size]), "the kernel wrote past its output"
    return [
        np.array(bytes_[at : at + each.size_bytes]).view(NUMPY[each.dtype]).reshape(each.shape)
        for at, each in zip(starts, manifest.tensors, strict=False)
        if each.role is not Role.INPUT
    ]


def run_program(
    made: CompiledProgram,
    inputs: list[NDArray[np.generic]],
    elements: int,
    dtype: type[np.generic] = np.float32,
) -> Any:
    """The last parameter, of that dtype, after a run over the whole range."""
    size_bytes = np.dtype(dtype).itemsize * elements
    sizes = [array.nbytes for array in inputs] + [size_bytes, made.scratch_bytes]
    starts, end = [], ALIGNMENT_BYTES
    for size in sizes:
        starts.append(end)
        end += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + ALIGNMENT_BYTES
    kernel = Kernel(made.body, end)
    kernel.values[: end // 4] = np.nan
    for start, array in zip(starts, inputs, strict=False):
        kernel.place(start, array)
    kernel.run(*(starts if made.scratch_bytes else starts[:-1]), 0, made.range_extent)
    at = starts[-2]
    return np.array(kernel.values.view(np.uint8)[at : at + size_bytes]).view(dtype)


def execute_program(
    program: Program, switches: PassSwitches, arrays: dict[str, Floats]
) -> dict[str, Floats]:
    """The program lowered without any pass and run on copies of flat float32 arrays."""
    lowered = lower(program, switches)
    starts, end = [], ALIGNMENT_BYTES
    for buffer in program.parameters:
        starts.append(end)
        end += 4 * buffer.size + ALIGNMENT_BYTES
    kernel = Kernel(assemble(lowered.function), end + lowered.scratch_bytes)
    for start, buffer in zip(starts, program.parameters, strict=True):
        kernel.values[start // 4 : start // 4 + buffer.size] = arrays[buffer.name]
    scratch = [end] if lowered.scratch_bytes else []
    kernel.run(*starts, *scratch, 0, program.body.extent)
    return {
        buffer.name: kernel.values[start // 4 : start // 4 + buffer.size].copy()
        for start, buffer in zip(starts, program.parameters, strict=True)
    }
