"""Checks that networks are imported right: those of `make networks`, whole and in parts, as
exporters wrote them. Each is planned as `kernelzoo models add` does it, and what NumPy makes of its
calls is compared with PyTorch's outputs. No run in a page is timed.
"""

import gzip
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from time import perf_counter

import onnx

from bench.models.cases import BEYOND, EVERY, TINY
from bench.models.files import NetworkFiles, network_files
from bench.models.options import chosen_cases, network_parser
from bench.options import run
from bench.report import CannotMeasure, Claim, Report, machine
from kernelzoo.domain.workload import ProgramWorkload
from kernelzoo.errors import KernelZooError
from kernelzoo.formats.plans import plan_bytes
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.models import graphs_of, plan_graphs
from services.tuner.graph.storing import output_error

RIGHT = 1e-4
"""Differences to PyTorch, as a share of the largest magnitude of an output."""
PLAN_BYTES = 100_000
IMPORT_S = 30


def main() -> None:
    options = network_parser("Imports of networks, held to PyTorch.", BEYOND, EVERY)
    run(options, measure, tiny=("--only", TINY.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`named`: calls of workloads that others share by their key. `import_s`: from the file to the
    plan. `difference`: the largest to PyTorch, of the largest magnitude of an output."""

    network: str
    exporter: str
    opset: int
    weights_mb: float
    import_s: float
    calls: int
    named: int
    kernels: int
    activations_mb: float
    gflop: float
    plan_gzip_bytes: int
    difference: float


def measure(options: Namespace) -> Report:
    rows, failures = [], []
    for case in chosen_cases(options, BEYOND):
        try:
            rows.append(_row(network_files(options.folder, case)))
        except KernelZooError as failure:
            print(f"{case.name}: {failure}", flush=True)
            failures.append(f"{case.name}: {failure}")
        else:
            print(f"{case.name} is imported", flush=True)
    if not rows:
        raise CannotMeasure("; ".join(failures))
    return Report(
        name="models-imports",
        machine=machine(onnx=onnx.__version__),
        rows=[asdict(row) for row in rows],
        claims=[
            *(claim for row in rows for claim in _claims(row)),
            *(Claim.at_most(f"{failure}: failures", 1, "", 0) for failure in failures),
        ],
    )


def _row(files: NetworkFiles) -> Row:
    name, dimensions = files.case.name, [files.case.dimensions]
    started = perf_counter()
    graphs = graphs_of(files.onnx, dimensions)
    made = plan_graphs(graphs, dimensions, name)
    import_s = perf_counter() - started
    (plan,), (calls,), (graph,) = made.plans, made.calls, graphs
    outputs = evaluate(fused(graph), files.inputs)
    exported = onnx.load(files.onnx, load_external_data=False)
    return Row(
        network=name,
        exporter=_exporter(exported),
        opset=next(each.version for each in exported.opset_import if not each.domain),
        weights_mb=plan.memory.weights / 1e6,
        import_s=import_s,
        calls=len(plan.calls),
        named=sum(each.calls for each in calls if not isinstance(each.workload, ProgramWorkload)),
        kernels=len(plan.kernels),
        activations_mb=plan.memory.activations / 1e6,
        gflop=sum(call.flops for call in calls) / 1e9,
        plan_gzip_bytes=len(gzip.compress(plan_bytes(plan))),
        difference=output_error(outputs, files.outputs),
    )


def _exporter(model: onnx.ModelProto) -> str:
    """PyTorch's newer exporter is called as the older one, and says where each node comes from."""
    keys = {entry.key for node in model.graph.node for entry in node.metadata_props}
    newer = " dynamo" if any(key.startswith("pkg.torch.onnx.") for key in keys) else ""
    version = model.producer_version.partition("+")[0]
    return f"{model.producer_name or '–'} {version}".strip() + newer


def _claims(row: Row) -> Iterator[Claim]:
    yield Claim.at_most(f"{row.network}: difference to PyTorch", row.difference, "", RIGHT)
    yield Claim.at_most(f"{row.network}: import", row.import_s, "s", IMPORT_S)
    yield Claim.at_most(f"{row.network}: plan, gzip", row.plan_gzip_bytes, "bytes", PLAN_BYTES)


if __name__ == "__main__":
    main()
