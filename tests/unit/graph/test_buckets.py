"""Kernels of fewer rows compute the first rows of those of the largest extent."""

from dataclasses import replace

import numpy as np
import pytest

from kernelzoo.domain.plan import PlanAxis, PortDType
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics.stages import run_program
from services.tuner.graph.buckets import bucket_ends, bucket_workloads
from services.tuner.graph.graph import Graph, GraphPort, Node
from tests.unit.tuner.test_spare import LONGEST, TOLERANCE, WORKLOADS, heads, told

AXIS = PlanAxis(name="sequence", least=1, most=LONGEST, input=1)
HELD = (*WORKLOADS[:3], heads(), heads("scale", "bias"), heads("scale", shared=3))
"""Others read a tensor that would lie otherwise with fewer rows, or take no time."""


def _graph(*workloads: Workload) -> Graph:
    """They are told what is spare of the sequence, the second dimension."""
    ports = tuple(GraphPort(name, PortDType.INT32, name) for name in ("other", "spare"))
    nodes = tuple(Node(each, ("spare",), each.key) for each in workloads)
    return Graph(inputs=ports, outputs=(), values={}, constants={}, nodes=nodes)


def test_what_is_told_of_another_dimension_has_no_bucket_of_this() -> None:
    assert bucket_workloads(_graph(*HELD), replace(AXIS, input=0), 16) == {}


def test_products_and_attention_have_kernels_of_fewer_rows_and_others_have_none() -> None:
    found = bucket_workloads(_graph(*WORKLOADS), AXIS, 16)
    assert set(found) == {each.key for each in HELD}
    assert {each.spare_parts for each in found.values()} == {16}


@pytest.mark.parametrize(
    ("least", "most", "ends"),
    [
        (1, 128, (8, 16, 32, 64)),
        (1, 512, (8, 32, 128)),
        (20, 64, (32,)),
        (1, 8, (1, 2, 4)),
        (30, 32, ()),
    ],
)
def test_buckets_are_few_and_end_at_powers_of_two(
    least: int, most: int, ends: tuple[int, ...]
) -> None:
    assert bucket_ends(PlanAxis(name="n", least=least, most=most, input=0)) == ends


@pytest.mark.parametrize("most", bucket_ends(AXIS))
@pytest.mark.parametrize("workload", HELD, ids=lambda each: each.key)
def test_a_kernel_of_fewer_rows_computes_the_first_ones_of_the_same_tensors(
    workload: Workload, most: int
) -> None:
    """Entries behind the extent are no numbers, and the same memory begins with what it reads."""
    shorter = bucket_workloads(_graph(workload), AXIS, most)[workload.key]
    for extent in (1, most - 1, most):
        inputs, right = told(workload, extent)
        inputs[-1][...] = most - extent
        first = [
            entries.reshape(-1)[: tensor.elements].reshape(tensor.shape)
            for entries, tensor in zip(inputs, shorter.tensors, strict=False)
        ]
        with np.errstate(invalid="ignore"):
            made = run_program(shorter.program, first)
        assert np.abs(made.reshape(most, -1)[:extent] - right).max() <= TOLERANCE
