"""One plan is right for every extent of several dimensions that are open independently."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from fixtures.causal_decoder import CausalDecoder
from fixtures.language_configs import LLAMA
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.attention import attention_of
from kernelzoo.domain.plan import Need, OpenPlace
from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import PlannedModel, plan_range
from services.tuner.graph.ranges import ExtentRange, ExtentRanges
from tests.unit.graph.decoders import EXTENTS, PAST, TOKENS, decoder_feeds, planned_decoder
from tests.unit.graph.extents import check
from tests.unit.graph.models import drawn, parsed, with_weights, written

MOST = (20, 17)


def planned(path: Path, names: Sequence[str], most: Sequence[int] = MOST) -> PlannedModel:
    ranges = ExtentRanges(
        tuple(ExtentRange(name=name, least=1, most=n) for name, n in zip(names, most, strict=False))
    )
    sizes = dict(zip(names, ranges.most, strict=False))
    return plan_range(
        lambda *own: import_model(path, dict(zip(names, own, strict=True))), ranges, sizes, "axes"
    )


BOTH = """
    both (float[n, m, 8] x, float[m, 8] y)
        => (float[n, m, 24] products, float[n, 8] over, float[m, n, 8] turned, float[8] all)
    {
        products = MatMul(x, w)
        second = Constant<value_ints=[1]>()
        over = ReduceMean<keepdims=0>(x, second)
        added = Add(x, y)
        turned = Transpose<perm=[1, 0, 2]>(added)
        pixels = Constant<value_ints=[0, 1]>()
        all = ReduceMax<keepdims=0>(added, pixels)
    }
"""


def test_two_axes_may_have_any_extents(tmp_path: Path) -> None:
    path = written(tmp_path, with_weights(BOTH, w=drawn((8, 24))))
    model = planned(path, "nm")
    (plan,) = model.plans
    assert Need.AXES in plan.needs
    runs = []
    for n, m in product((1, 7, 8, 9, 20), (1, 3, 4, 16, 17)):
        runs.append(((n, m), {"x": drawn((n, m, 8), n), "y": drawn((m, 8), m)}))
    check(path, model, tmp_path, [*runs[::-1], *runs])


JOINED = """
    joined (float[2, n, 8] x, float[2, m, 8] y)
        => (float[2, total, 8] z, float[1, total, total] square)
    {
        z = Concat<axis=1>(x, y)
        last = Constant<value_ints=[0, 2, 1]>()
        turned = Transpose<perm=[0, 2, 1]>(z)
        products = MatMul(z, turned)
        first = Constant<value_ints=[0]>()
        scores = ReduceSum<keepdims=1>(products, first)
        square = Softmax<axis=-1>(scores)
    }
"""


def test_an_extent_may_be_the_sum_of_two_and_stand_behind_another_axis(tmp_path: Path) -> None:
    path = written(tmp_path, parsed(JOINED, 18))
    model = planned(path, "nm")
    (plan,) = model.plans
    assert [each.factors for each in plan.sums] == [(1, 1)]
    z = next(port for port in plan.outputs if port.name == "z")
    assert z.open_places == (
        OpenPlace(place=1, axis=0, step=1), OpenPlace(place=1, axis=1, step=1),
    )  # fmt: skip
    runs = [
        ((n, m), {"x": drawn((2, n, 8), n), "y": drawn((2, m, 8), m)})
        for n, m in product((1, 2, 19, 20), (1, 5, 16, 17))
    ]
    check(path, model, tmp_path, [*runs, *runs[::-1]])


SQUARE = "square (float[2, n, n] x, float[3, n, 8] y) => (float[3, n, n] z) { ITS }"
ONE_AXIS = "first = Constant<value_ints=[0]>() s = ReduceSum<keepdims=1>(x, first)"


def test_one_axis_may_be_there_twice_and_behind_another(tmp_path: Path) -> None:
    text = f"{ONE_AXIS} turned = Transpose<perm=[0, 2, 1]>(y) p = MatMul(y, turned) z = Add(p, s)"
    path = written(tmp_path, parsed(SQUARE.replace("ITS", text), 18))
    model = planned(path, "n")
    assert Need.AXES in model.plans[0].needs
    runs = [(n, {"x": drawn((2, n, n), n), "y": drawn((3, n, 8), n)}) for n in (20, 1, 2, 19, 8)]
    check(path, model, tmp_path, runs)


def test_an_extent_that_is_the_product_of_two_is_refused(tmp_path: Path) -> None:
    text = "flat (float[n, m, 8] x) => (y) { k = Constant<value_ints=[-1, 8]>() y = Reshape(x, k) }"
    path = written(tmp_path, parsed(text, 18))
    fault = "no one plan serves n=1..20 and m=1..17: .*'y' .*--dim n=5,20 --dim m=4,17"
    with pytest.raises(UnsupportedModel, match=fault):
        planned(path, "nm")


FILLED = """
    filled (int64[n, 4] x) => (int64[20, 4] y)
    {
        first = Constant<value_ints=[0]>()
        shape = Shape<start=0, end=1>(x)
        extent = Squeeze(shape, first)
        all = Constant<value = int64 {20}>()
        none = Constant<value = int64 {0}>()
        one = Constant<value = int64 {1}>()
        left = Sub(all, extent)
        numbers = Range(none, left, one)
        column = Constant<value_ints=[-1, 1]>()
        wide = Constant<value_ints=[1, 4]>()
        rows = Reshape(numbers, column)
        more = Expand(rows, wide)
        y = Concat<axis=0>(x, more)
    }
