"""Scalar replacement: elements of local buffers, and repeated loads, live in registers.

    local c: f32[4]                     c[0] := 0x4
    c[0 +4] = 0x4                 →     for k < 8:
    for k < 8:                            c[0] := fma(a[k] x4, b[4*k +4], c[0])
      c[0 +4] = fma(a[k] x4, b[4*k +4], c[0 +4])

    y[0] = (x[i] * x[i])          →     r1 := x[i]
                                        y[0] = (r1 * r1)

This is nnJIT's "load/store to variable" (section 4.3), LLVM's SROA and mem2reg. It runs after
unrolling, when most indices of local buffers are constant. A buffer with any other index stays in
memory, and so does one whose accesses overlap in a way that registers cannot have. Where the same
four elements are stored as a vector and one by one, each gets a register of its own if only
constants are stored as vectors; else single lanes of the vector register are replaced.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Block,
    Broadcast,
    Buffer,
    Cast,
    Const,
    Expression,
    ExtractLane,
    If,
    Lanes,
    Let,
    Load,
    Loop,
    Program,
    Register,
    RegisterRead,
    Scope,
    Shuffle,
    Statement,
    Store,
    dtype_of,
    lanes_of,
    unsupported,
)
from services.tuner.ir.rewrite import leaves, operands, statements, with_operands


def promote_to_registers(
    program: Program, *, gathers: bool = False, replaces: bool = False
) -> Program:
    """`gathers`: a vector may be read from four registers of one lane each, which WGSL does for
    nothing (`vec4(a, b, c, d)`). `replaces`: a store of one element may replace a lane of a vector
    register, which takes one shuffle in WebAssembly.
    """
    body = _Replacement(gathers=gathers, replaces=replaces).block(program.body.body, Replaced())
    return replace(program, body=replace(program.body, body=body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One element of a buffer lives in a slot: a lane of a register."""

    register: Register
    lane: int


Slots = dict[int, Slot]
"""By element of one buffer."""


Span = tuple[int, int]
"""The elements of one access: the first, and how many."""


def slots_of(
    buffers: Sequence[Buffer], body: Block, *, gathers: bool = False, replaces: bool = False
) -> dict[str, Slots]:
    """Slots of the buffers that can be replaced by registers, by name of the buffer."""
    uses = {buffer.name: _Use() for buffer in buffers}
    for statement in statements(body):
        if isinstance(statement, _WITH_VALUES):
            _note(statement, uses)
    return {
        buffer.name: slots
        for buffer in buffers
        if (slots := _slots(buffer, uses[buffer.name], gathers=gathers, replaces=replaces))
        is not None
    }


_WITH_VALUES = (Store, Assign, Let)


@dataclass(slots=True)
class _Use:
    """Accesses of one buffer.

    `stores` has every span that is stored, in program order, and whether all that is stored there
    are constants; `loads` has every span that is loaded. `varies` is whether any index is not
    constant, or a Let reads the buffer.
    """

    stores: dict[Span, bool] = field(default_factory=dict)
    loads: dict[Span, None] = field(default_factory=dict)
    varies: bool = False


def _note(statement: Store | Assign | Let, uses: dict[str, _Use]) -> None:
    for leaf in leaves(statement.value):
        if type(leaf) is not Load:
            continue
        use = uses.get(leaf.buffer.name)
        if use is not None:
            use.loads[leaf.index.constant, leaf.lanes] = None
            use.varies |= bool(leaf.index.terms) or isinstance(statement, Let)
    if isinstance(statement, Store) and statement.buffer.name in uses:
        use = uses[statement.buffer.name]
        span = statement.index.constant, lanes_of(statement.value)
        constant = isinstance(statement.value, Const)
        use.stores[span] = use.stores.get(span, True) and constant
        use.varies |= bool(statement.index.terms)


def _slots(buffer: Buffer, use: _Use, *, gathers: bool, replaces: bool) -> Slots | None:
    slots = None if use.varies else _assign_slots(buffer, use.stores, replaces=replaces)
    if slots is None:
        return None
    whole = all(_covered(slots, p) or (gathers and _single(slots, p)) for p in use.loads)
    return slots if whole else None


