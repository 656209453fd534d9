"""Convolutions of f32 become convolutions of bytes, by ranges that inputs tell or by those of each
run, but for those that lose most."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto

from fixtures.quantised_networks import convolutional, feeds_of, mobilenet, resnet, static
from kernelzoo.domain.plan import Need
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.graph.calibration import calibration_feeds
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.golden import GoldenFile, golden_file
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import fixed_network, graph_of, import_model
from services.tuner.graph.models import plan_graphs
from services.tuner.graph.network import Network
from services.tuner.graph.quantising import Bound, QuantisedModel, quantised_model
from services.tuner.graph.quantising_images import Range, rounded
from services.tuner.graph.reading import read_model
from services.tuner.graph.storing import output_error
from tests.unit.graph.models import written
from tests.unit.graph.running import Runner, golden_arrays

LOOSE = 0.3
NETWORKS: dict[str, Callable[[], ModelProto]] = {"mobilenet": mobilenet, "resnet": resnet}
CALIBRATED = range(20, 24)
"""Seeds of inputs, those by which the fixture has onnxruntime's quantiser tell ranges."""


@cache
def read(name: str) -> tuple[ModelProto, Network, Graph, GoldenFile]:
    model = NETWORKS[name]()
    with TemporaryDirectory() as folder:
        network = fixed_network(read_model(written(Path(folder), model)), {})
    graph = graph_of(network)
    return model, network, graph, golden_file(graph)


@cache
def quantised(name: str, *, calibrated: bool, max_error: float = LOOSE) -> QuantisedModel:
    model, network, graph, golden = read(name)
    runs = [feeds_of(model, seed) for seed in CALIBRATED]
    bound = Bound(max_error=max_error, feeds=[runs] if calibrated else ())
    return quantised_model([network], [graph], [golden], bound)


def operators(graph: Graph) -> list[str]:
    found = (node.op for node in fused(graph).nodes if isinstance(node.op, Workload))
    return [each.operator.name for each in found]


@pytest.mark.parametrize(("name", "layers", "apart"), [("mobilenet", 8, 2), ("resnet", 10, 0)])
def test_with_known_ranges_images_go_from_layer_to_layer_as_bytes(
    name: str, layers: int, apart: int
) -> None:
    """It is as of a file of `quantize_static`: the image that comes in and a mean are real."""
    made = operators(quantised(name, calibrated=True).graphs[0])
    assert "conv2d" not in made
    assert sum(each.endswith("u8i8q") for each in made) == layers
    assert made.count("depthwise_conv2d_u8i8q") == apart
    assert made.count("quantise") <= 2


@pytest.mark.parametrize("name", NETWORKS)
def test_it_errs_about_as_much_as_onnxruntimes_quantiser(name: str, tmp_path: Path) -> None:
    model, _, graph, _ = read(name)
    theirs = import_model(static(model, tmp_path, per_channel=True), {})
    ours = quantised(name, calibrated=True).graphs[0]
    for seed in CALIBRATED:
        feeds = feeds_of(model, seed)
        right = evaluate(graph, feeds)
        errors = [output_error(evaluate(each, feeds), right) for each in (ours, theirs)]
        assert errors[0] <= 1.5 * errors[1]


@pytest.mark.parametrize("name", NETWORKS)
def test_without_inputs_images_have_the_range_of_each_run(name: str) -> None:
    """So inputs of any size do."""
    model, _, graph, _ = read(name)
    found = quantised(name, calibrated=False)
    made = operators(found.graphs[0])
    assert "conv2d" not in made
    assert "matmul_u8i8" in made
    for times in (1, 100):
        feeds = {each: times * x for each, x in feeds_of(model).items()}
        right = evaluate(graph, feeds)
        assert output_error(evaluate(found.graphs[0], feeds), right) <= LOOSE


def test_convolutions_that_lose_most_stay_f32_until_the_error_holds() -> None:
    loose = quantised("mobilenet", calibrated=True)
    tight = quantised("mobilenet", calibrated=True, max_error=loose.apart * 0.6)
    assert tight.apart <= loose.apart * 0.6
    assert 0 < len(tight.left) < len(loose.quantised)
    assert {"conv2d", "depthwise_conv2d"} & set(operators(tight.graphs[0]))


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_give_the_golden_outputs(name: str, calibrated: bool) -> None:
    found = quantised(name, calibrated=calibrated)
    made = plan_graphs(found.graphs, [{}], "small", right=found.golden)
    (plan,), (golden,) = made.plans, made.golden
    assert Need.I8 in plan.needs
    workloads = {workload.key: workload for workload in made.workloads}
    runner = Runner(plan, workloads, b"".join(made.weights.blocks()))
    feeds = golden_arrays(plan.golden.inputs, plan.inputs, golden)
    wanted = golden_arrays(plan.golden.outputs, plan.outputs, golden)
    for output, entries in runner.run(feeds).items():
        apart = np.abs(entries - wanted[output]).max()
        assert apart <= plan.golden.tolerance * np.abs(wanted[output]).max()


def test_each_output_channel_has_the_step_of_its_largest_entry() -> None:
    filters = np.array([[[[1.0]], [[-2.0]]], [[[0.0]], [[0.3]]]], np.float32)
    near = rounded(filters, axis=0)
    np.testing.assert_allclose(near[0].ravel(), [64 * 2 / 127, -2], rtol=1e-6)
    np.testing.assert_allclose(near[1].ravel(), [0, 0.3], rtol=1e-6)


def test_a_range_has_zero_among_its_steps() -> None:
    for least, most, zero in ((0.0, 6.0, 0), (-1.0, 3.0, 64), (-3.0, 0.0, 255), (0.0, 0.0, 0)):
        own = Range(least, most)
        assert own.zero == zero
        assert own.scale > 0


def arrays_of(path: Path, runs: int | None) -> None:
    images: list[NDArray[Any]] = [feeds_of(convolutional(), seed)["image"] for seed in range(3)]
    np.savez(path, image=images[0] if runs is None else np.stack(images[:runs]))


def test_a_file_of_calibration_has_the_inputs_of_one_run_or_of_several(tmp_path: Path) -> None:
    graph = import_model(written(tmp_path, convolutional()), {})
    path = tmp_path / "inputs.npz"
    for runs in (None, 1, 3):
        arrays_of(path, runs)
        found = calibration_feeds(path, graph)
        assert len(found) == (runs or 1)
        for seed, feeds in enumerate(found):
            np.testing.assert_array_equal(feeds["image"], feeds_of(convolutional(), seed)["image"])
    np.savez(path, image=np.zeros((0, 1, 3, 12, 12)))
    with pytest.raises(InvalidInput, match="has inputs of no run"):
        calibration_feeds(path, graph)
