"""The encoder: integers, instructions, modules, and the check of operand types."""

import struct

import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st

from services.tuner.codegen.wasm.function import (
    FunctionBuilder,
    WasmFunction,
    disassembly,
    type_faults,
)
from services.tuner.codegen.wasm.instructions import (
    OPCODES,
    Immediate,
    Instruction,
    Opcode,
    ValueType,
    branch,
    f32_const,
    i32_const,
    integers_const,
    local,
    memory,
    of_lane,
    plain,
    shuffle,
    signed_leb128,
    structured,
    unsigned_leb128,
    vector_const,
)
from services.tuner.codegen.wasm.module import assemble
from tests.unit.tuner.execution import module


def decoded(data: bytes, *, negative: bool) -> int:
    value = sum((byte & 0x7F) << 7 * position for position, byte in enumerate(data))
    assert all(byte & 0x80 for byte in data[:-1])
    assert not data[-1] & 0x80
    return value - (1 << 7 * len(data)) if negative else value


@given(st.integers(0, 2**32 - 1))
def test_unsigned_leb128_decodes_to_the_same_number(value: int) -> None:
    assert decoded(unsigned_leb128(value), negative=False) == value


@given(st.integers(-(2**31), 2**31 - 1))
def test_signed_leb128_decodes_to_the_same_number(value: int) -> None:
    data = signed_leb128(value)
    assert decoded(data, negative=bool(data[-1] & 0x40)) == value


def _instruction_alone(opcode: Opcode) -> WasmFunction | None:
    """The operands of an opcode from locals, the opcode, and its results dropped into locals."""
    types = tuple(opcode.pops) + tuple(opcode.pushes)
    body = [local("local.get", 1 + i) for i in range(len(opcode.pops))]
    match opcode.immediate:
        case Immediate.NONE if opcode.name not in ("else", "end"):
            body.append(plain(opcode.name))
        case Immediate.MEMORY:
            body.append(memory(opcode.name, 0, 8))
        case Immediate.LANE:
            body.append(of_lane(opcode.name, 3))
        case Immediate.LANES:
            body.append(shuffle((7, 0, 3, 4)))
        case Immediate.I32:
            body.append(i32_const(-5))
        case Immediate.F32:
            body.append(f32_const(0.5))
        case Immediate.INTEGERS:
            body.append(integers_const(-5))
        case Immediate.VECTOR:
            body.append(vector_const(0.5))
        case _:
            return None
    body += [local("local.set", 1 + len(opcode.pops) + i) for i in range(len(opcode.pushes))]
    return WasmFunction(parameters=("p",), locals=types, body=tuple(body))


ALONE = {
    name: function
    for name, opcode in OPCODES.items()
    if (function := _instruction_alone(opcode)) is not None
}


@pytest.mark.parametrize("name", ALONE)
def test_an_engine_accepts_every_instruction_with_the_types_of_the_table(name: str) -> None:
    assert type_faults(ALONE[name]) == ()
    module(assemble(ALONE[name]))


def test_instructions_that_do_not_stand_alone_are_those_of_blocks_and_locals() -> None:
    blocks = {"block", "loop", "if", "else", "end", "br_if"}
    assert OPCODES.keys() - ALONE.keys() == {*blocks, "local.get", "local.set", "local.tee"}


def test_control_flow_nests_and_reads_as_text() -> None:
    body = (
        structured("block"),
        structured("loop"),
        local("local.get", 0),
        branch("br_if", 1),
        local("local.get", 0),
        structured("if"),
        plain("else"),
        plain("end"),
        plain("end"),
        plain("end"),
    )
    function = WasmFunction(parameters=("p",), locals=(), body=body)
    assert type_faults(function) == ()
    module(assemble(function))
    assert disassembly(function).splitlines()[:4] == [
        "(param p)",
        "  block",
        "    loop",
        "      local.get 0",
    ]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ((plain("i32.add"),), "needs i32, i32"),
        ((i32_const(1), plain("f32x4.splat")), "needs f32"),
        ((i32_const(1),), "with 1 values left"),
        ((structured("block"),), "ends 1 blocks deep"),
        ((i32_const(1), structured("loop"), plain("end")), "must be empty"),
        ((i32_const(1), branch("br_if", 0)), "branches out of 0 blocks"),
        ((i32_const(1), local("local.set", 1)), "needs v128"),
    ],
)
def test_the_type_check_refuses_the_functions_that_an_engine_refuses(
    body: tuple[Instruction, ...], sentence: str
) -> None:
    function = WasmFunction(parameters=("p",), locals=(ValueType.V128,), body=body)
    assert sentence in type_faults(function)[0]
    if sentence != "branches out of 0 blocks":  # label 0 is the function itself, which we never use
        with pytest.raises(wasmtime.WasmtimeError):
            module(assemble(function))


def test_an_instruction_made_with_the_wrong_immediate_is_refused() -> None:
    with pytest.raises(ValueError, match=r"v128\.load takes memory, not none"):
        plain("v128.load")


def test_local_set_followed_by_local_get_becomes_local_tee() -> None:
    frame = FunctionBuilder(("p",))
    index = frame.fresh(ValueType.I32)
    frame.get(0)
    frame.set(index)
    frame.get(index)
    assert [instruction.text for instruction in frame.finish().body] == [
        "local.get 0",
        "local.tee 1",
    ]


def test_a_constant_keeps_the_sign_of_zero() -> None:
    for zero in (0.0, -0.0):
        assert f32_const(zero).encoding.endswith(struct.pack("<f", zero))
        assert vector_const(zero).encoding.endswith(struct.pack("<4f", *(zero,) * 4))


def test_a_vector_constant_is_four_floats() -> None:
    assert vector_const(0.1).encoding.endswith(struct.pack("<4f", 0.1, 0.1, 0.1, 0.1))
