"""Measures what each rule of the import is worth: nodes, calls, operations and bytes of networks
without it.

No network is run.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace

from bench.models.cases import BEYOND, EVERY, TINY, NetworkCase
from bench.models.files import network_files
from bench.models.options import chosen_cases, network_parser
from bench.options import run
from bench.report import Claim, Report, machine
from services.tuner.graph.fuse import ALL_RULES, Rules, fused
from services.tuner.graph.graph import Graph, View
from services.tuner.graph.importing import imported
from services.tuner.graph.memory import placed
from services.tuner.graph.models import model_calls
from services.tuner.graph.reading import OnnxModel, read_model
from services.tuner.graph.simplify import RULES as SIMPLIFYING
from services.tuner.graph.weights import weight_file

NOTHING = "–"
IN_PLACE = "in_place"
FUSING = tuple(field.name for field in fields(Rules))
ALL = "all that fuse"
"""Without those that simplify some networks are not imported."""


def main() -> None:
    options = network_parser(
        "Calls and bytes of plans, with all rules and without each.", BEYOND, EVERY
    )
    run(options, measure, tiny=("--only", TINY.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`without`: the rule that is left out. `nodes`: those that rules make calls of."""

    network: str
    without: str
    nodes: int
    calls: int
    gflop: float
    activations_mb: float
    weights_mb: float

    def exceeds(self, other: "Row") -> bool:
        """Returns whether anything of it is more."""
        own, others = astuple(self)[2:], astuple(other)[2:]
        return any(one > another for one, another in zip(own, others, strict=True))


def measure(options: Namespace) -> Report:
    rows = [row for case in chosen_cases(options, BEYOND) for row in _rows(options, case)]
    return Report(
        name="models-rules",
        machine=machine(),
        rows=[asdict(row) for row in rows],
        claims=list(_claims(rows)),
    )


def _rows(options: Namespace, case: NetworkCase) -> Iterator[Row]:
    model = read_model(network_files(options.folder, case).onnx)
    for without, carried, lowered in _graphs(model, case.dimensions):
        calls = model_calls(lowered)
        yield Row(
            network=case.name,
            without=without,
            nodes=sum(not isinstance(node.op, View) for node in carried.nodes),
            calls=sum(call.calls for call in calls),
            gflop=sum(call.flops for call in calls) / 1e9,
            activations_mb=placed(lowered, in_place=without != IN_PLACE).size_bytes / 1e6,
            weights_mb=weight_file([lowered])[0].plain_bytes / 1e6,
        )
    print(f"{case.name} is planned", flush=True)


def _graphs(model: OnnxModel, dimensions: Mapping[str, int]) -> Iterator[tuple[str, Graph, Graph]]:
    """Without what; as it is carried over, and lowered."""
    graph = imported(model, dimensions)
    whole = fused(graph)
    yield NOTHING, graph, whole
    for name in SIMPLIFYING:
        plain = imported(model, dimensions, [other for other in SIMPLIFYING if other != name])
        yield name, plain, fused(plain)
    for name in FUSING:
        yield name, graph, fused(graph, replace(ALL_RULES, **{name: False}))
    yield IN_PLACE, graph, whole
    yield ALL, graph, fused(graph, Rules.none())


def _claims(rows: Sequence[Row]) -> Iterator[Claim]:
    whole = {row.network: row for row in rows if row.without == NOTHING}
    for name in (*SIMPLIFYING, *FUSING, IN_PLACE):
        worse = sum(row.exceeds(whole[row.network]) for row in rows if row.without == name)
        yield Claim.at_least(f"{name}: networks that it makes less of", worse, "", 1)


if __name__ == "__main__":
    main()