"""


def test_numbers_that_become_fewer_with_the_extent_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, parsed(FILLED, 18))
    with pytest.raises(UnsupportedModel, match=r"no one plan serves n=1\.\.12: node 'y' reads"):
        planned(path, "n", (12,))


def test_an_extent_that_no_input_tells_alone_is_refused(tmp_path: Path) -> None:
    text = "long (float[1, total, 8] x, float[1, n, 8] y) => (z, w) { z = Relu(x) w = Relu(y) }"
    path = written(tmp_path, parsed(text, 18))

    def at(n: int, m: int) -> Graph:
        return import_model(path, {"n": n, "total": n + m})

    ranges = ExtentRanges(tuple(ExtentRange(name=name, least=1, most=20) for name in "nm"))
    with pytest.raises(UnsupportedModel, match="no input has m as an axis of its own"):
        plan_range(at, ranges, {"n": 20}, "axes")


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "rotated in attention"])
def test_a_decoder_takes_any_tokens_behind_a_cache_of_any_length(
    tmp_path: Path, plain: bool
) -> None:
    path = tmp_path / "decoder.onnx"
    served = planned_decoder(path, plain=plain)
    assert [each.factors for each in served.plans[0].sums] == [(1, 1)]
    runs = [(extents, decoder_feeds(*extents, plain=plain)) for extents in EXTENTS]
    check(path, served, tmp_path, [*runs, *runs[::-1]])


def test_heads_that_share_a_cache_attend_in_one_program_that_reads_it_where_it_is_once(
    tmp_path: Path,
) -> None:
    served = planned_decoder(tmp_path / "decoder.onnx", plain=True)
    attending = [attention_of(each.program) for each in served.workloads]
    shared = {each.shared for each in attending if each is not None}
    assert shared == {LLAMA.heads // LLAMA.kv_heads}
    # Caches and what is seen of them end with what there is, and so does all else but integers.
    most = {PAST, TOKENS, PAST + TOKENS}
    for each in served.workloads:
        is_open = most.intersection(each.output.shape)
        assert each.spare_parts or not is_open or each.output.dtype is DType.I32, each.key


REPEATED = """
    repeated (float[1, n, 32] q, float[1, 2, n, 8] k, float[1, 2, n, 8] v) => (float[1, n, 32] y)
    {
        third = Constant<value_ints=[2]>()
        one = Constant<value_ints=[1]>()
        four = Constant<value_ints=[4]>()
        eight = Constant<value_ints=[8]>()
        count = Shape<start=2, end=3>(k)
        apart = Concat<axis=0>(one, third, third, count, eight)
        heads = Concat<axis=0>(one, four, count, eight)
        k5 = Unsqueeze(k, third)
        v5 = Unsqueeze(v, third)
        kTwice = Expand(k5, apart)
        vTwice = Expand(v5, apart)
        kHeads = Reshape(kTwice, heads)
        vHeads = Reshape(vTwice, heads)
        split = Constant<value_ints=[0, 0, 4, 8]>()
        q4 = Reshape(q, split)
        qHeads = Transpose<perm=[0, 2, 1, 3]>(q4)
        turned = Transpose<perm=[0, 1, 3, 2]>(kHeads)
        scores = MatMul(qHeads, turned)
        root = Constant<value_float=0.35355338>()
        scaled = Mul(scores, root)
        shares = Softmax<axis=-1>(scaled)
        mixed = MatMul(shares, vHeads)
        back = Transpose<perm=[0, 2, 1, 3]>(mixed)
        flat = Constant<value_ints=[0, 0, 32]>()
        y = Reshape(back, flat)
    }
"""


def test_keys_that_pytorch_repeats_for_heads_are_read_where_they_are_once(tmp_path: Path) -> None:
    path = written(tmp_path, parsed(REPEATED, 18))
    model = planned(path, "n")
    (found,) = filter(None, (attention_of(each.program) for each in model.workloads))
    assert (found.heads, found.shared) == (4, 2)

    def feeds(n: int) -> dict[str, NDArray[np.float32]]:
        return {"q": drawn((1, n, 32), n), "k": drawn((1, 2, n, 8), 2), "v": drawn((1, 2, n, 8), 3)}

    check(path, model, tmp_path, [(n, feeds(n)) for n in (20, 1, 2, 6, 7, 19)])


def test_a_decoder_in_the_operators_of_onnx_is_right_at_each_cache(tmp_path: Path) -> None:
    decoder = CausalDecoder(positions=24)
    path = tmp_path / "decoder.onnx"
    onnx.save(decoder.model(), path)

    def at(past: int, sequence: int) -> Graph:
        sizes = {"batch": 1, "past": past, "sequence": sequence, "total": past + sequence}
        return import_model(path, sizes)

    ranges = ExtentRanges(
        (
            ExtentRange(name="past", least=0, most=12),
            ExtentRange(name="sequence", least=1, most=12),
        )
    )
    served = plan_range(at, ranges, {"batch": 1, "past": 12, "sequence": 12}, "decoder")
    check(path, served, tmp_path, [(each, decoder.feeds(*each)) for each in EXTENTS])
