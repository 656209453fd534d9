"""One plan is right for every extent of a range."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from fixtures.encoder import Encoder
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.attention import attention_of
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.batches import BatchRange
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import PlannedModel, plan_range
from services.tuner.graph.ranges import ExtentRange, ExtentRanges
from tests.unit.graph.extents import check
from tests.unit.graph.models import drawn, parsed, with_weights, written

LONGEST = 64
RANGE = ExtentRange(name="sequence", least=1, most=LONGEST)
ONE = ExtentRange(name="batch", least=1, most=5)
LENGTHS = (1, 2, 3, 5, 6, 7, 11, 12, 13, 17, 24, 31, 32, 33, 40, 47, 48, 61, 63, 64)


def planned(
    path: Path, range_: ExtentRange = RANGE, batch: ExtentRange | None = None, **others: int
) -> PlannedModel:
    def at(extents: tuple[int, ...], entries: int = 1) -> Any:
        own = {} if batch is None else {batch.name: entries}
        return import_model(path, {**others, **own, range_.name: extents[0]})

    sizes = {**others, range_.name: range_.most}
    if batch is None:
        return plan_range(lambda extent: at((extent,)), ExtentRanges((range_,)), sizes, "encoder")
    entries = BatchRange(extents=batch, imported_at=at)
    assert entries.is_batch((range_.most,))
    sizes[batch.name] = batch.most
    return plan_range(
        lambda extent: at((extent,)), ExtentRanges((range_,)), sizes, "encoder", batch=entries
    )


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Encoder, PlannedModel]:
    made = Encoder(tokens=None, hidden=48, heads=4, embeds=True)
    path = tmp_path_factory.mktemp("encoder") / "encoder.onnx"
    onnx.save(made.model(), path)
    return path, made, planned(path, batch=ONE)


def test_an_encoder_is_right_at_each_length(
    encoder: tuple[Path, Encoder, PlannedModel], tmp_path: Path
) -> None:
    path, made, model = encoder
    # Long and short ones in turn: each leaves behind what the next one must not read.
    feeds = {length: made.feeds(length, seed=length) for length in LENGTHS}
    check(path, model, tmp_path, [(n, feeds[n]) for n in (*LENGTHS, *LENGTHS[::-1])])


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
    _, made, model = encoder
    whole = [each for each in model.workloads if not each.spare_parts]
    first_row = [each for each in whole if each.output.dtype is not DType.I32]
    # The first row, and what is left of an embedding where the rows are summed.
    assert all(each.output.elements <= made.hidden for each in first_row)


def test_products_and_attention_of_short_texts_have_kernels_of_fewer_rows(
    encoder: tuple[Path, Encoder, PlannedModel],
) -> None:
    (plan,) = encoder[2].plans
    workloads = {each.key: each for each in encoder[2].workloads}
    (axis,) = plan.axes
    assert [bucket.most for bucket in axis.buckets] == [8, 16, 32]
    for bucket in axis.buckets:
        replaced = {plan.kernels[kernel]: plan.kernels[own] for kernel, own in bucket.kernels}
        large = {key for key, each in workloads.items() if each.spare_parts == LONGEST}
        products = {key for key in large if key.startswith(("matmul", "program:attention"))}
        assert len(products) == len(replaced) > 3
        assert set(replaced) == products
        for key, own in replaced.items():
            assert workloads[own].spare_parts == bucket.most
            assert workloads[own].output.shape[1:] == workloads[key].output.shape[1:]


POSITIONS = """
    positions (int64[1, n] ids) => (float[1, n, 8] y, int64[1, 1] count, int64[1, 1] most)
    {
        padding = Constant<value_int=1>()
        axis = Constant<value_ints=[1]>()
        isPadding = Equal(ids, padding)
        isWord = Not(isPadding)
        words = Cast<to=7>(isWord)
        along = Constant<value_int=1>()
        places = CumSum(words, along)
        own = Mul(places, words)
        rows = Add(own, padding)
        y = Gather(table, rows)
        count = ReduceSum(words, axis)
        most = ReduceMax(ids, axis)
    }
