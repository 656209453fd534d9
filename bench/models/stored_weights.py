"""Measures how many bytes weights in fewer bits take, and how many pictures a classifier then takes
for what it took them for before.

Networks of `make networks` have random weights, whose last layer tells nothing apart. It is fitted
here: pictures, each of a few plane waves, have a class each, and the row of a class is what the
layers before make of its picture. What is classified are those pictures with some noise. All is
computed in NumPy, with the entries that a page would unpack.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.models.cases import TINY
from bench.models.options import FOLDER
from bench.options import parser, run
from bench.report import CannotMeasure, Claim, Report, machine
from cli.models.importing import MAX_ERROR
from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.weight_storage import StorageType
from kernelzoo.domain.workload import Workload
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.graph import Graph, GraphPort, Node
from services.tuner.graph.importing import imported
from services.tuner.graph.reading import read_model
from services.tuner.graph.storage import StorageForm, stored_entries
from services.tuner.graph.storing import Constants, Stored, Storing, chosen, output_error
from services.tuner.graph.weights import key_of, weight_file

RESNET = "resnet50"
BATCH = 20
WAVES = 6
NOISE = 0.03
"""Noise in units of a picture's standard deviation."""
FORMS = {
    "f16": StorageForm(StorageType.F16),
    "int8": StorageForm(StorageType.INT8),
    "int8, 63 steps": StorageForm(StorageType.INT8, 63),
    "int4": StorageForm(StorageType.INT4),
}
AUTO = "auto"
"""The smallest form of each weight that keeps the outputs of the first pictures to the error that
an import allows unless told."""
SHARE = 0.22
SAME = 0.99

Floats = NDArray[np.float32]


def main() -> None:
    options = parser("Weights in fewer bits: their bytes, and what a classifier says with them.")
    options.add_argument("--folder", type=Path, default=FOLDER, help="where `make networks` writes")
    options.add_argument("--network", choices=(RESNET, TINY.name), default=RESNET)
    options.add_argument("--pictures", type=int, default=100)
    run(options, measure, tiny=("--network", TINY.name, "--pictures", "10"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`share` is that of the bytes of f32, `same` that of pictures whose class is as before."""

    weights: str
    megabytes: float
    share: float
    same: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """`batches` are pictures, as many at a time as the graph takes."""

    graph: Graph
    batches: tuple[Floats, ...]

    def outputs(self, graph: Graph) -> Floats:
        """By picture and class, of a graph with other weights or another output."""
        return np.concatenate([self.of_batch(graph, batch) for batch in self.batches])

    @staticmethod
    def of_batch(graph: Graph, batch: Floats) -> Floats:
        (port,), (output,) = graph.inputs, graph.outputs
        return np.asarray(evaluate(graph, {port.name: batch})[output.name], np.float32)


def measure(options: Namespace) -> Report:
    path = options.folder / f"{options.network}.onnx"
    if not path.exists():
        raise CannotMeasure(f"{path} is not there; `make networks ARGS=resnet50` writes it")
    classifier = _fitted(path, options)
    wanted = classifier.outputs(classifier.graph)
    rows = list(_rows(classifier, wanted))
    kept = [row.share for row in rows if row.same >= SAME]
    return Report(
        name="models-stored-weights",
        machine=machine(network=options.network, pictures=len(wanted)),
        rows=[asdict(row) for row in rows],
        claims=[
            Claim.at_most(
                f"{options.network}: bytes with {SAME:.0%} of pictures as before",
                min(kept, default=1.0),
                "of f32",
                SHARE,
            )
        ],
    )


def _rows(classifier: Classifier, wanted: Floats) -> Iterator[Row]:
    graph = classifier.graph
    keys = {name: key_of(graph.values[name].dtype, each) for name, each in graph.constants.items()}
    constants = {keys[name]: each for name, each in graph.constants.items()}
    plain, _ = weight_file([graph])

    def small(stored: Stored) -> Graph:
        return replace(graph, constants={name: stored[key].entries for name, key in keys.items()})

    for label, stored in _stored(classifier, constants, small):
        made = small(stored)
        by_entries = {key_of(dtype, each.entries): each for (dtype, _), each in stored.items()}
        file, _ = weight_file([made], by_entries)
        found = classifier.outputs(made)
        yield Row(
            weights=label,
            megabytes=file.size_bytes / 1e6,
            share=file.size_bytes / plain.size_bytes,
            same=float((found.argmax(1) == wanted.argmax(1)).mean()),
        )


def _stored(
    classifier: Classifier, constants: Constants, small: Callable[[Stored], Graph]
) -> Iterator[tuple[str, Stored]]:
    for label, form in FORMS.items():
        yield label, {key: stored_entries(each, form) for key, each in constants.items()}
    first = classifier.batches[0]
    right = classifier.of_batch(classifier.graph, first)

    def error(stored: Stored) -> float:
        return output_error({"": classifier.of_batch(small(stored), first)}, {"": right})

    yield AUTO, chosen(constants, error, Storing(storage=None, max_error=MAX_ERROR)).stored


def _fitted(path: Path, options: Namespace) -> Classifier:
    dimensions = {} if options.network == TINY.name else {"batch": BATCH}
    graph = fused(imported(read_model(path), dimensions))
    batch, *shape = graph.values[graph.inputs[0].value].shape
    random = np.random.default_rng(3)
    pictures = np.stack([_picture(random, shape) for _ in range(options.pictures)])
    noise = NOISE * random.standard_normal(pictures.shape, np.float32)
    parts = options.pictures // batch
    seen = Classifier(graph=graph, batches=tuple(np.split(pictures, parts)))
    head = next(node for node in reversed(graph.nodes) if _is_head(node, graph))
    port = GraphPort("features", PortDType.FLOAT32, head.inputs[0])
    features = seen.outputs(replace(graph, outputs=(port,))).reshape(options.pictures, -1)
    return Classifier(
        graph=_with_head(graph, head, features, random),
        batches=tuple(np.split(pictures + noise, parts)),
    )


def _picture(random: np.random.Generator, shape: list[int]) -> Floats:
    """float32[C, H, W] of standard deviation 1."""
    channels, height, width = shape
    y, x = np.mgrid[0:height, 0:width] / height
    made = np.zeros(shape)
    for _ in range(WAVES):
        across, down = random.uniform(0.5, 12, 2)
        wave = np.sin(2 * np.pi * (across * x + down * y + random.random()))
        made += random.standard_normal((channels, 1, 1)) * wave
    return np.asarray(made / made.std(), np.float32)


def _is_head(node: Node, graph: Graph) -> bool:
    """A product of features with constant weights, and its bias."""
    product = isinstance(node.op, Workload) and node.op.key.startswith("matmul+bias:")
    return product and all(name in graph.constants for name in node.inputs[1:])


def _with_head(graph: Graph, head: Node, features: Floats, random: np.random.Generator) -> Graph:
    """The class of the nearest picture, by the square of the distance of features. Rows of classes
    without a picture are of the same size, and their classes are never said."""
    _, weights, bias = head.inputs
    depth, classes = graph.constants[weights].shape
    count = min(classes, len(features))
    middle = features.mean(0)
    apart = (features - middle)[:count]
    rows = random.standard_normal((depth, classes)) * apart.std()
    offsets = np.full(classes, -10 * float((apart**2).sum(1).max()))
    rows[:, :count] = apart.T
    offsets[:count] = -(apart**2).sum(1) / 2 - apart @ middle
    made = {weights: rows.astype(np.float32), bias: offsets.astype(np.float32)}
    return replace(graph, constants={**graph.constants, **made})


if __name__ == "__main__":
    main()
