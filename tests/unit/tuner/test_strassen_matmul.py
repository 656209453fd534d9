"""Products by Strassen's algorithm."""

import numpy as np
import pytest

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.ir.nodes import BinaryOp
from services.tuner.schedules.registry import lite_space
from services.tuner.schedules.strassen_matmul.config import WasmStrassenMatmulConfig
from services.tuner.schedules.strassen_matmul.wasm import PRODUCTS, Quarter, Sum
from tests.unit.tuner.execution import Floats, execute, inputs_of, packed_inputs
from tests.unit.tuner.reference import reference

FAMILY = WasmStrassenMatmulConfig.family
WORKLOADS = (
    "matmul+bias+residual+relu:f32:m104k256n160:constant=b",
    "matmul_nt+bias+gelu:f32:m96k272n128:constant=b",
    "conv2d+bias+relu6:f32:b2h7w8c264o144kh1kw1stride1pad0:constant=b",
)
CLASSICAL = "matmul:f32:m128k512n128:constant=b"


def halved(workload: Workload) -> list[Candidate]:
    space = lite_space(workload, TargetKind.WASM)
    return [each for each in space if each.family == FAMILY]


def computed(candidate: Candidate, inputs: list[Floats]) -> Floats:
    artifact = compile_candidate(candidate)
    return execute(artifact, packed_inputs(candidate, artifact, inputs))


@pytest.mark.parametrize("key", WORKLOADS)
def test_products_by_strassens_algorithm_are_right(key: str) -> None:
    workload = Workload.parse(key)
    inputs = inputs_of(workload)
    right = reference(workload, inputs)
    candidates = halved(workload)
    assert {each.requires for each in candidates} == {("simd128",), ("relaxed-simd", "simd128")}
    for candidate in candidates:
        error = np.abs(computed(candidate, inputs) - right).max()
        assert error <= comparison_tolerance(workload), dict(candidate.config)


def test_seven_products_of_quarters_make_the_product() -> None:
    a, b = (np.arange(4, dtype=np.float32) * step + 1 for step in (3, 7))

    def value(of: Quarter | Sum, quarters: Floats) -> float:
        if isinstance(of, Quarter):
            return float(quarters[of])
        left, op, right = of
        return float(quarters[left] + quarters[right] * (1 if op is BinaryOp.ADD else -1))

    kept, done = dict[Quarter, float](), dict[Quarter, float]()
    for each in PRODUCTS:
        product = value(each.left, a) * value(each.right, b)
        product += 0 if each.begun is None else kept[each.begun]
        kept |= dict.fromkeys(each.first, product)
        for op, quarter in each.changes:
            kept[quarter] += product if op is BinaryOp.ADD else -product
        if each.done is not None:
            done[each.done] = product + (kept[each.done] if each.begun is None else 0)
    right = (a.reshape(2, 2) @ b.reshape(2, 2)).reshape(-1)
    assert [done[each] for each in Quarter] == right.tolist()


def test_its_errors_are_at_most_twice_those_of_the_classical_product() -> None:
    """Deviations of seeded inputs, which cancel as those of networks do."""
    workload = Workload.parse(CLASSICAL)
    inputs = inputs_of(workload)
    exact = inputs[0].astype(np.float64) @ inputs[1]
    space = lite_space(workload, TargetKind.WASM)
    usual, strassen = (
        np.abs(computed(candidate, inputs) - exact).std()
        for candidate in (space[0], halved(workload)[0])
    )
    assert usual < strassen < 2 * usual


def test_it_is_never_the_default_nor_the_first() -> None:
    for key in (*WORKLOADS, CLASSICAL):
        space = lite_space(Workload.parse(key), TargetKind.WASM)
        default = next(each for each in space if each.requires == ("simd128",))
        assert FAMILY not in (space[0].family, default.family)
        assert space[1].family == FAMILY


@pytest.mark.parametrize(
    "key",
    [
        "matmul:f32:m127k512n512:constant=b",
        "matmul:f32:m384k512n512",
        "matmul:f32:m64k512n512:constant=b",
        "matmul:f32:m384k128n512:constant=b",
        "matmul:f32:m384k768n50257:constant=b",
    ],
)
def test_products_that_are_odd_small_or_without_weights_are_not_halved(key: str) -> None:
    assert not halved(Workload.parse(key))