"""
"""Models after RoBERTa count words to number them."""


def test_integers_are_summed_and_counted_as_far_as_an_open_axis_goes(tmp_path: Path) -> None:
    path = written(tmp_path, with_weights(POSITIONS, table=drawn((32, 8))))
    model = planned(path, ExtentRange(name="n", least=1, most=24))
    random = np.random.default_rng(2)
    runs = [(n, {"ids": random.integers(0, 9, (1, n))}) for n in (24, 1, 2, 23, 7, 16)]
    check(path, model, tmp_path, runs)


STEPS = """
    steps (float[n, 1, 8] x) => (float[n, 1, 1, 4] y, float[1, 1, 4] most)
    {
        y = LSTM<hidden_size=4>(x, w, r)
        first = Constant<value_ints=[0]>()
        most = ReduceMax<keepdims=0>(y, first)
    }
"""


def test_a_recurrence_takes_the_steps_that_there_are(tmp_path: Path) -> None:
    weights = {"w": drawn((1, 16, 8)), "r": drawn((1, 16, 4), 1)}
    path = written(tmp_path, with_weights(STEPS, **weights))
    model = planned(path, ExtentRange(name="n", least=1, most=12))
    runs = [(n, {"x": drawn((n, 1, 8), n)}) for n in (12, 1, 2, 11, 5)]
    check(path, model, tmp_path, runs)


HEADS = """
    heads (float[1, n, 24] x) => (float[1, n, 24] y)
    {
        asHeads = Constant<value_ints=[0, -1, 2, 12]>()
        asRows = Constant<value_ints=[0, -1, 24]>()
        made = MatMul(x, w)
        q = Reshape(made, asHeads)
        qHeads = Transpose<perm=[0, 2, 1, 3]>(q)
        kHeads = Transpose<perm=[0, 2, 3, 1]>(q)
        v = Reshape(x, asHeads)
        vHeads = Transpose<perm=[0, 2, 1, 3]>(v)
        scores = MatMul(qHeads, kHeads)
        shares = Softmax<axis=-1>(scores)
        mixed = MatMul(shares, vHeads)
        turned = Transpose<perm=[0, 2, 1, 3]>(mixed)
        y = Reshape(turned, asRows)
    }
"""


def test_values_of_attention_may_be_an_input(tmp_path: Path) -> None:
    path = written(tmp_path, with_weights(HEADS, w=drawn((24, 24))))
    model = planned(path, ExtentRange(name="n", least=1, most=32))
    assert any(attention_of(each.program) for each in model.workloads)
    runs = [(n, {"x": drawn((1, n, 24), n)}) for n in (32, 1, 3, 31, 17)]
    check(path, model, tmp_path, runs)


POOLED = """
    pooled (float[1, n, 24] x, int64[1, n] mask) => (float[1, 24] y)
    {
        words = MatMul(x, w)
        last = Constant<value_ints=[-1]>()
        along = Constant<value_ints=[1]>()
        column = Unsqueeze(mask, last)
        shape = Shape(words)
        wide = Expand(column, shape)
        counted = Cast<to=1>(wide)
        those = Mul(words, counted)
        total = ReduceSum<keepdims=0>(those, along)
        count = ReduceSum<keepdims=0>(counted, along)
        least = Constant<value_float=1e-9>()
        some = Clip(count, least)
        mean = Div(total, some)
        length = ReduceL2<keepdims=1>(mean, along)
        shortest = Constant<value_float=1e-12>()
        long = Clip(length, shortest)
        meanShape = Shape(mean)
        asLong = Expand(long, meanShape)
        y = Div(mean, asLong)
    }
"""
"""Sentence embeddings as sentence-transformers exports them: words that count, of length 1."""

MEANS = """
    means (float[1, n, 24] x) => (float[1, n, 24] y, float[1, 24] z, float[1, 1, 24] last)
    {
        along = Constant<value_ints=[1]>()
        mean = ReduceMean(x, along)
        off = Sub(x, mean)
        square = Mul(off, off)
        variance = ReduceMean(square, along)
        more = Constant<value_float=1e-5>()
        wide = Add(variance, more)
        deviation = Sqrt(wide)
        y = Div(off, deviation)
        count = Shape<start=1, end=2>(x)
        asReal = Cast<to=1>(count)
        total = ReduceSum<keepdims=0>(x, along)
        z = Div(total, asReal)
        end = Constant<value_ints=[-1]>()
        behind = Constant<value_ints=[9999]>()
        last = Slice(x, end, behind, along)
    }
