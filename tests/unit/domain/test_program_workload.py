"""A program is a workload: its key, figures and bounds, and candidates for each target."""

from dataclasses import replace

import pytest

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.figures import flops, limits, work
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import UNIT, TargetKind
from kernelzoo.domain.tolerance import F16_UNIT, comparison_tolerance
from kernelzoo.domain.workload import UnknownProgram, Workload, resolved, workload_key
from kernelzoo.errors import InvalidInput
from services.aggregator.verification import roundings
from services.tuner.schedules.registry import lite_space, matching

ADDED = "left: f32[5, 7]\nright: f32[5, 7]\nc[i: 5, j: 7] = tanh(left[i, j] + right[i, j])"
SOFTMAX = (
    "a: f32[5, 512]\nlargest[i: 5] = max over k: 512 of a[i, k]\n"
    "power[i: 5, j: 512] = exp(a[i, j] - largest[i])\n"
    "total[i: 5] = sum over k: 512 of power[i, k]\n"
    "c[i: 5, j: 512] = power[i, j] / total[i]"
)
GATHER = (
    "ids: i32[3]\nrows: i32[9]\nmask: i32[3]\ntable: f32[20, 4]\nplace: i32[3]\n"
    "row[i: 3]: i32 = rows[ids[i]] + 1\n"
    "c[i: 3, j: 4] = (table[row[i], j] if mask[i] != 0 and place[i] < j else 0.0)"
)


def test_a_key_has_a_name_and_a_hash_of_what_is_computed() -> None:
    workload = Workload.of_program("add_tanh", parsed(ADDED))
    head, name, digest = workload.key.split(":")
    assert (head, name, len(digest)) == ("program", "add_tanh", 16)
    assert resolved([workload.key], {workload.key: workload}) == {workload.key: workload}
    renamed = Workload.of_program("add_tanh", parsed(ADDED.replace("left", "x").replace("j", "n")))
    assert renamed == workload
    assert str(workload.program) == (
        "x0: f32[5, 7]\nx1: f32[5, 7]\ns0[i0: 5, i1: 7] = tanh(x0[i0, i1] + x1[i0, i1])"
    )
    other = Workload.of_program("add_tanh", parsed(ADDED.replace("+", "-")))
    assert other.key != workload.key
    assert [(t.name, t.dtype, t.shape) for t in workload.tensors] == [
        ("x0", "f32", (5, 7)),
        ("x1", "f32", (5, 7)),
        ("s0", "f32", (5, 7)),
    ]
    assert (workload.flops, workload.bytes_moved) == (2 * 35, 4 * 3 * 35)


def test_the_key_of_a_program_alone_says_nothing() -> None:
    key, add = "program:unheard_of:0123456789abcdef", "add:f32:n8"
    for read in (lambda: Workload.parse(key), lambda: resolved([add, key], {})):
        with pytest.raises(UnknownProgram, match="unheard_of:0123456789abcdef is not registered"):
            read()
    for malformed in ("program:A:0123456789abcdef", "program:a:0123", "program:a", "program:a:b:c"):
        with pytest.raises(InvalidInput, match=r"malformed|no name"):
            Workload.parse(malformed)
    assert list(resolved([add, add], {})) == [add]


def test_a_program_has_a_tolerance_once_it_was_evaluated() -> None:
    workload = Workload.of_program("add_tanh", parsed(ADDED))
    with pytest.raises(ValueError, match="is not evaluated yet"):
        comparison_tolerance(workload)
    evaluated = workload.evaluated(8.0)
    assert evaluated == workload
    assert comparison_tolerance(evaluated) == 16 * UNIT[TargetKind.WASM]


def test_a_key_is_a_name_without_the_text_of_its_program() -> None:
    for key in ("program:unheard_of:0123456789abcdef", "matmul+bias:f32:m4k8n8:constant=b"):
        assert workload_key(key) == key
    for key in ("program:a", "matmul:f32:m4", "matmul:f64:m4k8n8"):
        with pytest.raises(InvalidInput):
            workload_key(key)


def test_figures_are_those_of_all_stages() -> None:
    program = parsed(SOFTMAX)
    assert flops(program) == 5 * 512 * (1 + 2 + 1 + 1)
    # Powers are computed for the entry itself and along the row for the total, both times with the
    # largest of the row, which is one place.
    assert work(program) == 1 + 512 + 2 * 512 + 2 * 512


def test_integers_are_drawn_from_what_they_stand_for() -> None:
    assert limits(parsed(GATHER)) == {"ids": 9, "rows": 20, "mask": 2, "place": 4}


PIECES = """ids: i32[5]
few: f32[7, 2]
low: f32[4, 2]
middle: f32[4, 2]
high: f32[3, 2]
c[i: 5, j: 2] = (low[ids[i], j] if ids[i] < 4 else (middle[ids[i] - 4, j] if ids[i] < 8 else high[ids[i] - 8, j]))"""  # noqa: E501


def test_rows_of_a_table_in_pieces_are_drawn_from_all_of_them() -> None:
    assert limits(parsed(PIECES)) == {"ids": 11}
    assert limits(parsed(f"{PIECES} + few[ids[i], j]")) == {"ids": 7}


CHAIN = "a: f32[64]\n" + "\n".join(
    f"s{n}[i: 64] = {'a' if n == 0 else f's{n - 1}'}[i] + {'a' if n == 0 else f's{n - 1}'}[63 - i]"
    for n in range(25)
)
"""Each stage reads the one before at two places: 2²⁵ reads of the input for an entry."""
REFUSED = {
    "a: f32[65536, 8193]\nc[i: 1] = a[i, i]": "at most 2147483648 are allowed",
    "a: f32[9]\nc[i: 9] = sum over k: 4194305 of a[0]": "sums 4194305 terms",
    CHAIN: "an entry of the output takes",
    "a: f32[9]\nb[i: 65536, j: 2048] = a[0]\nc[i: 9] = b[i, i]": "stages before the output have",
    "a: i8[9]\nc[i: 9]: i32 = a[i]": "programs take f32, f16, i32",
    "a: f32[9]\nc[i: 67108864] = sum over k: 65536 of a[0]": "FLOPs a call",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_a_program_that_takes_too_much_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=REFUSED[text]):
        Workload.of_program("large", parsed(text))


@pytest.mark.parametrize("text", [ADDED, SOFTMAX, GATHER])
@pytest.mark.parametrize("target", TargetKind)
def test_every_program_has_candidates(text: str, target: TargetKind) -> None:
    workload = Workload.of_program("any", parsed(text))
    space = lite_space(workload, target)
    assert space
    assert all(family.programs for family in matching(workload, target))
    assert space[0].workload == workload


HALF = "a: f16[5]\nb: f32[5]\nc[i: 5]: f16 = a[i] * 300.0 + b[i]"


def test_an_output_is_stored_as_f16_and_rounded_once_more() -> None:
    program = parsed(HALF)
    assert str(program) == HALF
    workload = Workload.of_program("half", program)
    assert [tensor.dtype for tensor in workload.tensors] == [DType.F16, DType.F32, DType.F16]
    assert workload.key != Workload.of_program("half", program.in_f32).key
    assert workload.stores_f16
    wide = Workload.of_program("half", replace(program, makes_f16=False))
    assert F16_UNIT * 100 < UNIT[TargetKind.WEBGPU] * (roundings(workload) - roundings(wide)) < 1


def test_only_an_output_is_stored_as_f16() -> None:
    with pytest.raises(InvalidInput, match="dtype f16 is unknown; use f32 or i32"):
        parsed("a: f32[5]\nb[i: 5]: f16 = a[i]\nc[i: 5] = b[i]")
