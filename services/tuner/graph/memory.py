"""Places activations: tensors that are never needed at the same time share their bytes.

Time is counted in calls: input tensors are there before call 0, outputs until after the last. The
largest blocks are placed first, each at the lowest address where it meets none that lives when it
does ("greedy by size", Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
Inference, 2020).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from kernelzoo.domain.operators.expressions import Program, Read, parts
from kernelzoo.domain.plan import ALIGNMENT_BYTES
from kernelzoo.domain.workload import Workload
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.places import flat


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBlock:
    """Bytes that are needed from time `first` to time `last`, both included."""

    name: str
    size_bytes: int
    first: int
    last: int

    def meets(self, other: "MemoryBlock") -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A byte address for every value that is neither a constant nor a state."""

    addresses: Mapping[str, int]
    size_bytes: int


def placed(graph: Graph, *, in_place: bool = True) -> Placement:
    """Views lie where their source lies. With `in_place` an entry may be written where the entry
    that it is made from was read for the last time."""
    owners = _owners(graph, in_place=in_place)
    blocks = _blocks(graph, owners)
    addresses = addresses_of(blocks)
    ends = (addresses[block.name] + block.size_bytes for block in blocks)
    return Placement(
        addresses={name: addresses[owner] for name, owner in owners.items()},
        size_bytes=max(ends, default=0),
    )


def addresses_of(blocks: Sequence[MemoryBlock]) -> dict[str, int]:
    """An address for each block, a multiple of 64."""
    addresses: dict[str, int] = {}
    by_address: list[tuple[int, MemoryBlock]] = []
    for block in sorted(blocks, key=lambda block: (-block.size_bytes, block.first, block.name)):
        at = 0
        for start, other in by_address:
            if other.meets(block):
                if at + block.size_bytes <= start:
                    break
                at = max(at, start + other.size_bytes)
        addresses[block.name] = at
        by_address.append((at, block))
        by_address.sort(key=lambda each: each[0])
    return addresses


def least_bytes(blocks: Sequence[MemoryBlock]) -> int:
    """Counts the bytes that are alive at the worst time: no placement takes less."""
    times = {block.first for block in blocks}
    return max(
        (sum(b.size_bytes for b in blocks if b.first <= time <= b.last) for time in times),
        default=0,
    )


def _blocks(graph: Graph, owners: Mapping[str, str]) -> list[MemoryBlock]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for port in graph.inputs:
        if port.value in owners:
            first[owners[port.value]] = last[owners[port.value]] = -1
    for time, node in enumerate(graph.nodes):
        for name in (*node.inputs, node.output):
            if name in owners:
                first.setdefault(owners[name], time)
                last[owners[name]] = time
    read_by_buckets = [graph.inputs[b.input] for axis in graph.axes for b in axis.buckets]
    for port in (*graph.outputs, *read_by_buckets):
        if port.value in owners:
            last[owners[port.value]] = len(graph.nodes)
    return [
        MemoryBlock(
            name=name, size_bytes=_size_bytes(graph, name), first=first[name], last=last[name]
        )
        for name in first
    ]


def _size_bytes(graph: Graph, name: str) -> int:
    value = graph.values[name]
    size = value.dtype.size_bytes * value.elements
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _owners(graph: Graph, *, in_place: bool) -> dict[str, str]:
    """The value in whose block each value lies; constants and states are in none."""
    owners = {port.value: port.value for port in graph.inputs if port.value not in graph.states}
    last = _last_uses(graph)
    kept = {port.value for port in graph.outputs}
    held: dict[str, set[str]] = {name: {name} for name in owners}
    for time, node in enumerate(graph.nodes):
        owner = node.output
        if isinstance(node.op, View):
            if node.inputs[0] in graph.constants:
                continue
            owner = owners[node.inputs[0]]
        elif in_place:
            owner = _dying(graph, node, time, owners, held, last, kept) or owner
        owners[node.output] = owner
        held.setdefault(owner, set()).add(node.output)
    return owners


def _last_uses(graph: Graph) -> dict[str, int]:
    return {name: time for time, node in enumerate(graph.nodes) for name in node.inputs}


def _dying(
    graph: Graph,
    node: Node,
    time: int,
    owners: Mapping[str, str],
    held: Mapping[str, set[str]],
    last: Mapping[str, int],
    kept: set[str],
) -> str | None:
    """The block of an operand that only this node still needs, and may overwrite."""
    mine = [owners[name] for name in node.inputs if name in owners]
    for name in writable_operands(node):
        owner = owners.get(name)
        if owner is None or mine.count(owner) > 1:
            continue
        made, read = graph.values[node.output].dtype, graph.values[name].dtype
        if made.size_bytes != read.size_bytes:
            continue
        others = held[owner]
        if _size_bytes(graph, owner) != _size_bytes(graph, node.output) or others & kept:
            continue
        if all(last.get(other, -1) <= time for other in others):
            return owner
    return None


def writable_operands(node: Node) -> list[str]:
    """Operands of which each entry is read only for the entry of the output that has its number."""
    program = node.op.program if isinstance(node.op, Workload) else node.op
    if not isinstance(program, Program) or len(program.stages) > 1 or program.output.reducer:
        return []
    stage = program.output
    entry = flat(stage.axes, stage.shape)
    found = []
    for operand, name in zip(program.inputs, node.inputs, strict=True):
        read = (p for p in parts(stage.value) if isinstance(p, Read) and p.tensor == operand.name)
        same = prod(operand.shape) == prod(stage.shape)
        if same and all(flat(each.at, operand.shape) == entry for each in read):
            found.append(name)
    return found