"""
"""Norms over the open axis itself, means by its extent, and the last row."""

TURNED = """
    turned (float[n, 1, 8] x) => (float[n, 1, 1, 4] y, float[1, 1, 4] last, float[n, 1, 8] back)
    {
        y, last = GRU<direction="reverse", hidden_size=4>(x, w, r)
        first = Constant<value_ints=[0]>()
        end = Constant<value_ints=[-1]>()
        behind = Constant<value_ints=[-9999]>()
        back = Slice(x, end, behind, first, end)
    }
"""


def weights_of(text: str) -> dict[str, NDArray[np.float32]]:
    if "GRU" in text:
        return {"w": drawn((1, 12, 8)), "r": drawn((1, 12, 4), 1)}
    return {"w": drawn((24, 24))} if "MatMul" in text else {}


@pytest.mark.parametrize("text", [POOLED, MEANS, TURNED], ids=["pooled", "means", "turned"])
def test_means_masks_and_ends_of_an_open_axis_are_those_of_its_extent(
    tmp_path: Path, text: str
) -> None:
    path = written(tmp_path, with_weights(text, **weights_of(text)))
    model = planned(path, ExtentRange(name="n", least=1, most=20))
    random = np.random.default_rng(4)
    runs = []
    for n in (20, *range(1, 20)):
        shape = (n, 1, 8) if text is TURNED else (1, n, 24)
        feeds: dict[str, NDArray[Any]] = {"x": drawn(shape, n)}
        if text is POOLED:
            feeds["mask"] = random.integers(0, 2, (1, n))
        runs.append((n, feeds))
    check(path, model, tmp_path, runs)


CAUSAL = """
    causal (float[1, n, WIDTH] x) => (float[1, n, WIDTH] y)
    {
        asHeads = Constant<value_ints=[0, -1, HEADS, EACH]>()
        asRows = Constant<value_ints=[0, -1, WIDTH]>()
        made = MatMul(x, w)
        q, k, v = Split<axis=-1, num_outputs=3>(made)
        q4 = Reshape(q, asHeads)
        qHeads = Transpose<perm=[0, 2, 1, 3]>(q4)
        k4 = Reshape(k, asHeads)
        kHeads = Transpose<perm=[0, 2, 3, 1]>(k4)
        v4 = Reshape(v, asHeads)
        vHeads = Transpose<perm=[0, 2, 1, 3]>(v4)
        scores = MatMul(qHeads, kHeads)
        MASK
        low = Constant<value_float=-10000.0>()
        masked = Where(seen, scores, low)
        shares = Softmax<axis=-1>(masked)
        mixed = MatMul(shares, vHeads)
        turned = Transpose<perm=[0, 2, 1, 3]>(mixed)
        y = Reshape(turned, asRows)
    }
"""
TRILU = """
        count = Shape<start=1, end=2>(x)
        square = Concat<axis=0>(count, count)
        ones = ConstantOfShape<value=float[1]{1.0}>(square)
        lower = Trilu<upper=0>(ones)
        none = Constant<value_float=0.0>()
        seen = Greater(lower, none)
"""
PLACES = """
        count = Shape<start=1, end=2>(x)
        scalar = Squeeze(count)
        none = Constant<value_int=0>()
        one = Constant<value_int=1>()
        places = Range(none, scalar, one)
        rows = Unsqueeze(places, axisOne)
        columns = Unsqueeze(places, axisNone)
        seen = LessOrEqual(columns, rows)
