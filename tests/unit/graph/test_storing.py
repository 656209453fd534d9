"""Weights in fewer bits: what a file has of them is what pages and golden outputs compute with."""

from dataclasses import replace

import numpy as np
import pytest

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Plan
from kernelzoo.domain.weight_storage import StorageType
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.plans import plan_bytes, read_plan
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.golden import seeded_feeds
from services.tuner.graph.graph import Graph
from services.tuner.graph.models import PlannedModel, plan_graphs
from services.tuner.graph.storage import StorageForm, plain_file, relative_error, stored_entries
from services.tuner.graph.storing import Stored, Storing, chosen, output_error
from services.tuner.graph.weights import Key
from tests.unit.graph.graphs import Built

RANDOM = np.random.default_rng(3)
EXPECTED = {"f16": (2.0, 3e-4), "int8": (1.1, 0.012), "int4": (0.6, 0.11)}
"""Bytes for each entry at the most, and relative error."""


@pytest.mark.parametrize("storage", EXPECTED)
def test_entries_in_fewer_bits_differ_by_little(storage: str) -> None:
    entries = RANDOM.standard_normal((47, 70), np.float32)
    entries[:, 3] *= 1000
    made = stored_entries(entries, StorageForm(StorageType(storage)))
    most_bytes, most_error = EXPECTED[storage]
    assert made.type == storage
    assert made.body.size <= most_bytes * entries.size
    assert relative_error(entries, made.entries) <= most_error
    if storage == "int8":
        assert made.axis == 1, "the channels that differ are columns"


def test_what_fewer_bits_cannot_hold_stays_plain() -> None:
    for entries in (np.full((64, 64), 1e30, np.float32), np.zeros((64, 64), np.int32)):
        made = stored_entries(entries, StorageForm(StorageType.F16))
        assert (made.type, made.body.size) == ("plain", entries.nbytes)


def _layers() -> Graph:
    built = Built()
    x = built.feed(4, 96)
    for _ in range(3):
        x = built.workload("matmul:f32:m4k96n96:constant=b", x, built.constant(96, 96))
    # More small ones than large ones, as trained networks have.
    built.constants = {name: 4 * each**3 for name, each in built.constants.items()}
    return built.graph(x)


def _planned(graph: Graph, storage: StorageType | None, max_error: float) -> PlannedModel:
    return plan_graphs(
        [graph], [{}], "small", storing=Storing(storage=storage, max_error=max_error)
    )


def test_an_output_that_is_no_number_is_no_small_error() -> None:
    right = {"whole": np.ones(2), "broken": np.ones(2)}
    found = {"whole": np.array([1, 1.1]), "broken": np.array([1, np.nan])}
    assert np.isnan(output_error(found, right))


def test_a_plan_of_weights_in_fewer_bits_reads_back_and_states_its_error() -> None:
    graph = _layers()
    made = _planned(graph, StorageType.INT8, 0.05)
    (plan,), file = made.plans, b"".join(made.weights.blocks())
    assert plan.needs == ("stored",)
    assert read_plan(plan_bytes(plan)) == plan
    assert len(file) == plan.file_bytes < 0.26 * plan.memory.weights
    assert all(chunk.inflated for chunk in plan.chunks)
    lowered = fused(graph)
    small = replace(lowered, constants=_constants(plan, plain_file(plan, file), lowered))
    feeds = seeded_feeds(graph)
    right, found = evaluate(lowered, feeds), evaluate(small, feeds)
    assert plan.golden.storage_error == pytest.approx(output_error(found, right))
    (part,), (golden,) = plan.golden.outputs, made.golden
    told = np.frombuffer(golden, np.float32, part.bytes // 4, part.offset)
    assert np.array_equal(told, found[part.name].ravel())
    with pytest.raises(InvalidInput, match="not those of the plan"):
        plain_file(plan, bytes(len(file)))


def _constants(plan: Plan, plain: bytes, graph: Graph) -> dict[str, np.ndarray]:
    made = {}
    for weight in plan.weights:
        assert weight.dtype is DType.F32
        entries = np.frombuffer(plain, np.float32, weight.bytes // 4, weight.offset)
        made[weight.name] = entries.reshape(weight.shape)
    return {name: made[name] for name in graph.constants}


def test_weights_of_one_type_that_err_by_more_are_refused_with_the_error() -> None:
    with pytest.raises(InvalidInput, match="with weights as int4 the golden outputs differ by 0"):
        _planned(_layers(), StorageType.INT4, 1e-3)


def test_int8_of_all_weights_takes_the_fewer_steps_that_keep_to_the_error() -> None:
    constants: dict[Key, np.ndarray] = {
        (DType.F32, "w"): RANDOM.standard_normal((64, 64), np.float32)
    }

    def error(stored: Stored) -> float:
        return max(relative_error(constants[key], each.entries) for key, each in stored.items())

    def steps(max_error: float) -> int:
        best = chosen(constants, error, Storing(storage=StorageType.INT8, max_error=max_error))
        (stored,) = best.stored.values()
        assert best.error <= max_error
        return int(np.abs(stored.body[-64 * 64 :].view(np.int8)).max())

    (few, more) = (
        relative_error(
            entries, stored_entries(entries, StorageForm(StorageType.INT8, count)).entries
        )
        for entries in constants.values()
        for count in (63, 127)
    )
    assert steps(few) == 63
    assert steps((few + more) / 2) == 127
    with pytest.raises(InvalidInput, match="with weights as int8"):
        steps(more / 2)


def test_each_weight_takes_the_fewest_bits_that_keep_to_the_error() -> None:
    """The error here is the sum of all weights' own; 40 of them allow some of int4."""
    constants: dict[Key, np.ndarray] = {
        (DType.F32, f"{i}"): RANDOM.standard_normal((32, 32 + i), np.float32) for i in range(40)
    }
    errors: dict[int, float] = {}

    def error(stored: Stored) -> float:
        total = sum(relative_error(constants[key], each.entries) for key, each in stored.items())
        errors[sum(each.type is StorageType.INT4 for each in stored.values())] = total
        return total

    best = chosen(constants, error, Storing(storage=None, max_error=2.0))
    types = [each.type for each in best.stored.values()]
    few = types.count(StorageType.INT4)
    assert 0 < few < 40
    assert best.error == errors[few] <= 2.0 < errors[few + 1]
    assert len(errors) <= 8
    exact = chosen(constants, error, Storing(storage=None, max_error=0.0))
    assert {each.type for each in exact.stored.values()} == {StorageType.PLAIN}
