"""Operators whose work must grow as their tensors do, in a page beside onnxruntime-web: the largest
of many entries, sums along an axis, updates at places.

Each is a model of one operator, timed from the page's call to its outputs. Outputs are held to
those of onnxruntime.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from bench.kernels.peers import peer_versions
from bench.models.cases import NetworkCase
from bench.models.files import NetworkFiles, publish
from bench.models.ours import prepare
from bench.models.page import OURS, PEER, Entry, Timed, contest
from bench.models.tuning import Choices
from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from bench.site import BenchSite

SLOWER = 2
"""Times the peer's time that a call may take."""
ROUNDS = 9
OPSET, IR_VERSION = 18, 9
SEED = 7

Entries = NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthCase:
    """`inputs` of the node in their order; the first `fed` are the model's, others constants."""

    name: str
    operator: str
    inputs: Sequence[Entries]
    fed: int
    outputs: Sequence[str]
    attributes: Mapping[str, Any]


def cases() -> tuple[GrowthCase, ...]:
    random = np.random.default_rng(SEED)

    def real(*shape: int) -> Entries:
        return random.standard_normal(shape, np.float32)

    def places(below: int, *shape: int) -> Entries:
        return random.integers(0, below, shape)

    def top(extent: int, count: int) -> GrowthCase:
        return GrowthCase(
            name=f"top{count}_of{extent}",
            operator="TopK",
            inputs=(real(1, extent), np.array([count])),
            fed=1,
            outputs=("values", "places"),
            attributes={"axis": -1},
        )

    def scatter(name: str, operator: str, inputs: Sequence[Entries], reduction: str) -> GrowthCase:
        return GrowthCase(
            name=f"{name}_{reduction}",
            operator=operator,
            inputs=inputs,
            fed=3,
            outputs=("y",),
            attributes={"reduction": reduction},
        )

    edges = np.repeat(places(500, 4000, 1), 64, axis=1)
    return (
        top(1000, 100),
        top(16_000, 300),
        top(672_000, 300),
        top(160_000, 160_000),
        GrowthCase(
            name="cumsum160000",
            operator="CumSum",
            inputs=(real(160_000), np.array(0)),
            fed=1,
            outputs=("y",),
            attributes={},
        ),
        GrowthCase(
            name="cumsum_columns",
            operator="CumSum",
            inputs=(real(1, 2500, 64), np.array(1)),
            fed=1,
            outputs=("y",),
            attributes={},
        ),
        scatter("edges4000", "ScatterElements", (real(500, 64), edges, real(4000, 64)), "add"),
        *(
            scatter(
                "elements30000",
                "ScatterElements",
                (real(30_000), places(30_000, 30_000), real(30_000)),
                reduction,
            )
            for reduction in ("none", "add")
        ),
        scatter(
            "rows30000",
            "ScatterND",
            (real(10_000, 16), places(10_000, 30_000, 1), real(30_000, 16)),
            "add",
        ),
    )


def main() -> None:
    options = parser("Operators whose work must grow as their tensors do.")
    names = [case.name for case in cases()]
    options.add_argument("--only", nargs="+", choices=names, default=names)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--threads", type=int, default=1)
    run(options, measure, tiny=("--only", names[0], "--rounds", "2"))


def measure(options: Namespace) -> Report:
    found: list[tuple[str, tuple[Timed, Timed]]] = []
    browser = ""
    for case in cases():
        if case.name not in options.only:
            continue
        with BenchSite.serving() as site, TemporaryDirectory() as folder:
            timed, browser = _timed(site, case, Path(folder), options)
        found.append((case.name, timed))
        print(f"{case.name} is measured", flush=True)
    return Report(
        name="models-growth",
        machine=machine(browser=browser, rounds=options.rounds, **peer_versions()),
        rows=[row for name, timed in found for row in _rows(name, timed)],
        claims=[claim for name, timed in found for claim in _claims(name, timed)],
    )


def _timed(
    site: BenchSite, case: GrowthCase, folder: Path, options: Namespace
) -> tuple[tuple[Timed, Timed], str]:
    files = _files(case, folder)
    zoo = folder / "zoo"
    zoo.mkdir()
    prepared = prepare(site, files, Choices(file=folder / "tuned.json"), zoo, tune=False)
    address = publish(site, files, prepared.address)
    entries = [Entry(engine=engine, threads=options.threads) for engine in (OURS, PEER)]
    answer, browser = contest(site.url, address, entries, options.rounds)
    ours, peer = answer.timed
    return (ours, peer), browser


def _files(case: GrowthCase, folder: Path) -> NetworkFiles:
    path = folder / f"{case.name}.onnx"
    onnx.save(_model(case), path)
    feeds = {f"x{n}": entries for n, entries in enumerate(case.inputs[: case.fed])}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = dict(zip(case.outputs, session.run(None, feeds), strict=True))
    return NetworkFiles(
        case=NetworkCase(name=case.name),
        onnx=path,
        tflite=None,
        tensorflow=None,
        inputs=feeds,
        outputs=outputs,
    )


def _model(case: GrowthCase) -> onnx.ModelProto:
    names = [f"x{n}" for n in range(len(case.inputs))]
    node = helper.make_node(case.operator, names, list(case.outputs), **case.attributes)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(entries.dtype), entries.shape
        )
        for name, entries in zip(names[: case.fed], case.inputs, strict=False)
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in case.outputs]
    constants = [
        numpy_helper.from_array(entries, name)
        for name, entries in zip(names[case.fed :], case.inputs[case.fed :], strict=True)
    ]
    model = helper.make_model(
        helper.make_graph([node], case.name, inputs, outputs, constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    return onnx.shape_inference.infer_shapes(model)


def _rows(name: str, timed: tuple[Timed, Timed]) -> Iterator[dict[str, Cell]]:
    """`times`: of the peer's median."""
    peer_ms = median(timed[1].samples_ms)
    for each in timed:
        yield {
            "case": name,
            "engine": each.name,
            "threads": each.threads,
            "median_ms": median(each.samples_ms),
            "least_ms": min(each.samples_ms),
            "times": median(each.samples_ms) / peer_ms,
            "difference": each.difference,
        }


def _claims(name: str, timed: tuple[Timed, Timed]) -> Iterator[Claim]:
    ours, peer = timed
    times = median(ours.samples_ms) / median(peer.samples_ms)
    yield Claim.at_most(f"{name}: times onnxruntime-web's time", times, "times", SLOWER)
    yield Claim.at_most(f"{name}: difference to onnxruntime", ours.difference, "", 1e-4)


if __name__ == "__main__":
    main()