"""


def causal(heads: int, width: int, mask: str) -> str:
    """Attention to what stands before, as exporters of GPT-2 write it."""
    text = CAUSAL.replace("MASK", mask).replace("WIDTH", str(heads * width))
    text = text.replace("HEADS", str(heads)).replace("EACH", str(width))
    axes = "axisOne = Constant<value_ints=[1]>() axisNone = Constant<value_ints=[0]>()"
    return text.replace("made =", f"{axes} made =")


@pytest.mark.parametrize(
    ("heads", "width", "mask", "most"),
    [(2, 12, TRILU, 24), (2, 8, PLACES, 22), (3, 5, TRILU, 21), (1, 6, PLACES, 18)],
)
def test_a_causal_mask_grows_with_the_range_whatever_heads_there_are(
    tmp_path: Path, heads: int, width: int, mask: str, most: int
) -> None:
    wide = heads * width
    path = written(tmp_path, with_weights(causal(heads, width, mask), w=drawn((wide, 3 * wide))))
    model = planned(path, ExtentRange(name="n", least=1, most=most))
    runs = [(n, {"x": drawn((1, n, wide), n)}) for n in (most, *range(1, most))]
    check(path, model, tmp_path, runs)


@pytest.mark.parametrize(("width", "most", "served"), [(24, 64, 64), (48, 62, 64)])
def test_heads_that_are_no_whole_vectors_are_right_and_a_range_ends_with_whole_vectors(
    tmp_path: Path, width: int, most: int, served: int
) -> None:
    """Four heads of six entries stay in parts; of 62 keys attention is one kernel where there is
    room for 64."""
    made = Encoder(tokens=None, hidden=width, heads=4, layers=1)
    path = tmp_path / "encoder.onnx"
    onnx.save(made.model(), path)
    model = planned(path, ExtentRange(name="sequence", least=1, most=most), ONE)
    assert [axis.most for axis in model.plans[0].axes] == [served]
    attends = any(attention_of(each.program) for each in model.workloads)
    assert attends is (width == 48)
    lengths = (served, 1, 3, 4, 5, 31, 33, 61, 62)
    check(path, model, tmp_path, [(n, made.feeds(n, seed=n)) for n in lengths])


@pytest.mark.parametrize("most", [3, 4, 8])
def test_a_range_that_is_too_short_for_whole_vectors_is_longer_where_a_model_attends(
    tmp_path: Path, most: int
) -> None:
    made = Encoder(tokens=None, hidden=48, heads=4, layers=1)
    path = tmp_path / "encoder.onnx"
    onnx.save(made.model(), path)
    model = planned(path, ExtentRange(name="sequence", least=1, most=most), ONE)
    assert [axis.most for axis in model.plans[0].axes] == [12]
    assert any(attention_of(each.program) for each in model.workloads)
    check(path, model, tmp_path, [(n, made.feeds(n, seed=n)) for n in (*range(1, most + 1), 12)])


def test_a_short_range_that_attention_does_not_depend_on_stays_as_long(tmp_path: Path) -> None:
    text = """
        labelled (float[2, 8, 16] x, float[labels, 16] label) => (float[2, 8, labels] y)
        {
            turned = Transpose<perm=[0, 2, 1]>(x)
            scores = MatMul(x, turned)
            shares = Softmax<axis=-1>(scores)
            mixed = MatMul(shares, x)
            column = Transpose<perm=[1, 0]>(label)
            y = MatMul(mixed, column)
        }
    """
    path = written(tmp_path, parsed(text, 18))
    model = planned(path, ExtentRange(name="labels", least=1, most=8))
    assert [axis.most for axis in model.plans[0].axes] == [8]
    assert any(attention_of(each.program) for each in model.workloads)
    x, label = drawn((2, 8, 16)), drawn((8, 16))
    check(path, model, tmp_path, [(n, {"x": x, "label": label[:n]}) for n in (1, 5, 8)])


DEPENDENT = """
    dependent (float[batch, n, 8] x) => (float[batch, n, 8] y)
    {
        first = Constant<value_ints=[0]>()
        most = ReduceMax<keepdims=1>(x, first)
        y = Sub(x, most)
    }
