"""Some of ONNX's own tests of operators as plans, carried out by WebAssembly kernels."""

import numpy as np
import pytest

from fixtures.onnx_nodes import DEVIATIONS, NodeCase, carried, node_cases
from kernelzoo.errors import KernelZooError
from services.tuner.graph.evaluate import clipped
from services.tuner.graph.graph import Graph
from services.tuner.graph.models import plan_graphs
from tests.unit.graph.running import Runner

EVERY = 10
ALWAYS = ("test_isnan", "test_triu_one_row")
"""What compilers and rules once got wrong: NaN differs from itself, an axis of one entry."""


def chosen() -> list[NodeCase]:
    """A tenth of them: all take a minute."""
    cases = node_cases()
    some = [case for n, case in enumerate(cases) if n % EVERY == 0 or case.name in ALWAYS]
    return [case for case in some if case.name not in DEVIATIONS]


def as_graph(case: NodeCase) -> Graph | None:
    try:
        return carried(case).graph
    except KernelZooError:
        return None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_kernels_compute_what_onnx_says() -> None:
    run = 0
    for case in chosen():
        graph = as_graph(case)
        if graph is None:
            continue
        model = plan_graphs([graph], [{}], "node")
        plan = model.plans[0]
        if not plan.calls:
            continue
        workloads = {workload.key: workload for workload in model.workloads}
        runner = Runner(plan, workloads, b"".join(model.weights.blocks()))
        values = {port.value: graph.values[port.value] for port in graph.inputs}
        made = runner.run(
            {
                port.name: clipped(case.inputs[port.name], values[port.name].dtype)
                for port in plan.inputs
            }
        )
        for name, wanted in case.outputs.items():
            np.testing.assert_allclose(
                made[name].astype(np.float64), wanted.astype(np.float64),
                rtol=0.02 if wanted.dtype.itemsize == 2 else 1e-3, atol=1e-5, err_msg=case.name,
            )  # fmt: skip
        run += 1
    assert run > 50
