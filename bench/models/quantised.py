"""Files of onnxruntime's own quantiser on default kernels, beside onnxruntime-web with the same
file in one page, and both with the network as it was.

The networks have random weights: an encoder of sentences with the extents of MiniLM-L6, and images'
networks with those of MobileNetV2 and ResNet-50. Outputs are compared with those of onnxruntime on
a processor: of random weights rounding alone decides some of the steps of quantisation, as
docs/adr/0119 says.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from onnx import ModelProto

from bench.kernels.peers import peer_versions
from bench.models.cases import NetworkCase
from bench.models.files import NetworkFiles, publish
from bench.models.ours import prepare
from bench.models.page import OURS, PEER, Entry, contest
from bench.models.tuning import Choices
from bench.options import parser, run
from bench.report import Claim, Report, machine
from bench.site import BenchSite
from fixtures.encoder import Encoder
from fixtures.quantised_networks import (
    MOBILENET_V2,
    RESNET_50,
    Images,
    by_onnxruntime,
    dynamic,
    feeds_of,
    mobilenet,
    resnet,
    static,
)

ROUNDS = 9
FASTER = 2.0
MINILM = Encoder(tokens=128, hidden=384, heads=12, inner=1536, layers=6, vocabulary=1000)
SMALL = Encoder()


def _plain(model: ModelProto, folder: Path) -> Path:
    path = folder / "plain.onnx"
    path.write_bytes(model.SerializeToString())
    return path


FORMS: Mapping[str, tuple[Callable[..., Path], Mapping[str, Any]]] = {
    "f32": (_plain, {}),
    "dynamic": (dynamic, {}),
    "dynamic, 7 bits": (dynamic, {"reduce_range": True}),
    "static": (static, {"per_channel": True}),
    "static, 7 bits": (static, {"per_channel": True, "reduce_range": True}),
}
ENCODER_FORMS = ("f32", "dynamic", "dynamic, 7 bits", "static")
IMAGE_FORMS = ("f32", "static", "static, 7 bits")
NETWORKS: Mapping[str, tuple[Callable[[bool], ModelProto], Sequence[str]]] = {
    "encoder": (lambda small: (SMALL if small else MINILM).model(), ENCODER_FORMS),
    "mobilenetv2": (lambda small: mobilenet(Images() if small else MOBILENET_V2), IMAGE_FORMS),
    "resnet50": (lambda small: resnet(Images() if small else RESNET_50), IMAGE_FORMS),
}


def main() -> None:
    options = parser("Files of onnxruntime's quantiser, beside onnxruntime-web in one page.")
    options.add_argument("--only", nargs="+", choices=FORMS, default=list(FORMS))
    options.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--small", action="store_true", help="few layers of few extents")
    run(options, measure, tiny=("--small", "--rounds", "2", "--only", "dynamic", "static"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`faster`: onnxruntime-web's median over ours. `weights_bytes` are those in memory."""

    network: str
    form: str
    ours_ms: float
    peer_ms: float
    faster: float
    difference: float
    peer_difference: float
    weights_bytes: int


def measure(options: Namespace) -> Report:
    rows: list[Row] = []
    for name in options.networks:
        network, forms = NETWORKS[name]
        for form in (each for each in forms if each in options.only):
            row, browser = _measured(name, form, network(options.small), options.rounds)
            rows.append(row)
            told = f"{row.ours_ms:.2f} ms, {row.faster:.2f} times as fast"
            print(f"{name}, {form}: {told}", flush=True)
    described = machine(browser=browser, rounds=options.rounds, **peer_versions())
    return Report(
        name="models-quantised",
        machine=described,
        rows=[asdict(row) for row in rows],
        claims=list(_claims(rows)),
    )


def _claims(rows: Sequence[Row]) -> Iterator[Claim]:
    for row in rows:
        if row.form != "f32":
            name = f"{row.network}, {row.form}, beside onnxruntime-web"
            yield Claim.at_least(name, row.faster, "×", FASTER)


def _measured(name: str, form: str, model: ModelProto, rounds: int) -> tuple[Row, str]:
    quantise, settings = FORMS[form]
    with BenchSite.serving() as site, TemporaryDirectory() as held:
        folder = Path(held)
        network = _network(name, quantise(model, folder, **settings))
        choices = Choices(file=folder / "tuned.json")
        prepared = prepare(site, network, choices, folder / "zoo", tune=False)
        entries = [Entry(engine=engine, threads=1) for engine in (OURS, PEER)]
        address = publish(site, network, prepared.address)
        answer, browser = contest(site.url, address, entries, rounds)
    ours, peer = (median(each.samples_ms) for each in answer.timed)
    row = Row(
        network=name,
        form=form,
        ours_ms=ours,
        peer_ms=peer,
        faster=peer / ours,
        difference=answer.timed[0].difference,
        peer_difference=answer.timed[1].difference,
        weights_bytes=prepared.weights_bytes,
    )
    return row, browser


def _network(name: str, file: Path) -> NetworkFiles:
    model = onnx.load(file)
    feeds = feeds_of(model)
    return NetworkFiles(
        case=NetworkCase(name=name),
        onnx=file,
        tflite=None,
        tensorflow=None,
        inputs=feeds,
        outputs={model.graph.output[0].name: by_onnxruntime(file, feeds)},
    )


if __name__ == "__main__":
    main()