def _assign_slots(buffer: Buffer, stores: dict[Span, bool], *, replaces: bool) -> Slots | None:
    """A slot for each stored element, or None where two stores need different registers for one."""
    singles = {first for first, lanes in stores if lanes == 1}
    slots: Slots = {}
    for (first, lanes), constant in stores.items():
        if lanes == 1 and first in slots:
            continue
        split = lanes > 1 and not singles.isdisjoint(range(first, first + lanes))
        if split and not constant:
            if not replaces:
                return None
            split = False  # The vector register stays whole; stores of single lanes replace one.
        width = 1 if split else lanes
        for start in range(first, first + lanes, width):
            register = Register(
                name=f"{buffer.name}[{start}]", lanes=width, dtype=buffer.dtype.compute_dtype
            )
            for lane in range(width):
                slot = Slot(register=register, lane=lane)
                if slots.setdefault(start + lane, slot) != slot:
                    return None
    return slots


def _single(slots: Slots, span: Span) -> bool:
    """Returns whether each element of the span has a register of one lane."""
    first, lanes = span
    held = [slots.get(element) for element in range(first, first + lanes)]
    return all(slot is not None and slot.register.lanes == 1 for slot in held)


def _covered(slots: Slots, span: Span) -> bool:
    """Returns whether the span is one whole register, or one lane of any."""
    first, lanes = span
    slot = slots.get(first)
    if slot is None:
        return False
    return lanes == 1 or (slot.lane == 0 and slot.register.lanes == lanes)


LoadKey = tuple[str, int, tuple[tuple[str, int], ...], int, DType | None]
Known = dict[LoadKey, RegisterRead]


@dataclass(frozen=True, slots=True)
class Replaced:
    """Local buffers in scope that are registers, and the reads of them made so far.

    `reads` is by identity of the load, which is enough: unrolling made equal loads one object.
    """

    slots: dict[str, Slots] = field(default_factory=dict)
    reads: dict[int, Expression] = field(default_factory=dict)


class _Replacement:
    """Owns the count of registers for repeated loads, for unique names."""

    def __init__(self, *, gathers: bool, replaces: bool) -> None:
        self._gathers = gathers
        self._replaces = replaces
        self._count = 0

    def block(self, block: Block, held: Replaced) -> Block:
        out: list[Statement] = []
        run: list[Store] = []
        for statement in block:
            if isinstance(statement, Store):
                run.append(statement)
                continue
            out.extend(self._run(run, held))
            run = []
            out.extend(self._nested(statement, held))
        out.extend(self._run(run, held))
        return tuple(out)

    def _nested(self, statement: Statement, held: Replaced) -> Block:
        match statement:
            case Loop():
                return (replace(statement, body=self.block(statement.body, held)),)
            case Let(body=body):
                return (replace(statement, body=self.block(body, held)),)
            case If():
                inside = replace(
                    statement,
                    body=self.block(statement.body, held),
                    otherwise=self.block(statement.otherwise, held),
                )
                return (inside,)
            case Allocate():
                return self._allocated(statement, held)
            case Barrier():
                return (statement,)
        raise unsupported(statement, "scalar replacement")

    def _allocated(self, statement: Allocate, held: Replaced) -> Block:
        """Handles nested allocations together, so that the body is scanned once for all of them."""
        buffers, body = [statement.buffer], statement.body
        while len(body) == 1 and isinstance(body[0], Allocate):
            buffers.append(body[0].buffer)
            body = body[0].body
        local = [buffer for buffer in buffers if buffer.scope is Scope.LOCAL]
        gathers, replaces = self._gathers, self._replaces
        found = slots_of(local, body, gathers=gathers, replaces=replaces) if local else {}
        inside = self.block(body, Replaced({**held.slots, **found}) if found else held)
        for buffer in reversed(buffers):
            if buffer.name not in found:
                inside = (Allocate(buffer=buffer, body=inside),)
        return inside

    def _run(self, run: list[Store], held: Replaced) -> Iterator[Statement]:
        """Consecutive stores, with local buffers and repeated loads in registers.

        A loaded value is valid until a store of the run writes its buffer.
        """
        slots = held.slots
        repeated = _repeated(run, held)
        known: Known = {}
        before: list[Assign] = []

        def rewritten(expression: Expression) -> Expression:
            read = held.reads.get(id(expression))
            if read is not None:
                return read
            key = _key(expression)
            if key is None:
                return with_operands(expression, rewritten)
            if key[0] in slots:
                read = held.reads[id(expression)] = _slot_read(slots[key[0]], expression)
                return read
            if key not in repeated:
                return expression
            if key not in known:
                known[key] = self._new_register(expression)
                before.append(Assign(register=known[key].register, value=expression))
            return known[key]

        for store in run:
            value = rewritten(store.value)
            yield from before
            before.clear()
            own = slots.get(store.buffer.name)
            if own is not None:
                yield from _assigned(own, store, value)
                continue
            yield Store(buffer=store.buffer, index=store.index, value=value)
            for key in [key for key in known if key[0] == store.buffer.name]:
                del known[key]

    def _new_register(self, value: Expression) -> RegisterRead:
        self._count += 1
        lanes, dtype = lanes_of(value), dtype_of(value)
        return RegisterRead(register=Register(name=f"r{self._count}", lanes=lanes, dtype=dtype))


