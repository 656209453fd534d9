"""Random numbers of a seed: their distributions, that seeds and nodes differ, and that targets do
not."""

from collections.abc import Callable
from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.target import TargetKind
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

Array = NDArray[Any]
COUNT = 40_000


def graph_of(folder: Path, body: str, inputs: str = f"float[{COUNT}] x") -> Graph:
    text = f"net ({inputs}) => (float[N] y) {{ {body} }}"
    return import_model(written(folder, parsed(text)), {})


def drawn(graph: Graph, seed: int, **feeds: Array) -> Array:
    return evaluate(graph, {**feeds, "seed": np.array([seed], np.int32)})["y"]


def distance(samples: Array, share: Callable[[Array], Array]) -> float:
    """Kolmogorov's and Smirnov's, times √n: above 1.95 in one of a thousand."""
    ordered = np.sort(samples.ravel().astype(np.float64))
    own = np.arange(1, len(ordered) + 1) / len(ordered)
    return float(np.abs(own - share(ordered)).max() * sqrt(len(ordered)))


def normal(x: Array) -> Array:
    return np.array([(1 + erf(each / sqrt(2))) / 2 for each in x])


X = {"x": np.zeros(COUNT, np.float32)}


@pytest.mark.parametrize("seed", [0, 1, -7, 2**31 - 1])
def test_numbers_are_distributed_as_they_should_be(seed: int, tmp_path: Path) -> None:
    uniform = drawn(graph_of(tmp_path, "y = RandomUniformLike (x)"), seed, **X)
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert distance(uniform, lambda x: x) < 1.95
    wide = graph_of(tmp_path, "y = RandomNormalLike <mean = 3.0, scale = 2.0> (x)")
    assert distance((drawn(wide, seed, **X) - 3) / 2, normal) < 1.95
    chances = np.linspace(0, 1, COUNT, dtype=np.float32)
    truths = drawn(graph_of(tmp_path, "y = Bernoulli (x)"), seed, x=chances)
    assert set(truths) == {0, 1}
    assert np.abs(truths.reshape(10, -1).mean(1) - chances.reshape(10, -1).mean(1)).max() < 0.03


@pytest.mark.parametrize("lag", [1, 2, 64, 1000])
def test_neighbours_seeds_and_nodes_are_independent(lag: int, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "y = RandomNormalLike (x)")
    one, other = drawn(graph, 5, **X), drawn(graph, 5 + lag, **X)
    bound = 4 / sqrt(COUNT)
    assert abs(np.corrcoef(one[:-lag], one[lag:])[0, 1]) < bound
    assert abs(np.corrcoef(one, other)[0, 1]) < bound
    assert np.array_equal(one, drawn(graph, 5, **X))
    both = graph_of(
        tmp_path, "a = RandomNormalLike (x) b = RandomNormalLike (x) y = Concat <axis = 0> (a, b)"
    )
    first, second = np.split(drawn(both, 5, **X), 2)
    assert abs(np.corrcoef(first, second)[0, 1]) < bound


def test_classes_are_drawn_by_their_chances(tmp_path: Path) -> None:
    text = f"c = Multinomial <sample_size = {COUNT}> (x) f = Cast <to = 1> (c) y = Flatten (f)"
    graph = graph_of(tmp_path, text, "float[1, 4] x")
    chances = np.array([0.5, 0.25, 0.2, 0.05])
    made = drawn(graph, 3, x=np.log(chances)[None].astype(np.float32))
    shares = np.bincount(made.ravel().astype(int), minlength=4) / COUNT
    assert np.abs(shares - chances).max() < 0.01


def test_a_plan_with_random_numbers_has_a_seed_as_its_last_input(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "r = RandomUniformLike (x) y = Add (r, seed)",
                     f"float[{COUNT}] x, float[1] seed")  # fmt: skip
    assert [port.name for port in graph.inputs] == ["x", "seed", "seed.2"]
    assert graph.inputs[-1].dtype is PortDType.INT32
    alone = graph_of(tmp_path, "y = RandomUniform <shape = [40], low = -2.0, high = 3.0> ()", "")
    assert [port.name for port in alone.inputs] == ["seed"]
    assert -2 <= drawn(alone, 1).min() < drawn(alone, 1).max() < 3


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_draws_the_same_numbers(target: TargetKind, tmp_path: Path) -> None:
    for body, exact in (("y = RandomUniformLike (x)", True), ("y = RandomNormalLike (x)", False)):
        graph = graph_of(tmp_path, body, "float[1000] x")
        feeds = {"x": np.zeros(1000, np.float32), "seed": np.array([-123_456_789], np.int32)}
        wanted = evaluate(graph, feeds)["y"]
        np.testing.assert_array_equal(evaluate(fused(graph), feeds)["y"], wanted)
        made = outputs_on(target, graph, feeds, tmp_path)["y"]
        if exact:
            np.testing.assert_array_equal(made, wanted)
        np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)
