"""Runs a plan here, in wasmtime: the kernels of a class on one shared memory, call by call."""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import wasmtime
from numpy.typing import NDArray
from wasmtime import _ffi as ffi

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Plan, PlanCall, PlanTensor
from kernelzoo.errors import InvalidInput
from services.gateway.wire.artifacts import ArtifactWire, Kernel

PAGE_BYTES = 65_536
ALIGNMENT_BYTES = 64
NUMPY = {DType.F32: np.dtype(np.float32), DType.I32: np.dtype(np.int32)}

Array = NDArray[np.generic]


@lru_cache(maxsize=1)
def _engine() -> wasmtime.Engine:
    config = wasmtime.Config()
    config.wasm_threads = True
    config.shared_memory = True
    config.wasm_simd = True
    config.wasm_relaxed_simd = True
    return wasmtime.Engine(config)


class _SharedMemory(wasmtime.SharedMemory):
    """wasmtime-py 50.0.1 passes the address of its pointer where the pointer belongs."""

    def _as_extern(self) -> ffi.wasmtime_extern_t:
        union = ffi.wasmtime_extern_union(sharedmemory=self.ptr())
        return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY, union)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Addresses:
    """Activations, each state, weights and scratch begin at these addresses; packed weights by
    weight and layout."""

    activations: int
    states: tuple[int, ...]
    weights: int
    scratch: int
    packed: Mapping[tuple[int, str], int]
    end: int


class Machine:
    """Holds a plan's memory. `kernels` are those of each workload, in an order of their own."""

    def __init__(
        self,
        plan: Plan,
        kernels: Mapping[str, Sequence[Kernel]],
        artifacts: Mapping[str, bytes],
        weights: bytes,
    ) -> None:
        self.plan = plan
        self._kernels = kernels
        self._at = _placed(plan, kernels)
        self._store = wasmtime.Store(_engine())
        pages = -(-self._at.end // PAGE_BYTES)
        memory = _SharedMemory(
            _engine(), wasmtime.MemoryType(wasmtime.Limits(pages, 65_536), shared=True)
        )
        raw = (ctypes.c_ubyte * (pages * PAGE_BYTES)).from_address(
            ctypes.addressof(memory.data_ptr().contents)
        )
        self._memory = memory
        self._bytes: NDArray[np.uint8] = np.ctypeslib.as_array(raw)
        self._functions = {name: self._function(body) for name, body in artifacts.items()}
        self._place(self._at.weights, np.frombuffer(weights, np.uint8))
        self._pack()

    def feed(self, inputs: Mapping[str, bytes]) -> None:
        """States are zeros again, but for those that are inputs."""
        for state, start in zip(self.plan.states, self._at.states, strict=True):
            self._bytes[start : start + state.size_bytes] = 0
        for port in self.plan.inputs:
            address = self._address(self.plan.tensors[port.tensor])
            self._place(address, np.frombuffer(inputs[port.name], np.uint8))

    def call(self, call: PlanCall, which: int) -> None:
        """Runs a call by kernel number `which` of its workload."""
        kernel = self._kernels[self.plan.kernels[call.kernel]][which]
        layouts = {layout.tensor: layout.layout for layout in kernel.layouts}
        tensors = [self.plan.tensors[index] for index in call.tensors]
        pointers = [
            self._address(tensor)
            if wanted.name not in layouts
            else self._at.packed[_weight(tensor), layouts[wanted.name]]
            for tensor, wanted in zip(tensors, kernel.tensors, strict=True)
        ]
        self._run(kernel, pointers)

    def read(self, tensor: int) -> Array:
        """A copy of the entries of a value."""
        wanted = self.plan.tensors[tensor]
        start = self._address(wanted)
        found = self._bytes[start : start + wanted.size_bytes].copy()
        return found.view(NUMPY[wanted.dtype])

    def write(self, tensor: int, entries: Array) -> None:
        self._place(self._address(self.plan.tensors[tensor]), entries.view(np.uint8))

    def _function(self, body: bytes) -> wasmtime.Func:
        instance = wasmtime.Instance(self._store, wasmtime.Module(_engine(), body), [self._memory])
        function = instance.exports(self._store)["main"]
        assert isinstance(function, wasmtime.Func)
        return function

    def _run(self, artifact: ArtifactWire, pointers: Sequence[int]) -> None:
        scratch = [self._at.scratch] if artifact.scratch_bytes else []
        self._functions[artifact.sha256](self._store, *pointers, *scratch, 0, artifact.range_extent)

    def _pack(self) -> None:
        for (weight, layout), pack in _packs(self.plan, self._kernels).items():
            plain = self._at.weights + self.plan.weights[weight].offset
            self._run(pack, [plain, self._at.packed[weight, layout]])

    def _address(self, tensor: PlanTensor) -> int:
        if tensor.weight is not None:
            return self._at.weights + self.plan.weights[tensor.weight].offset
        if tensor.state is not None:
            return self._at.states[tensor.state]
        return self._at.activations + (tensor.at or 0)

    def _place(self, start: int, raw: NDArray[np.uint8]) -> None:
        self._bytes[start : start + raw.size] = raw


def _placed(plan: Plan, kernels: Mapping[str, Sequence[Kernel]]) -> _Addresses:
    end = ALIGNMENT_BYTES
    activations, end = end, _aligned(end + plan.memory.activations)
    states = []
    for state in plan.states:
        states.append(end)
        end = _aligned(end + state.size_bytes)
    weights, end = end, _aligned(end + plan.memory.weights)
    packed = {}
    for key, pack in _packs(plan, kernels).items():
        packed[key] = end
        end = _aligned(end + 4 * prod(pack.tensors[-1].shape))
    parts = [kernel for each in kernels.values() for kernel in each]
    packs = [layout.pack for kernel in parts for layout in kernel.layouts]
    scratch, end = end, end + max(each.scratch_bytes for each in (*parts, *packs))
    return _Addresses(
        activations=activations,
        states=tuple(states),
        weights=weights,
        scratch=scratch,
        packed=packed,
        end=end,
    )


def _packs(
    plan: Plan, kernels: Mapping[str, Sequence[Kernel]]
) -> dict[tuple[int, str], ArtifactWire]:
    """The pack kernels by weight and layout."""
    return dict(_wanted_layouts(plan, kernels))


def _wanted_layouts(
    plan: Plan, kernels: Mapping[str, Sequence[Kernel]]
) -> Iterator[tuple[tuple[int, str], ArtifactWire]]:
    for call in plan.calls:
        for kernel in kernels[plan.kernels[call.kernel]]:
            names = [tensor.name for tensor in kernel.tensors]
            for layout in kernel.layouts:
                tensor = plan.tensors[call.tensors[names.index(layout.tensor)]]
                yield (_weight(tensor), layout.layout), layout.pack


def _weight(tensor: PlanTensor) -> int:
    if tensor.weight is None:
        raise InvalidInput(
            "a call gives a kernel something that changes where it packs constant weights; "
            "import the model again with this version"
        )
    return tensor.weight


def _aligned(end: int) -> int:
    return -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
