"""The probe modules: current in the client, computing what they say, one variable at a time."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.target import TargetKind
from services.tuner.codegen.wasm.instructions import memory, plain
from services.tuner.ir.nodes import LANES
from services.tuner.microbench.probe import Probe
from services.tuner.microbench.typescript import typescript
from services.tuner.microbench.wasm import (
    CHAINS,
    DATA,
    LINE_BYTES,
    PADDING_BYTES,
    ROUNDS,
    TileLoop,
    WasmSetting,
    peaks,
    stream,
    suite,
)
from tests.unit.tuner.execution import PAGE_BYTES, Kernel

CLIENT = Path(__file__).parents[3] / "client" / "src" / "probe" / "modules.ts"
PROBES = {probe.primitive: probe for probe in suite()}
FIRST = DATA // 4


def test_the_module_of_the_client_is_current() -> None:
    """Write it anew with `python -m services.tuner.microbench > client/src/probe/modules.ts`."""
    assert CLIENT.read_text() == typescript(TargetKind.WASM)


def test_the_client_gets_the_bytes_of_all_settings() -> None:
    bodies = [
        bytes.fromhex(text)
        for text in re.findall(r'"([0-9a-f]{80,})"', typescript(TargetKind.WASM))
    ]
    pairs = [setting.body for probe in suite() for setting in (probe.base, probe.advanced)]
    assert bodies == [*pairs, *(setting.body for setting in peaks()), stream()]


@pytest.mark.parametrize("probe", suite(), ids=lambda probe: probe.primitive)
def test_both_settings_of_a_primitive_do_the_same_work_in_other_bytes(
    probe: Probe[WasmSetting],
) -> None:
    assert probe.base.flops == probe.advanced.flops
    assert probe.base.body != probe.advanced.body


def occurrences(setting: WasmSetting, encoding: bytes) -> int:
    return setting.body.count(encoding)


def test_the_settings_differ_in_what_the_primitive_is_named_after() -> None:
    fma, splat, pack = PROBES["fma"], PROBES["load_splat"], PROBES["pack"]
    madd = plain("f32x4.relaxed_madd").encoding
    assert (occurrences(fma.base, madd), occurrences(fma.advanced, madd)) == (0, 10)
    combined = memory("v128.load32_splat", 2, 0).encoding[:2]
    alone = plain("f32x4.splat").encoding
    assert (occurrences(splat.base, combined), occurrences(splat.base, alone)) == (0, 32)
    assert (occurrences(splat.advanced, combined), occurrences(splat.advanced, alone)) == (32, 0)
    assert pack.base.end > 64 * pack.advanced.end


@pytest.mark.parametrize("setting", peaks(), ids=("apart", "fused"))
def test_a_peak_runs_its_range_and_stores_the_sum_that_rounding_keeps(setting: WasmSetting) -> None:
    assert setting.flops == 2 * LANES * CHAINS * ROUNDS
    kernel = Kernel(setting.body, PAGE_BYTES)
    for lo, hi in ((5, 5), (10, 200_010)):
        kernel.run(0, lo, hi)
        assert np.array_equal(kernel.values[:4], np.full(4, CHAINS, np.float32))
        assert not kernel.values[4:].any()


@given(
    rows=st.integers(1, 8),
    vectors=st.integers(1, 3),
    blocks=st.integers(1, 5),
    unroll_k=st.sampled_from((1, 2, 4)),
    gap=st.sampled_from((0, 16, 96)),
    combined_splat=st.booleans(),
    fma=st.booleans(),
)
def test_a_tile_loop_multiplies_its_matrices(
    rows: int,
    vectors: int,
    blocks: int,
    unroll_k: int,
    gap: int,
    combined_splat: bool,
    fma: bool,
) -> None:
    columns, k = LANES * vectors, blocks * unroll_k
    loop = TileLoop(
        rows=rows,
        columns=columns,
        k=k,
        unroll_k=unroll_k,
        row_bytes=4 * columns + gap,
        combined_splat=combined_splat,
        fma=fma,
    )
    kernel = Kernel(loop.module(), PAGE_BYTES)
    small = np.arange(PAGE_BYTES // 4 - FIRST) % 7 - 3
    kernel.values[FIRST:] = small
    a = small[: k * rows].reshape(k, rows)
    begin, stride = k * rows + PADDING_BYTES // 4, loop.row_bytes // 4
    b = np.stack([small[begin + p * stride :][:columns] for p in range(k)])
    kernel.run(0, 3, 5)
    sums = 2 * (a.T @ b).reshape(rows, vectors, LANES).sum(axis=(0, 1))
    assert np.array_equal(kernel.values[:4], sums)
    assert loop.flops == 2 * rows * columns * k
    assert loop.end <= PAGE_BYTES


def test_a_tile_loop_of_no_iteration_stores_zeros() -> None:
    loop = TileLoop(
        rows=4, columns=8, k=4, unroll_k=1, row_bytes=32, combined_splat=True, fma=False
    )
    for each in (loop, replace(loop, fma=True)):
        kernel = Kernel(each.module(), PAGE_BYTES)
        kernel.values[:] = 1
        kernel.run(0, 7, 7)
        assert not kernel.values[:4].any()


@pytest.mark.parametrize("bytes_read", [512, 4096])
def test_a_stream_reads_the_first_vector_of_each_line(bytes_read: int) -> None:
    kernel = Kernel(stream(), PAGE_BYTES)
    kernel.values[:] = np.arange(PAGE_BYTES // 4) % 5
    kernel.run(bytes_read, 0, 2)
    lines = kernel.values[FIRST : FIRST + bytes_read // 4].reshape(-1, LINE_BYTES // 4)
    assert np.array_equal(kernel.values[:4], 2 * lines[:, :4].sum(axis=0))
