"""One plan is right for every extent of a range."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Plan
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import PlannedModel, plan_range
from services.tuner.graph.ranges import ExtentRange
from tests.encoder import Encoder
from tests.unit.graph.models import drawn, parsed, written
from tests.unit.graph.running import Runner

LONGEST = 64
RANGE = ExtentRange(name="sequence", least=1, most=LONGEST)
LENGTHS = (1, 2, 3, 5, 6, 7, 11, 12, 13, 17, 24, 31, 32, 33, 40, 47, 48, 61, 63, 64)


def planned(path: Path, range_: ExtentRange = RANGE, **others: int) -> PlannedModel:
    def at(extent: int) -> Any:
        return import_model(path, {**others, range_.name: extent})

    return plan_range(at, range_, {**others, range_.name: range_.most}, "encoder")


def ranged_feeds(plan: Plan, feeds: dict[str, Any], length: int) -> dict[str, NDArray[Any]]:
    """Pads as a page does: what lies beyond the length is the least that chooses a row."""
    (axis,) = plan.axes
    made: dict[str, NDArray[Any]] = {}
    for place, port in enumerate(plan.inputs):
        if place == axis.input:
            made[port.name] = np.array([axis.most - length], np.int32)
            continue
        given = feeds[port.name]
        least = np.nan if given.dtype == np.float32 else (port.rows or (0, 0))[0]
        filled = np.full(port.shape, least, np.float32 if given.dtype == np.float32 else np.int32)
        filled[tuple(slice(0, extent) for extent in given.shape)] = given
        made[port.name] = filled
    return made


def check(
    path: Path, model: PlannedModel, folder: Path, runs: list[tuple[int, dict[str, Any]]]
) -> None:
    """The plan's outputs, for what is given at each extent in turn, are onnxruntime's."""
    (plan,) = model.plans
    file = folder / "weights"
    model.weights.write(file)
    runner = Runner(plan, {each.key: each for each in model.workloads}, file.read_bytes())
    session = onnxruntime.InferenceSession(str(path))
    for extent, feeds in runs:
        found = runner.run(ranged_feeds(plan, feeds, extent))
        for port, right in zip(plan.outputs, session.run(None, feeds), strict=True):
            own = found[port.name][tuple(slice(0, each) for each in right.shape)]
            error = np.abs(own - right).max()
            assert error <= 1e-4 * np.abs(right).max(), (extent, port.name)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Encoder, PlannedModel]:
    made, path = Encoder(), tmp_path_factory.mktemp("encoder") / "encoder.onnx"
    onnx.save(made.model(), path)
    return path, made, planned(path, batch=1)


def test_an_encoder_is_right_at_each_length(
    encoder: tuple[Path, Encoder, PlannedModel], tmp_path: Path
) -> None:
    path, made, model = encoder
    # Long and short ones in turn: each leaves behind what the next one must not read.
    feeds = {length: made.feeds(length, seed=length) for length in LENGTHS}
    check(path, model, tmp_path, [(n, feeds[n]) for n in (*LENGTHS, *LENGTHS[::-1])])


def with_weights(text: str, **weights: NDArray[np.float32]) -> ModelProto:
    model = parsed(text, 18)
    for name, entries in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(entries, name))
    return model


REDUCED = """
    reduced (float[1, sequence, 8] x)
        => (float[1, 8] most, float[1, 8] total, float[1, sequence, 8] mixed)
    {
        y = MatMul(x, w)
        one = Constant<value_ints=[1]>()
        most = ReduceMax<keepdims=0>(y, one)
        total = ReduceSum<keepdims=0>(y, one)
        turned = Transpose<perm=[0, 2, 1]>(x)
        scores = MatMul(y, turned)
        shares = Softmax<axis=-1>(scores)
        mixed = MatMul(shares, y)
    }
"""


def test_what_is_reduced_along_an_open_axis_ends_with_it(tmp_path: Path) -> None:
    path = written(tmp_path, with_weights(REDUCED, w=drawn((8, 8))))
    model = planned(path, ExtentRange(name="sequence", least=1, most=30))
    runs = [(n, {"x": drawn((1, n, 8), n)}) for n in (30, 1, 2, 29, 5, 17)]
    check(path, model, tmp_path, runs)


IMAGES = """
    images (float[batch, 3, 6, 6] x) => (float[batch, 4] means, float[batch, 4, 6, 6] y)
    {
        z = Conv<pads=[1, 1, 1, 1]>(x, w)
        y = Relu(z)
        mean = GlobalAveragePool(y)
        means = Flatten(mean)
    }
"""


def test_a_batch_may_have_a_range(tmp_path: Path) -> None:
    path = written(tmp_path, with_weights(IMAGES, w=drawn((4, 3, 3, 3))))
    model = planned(path, ExtentRange(name="batch", least=1, most=8))
    runs = [(n, {"x": drawn((n, 3, 6, 6), n)}) for n in (8, 1, 7, 2)]
    check(path, model, tmp_path, runs)


def test_all_calls_of_an_encoder_leave_out_what_is_spare_but_those_of_integers(
    encoder: tuple[Path, Encoder, PlannedModel],
) -> None:
    _, _, model = encoder
    whole = [each for each in model.workloads if not each.spare_parts]
    first_row = [each for each in whole if each.output.dtype is not DType.I32]
    assert [each.output.shape for each in first_row] == [(Encoder().width,)]


def one(text: str) -> str:
    return f"one (float[1, n, 8] x) => (y) {{ {text} }}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (one("axis = Constant<value_ints=[1]>() y = ReduceMean(x, axis)"), "the extent itself"),
        (
            "two (float[2, n, 8] x) => (y) { y = Relu(x) }",
            "'x' has that axis behind another of several entries",
        ),
        (
            one("k = Constant<value_ints=[-1, 1]>() y = Reshape(x, k)").replace(
                "[1, n, 8]", "[1, 8, n]"
            ),
            "'x' has that axis behind another of several entries",
        ),
        (
            one("k = Constant<value_ints=[4, -1]>() y = Reshape(x, k)"),
            "gives what has that axis another shape",
        ),
        (
            one(
                "s = Shape<start=1, end=2>(x) end = Constant<value_ints=[9]>() long = Less(end, s)"
                "two = Constant<value_float=2.0>() three = Constant<value_float=3.0>()"
                "by = Where(long, two, three) y = Mul(x, by)"
            ),
            "output 'y' would be wrong at 1",
        ),
    ],
)
def test_a_model_that_no_one_plan_is_right_for_is_refused_in_a_sentence(
    tmp_path: Path, text: str, why: str
) -> None:
    path = written(tmp_path, parsed(text, 18))
    with pytest.raises(UnsupportedModel, match=f"no one plan serves n=1..24: .*{why}.*one by one"):
        planned(path, ExtentRange(name="n", least=1, most=24))


def test_a_short_range_is_given_one_by_one() -> None:
    with pytest.raises(InvalidInput, match="write its extents one by one"):
        _ = ExtentRange(name="n", least=1, most=3).samples