"""


def test_entries_of_a_batch_that_depend_on_one_another_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, parsed(DEPENDENT, 18))
    batch = ExtentRange(name="batch", least=1, most=8)
    fault = "no one plan serves batch=1..8: output 'y' of an entry depends.* --dim batch=1,8"
    with pytest.raises(UnsupportedModel, match=fault):
        planned(path, ExtentRange(name="n", least=1, most=24), batch)


def test_only_the_first_axis_of_all_that_has_it_is_a_batch(tmp_path: Path) -> None:
    path = written(tmp_path, parsed("wide (float[n, m, 8] x) => (y) { y = Relu(x) }", 18))

    def at(extents: tuple[int, ...], entries: int) -> Any:
        return import_model(path, {"n": extents[0], "m": entries})

    own = ExtentRange(name="m", least=1, most=8)
    assert not BatchRange(extents=own, imported_at=at).is_batch((8,))
    turned = BatchRange(extents=own, imported_at=lambda n, m: at((m,), *n))
    assert turned.is_batch((8,))


def test_the_range_is_tried_at_lengths_of_every_remainder() -> None:
    for most, step in ((4, 1), (11, 1), (12, 4), (64, 4)):
        one = ExtentRanges((ExtentRange(name="n", least=1, most=most),))
        assert one.samples == ((most,), (most - step,), (most - 2 * step,))
    for most in (13, 30, 64, 127):
        one = ExtentRanges((ExtentRange(name="n", least=1, most=most),))
        assert {each % 4 for (each,) in (*one.tried, *one.samples)} == {0, 1, 2, 3}
        assert {(1,), (most - 1,)} < {*one.tried}
    short = ExtentRange(name="n", least=62, most=64)
    assert ExtentRanges((short,)).tried == ((62,), (63,))
    few = ExtentRange(name="n", least=1, most=12)
    assert ExtentRanges((few, few)).samples == ((12, 12), (8, 12), (12, 8), (4, 4))
    both = ExtentRanges((ExtentRange(name="m", least=0, most=20), short))
    assert len({*both.samples}) == 4
    for place, own in enumerate(both.ranges):
        tried = {each[place] for each in both.tried}
        assert {own.least, own.most - 1} < tried or tried == {62, 63}


def one(text: str) -> str:
    return f"one (float[1, n, 8] x) => (y) {{ {text} }}"


FIRST = (
    "from = Constant<value_ints=[FROM]>() to = Constant<value_ints=[TO]>()"
    "along = Constant<value_ints=[1]>() y = Slice(x, from, to, along)"
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            one(
                "s = Shape<start=1, end=2>(x) real = Cast<to=1>(s) square = Mul(real, real)"
                "y = Mul(x, square)"
            ),
            "node 'y' computes with the extent itself",
        ),
        (
            one("k = Constant<value_ints=[-1, 1]>() y = Reshape(x, k)").replace(
                "[1, n, 8]", "[1, 8, n]"
            ),
            "'y' has that axis and another one as one",
        ),
        (
            one("y = Gather<axis=1>(x, rows)").replace("8] x", "8] x, int64[2] rows"),
            "'rows' chooses entries along that axis",
        ),
        (one(FIRST.replace("FROM", "0").replace("TO", "2")), "an extent of output 'y' is another"),
        (
            one(FIRST.replace("FROM", "1").replace("TO", "99")),
            "with n=1, output 'y' has no entries",
        ),
        (
            one(
                "turned = Transpose<perm=[0, 2, 1]>(x) most = MaxPool<kernel_shape=[3]>(turned)"
                "y = Transpose<perm=[0, 2, 1]>(most)"
            ),
            r"n=1, node 'most' \(MaxPool\) .* its window of \[3\] does not fit its input of \[1\]",
        ),
        (
            one(
                "s = Shape<start=1, end=2>(x) four = Constant<value_int=4>() rest = Mod(s, four)"
                "two = Constant<value_int=2>() is_two = Equal(rest, two) more = Cast<to=1>(is_two)"
                "y = Add(x, more)"
            ),
            "output 'y' would be wrong at 10",
        ),
        (
            # At one length alone, which is neither at the ends nor in the middle.
            one(
                "s = Shape<start=1, end=2>(x) seven = Constant<value_ints=[7]>()"
                "is_it = Equal(s, seven) more = Cast<to=1>(is_it) y = Add(x, more)"
            ),
            "output 'y' would be wrong at 7",
        ),
        (
            one("k = Constant<value_ints=[4, -1]>() y = Reshape(x, k)"),
            "'y' has that axis and another one as one",
        ),
        (
            one(
                "s = Shape<start=1, end=2>(x) end = Constant<value_ints=[9]>() long = Less(end, s)"
                "two = Constant<value_float=2.0>() three = Constant<value_float=3.0>()"
                "by = Where(long, two, three) y = Mul(x, by)"
            ),
            "output 'y' would be wrong at 1, as node 'y' does something else there",
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
    with pytest.raises(InvalidInput, match=r"extents one by one, as in --dim n=2,3$"):
        _ = ExtentRanges((ExtentRange(name="n", least=2, most=3),)).samples
