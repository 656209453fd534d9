"""Workload keys: one spelling for each workload, and a range for every number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.target import TargetKind, refuse_unsupported
from kernelzoo.domain.workload import MAX_EXTENT, Role, Workload
from kernelzoo.errors import InvalidInput

EXTENT = st.integers(min_value=1, max_value=MAX_EXTENT)
SMALL = st.integers(min_value=1, max_value=512)


@given(m=SMALL, k=SMALL, n=SMALL)
def test_a_key_reads_back_as_its_workload(m: int, k: int, n: int) -> None:
    workload = Workload.of("matmul", (m, k, n))
    assert Workload.parse(workload.key) == workload


@given(key=st.text(max_size=40))
def test_any_text_is_a_workload_or_an_invalid_input(key: str) -> None:
    try:
        workload = Workload.parse(key)
    except InvalidInput:
        return
    assert workload.key == key


def test_tensors_are_the_inputs_and_then_the_output() -> None:
    workload = Workload.parse("batch_matmul:f32:b12m384k64n32")
    described = [(t.name, t.role, t.shape) for t in workload.tensors]
    assert described == [
        ("a", Role.INPUT, (12, 384, 64)),
        ("b", Role.INPUT, (12, 64, 32)),
        ("c", Role.OUTPUT, (12, 384, 32)),
    ]
    assert workload.flops == 2 * 12 * 384 * 64 * 32
    assert workload.reduction_length == 64
    assert workload.output.size_bytes == 4 * 12 * 384 * 32


def test_a_call_may_be_told_which_parts_of_its_output_are_spare() -> None:
    key = "matmul+bias:f32:m12k4n8:constant=b:spare=12"
    workload = Workload.parse(key)
    assert (workload.key, workload.spare_parts) == (key, 12)
    names = [(t.name, t.dtype, t.limit) for t in workload.tensors[-3:]]
    assert names == [("bias", "f32", 0), ("spare", "i32", 1), ("c", "f32", 0)]
    assert workload.whole == Workload.parse("matmul+bias:f32:m12k4n8:constant=b")
    assert [each.name for each in workload.program.inputs] == ["a", "b", "bias", "spare"]
    with pytest.raises(InvalidInput, match="has no 7 equal parts"):
        Workload.parse("matmul:f32:m12k4n8:spare=7")


@pytest.mark.parametrize("extent", [0, -1, MAX_EXTENT + 1])
def test_an_extent_out_of_range_is_refused_with_the_range(extent: int) -> None:
    with pytest.raises(InvalidInput, match=f"k={extent} of matmul .* from 1 to {MAX_EXTENT}"):
        Workload.of("matmul", (4, extent, 4))


@pytest.mark.parametrize(
    ("key", "shapes", "flops"),
    [
        (
            "conv2d+bias+relu:f32:b1h56w56c64o32kh3kw3stride2pad1",
            {"a": (1, 56, 56, 64), "b": (3, 3, 64, 32), "bias": (32,), "c": (1, 28, 28, 32)},
            2 * 28 * 28 * 32 * 9 * 64,
        ),
        (
            "matmul_nt+scale+residual:f32:m4k8n6",
            {"a": (4, 8), "b": (6, 8), "scale": (1,), "residual": (4, 6), "c": (4, 6)},
            2 * 4 * 8 * 6,
        ),
        ("softmax:f32:m3n7", {"a": (3, 7), "c": (3, 7)}, 5 * 21),
        ("layer_norm:f32:m3n7", {"a": (3, 7), "gamma": (7,), "beta": (7,), "c": (3, 7)}, 8 * 21),
        ("row_max:f32:m3n7", {"a": (3, 7), "c": (3,)}, 21),
        ("concat:f32:m3n7k2", {"a": (3, 7), "b": (3, 2), "c": (3, 9)}, 27),
        ("slice:f32:m3n7start2size9", {"a": (3, 7), "c": (3, 5)}, 15),
        ("pad:f32:m3n7pad0", {"a": (3, 7), "c": (3, 7)}, 21),
        ("gather:f32:m3k9n7", {"a": (9, 7), "indices": (3,), "c": (3, 7)}, 21),
        (
            "matmul_nt_i8+scales+bias:f32:m4k8n6:constant=b",
            {"a": (4, 8), "b": (6, 8), "scales": (6,), "bias": (6,), "c": (4, 6)},
            2 * 4 * 8 * 6,
        ),
    ],
)
def test_shapes_follow_from_extents_and_attributes(
    key: str, shapes: dict[str, tuple[int, ...]], flops: int
) -> None:
    workload = Workload.parse(key)
    assert workload.key == key
    assert {tensor.name: tensor.shape for tensor in workload.tensors} == shapes
    assert workload.flops == flops
    assert workload.bytes_moved == sum(tensor.size_bytes for tensor in workload.tensors)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("matmul+bias+bias:f32:m4k4n4", "none of them twice"),
        ("matmul+swish:f32:m4k4n4", "epilogue 'swish' is unknown; use bias, residual"),
        ("softmax+bias:f32:m4n4", "softmax takes no epilogue"),
        ("conv2d+mask:f32:b1h4w4c1o1kh3kw3stride1pad0", "conv2d takes no mask; use residual"),
        ("matmul+:f32:m4k4n4", "epilogue '' is unknown"),
        ("conv2d:f32:b1h4w4c1o1kh3kw3stride0pad0", "the stride of conv2d must be at least 1"),
        ("conv2d:f32:b1h2w4c1o1kh3kw3stride1pad0", "has no output along y"),
        ("slice:f32:m4n4start4size1", "has no output along x"),
        ("conv2d:f32:b1h4w4c1o1kh3kw3", "takes 9 extents"),
        (
            "max_pool2d:f32:b1h4w4c1kh2kw3stride1pad2",
            "padding 2 of max_pool2d must be smaller than its window",
        ),
        (
            "conv2d:f32:b1h4w4c1o1kh2kw3stride1pad3",
            "padding 3 of conv2d must be smaller than its window, 3",
        ),
        ("gelu:f32:n536870913", "n=536870913 of gelu is out of range; .* from 1 to 536870912"),
        ("matmul:f32:m65536k4n8193", "tensor c .* has 2147745792 bytes; at most 2147483648"),
        ("max_pool2d:f32:b1h4w4c1kh9kw9stride1pad70000", "pad=70000 of max_pool2d is out of"),
        (
            "avg_pool2d:f32:b1h2100w2100c1kh2048kw2049stride1pad0",
            "sums 4196352 terms .*; at most 4194304 are",
        ),
        ("matmul:i8:m4k4n4", "dtype 'i8' is unknown; use one of f32, f16"),
        ("matmul:f32:m4k4n4:constant=a", "gains nothing from constant 'a'; write constant=b"),
        ("matmul:f32:m4k4n4:constant=b+b", "gains nothing from constant 'b.b'; write constant=b"),
        ("softmax:f32:m4n4:constant=a", "gains nothing from constant 'a'; leave constant= out"),
        ("matmul:f32:m4k4n4:constant=", "is malformed"),
    ],
)
def test_a_workload_that_is_none_is_refused_in_one_sentence(key: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as refusal:
        Workload.parse(key)
    assert "\n" not in str(refusal.value)


def test_an_input_may_have_a_type_of_its_own_and_an_index_a_limit() -> None:
    described = {
        tensor.name: (tensor.dtype, tensor.limit, tensor.size_bytes)
        for key in ("gather:f32:m3k9n7", "matmul_i8+scales:f32:m4k8n6")
        for tensor in Workload.parse(key).tensors
        if tensor.role is Role.INPUT and tensor.name != "a"
    }
    assert described == {
        "indices": (DType.I32, 9, 12),
        "b": (DType.I8, 0, 48),
        "scales": (DType.F32, 0, 24),
    }


def test_halves_are_half_the_bytes_and_for_webgpu_alone() -> None:
    workload = Workload.parse("matmul_i8+scales:f16:m4k8n6")
    assert workload.key == "matmul_i8+scales:f16:m4k8n6"
    assert {t.name: t.size_bytes for t in workload.tensors} == {
        "a": 64,
        "b": 48,
        "scales": 12,
        "c": 48,
    }
    refuse_unsupported(workload, TargetKind.WEBGPU)
    with pytest.raises(InvalidInput, match=r"tune it for webgpu \(--target webgpu\), or write f32"):
        refuse_unsupported(workload, TargetKind.WASM)


def test_a_constant_input_makes_another_workload() -> None:
    plain, constant = (Workload.of("matmul", (4, 4, 4), constant=c) for c in ((), ("b",)))
    assert constant.key == f"{plain.key}:constant=b"
    assert Workload.parse(constant.key) == constant != plain


def test_every_operator_names_its_tensors_by_letters_that_it_has() -> None:
    for operator in OPERATORS.values():
        known = {*operator.axes, *(derived.axis for derived in operator.derived)}
        used = {axis for _, axes in (*operator.inputs, operator.output) for axis in axes}
        assert used | set(operator.summed) <= known
        assert len(set(operator.axes)) == len(operator.axes)


def test_the_usual_epsilon_of_a_norm_is_left_out_of_its_key() -> None:
    usual = Workload.of("layer_norm", (3, 7, 5))
    assert usual == Workload.of("layer_norm", (3, 7)) == Workload.parse("layer_norm:f32:m3n7")
    other = Workload.of("layer_norm", (3, 7, 12))
    assert other.key == "layer_norm:f32:m3n7eps12"
    assert Workload.parse(other.key) == other
    assert (usual.extent["eps"], other.extent["eps"]) == (5, 12)
    assert "1e-05" in str(usual.program)
    assert "1e-12" in str(other.program)
    for key in ("layer_norm:f32:m3n7eps5", "layer_norm:f32:m3n7eps31", "softmax:f32:m3n7eps5"):
        with pytest.raises(InvalidInput):
            Workload.parse(key)