def _key(expression: Expression) -> LoadKey | None:
    """Identifies a load, with a cast or a broadcast around it as one with it.

    The lanes of a broadcast count as negative, so that it differs from a vector load.
    """
    if type(expression) is Load:
        return _key_of(expression, expression.lanes, None)
    if type(expression) is Broadcast and type(expression.value) is Load:
        return _key_of(expression.value, -expression.lanes, None)
    if type(expression) is Cast and type(expression.value) is Load:
        load = expression.value
        if load.buffer.scope is not Scope.LOCAL:
            return _key_of(load, load.lanes, expression.dtype)
    return None


def _key_of(load: Load, lanes: int, dtype: DType | None) -> LoadKey:
    return load.buffer.name, load.index.constant, load.index.terms, lanes, dtype


def _repeated(run: list[Store], held: Replaced) -> set[LoadKey]:
    counts: dict[LoadKey, int] = {}

    def count(expression: Expression) -> None:
        if id(expression) in held.reads:
            return
        key = _key(expression)
        if key is not None:
            counts[key] = counts.get(key, 0) + 1
            return
        for operand in operands(expression):
            count(operand)

    for store in run:
        count(store.value)
    return {key for key, uses in counts.items() if uses > 1 and key[0] not in held.slots}


def _assigned(slots: Slots, store: Store, value: Expression) -> Iterator[Assign]:
    """The store as assignments: of a whole register, of one lane of it, or of a register a lane."""
    lanes, slot = lanes_of(value), slots[store.index.constant]
    register = slot.register
    if register.lanes == lanes:
        yield Assign(register=register, value=value)
        return
    if lanes == 1:
        yield Assign(register=register, value=_with_lane_replaced(slot, value))
        return
    if not isinstance(value, Const):
        raise unsupported(value, "a store of a vector to registers of one lane")
    for offset in range(store.index.constant, store.index.constant + lanes):
        yield Assign(register=slots[offset].register, value=replace(value, lanes=1))


def _with_lane_replaced(slot: Slot, value: Expression) -> Expression:
    """The register with one of its lanes replaced."""
    first, second, third, last = (4 + n if n == slot.lane else n for n in range(4))
    return Shuffle(
        left=RegisterRead(register=slot.register),
        right=Broadcast(value=value, lanes=slot.register.lanes),
        lanes=(first, second, third, last),
    )


def _slot_read(slots: Slots, expression: Expression) -> Expression:
    match expression:
        case Load(index=index, lanes=lanes):
            slot = slots[index.constant]
            read = RegisterRead(register=slot.register)
            if slot.register.lanes == lanes:
                return read
            if lanes > 1:
                registers = (slots[index.constant + lane].register for lane in range(lanes))
                return Lanes(
                    values=tuple(RegisterRead(register=register) for register in registers)
                )
            return ExtractLane(value=read, lane=slot.lane)
        case Broadcast(value=value, lanes=lanes):
            return Broadcast(value=_slot_read(slots, value), lanes=lanes)
    raise unsupported(expression, "scalar replacement")
