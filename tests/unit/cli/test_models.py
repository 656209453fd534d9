"""`kernelzoo models` reads and writes files, and finds a kernel that computes wrongly."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.models.checking import check
from cli.models.dimensions import (
    DimensionRange,
    PlanChoice,
    parse_constants,
    parse_dimensions,
    parse_ranges,
    parse_sums,
    plan_choices,
)
from cli.models.importing import imported, is_language_model
from cli.models.sending import ImportedModel
from cli.models.typescript import declarations
from fixtures.language_configs import LLAMA
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import PlanBatch
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import HitLevel
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.formats.plans import plan_bytes, read_plan
from services.gateway.manifests import kernel
from services.gateway.wire.models import FileWire, ModelDocument, PlanWire, PortWire
from services.gateway.wire.zoo import ServedKernel
from services.tuner.compile import compile_candidate, pack_kernels
from services.tuner.language.checkpoint import Seeded
from services.tuner.language.planning import plan_decoder
from services.tuner.schedules.registry import lite_space
from tests.tiny_model import tiny_model
from tests.unit.graph.models import parsed, with_weights, written

TINY = tiny_model()
MATMUL, RELU = TINY.plan.kernels


def test_extents_of_dimensions_are_combined() -> None:
    assert parse_dimensions(()) == ({},)
    both = parse_dimensions(("batch=1", "sequence=128,384"))
    assert both == ({"batch": 1, "sequence": 128}, {"batch": 1, "sequence": 384})


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (("sequence",), "is no dimension; write --dim batch=1"),
        (("a=1", "a=2"), "write all its extents in one"),
        (("=1",), "is no dimension"),
        (("a=1.5",), "is no dimension"),
        (("a=-1",), "is no dimension"),
        (("a=1,2,3,4,5,6,7,8,9", "b=1,2,3,4,5,6,7,8"), "72 plans"),
    ],
)
def test_what_is_no_dimension_is_refused_with_the_remedy(
    texts: tuple[str, ...], fault: str
) -> None:
    with pytest.raises(InvalidInput, match=fault):
        parse_dimensions(texts)


def test_a_dimension_and_a_batch_may_have_ranges() -> None:
    length = DimensionRange(name="a=b", least=1, most=128)
    assert parse_ranges(("batch=1", "a=b=1..128")) == ((length,), ["batch=1", "a=b=128"])
    batch = DimensionRange(name="batch", least=1, most=8)
    assert parse_ranges(("batch=1..8", "a=b=1..128")) == (
        (batch, length),
        ["batch=8", "a=b=128"],
    )
    assert parse_ranges(("sequence=1,2",)) == ((), ["sequence=1,2"])


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (("a=5..4",), "is no range; write --dim a=1..128"),
        (("a=0..0",), "is no range; write --dim a=1..128"),
        (("a=4..4",), "is no range; write --dim a=4$"),
        (
            ("a=1..4", "b=1..4", "c=1..4", "d=1..4"),
            "--dim a and --dim b and --dim c are ranges already.* as in --dim d=1",
        ),
    ],
)
def test_what_is_no_range_is_refused_with_the_remedy(texts: tuple[str, ...], fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        parse_ranges(texts)


def two_ranges(tmp_path: Path, x: str, *names: str) -> ImportedModel:
    text = f"two (float[{x}, 8] x) => (y) {{ y = Relu(x) }}"
    path = written(tmp_path, parsed(text, 18))
    ranges = tuple(DimensionRange(name=name, least=1, most=24) for name in names)
    sizes = (dict.fromkeys(names, 24),)
    return imported(path, "two", sizes, tmp_path / "weights", print, ranges=ranges)


@pytest.mark.parametrize("names", [("batch", "n"), ("n", "batch")])
def test_the_first_axis_of_two_ranges_is_a_batch(tmp_path: Path, names: tuple[str, str]) -> None:
    (plan,) = two_ranges(tmp_path, "batch, n", *names).plans
    assert plan.batch == PlanBatch(name="batch", least=1, most=24, inputs=(0,), outputs=(0,))
    assert [axis.name for axis in plan.axes] == ["n"]


def test_two_ranges_without_a_batch_are_two_axes(tmp_path: Path) -> None:
    (plan,) = two_ranges(tmp_path, "1, h, w", "h", "w").plans
    assert plan.batch is None
    assert [axis.name for axis in plan.axes] == ["h", "w"]


def test_a_dimension_may_be_the_sum_of_others(tmp_path: Path) -> None:
    ranges, others = parse_ranges(("past=0..20", "sequence=1..16", "batch=1", "t=past+sequence+2"))
    sums, others = parse_sums(others, ranges)
    assert others == ["past=20", "sequence=16", "batch=1"]
    assert [each.extent({"past": 3, "sequence": 4}) for each in sums] == [9]
    joined = """
        joined (float[1, past, 8] x, float[1, sequence, 8] y, float[1, t, 8] z)
            => (float[1, t, 8] sum)
        { both = Concat<axis=1>(x, y) most = Concat<axis=1>(both, two) sum = Add(most, z) }
    """
    model = with_weights(joined, two=np.zeros((1, 2, 8), np.float32))
    path = written(tmp_path, model)
    sizes = parse_dimensions(others[:2])
    made = imported(path, "j", sizes, tmp_path / "weights", print, ranges=ranges, sums=sums)
    (plan,) = made.plans
    assert plan.dimensions == {"past": 20, "sequence": 16}
    shapes = {port.name: port.shape for port in plan.inputs}
    assert shapes["z"] == (1, 38, 8)


def opened(tmp_path: Path, text: str) -> ImportedModel:
    """The model as it is imported where no dimension is given."""
    path = written(tmp_path, parsed(text, 18))
    return imported(path, "open", ({},), tmp_path / "weights", print)


def test_what_a_file_leaves_open_has_ranges_where_none_are_given(tmp_path: Path) -> None:
    made = opened(tmp_path, "two (float[batch, n, 8] x) => (y) { y = Relu(x) }")
    (plan,) = made.plans
    assert [(each.name, each.least, each.most) for each in plan.ranges] == [
        ("n", 1, 512),
        ("batch", 1, 8),
    ]
    (remark,) = made.remarks
    assert "it was imported as by --dim batch=1..8 --dim n=1..512; give others" in remark


def test_of_a_batch_whose_entries_depend_on_one_another_there_is_one(tmp_path: Path) -> None:
    text = """dependent (float[batch, n, 8] x) => (float[batch, n, 8] y) {
        first = Constant<value_ints=[0]>() most = ReduceMax<keepdims=1>(x, first) y = Sub(x, most)
    }"""
    made = opened(tmp_path, text)
    assert [each.name for each in made.plans[0].ranges] == ["n"]
    assert "as by --dim n=1..512 --dim batch=1;" in made.remarks[0]


def test_a_range_that_no_plan_serves_is_refused_by_its_node(tmp_path: Path) -> None:
    text = """square (float[1, n, 8] x) => (y) {
        s = Shape<start=1, end=2>(x) real = Cast<to=1>(s) square = Mul(real, real)
        y = Mul(x, square)
    }"""
    fault = "serves n=1..512: node 'y' computes with the extent itself. Give .* --dim n=128,512"
    with pytest.raises(UnsupportedModel, match=fault):
        opened(tmp_path, text)


def test_more_dimensions_than_a_plan_has_ranges_are_asked_for(tmp_path: Path) -> None:
    text = "many (float[a, b, c, d] x) => (y) { y = Relu(x) }"
    with pytest.raises(InvalidInput, match="dimension 'a' of input 'x' is open; give it a number"):
        opened(tmp_path, text)


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (("past=0..20", "t=past+n"), "--dim t=past\\+n is a sum of 'n', .* --dim n=1..64 beside"),
        (("past=0..20", "n=1,2", "t=past+n"), "is a sum of 'n', which has neither one extent"),
        (("n=2", "t=n+1"), "is a sum, and no dimension has a range; write its extent"),
        (("n=1..20", "t=5", "t=n+1"), "--dim t is there twice"),
        (("n=1..20", "m=1..20", "m=n+1"), "--dim m is there twice"),
        (("n=1..20", "t=n+1", "t=n+2"), "--dim t is there twice"),
    ],
)
def test_a_sum_that_says_no_extent_is_refused(texts: tuple[str, ...], fault: str) -> None:
    ranges, others = parse_ranges(texts)
    with pytest.raises(InvalidInput, match=fault):
        parse_sums(others, ranges)


@pytest.mark.parametrize(
    ("f16", "configured", "fault"),
    [
        (True, False, "values of f16 are of one extent each; leave --dtype f16 out"),
        (None, True, "is a language model, which takes texts of every length .* context=64$"),
    ],
)
def test_what_takes_no_range_says_so(
    tmp_path: Path, f16: bool | None, configured: bool, fault: str
) -> None:
    if configured:
        (tmp_path / "config.json").write_text("{}")
    file = tmp_path if configured else tmp_path / "model.onnx"
    range_ = DimensionRange(name="context", least=1, most=64)
    given = ({"context": 64, "batch": 1},)
    with pytest.raises(InvalidInput, match=fault):
        imported(file, "m", given, tmp_path / "weights", print, f16=f16, ranges=(range_,))


@pytest.mark.parametrize(
    "name", ["input:0.0", "?", "-1", "floor(height/8)", "批次", "a=b", "past + sequence"]
)
def test_a_dimension_may_have_any_name(name: str) -> None:
    assert parse_dimensions((f"{name}=0,2",)) == ({name: 0}, {name: 2})
    plan = replace(TINY.plan, dimensions={name: 2})
    assert read_plan(plan_bytes(plan)) == plan


def test_constants_are_combined_with_dimensions() -> None:
    told = parse_constants(("cached=true,false", "sr=16000", "sizes=[1, 2]", "share=-0.5"))
    choices = plan_choices(parse_dimensions(("batch=1,2",)), told)
    assert [each.named for each in choices] == [
        {"batch": batch, "cached": cached, "sr": 16_000}
        for batch in (1, 2) for cached in (1, 0)
    ]  # fmt: skip
    assert choices[1].constants == {
        "cached": False, "sr": 16_000, "sizes": [1, 2], "share": -0.5,
    }  # fmt: skip
    assert plan_choices(parse_dimensions(()), parse_constants(())) == (
        PlanChoice(dimensions={}, constants={}),
    )


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (("sr",), "says no value; write --constant sr=16000"),
        (("sr=",), "says no value"),
        (("sr=fast",), "says no value"),
        (("sr=NaN",), "says no value"),
        (('sr="a"',), "says no value"),
        (("sr=1", "sr=2"), "once for each input"),
        (("share=0.5,0.25",), "give values that are whole"),
        (("cached=true,1",), "give values that are whole"),
    ],
)
def test_what_is_no_constant_is_refused_with_the_remedy(texts: tuple[str, ...], fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        parse_constants(texts)


def test_a_folder_that_is_no_language_model_is_refused_with_what_is_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"has no config.json; name the folder of a language"):
        is_language_model(tmp_path, ({},))


def test_types_are_what_a_page_passes_and_gets() -> None:
    told = declarations(_document("t5-small"))
    assert "export interface T5Small {" in told
    assert "    /** int64 [1, 128] or [1, 384] */\n    readonly input_ids: BigInt64Array;" in told
    assert '    readonly "a.b": Float32Array;' in told
    assert "export interface Model7b {" in declarations(_document("7b"))


def test_kernels_that_compute_right_are_right() -> None:
    kernels, artifacts = _kernels(other=False)
    found = check(TINY.plan, kernels, artifacts, TINY.weights, TINY.golden)
    assert found.right, found
    assert found.default["y"] < 1e-6


def test_a_decoder_is_checked_with_the_states_that_its_calls_write() -> None:
    made = plan_decoder(LLAMA, Seeded(), "decoder", 16)
    (plan,), (golden,) = made.plans, made.golden
    artifacts: dict[str, bytes] = {}
    kernels = {}
    for workload in made.workloads:
        space = lite_space(workload, TargetKind.WASM)
        default, used = (_compiled(each, artifacts) for each in (space[-1], space[0]))
        kernels[workload.key] = _served(used, default)
    found = check(plan, kernels, artifacts, b"".join(made.weights.blocks()), golden)
    assert found.right, found
    assert found.served["logits"] < 1e-5


def test_a_served_kernel_that_computes_wrongly_is_named() -> None:
    kernels, artifacts = _kernels(other=True)
    found = check(TINY.plan, kernels, artifacts, TINY.weights, TINY.golden)
    assert not found.right
    assert (found.default["y"] < 1e-6, found.served["y"] > 0.01) == (True, True)
    assert [(each.label, each.workload) for each in found.calls] == [("activation", RELU)]


def test_another_golden_output_is_a_difference_of_the_default_kernels() -> None:
    kernels, artifacts = _kernels(other=False)
    values = np.frombuffer(TINY.golden, np.float32).copy()
    values[-1] = np.nan
    found = check(TINY.plan, kernels, artifacts, TINY.weights, values.tobytes())
    assert (found.right, found.calls) == (False, ())


def _kernels(*, other: bool) -> tuple[dict[str, ServedKernel], dict[str, bytes]]:
    """The defaults, and with `other` a kernel in relu's place that computes something else."""
    artifacts: dict[str, bytes] = {}
    described: dict[str, Any] = {}
    for key in (MATMUL, RELU, f"silu{RELU.removeprefix('relu')}"):
        candidate = lite_space(Workload.parse(key), TargetKind.WASM)[0]
        described[key] = _compiled(candidate, artifacts)
    served = dict(zip((MATMUL, RELU), described.values(), strict=False))
    if other:
        served[RELU] = list(described.values())[-1]
    kernels = {key: _served(served[key], described[key]) for key in (MATMUL, RELU)}
    return kernels, artifacts


