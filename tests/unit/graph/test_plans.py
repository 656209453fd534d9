"""Plans of small graphs, carried out with compiled kernels, give what the graph computes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kernelzoo.formats.plans import plan_bytes, read_plan
from services.tuner.graph.fuse import ALL_RULES, Rules
from services.tuner.graph.graph import Graph
from services.tuner.graph.models import PlannedModel, plan_graphs
from tests.unit.graph.running import Runner, golden_arrays
from tests.unit.graph.test_fuse import attention, image


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


@pytest.mark.parametrize("switch", ["epilogues", "products", "transposes", "norms", "affine"])
def test_each_rule_can_be_left_out(switch: str) -> None:
    rules = replace(ALL_RULES, **{switch: False})
    model = image if switch == "affine" else attention
    assert planned(model(), rules).plans[0].kernels != planned(model()).plans[0].kernels


def test_plans_of_a_model_share_weights_and_each_has_them_in_the_order_of_its_calls() -> None:
    graph = attention()
    made = plan_graphs([graph, graph], [{"sequence": 6}, {"sequence": 7}], "small")
    one, two = made.plans
    assert one.weights == two.weights
    assert one.memory.weights == sum(chunk.bytes for chunk in one.chunks)
    offsets = [weight.offset for weight in one.weights]
    assert offsets == sorted(offsets)
