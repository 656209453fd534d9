"""Sums over the threads that share a row, which are neighbours in a workgroup.

Four sums travel together as the lanes of a vector, one that is left travels alone. By subgroups
they are exchanged without memory; without subgroups they go through workgroup memory, eight threads
at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelzoo.domain.dtype import DType
from services.tuner import ir

RADIX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RowThreads:
    """`threads` neighbours, a power of two, share each of the `rows` of a workgroup. This thread is
    number `lane` of those that share the row `own`."""

    threads: int
    rows: int
    own: ir.Affine
    lane: ir.Affine
    subgroups: bool

    @property
    def thread(self) -> ir.Affine:
        return self.own * self.threads + self.lane


def shared_bytes(threads: int, rows: int, count: int, *, subgroups: bool) -> int:
    """Counts the bytes that `reduced` keeps of `count` values in workgroup memory."""
    if threads == 1:
        return 0
    held = threads if subgroups else sum(levels(threads))
    lanes = count if count % ir.LANES == 1 else -(-count // ir.LANES) * ir.LANES
    return lanes * held * rows * DType.F32.size_bytes


def levels(threads: int) -> list[int]:
    """Values of a row at each level of its tree, until all threads read what is left."""
    counts = [threads]
    while counts[-1] > RADIX:
        counts.append(max(1, counts[-1] // RADIX))
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """`values` are what every thread of the row knows after `body`; `local` and `shared` are
    buffers that have to be allocated around it."""

    values: tuple[ir.Expression, ...]
    body: ir.Block
    local: tuple[ir.Buffer, ...]
    shared: tuple[ir.Buffer, ...]


def by_subgroups(
    sharing: RowThreads, value: ir.Expression, name: str, op: ir.BinaryOp
) -> tuple[ir.SubgroupReduce, ir.Buffer]:
    """The reduction, and the workgroup memory that it needs."""
    shared = ir.shared(name, ir.lanes_of(value) * sharing.threads * sharing.rows)
    reduction = ir.SubgroupReduce(
        op=op, value=value, thread=ir.value(sharing.thread), threads=sharing.threads, shared=shared
    )
    return reduction, shared


def by_tree(
    sharing: RowThreads,
    value: ir.Expression,
    name: str,
    op: ir.BinaryOp,
    counts: Sequence[int],
) -> tuple[ir.Expression, list[ir.Statement], list[ir.Buffer]]:
    """Returns what the threads of a row know after the statements, by a tree in workgroup memory
    with so many values at each level. A thread takes values that lie as far apart as its level has
    threads, so that neighbours read neighbours."""
    lanes = ir.lanes_of(value)
    shared = [
        ir.shared(f"{name}.{n}", lanes * count * sharing.rows) for n, count in enumerate(counts)
    ]

    def place(level: int, at: ir.Affine) -> ir.Affine:
        return (sharing.own * counts[level] + at) * lanes

    def spread(level: int, first: ir.Affine, apart: int) -> ir.Expression:
        places = (place(level, first + n) for n in range(0, counts[level], apart))
        values = [ir.Load(buffer=shared[level], index=at, lanes=lanes) for at in places]
        return ir.pairwise(values, op)

    body: list[ir.Statement] = [shared[0].store(place(0, sharing.lane), value), ir.Barrier()]
    for level, count in enumerate(counts[1:], start=1):
        store = shared[level].store(
            place(level, sharing.lane), spread(level - 1, sharing.lane, count)
        )
        body += (*ir.under((sharing.lane.below(count),), (store,)), ir.Barrier())
    return spread(len(counts) - 1, ir.ZERO, 1), body, shared


def reduced(
    sharing: RowThreads,
    values: Sequence[ir.Expression],
    name: str,
    op: ir.BinaryOp = ir.BinaryOp.ADD,
) -> Reduced:
    """Every thread of the workgroup has to come here."""
    if sharing.threads == 1:
        return Reduced(values=tuple(values), body=(), local=(), shared=())
    local, shared, body = [], [], []
    for place, pack in enumerate(_packs(values)):
        held, memory = ir.local(f"{name}.row{place}", ir.lanes_of(pack)), f"{name}.shared{place}"
        value: ir.Expression
        if sharing.subgroups:
            value, buffer = by_subgroups(sharing, pack, memory, op)
            shared.append(buffer)
        else:
            value, steps, buffers = by_tree(sharing, pack, memory, op, levels(sharing.threads))
            body += steps
            shared += buffers
        local.append(held)
        body.append(held.store(0, value))
    found = [held[lane] for held in local for lane in range(held.size)]
    return Reduced(
        values=tuple(found[: len(values)]),
        body=tuple(body),
        local=tuple(local),
        shared=tuple(shared),
    )


def _packs(values: Sequence[ir.Expression]) -> list[ir.Expression]:
    """Vectors of them, with zeros in lanes that are left; one that is left is a single value."""
    packs: list[ir.Expression] = []
    for n in range(0, len(values), ir.LANES):
        part = values[n : n + ir.LANES]
        padded = (*part, *[ir.number(0)] * (ir.LANES - len(part)))
        packs.append(part[0] if len(part) == 1 else ir.Lanes(values=padded))
    return packs
