"""Long sums err by little, whatever makes them, and are the same sums."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.ir.affine import Bound
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.nodes import If, Loop, LoopKind, Program, Store
from services.tuner.passes.partial_sums import with_partial_sums
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import execute
from tests.unit.tuner.gpu_execution import execute_gpu
from tests.unit.tuner.programs import at, load, loop, number, parameter, program

Doubles = NDArray[np.float64]

SUMS = {
    "of pixels, channels last": (
        "a: f32[160, 240, 8]\nc[j: 8] = sum over y: 160, x: 240 of a[y, x, j]", (0, 1),
    ),
    "of pixels, channels first": (
        "a: f32[8, 160, 240]\nc[j: 8] = sum over y: 160, x: 240 of a[j, y, x]", (1, 2),
    ),
    "of a prime number of rows": ("a: f32[40009, 5]\nc[j: 5] = sum over k: 40009 of a[k, j]", (0,)),
    "of columns": ("a: f32[3, 70001]\nc[i: 3] = sum over k: 70001 of a[i, k]", (1,)),
    "of everything but one axis": (
        "a: f32[30, 7, 200]\nc[j: 7] = sum over y: 30, x: 200 of a[y, j, x]", (0, 2),
    ),
}  # fmt: skip


def bounded(values: Doubles, wanted: Doubles) -> bool:
    """By a dozen roundings, where one accumulator errs by a hundred and more."""
    return bool(np.abs(values / wanted - 1).max() < 12 * 2.0**-24)


@pytest.mark.parametrize("target", [TargetKind.WASM, TargetKind.WEBGPU])
@pytest.mark.parametrize("name", SUMS)
def test_a_long_sum_errs_by_few_roundings(name: str, target: TargetKind) -> None:
    text, over = SUMS[name]
    workload = Workload.of_program("sum", parsed(text))
    x = np.random.default_rng(5).uniform(0.2, 1.2, workload.tensors[0].shape).astype(np.float32)
    artifact = compile_candidate(lite_space(workload, target)[0])
    run = execute if target is TargetKind.WASM else execute_gpu
    assert bounded(run(artifact, [x]).astype(np.float64), x.sum(axis=over, dtype=np.float64))


@pytest.mark.parametrize("key", ["matmul:f32:m8k20011n12", "matmul:f32:m1k30000n16"])
@pytest.mark.parametrize("target", [TargetKind.WASM, TargetKind.WEBGPU])
def test_a_very_long_product_errs_by_few_roundings(key: str, target: TargetKind) -> None:
    workload = Workload.parse(key)
    random = np.random.default_rng(5)
    a, b = (random.uniform(0.2, 1.2, t.shape).astype(np.float32) for t in workload.tensors[:2])
    run = execute if target is TargetKind.WASM else execute_gpu
    found = run(compile_candidate(lite_space(workload, target)[0]), [a, b])
    assert bounded(found.astype(np.float64), a.astype(np.float64) @ b)


X, Y = parameter("x", 20_000), parameter("y", 40)


def nest(extents: tuple[int, ...], bound: int) -> Program:
    """y[4r + v] += x[…] for v < 4, over a nest of loops, where the first index is below a bound."""
    places, step = {"v": 1}, 4
    for level, extent in reversed(list(enumerate(extents))):
        places[f"k{level}"] = step
        step *= extent
    own = load(Y, r=4, v=1)
    total = own + load(X, **places)
    store: Store | Loop | If = Store(buffer=Y, index=at(r=4, v=1), value=total)
    store = If(bounds=(Bound(index=at(k0=1), limit=bound),), body=(store,))
    store = loop("v", 4, (store,), LoopKind.VECTOR)
    for level, extent in reversed(list(enumerate(extents))):
        store = loop(f"k{level}", extent, (store,))
    start = Store(buffer=Y, index=at(r=4, v=1), value=number(1))
    return program(2, (loop("v", 4, (start,), LoopKind.VECTOR), store), X, Y)


@pytest.mark.parametrize(
    "extents", [(129,), (1021,), (4001,), (3, 1300), (700, 5), (64, 66), (2, 3, 601), (1, 900)]
)
@pytest.mark.parametrize("share", [1, 2])
def test_parts_are_of_all_terms_and_of_no_other(extents: tuple[int, ...], share: int) -> None:
    whole = nest(extents, max(1, extents[0] // share))
    parted = with_partial_sums(whole)
    assert parted != whole
    x = np.random.default_rng(5).integers(-9, 9, 20_000).astype(np.float32)
    found = []
    for each in (whole, parted):
        arrays = {"x": x, "y": np.zeros(40, np.float32)}
        interpret(each, arrays, low=0, high=2)
        found.append(arrays["y"])
    assert np.array_equal(found[0], found[1])


def test_a_short_sum_is_left_as_it_is() -> None:
    short = nest((100,), 100)
    assert with_partial_sums(short) is short