def _compiled(candidate: Candidate, artifacts: dict[str, bytes]) -> Any:
    made = compile_candidate(candidate)
    for each in (made, *pack_kernels(candidate, made.manifest)):
        artifacts[each.sha256] = each.body
    return kernel(candidate.candidate_id, made.sha256, len(made.body), made.manifest)


def _served(chosen: Any, fallback: Any) -> ServedKernel:
    return ServedKernel(
        tolerance=1e-4,
        level=HitLevel.EXACT,
        kernel=chosen,
        fallback=fallback,
        state=None,
        version=None,
        evidence=None,
        timing=None,
        grounds=None,
    )


def _document(name: str) -> ModelDocument:
    file = FileWire(url="/v1/blobs/x", sha256=None, size_bytes=1)
    plans = [
        PlanWire(
            dimensions={"sequence": extent},
            least={},
            dtype=DType.F32,
            precision=Precision.F32,
            error=None,
            plan=file,
            weights=file,
            golden=file,
            inputs=[PortWire(name="input_ids", dtype="int64", shape=[1, extent])],
            outputs=[PortWire(name="a.b", dtype="float32", shape=[1, extent])],
            memory={"weights": 1, "activations": 1},
            kernels=1,
            calls=1,
        )
        for extent in (128, 384)
    ]
    return ModelDocument(name=name, source="x", added_at="", plans=plans)
