"""Networks as plans, from tensors and calls that a test writes out."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fixtures.model_site import Files
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import (
    ALIGNMENT_BYTES,
    Chunk,
    Golden,
    GoldenPart,
    Need,
    Plan,
    PlanCall,
    PlanMemory,
    PlanTensor,
    Port,
    PortDType,
    Weight,
)
from kernelzoo.domain.plan_checking import validated
from kernelzoo.domain.weight_storage import Storage
from kernelzoo.domain.workload import ProgramWorkload, Workload, WorkloadKey, resolved
from services.tuner.graph.storage import StoredEntries

Array = NDArray[np.generic]
CHUNK_BYTES = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNetwork:
    """`programs`: those among its workloads that no operator names, evaluated."""

    plan: Plan
    files: Files
    feeds: dict[str, Array]
    outputs: dict[str, Array]
    programs: tuple[ProgramWorkload, ...] = ()

    @property
    def workloads(self) -> dict[WorkloadKey, Workload]:
        return resolved(self.plan.kernels, {each.key: each for each in self.programs})


Operand = int | str
PortOf = tuple[PortDType, Array, Operand]


def network(
    name: str,
    *,
    weights: Mapping[str, NDArray[np.float32]],
    tensors: list[PlanTensor],
    activations: int,
    calls: list[tuple[str, tuple[Operand, ...], str]],
    inputs: Mapping[str, PortOf],
    outputs: Mapping[str, PortOf],
    dimensions: Mapping[str, int] | None = None,
    stored: Mapping[str, StoredEntries] | None = None,
) -> PlannedNetwork:
    """Operands are numbers of `tensors` and names of `weights`. `stored` is as what they lie in the
    file, where that is not plain."""
    listed: list[Weight] = []
    body, plain_bytes = b"", 0
    for label, array in weights.items():
        small = None if stored is None else stored[label]
        storage = None
        if small is not None:
            storage = Storage(
                type=small.type, offset=len(body), bytes=small.body.size, axis=small.axis
            )
        weight = Weight(
            name=label,
            dtype=DType.F32,
            shape=array.shape,
            offset=plain_bytes,
            bytes=array.nbytes,
            storage=storage,
        )
        listed.append(weight)
        plain_bytes += array.nbytes + -array.nbytes % ALIGNMENT_BYTES
        piece = array.tobytes() if small is None else small.body.tobytes()
        body += piece + bytes(-len(piece) % ALIGNMENT_BYTES)
    names = {label: len(tensors) + i for i, label in enumerate(weights)}
    every = (
        *tensors,
        *(PlanTensor(dtype=DType.F32, shape=each.shape, weight=i) for i, each in enumerate(listed)),
    )
    kernels = list(dict.fromkeys(key for key, _, _ in calls))

    def number(operand: Operand) -> int:
        return operand if isinstance(operand, int) else names[operand]

    def ports(given: Mapping[str, PortOf]) -> tuple[Port, ...]:
        return tuple(
            Port(name=label, dtype=dtype, shape=array.shape, tensor=number(tensor))
            for label, (dtype, array, tensor) in given.items()
        )

    golden, inputs_at = _golden(b"", inputs)
    golden, outputs_at = _golden(golden, outputs)
    pieces = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
    # One in two is deflated.
    sent = [zlib.compress(each) if stored and i % 2 else each for i, each in enumerate(pieces)]
    chunks = zip(sent, pieces, strict=True)
    plan = Plan(
        needs=(Need.STORED,) if stored else (),
        model=name,
        dimensions=dict(dimensions or {}),
        inputs=ports(inputs),
        outputs=ports(outputs),
        tensors=every,
        weights=tuple(listed),
        chunks=tuple(
            Chunk(
                bytes=len(file),
                sha256=sha256(file).hexdigest(),
                inflated=None if file is piece else len(piece),
            )
            for file, piece in chunks
        ),
        kernels=tuple(kernels),
        calls=tuple(
            PlanCall(kernel=kernels.index(key), tensors=tuple(map(number, operands)), label=label)
            for key, operands, label in calls
        ),
        memory=PlanMemory(weights=plain_bytes, activations=activations),
        golden=Golden(
            sha256=sha256(golden).hexdigest(),
            inputs=inputs_at,
            outputs=outputs_at,
            tolerance=1e-4,
        ),
    )
    return PlannedNetwork(
        plan=validated(plan),
        files=Files(weights=b"".join(sent), golden=golden),
        feeds={label: array for label, (_, array, _) in inputs.items()},
        outputs={label: array for label, (_, array, _) in outputs.items()},
    )


def _golden(body: bytes, ports: Mapping[str, PortOf]) -> tuple[bytes, tuple[GoldenPart, ...]]:
    parts = []
    for label, (dtype, array, _) in ports.items():
        entries = array.astype(np.float32 if dtype is PortDType.FLOAT32 else np.int32).tobytes()
        parts.append(GoldenPart(name=label, offset=len(body), bytes=len(entries)))
        body += entries
    return body, tuple(parts)
