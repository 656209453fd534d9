"""Carries plans out: one as a page does, in one memory of wasmtime, or several call by call."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import wasmtime
from numpy.typing import NDArray

from fixtures.wasm_space import common_space
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.plan import (
    ALIGNMENT_BYTES,
    GoldenPart,
    Plan,
    PlanAxis,
    PlanBucket,
    PlanCall,
    Port,
)
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate, pack_kernels
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import Memory

Bytes = NDArray[np.uint8]
NUMPY = {"f32": np.float32, "i32": np.int32}


class Runner:
    """Runs a plan as the page's runtime does: activations, weights, packed weights and scratch
    memory lie one after the other, and a kernel is instantiated once."""

    def __init__(self, plan: Plan, workloads: Mapping[str, Workload], weights: bytes) -> None:
        self._plan = plan
        candidates = [common_space(workloads[key])[0] for key in plan.kernels]
        self._artifacts = [compile_candidate(each) for each in candidates]
        self._weights_at = _aligned(plan.memory.activations)
        self._end = self._weights_at + _aligned(len(weights))
        packed = self._packed_weights(candidates)
        self._scratch_at = self._end
        scratch = max((each.manifest.scratch_bytes for each in self._artifacts), default=0)
        self._memory = Memory(self._end + scratch)
        self._memory.bytes[: plan.memory.activations] = 0xFF
        self._memory.place(self._weights_at, np.frombuffer(weights, np.uint8))
        self._packed: dict[tuple[int, str], int] = {}
        for (weight, layout), (at, pack) in packed.items():
            source = self._weights_at + plan.weights[weight].offset
            self._run(pack, [source, at])
            self._packed[weight, layout] = at
        self._functions = [self._memory.function(each.body) for each in self._artifacts]

    def _packed_weights(self, candidates: list[Any]) -> dict[tuple[int, str], tuple[int, Artifact]]:
        """Places each weight that a kernel wants in a layout, and finds what packs it."""
        found: dict[tuple[int, str], tuple[int, Artifact]] = {}
        for call in self._every_call():
            manifest = self._artifacts[call.kernel].manifest
            packs = pack_kernels(candidates[call.kernel], manifest)
            for layout, pack in zip(manifest.layouts, packs, strict=True):
                names = [tensor.name for tensor in manifest.tensors]
                weight = self._weight(call.tensors[names.index(layout.tensor)])
                if (weight, layout.layout) not in found:
                    found[weight, layout.layout] = self._end, pack
                    self._end += _aligned(pack.manifest.tensors[1].size_bytes)
        return found

    def _weight(self, tensor: int) -> int:
        weight = self._plan.tensors[tensor].weight
        assert weight is not None, "only constants are packed"
        return weight

    def _every_call(self) -> Iterator[PlanCall]:
        buckets = [(axis, bucket) for axis in self._plan.axes for bucket in axis.buckets]
        for each in ((), *((pair,) for pair in buckets)):
            yield from self._calls(each)

    def _calls(self, buckets: Sequence[tuple[PlanAxis, PlanBucket]]) -> Iterator[PlanCall]:
        """The calls of a run of these buckets, one of an axis at most."""
        for call in self._plan.calls:
            yield next(filter(None, (self._shorter(call, *each) for each in buckets)), call)

    def _shorter(self, call: PlanCall, axis: PlanAxis, bucket: PlanBucket) -> PlanCall | None:
        kernel = dict(bucket.kernels).get(call.kernel)
        *others, told, output = call.tensors
        if kernel is None or told != self._plan.inputs[axis.input].tensor:
            return None
        told = self._plan.inputs[bucket.input].tensor
        return replace(call, kernel=kernel, tensors=(*others, told, output))

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        for port in self._plan.inputs:
            self._memory.place(self._address(port.tensor), feeds[port.name])
        for call in self._calls(self._buckets(feeds)):
            artifact = self._artifacts[call.kernel]
            layouts = {each.tensor: each.layout for each in artifact.manifest.layouts}
            pointers = []
            for tensor, number in zip(artifact.manifest.tensors, call.tensors, strict=True):
                layout = layouts.get(tensor.name)
                pointers.append(
                    self._packed[self._weight(number), layout] if layout else self._address(number)
                )
            self._run(artifact, pointers, self._functions[call.kernel])
        return {port.name: self._output(port) for port in self._plan.outputs}

    def _buckets(self, feeds: Mapping[str, NDArray[Any]]) -> list[tuple[PlanAxis, PlanBucket]]:
        found = []
        for axis in self._plan.axes:
            extent = axis.most - int(feeds[self._plan.inputs[axis.input].name][0])
            found += [(axis, each) for each in axis.buckets if extent <= each.most][:1]
        return found

    def _address(self, number: int) -> int:
        tensor = self._plan.tensors[number]
        if tensor.weight is None:
            return tensor.at or 0
        return self._weights_at + self._plan.weights[tensor.weight].offset

    def _output(self, port: Port) -> NDArray[Any]:
        tensor = self._plan.tensors[port.tensor]
        at = self._address(port.tensor)
        raw = np.array(self._memory.bytes[at : at + tensor.size_bytes])
        return raw.view(NUMPY[tensor.dtype]).reshape(port.shape)

    def _run(
        self, artifact: Artifact, pointers: list[int], function: wasmtime.Func | None = None
    ) -> None:
        scratch = [self._scratch_at] if artifact.manifest.scratch_bytes else []
        call = function or self._memory.function(artifact.body)
        self._memory.call(call, *pointers, *scratch, 0, artifact.manifest.range_extent)


def golden_arrays(
    parts: tuple[GoldenPart, ...], ports: tuple[Port, ...], body: bytes
) -> dict[str, NDArray[Any]]:
    """Reads what a golden file has for inputs or outputs, in the dtypes that memory has."""
    return {
        port.name: np.frombuffer(
            body, NUMPY[port.dtype.stored], part.bytes // 4, part.offset
        ).reshape(port.shape)
        for part, port in zip(parts, ports, strict=True)
    }


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


Execute = Callable[[Mapping[str, tuple[Artifact, list[NDArray[Any]]]]], dict[str, NDArray[Any]]]
"""Runs kernels by any name, each with its inputs in order; answers their outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan and what it runs on."""

    plan: Plan
    workloads: Mapping[str, Workload]
    weights: bytes
    feeds: Mapping[str, NDArray[Any]]


def run_together(
    planned: Mapping[str, Planned], target: TargetKind, execute: Execute
) -> dict[str, dict[str, NDArray[Any]]]:
    """The outputs of several plans by their names. The first calls of all run at once, then the
    second ones, so that targets with a process of their own start it few times. Of each space the
    first kernel runs that takes weights as they are."""
    held = {name: _fed(each) for name, each in planned.items()}
    artifacts = {name: _plain_artifacts(each, target) for name, each in planned.items()}
    for step in range(max((len(each.plan.calls) for each in planned.values()), default=0)):
        runs, outputs = {}, {}
        for name, each in planned.items():
            if step < len(each.plan.calls):
                call = each.plan.calls[step]
                *inputs, outputs[name] = (_place(each.plan, number) for number in call.tensors)
                runs[name] = artifacts[name][call.kernel], [held[name][place] for place in inputs]
        for name, output in execute(runs).items():
            held[name][outputs[name]] = np.atleast_1d(output)
    return {
        name: {
            port.name: held[name][_place(each.plan, port.tensor)].reshape(port.shape)
            for port in each.plan.outputs
        }
        for name, each in planned.items()
    }


Place = tuple[str, int]


def _place(plan: Plan, number: int) -> Place:
    """Places a tensor: views of one lie where it does."""
    tensor = plan.tensors[number]
    return ("memory", tensor.at or 0) if tensor.weight is None else ("weight", tensor.weight)


def _fed(planned: Planned) -> dict[Place, NDArray[Any]]:
    """The tensors that are there before the first call: inputs and weights."""
    plan = planned.plan
    weights = {
        _place(plan, number): np.frombuffer(
            planned.weights, np.uint8, tensor.size_bytes, plan.weights[tensor.weight].offset
        ).view(NUMPY[tensor.dtype])
        for number, tensor in enumerate(plan.tensors)
        if tensor.weight is not None
    }
    return weights | {_place(plan, port.tensor): planned.feeds[port.name] for port in plan.inputs}


def _plain_artifacts(planned: Planned, target: TargetKind) -> list[Artifact]:
    made = []
    for key in planned.plan.kernels:
        own = planned.workloads[key]
        space = common_space(own) if target is TargetKind.WASM else lite_space(own, target)
        compiled = (compile_candidate(candidate) for candidate in space)
        made.append(next(each for each in compiled if not each.manifest.layouts))
    return made
