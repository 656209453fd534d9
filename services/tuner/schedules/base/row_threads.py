"""Sums over the threads that share a row, which are neighbours in a workgroup.

Four sums travel together as the lanes of a vector, one that is left travels alone. By subgroups
they are exchanged without memory; without subgroups they go through workgroup memory, eight threads
at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import ZERO, binary, f32_buffer, number, under
from services.tuner.ir.nodes import (
    LANES,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Expression,
    IndexValue,
    Lanes,
    Load,
    Scope,
    Statement,
    Store,
    SubgroupReduce,
    lanes_of,
)

RADIX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RowThreads:
    """`threads` neighbours, a power of two, share each of the `rows` of a workgroup. This thread is
    number `lane` of those that share the row `own`."""

    threads: int
    rows: int
    own: Affine
    lane: Affine
    subgroups: bool

    @property
    def thread(self) -> Affine:
        return self.own.times(self.threads).plus(self.lane)


def shared_bytes(threads: int, rows: int, count: int, *, subgroups: bool) -> int:
    """What `reduced` keeps of `count` values in workgroup memory."""
    if threads == 1:
        return 0
    held = threads if subgroups else sum(levels(threads))
    lanes = count if count % LANES == 1 else -(-count // LANES) * LANES
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

    values: tuple[Expression, ...]
    body: Block
    local: tuple[Buffer, ...]
    shared: tuple[Buffer, ...]


def reduced(
    sharing: RowThreads, values: Sequence[Expression], name: str, op: BinaryOp = BinaryOp.ADD
) -> Reduced:
    """Every thread of the workgroup has to come here."""
    if sharing.threads == 1:
        return Reduced(values=tuple(values), body=(), local=(), shared=())
    local, shared, body = [], [], []
    for place, pack in enumerate(_packs(values)):
        held = f32_buffer(f"{name}.row{place}", lanes_of(pack), Scope.LOCAL)
        make = _by_subgroups if sharing.subgroups else _by_tree
        statements, buffers = make(sharing, pack, held, f"{name}.shared{place}", op)
        local.append(held)
        shared += buffers
        body += statements
    found = [
        Load(buffer=held, index=Affine(constant=lane))
        for held in local
        for lane in range(held.size)
    ]
    return Reduced(
        values=tuple(found[: len(values)]),
        body=tuple(body),
        local=tuple(local),
        shared=tuple(shared),
    )


def _packs(values: Sequence[Expression]) -> list[Expression]:
    """Vectors of them, with zeros in lanes that are left; one that is left is a single value."""
    packs: list[Expression] = []
    for n in range(0, len(values), LANES):
        part = values[n : n + LANES]
        padded = (*part, *[number(0)] * (LANES - len(part)))
        packs.append(part[0] if len(part) == 1 else Lanes(values=padded))
    return packs


def _by_subgroups(
    sharing: RowThreads, pack: Expression, held: Buffer, name: str, op: BinaryOp
) -> tuple[list[Statement], list[Buffer]]:
    shared = f32_buffer(name, lanes_of(pack) * sharing.threads * sharing.rows, Scope.WORKGROUP)
    value = SubgroupReduce(
        op=op,
        value=pack,
        thread=IndexValue(index=sharing.thread),
        threads=sharing.threads,
        shared=shared,
    )
    return [Store(buffer=held, index=ZERO, value=value)], [shared]


def _by_tree(
    sharing: RowThreads, pack: Expression, held: Buffer, name: str, op: BinaryOp
) -> tuple[list[Statement], list[Buffer]]:
    """A thread takes values that lie as far apart as its level has threads, so that neighbours read
    neighbours."""
    counts, lanes = levels(sharing.threads), lanes_of(pack)
    shared = [
        f32_buffer(f"{name}.{n}", lanes * count * sharing.rows, Scope.WORKGROUP)
        for n, count in enumerate(counts)
    ]

    def place(level: int, at: Affine) -> Affine:
        return sharing.own.times(counts[level]).plus(at).times(lanes)

    def spread(level: int, first: Affine, apart: int) -> Expression:
        places = (first.plus(Affine(constant=n)) for n in range(0, counts[level], apart))
        found: list[Expression] = [
            Load(buffer=shared[level], index=place(level, at), lanes=lanes) for at in places
        ]
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=False)
            found = [binary(op, *pair) for pair in pairs] + found[len(found) // 2 * 2 :]
        return found[0]

    body: list[Statement] = [
        Store(buffer=shared[0], index=place(0, sharing.lane), value=pack),
        Barrier(),
    ]
    for level in range(1, len(counts)):
        store = Store(
            buffer=shared[level],
            index=place(level, sharing.lane),
            value=spread(level - 1, sharing.lane, counts[level]),
        )
        body += under((Bound(index=sharing.lane, limit=counts[level]),), (store,))
        body.append(Barrier())
    body.append(Store(buffer=held, index=ZERO, value=spread(len(counts) - 1, ZERO, 1)))
    return body, shared
