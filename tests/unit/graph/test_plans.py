"""Plans of small graphs, carried out with compiled kernels, give what the graph computes."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from fixtures.encoder import Encoder
from fixtures.quantised_networks import dynamic
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import largest
from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.workload import Workload
from kernelzoo.formats.plans import plan_bytes, read_plan
from services.tuner.graph.fuse import ALL_RULES, Rules
from services.tuner.graph.golden import seeded_feeds
from services.tuner.graph.graph import Graph, GraphPort, Node, Value
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import PlannedModel, plan_graphs
from services.tuner.graph.weights import chunk_bytes
from tests.unit.graph.graphs import Built
from tests.unit.graph.running import Runner, golden_arrays
from tests.unit.graph.test_fuse import attention, attention_in_vectors, image, tied


def planned(graph: Graph, rules: Rules = ALL_RULES) -> PlannedModel:
    return plan_graphs([graph], [{}], "small", rules)


def assert_golden(made: PlannedModel) -> None:
    (plan,), (golden,) = made.plans, made.golden
    workloads = {workload.key: workload for workload in made.workloads}
    runner = Runner(plan, workloads, b"".join(made.weights.blocks()))
    feeds = golden_arrays(plan.golden.inputs, plan.inputs, golden)
    wanted = golden_arrays(plan.golden.outputs, plan.outputs, golden)
    for _ in range(2):
        for name, found in runner.run(feeds).items():
            largest = np.abs(wanted[name]).max()
            assert np.abs(found - wanted[name]).max() <= plan.golden.tolerance * largest


@pytest.mark.parametrize("model", [attention, image])
def test_a_plan_carried_out_with_kernels_gives_the_golden_outputs(
    model: Callable[[], Graph],
) -> None:
    made = planned(model())
    assert_golden(made)
    (plan,) = made.plans
    assert read_plan(plan_bytes(plan)) == plan


def test_without_any_rule_there_are_more_calls_and_the_same_outputs() -> None:
    bare = planned(attention(), Rules.none())
    assert_golden(bare)
    assert len(bare.plans[0].calls) > 2 * len(planned(attention()).plans[0].calls)


def of_bytes() -> Graph:
    with TemporaryDirectory() as folder:
        return import_model(dynamic(Encoder(layers=1).model(), Path(folder)), {})


SHOWN_BY: dict[str, Callable[[], Graph]] = {
    "channels_last": image,
    "elementwise": attention,
    "bytes": of_bytes,
    "norms": attention,
    "epilogues": attention,
    "affine": image,
    "products": attention,
    "movements": attention,
    "transposes": attention,
    "tied": tied,
    "attention": attention_in_vectors,
}


def test_each_rule_has_a_graph_that_shows_it() -> None:
    assert list(SHOWN_BY) == [field.name for field in fields(Rules)]


@pytest.mark.parametrize("switch", SHOWN_BY)
def test_each_rule_can_be_left_out(switch: str) -> None:
    model = SHOWN_BY[switch]
    bare = planned(model(), replace(ALL_RULES, **{switch: False}))
    assert bare.plans[0].kernels != planned(model()).plans[0].kernels
    assert_golden(bare)


def test_tied_weights_are_fetched_once() -> None:
    (plan,) = planned(tied()).plans
    assert plan.memory.weights == 4 * 520 * 512


def test_plans_of_a_model_share_weights_and_each_has_them_in_the_order_of_its_calls() -> None:
    graph = attention()
    made = plan_graphs([graph, graph], [{"sequence": 6}, {"sequence": 7}], "small")
    one, two = made.plans
    assert one.weights == two.weights
    assert one.memory.weights == sum(chunk.bytes for chunk in one.chunks)
    offsets = [weight.offset for weight in one.weights]
    assert offsets == sorted(offsets)


def test_outputs_may_be_inputs_constants_or_the_same_value_twice() -> None:
    g = Built()
    x, unused = g.feed(4, 8), g.feed(3)
    y = g.entrywise(lambda a: largest(a, 0.0), x)
    made = planned(g.graph(x, g.constant(5), y, g.view(y, 32), g.view(unused, 3, 1)))
    assert len(made.plans[0].calls) == 1
    assert_golden(made)


def test_integers_are_seeded_so_that_they_choose_rows_of_their_table() -> None:
    ids, mask = Value("ids", DType.I32, (16,)), Value("mask", DType.I32, (1, 16))
    table, rows = Value("table", DType.F32, (5, 3)), Value("rows", DType.F32, (16, 3))
    graph = Graph(
        inputs=(
            GraphPort("ids", PortDType.INT64, "ids"),
            GraphPort("mask", PortDType.INT64, "mask"),
        ),
        outputs=(GraphPort("rows", PortDType.FLOAT32, "rows"),),
        values={value.name: value for value in (ids, mask, table, rows)},
        constants={"table": np.zeros((5, 3), np.float32)},
        nodes=(Node(Workload.parse("gather:f32:m16k5n3"), ("table", "ids"), "rows"),),
    )
    feeds = seeded_feeds(graph)
    assert set(feeds["ids"]) == set(range(5))
    assert feeds["mask"].tolist() == [[1] * 14 + [0] * 2]


def test_chunks_are_small_where_a_file_has_few_of_them() -> None:
    mebibyte = 1 << 20
    assert [chunk_bytes(size) for size in (1, 14 * mebibyte, 128 * mebibyte)] == [mebibyte // 4] * 3
    assert chunk_bytes(128 * mebibyte + 1) == mebibyte // 2
    assert chunk_bytes(2048 * mebibyte) == mebibyte
    built = Built()
    x = built.feed(4, 512)
    weight = built.constant(512, 384)
    graph = built.graph(built.workload("matmul:f32:m4k512n384:constant=b", x, weight))
    made = plan_graphs([graph], [{}], "wide")
    (plan,) = made.plans
    assert [chunk.bytes for chunk in plan.chunks] == [mebibyte // 4] * 3
    assert [len(block) for block in made.weights.blocks()] == [mebibyte // 4] * 3
