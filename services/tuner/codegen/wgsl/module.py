"""A WGSL module: bindings, workgroup memory, and an entry point for each program."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from kernelzoo.domain.artifact import Dispatch
from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.codegen.text import Names, Writer
from services.tuner.codegen.wgsl.accesses import Uses, uses_of
from services.tuner.codegen.wgsl.expressions import (
    DECLARATIONS,
    ENABLE,
    SUBGROUP,
    Expressions,
    write_exponential_function,
    write_extreme_function,
    write_quotient_by_zero,
    write_reduction_function,
)
from services.tuner.codegen.wgsl.f16_storage import ENABLE as ENABLE_F16
from services.tuner.codegen.wgsl.f16_storage import (
    PACK,
    STORE_ONE,
    UNPACK,
    write_pack_function,
    write_store_function,
    write_unpack_function,
)
from services.tuner.codegen.wgsl.memory import SCRATCH, Indices, Memory, scratch_offsets
from services.tuner.codegen.wgsl.statements import THREAD, Statements
from services.tuner.codegen.wgsl.words import WORDS
from services.tuner.ir.f16_storage import F16Storage
from services.tuner.ir.nodes import Allocate, Buffer, Loop, LoopKind, Program, Scope
from services.tuner.ir.rewrite import statements

MAX_TEXT_BYTES = 1 << 18
MAX_SCRATCH_BYTES = 1 << 28
GROUP, FIRST = "workgroup", "first"
_RESERVED = (GROUP, FIRST, THREAD, *DECLARATIONS, SUBGROUP, "four", UNPACK, PACK, STORE_ONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """`workgroup_bytes` is the most that one entry point keeps in workgroup memory."""

    text: str
    dispatches: tuple[Dispatch, ...]
    scratch_bytes: int
    workgroup_bytes: int


def print_module(
    programs: tuple[Program, ...],
    tensors: tuple[str, ...],
    f16_storage: F16Storage = F16Storage.PACKED,
    states: Collection[str] = (),
) -> Module:
    """`programs` are dispatched in order; `tensors` are the names of the bindings, the output last.
    `states` are those of them that are written, too.

    Raises UnsupportedProgram for a node that WGSL does not have and for a module too large.
    """
    entries = _entry_names(len(programs))
    buffers = tuple(dict.fromkeys(b for program in programs for b in program.parameters))
    offsets, scratch = scratch_offsets(buffers)
    uses = [uses_of(program) for program in programs]
    scalar = frozenset().union(*(each.scalar for each in uses))
    if not scalar.isdisjoint(offsets):
        scalar |= {SCRATCH}
    stores = (f"{STORE_ONE}_of_{state}" for state in states)
    names = Names(WORDS, (*_RESERVED, *entries, *stores))
    memory = Memory(
        indices=Indices(names=names),
        scalar=scalar,
        offsets=offsets,
        f16_storage=f16_storage,
        output=tensors[-1],
        states=frozenset(states),
        scratch_dtype=DType.I32 if _has_integers(buffers, offsets) else DType.F32,
    )
    writer = Writer()
    _bindings(writer, memory, tensors, buffers, states)
    bodies = [
        _entry(writer, memory, own, program, entry)
        for own, program, entry in zip(uses, programs, entries, strict=True)
    ]
    needed = {name for each in bodies for name in each.needs}
    head = "".join(f"{text}\n" for name, text in DECLARATIONS.items() if name in needed)
    for name, (op, lanes) in {k: v for each in bodies for k, v in each.extremes.items()}.items():
        write_extreme_function(writer, name, op, lanes)
    for name, lanes in {k: v for each in bodies for k, v in each.exponentials.items()}.items():
        write_exponential_function(writer, name, lanes)
    for name, lanes in {k: v for each in bodies for k, v in each.quotients_by_zero.items()}.items():
        write_quotient_by_zero(writer, name, lanes)
    enabled = ENABLE if any(own.reductions for own in uses) else ""
    if _f16_functions(writer, memory, buffers) and f16_storage is F16Storage.NATIVE:
        enabled = ENABLE_F16 + enabled
    text = enabled + head + writer.text()
    if len(text) > MAX_TEXT_BYTES or DType.F32.size_bytes * scratch > MAX_SCRATCH_BYTES:
        raise UnsupportedProgram(
            f"the module has {len(text)} bytes of text and {4 * scratch} bytes of scratch; at most "
            f"{MAX_TEXT_BYTES} and {MAX_SCRATCH_BYTES} are allowed: unroll or split less"
        )
    return Module(
        text=text,
        dispatches=tuple(
            Dispatch(entry=entry, workgroups=program.body.extent, threads=threads_of(program))
            for program, entry in zip(programs, entries, strict=True)
        ),
        scratch_bytes=DType.F32.size_bytes * scratch,
        workgroup_bytes=max(map(_workgroup_bytes, programs)),
    )


def _has_integers(buffers: tuple[Buffer, ...], scratch: Collection[str]) -> bool:
    return any(each.dtype is DType.I32 for each in buffers if each.name in scratch)


def _entry_names(count: int) -> tuple[str, ...]:
    return ("main", *(f"then_{number}" for number in range(1, count)))


def threads_of(program: Program) -> int:
    """Threads of a workgroup.

    Raises UnsupportedProgram for a program that has not one loop over threads.
    """
    found = [
        statement.extent
        for statement in statements(program.body.body)
        if isinstance(statement, Loop) and statement.kind is LoopKind.THREAD_INDEX
    ]
    if len(found) != 1:
        raise UnsupportedProgram(f"a program has {len(found)} loops over threads; it must have one")
    return found[0]


def _workgroup_buffers(program: Program) -> tuple[Buffer, ...]:
    return tuple(
        dict.fromkeys(
            statement.buffer
            for statement in statements(program.body.body)
            if isinstance(statement, Allocate) and statement.buffer.scope is Scope.WORKGROUP
        )
    )


def _workgroup_bytes(program: Program) -> int:
    return sum(b.size * b.dtype.size_bytes for b in _workgroup_buffers(program))


def _bindings(
    writer: Writer,
    memory: Memory,
    tensors: tuple[str, ...],
    buffers: tuple[Buffer, ...],
    states: Collection[str],
) -> None:
    known = {buffer.name: buffer for buffer in buffers}
    names = memory.indices.names
    for number, tensor in enumerate(tensors):
        access = "read_write" if tensor == tensors[-1] or tensor in states else "read"
        kind = memory.array_type(known[tensor])
        head = f"@group(0) @binding({number}) var<storage, {access}>"
        writer.line(f"{head} {names.of('buffer', tensor)}: {kind};")
    if memory.offsets:
        kind = memory.array_type(known[next(iter(memory.offsets))])
        head = f"@group(0) @binding({len(tensors)}) var<storage, read_write>"
        writer.line(f"{head} {names.of('binding', SCRATCH)}: {kind};")
    writer.line(f"@group(1) @binding(0) var<uniform> {FIRST}: u32;")


def _f16_functions(writer: Writer, memory: Memory, buffers: tuple[Buffer, ...]) -> bool:
    """Writes the functions that packed f16 buffers need; tells whether there are f16 buffers."""
    held = [buffer for buffer in buffers if buffer.dtype is DType.F16]
    if held and memory.f16_storage is F16Storage.PACKED:
        if any(map(memory.wide, held)):
            write_unpack_function(writer)
        written = [buffer for buffer in held if memory.is_written(buffer)]
        if any(map(memory.wide, written)):
            write_pack_function(writer)
        for buffer in written:
            if not memory.wide(buffer):
                name = memory.indices.names.of("buffer", buffer.name)
                write_store_function(writer, name, memory.store_function(buffer))
    return bool(held)


def _entry(writer: Writer, memory: Memory, uses: Uses, program: Program, entry: str) -> Expressions:
    """Writes one entry point; its expressions tell which functions and variables it needs."""
    indices = replace(memory.indices, ranges={})
    for buffer in _workgroup_buffers(program):
        kind = memory.array_type(buffer, buffer.size)
        writer.line(f"var<workgroup> {indices.names.of('buffer', buffer.name)}: {kind};")
    written = Statements(writer, indices, replace(memory, indices=indices), uses.variables)
    builtins = (
        f"@builtin(workgroup_id) {GROUP}: vec3<u32>, @builtin(local_invocation_index) {THREAD}: u32"
    )
    if uses.reductions:
        builtins += f", @builtin(subgroup_size) {SUBGROUP}: u32"
    for reduced in uses.reductions:
        write_reduction_function(writer, written.values, indices.names, reduced)
    writer.line(f"@compute @workgroup_size({threads_of(program)})")
    with writer.block(f"fn {entry}({builtins})"):
        loop = program.body
        indices.ranges[loop.var] = (0, loop.extent - 1)
        writer.line(f"let {indices.variable(loop.var)} = {GROUP}.x + {FIRST};")
        written.block(loop.body)
    return written.values
