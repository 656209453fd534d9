"""The probes of GPUs: current in the client, computing what they say, one variable at a time."""

import re
from pathlib import Path

import numpy as np
import pytest

from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Role, Tensor
from services.tuner.codegen.wgsl.module import print_module
from services.tuner.compile import webgpu_artifact
from services.tuner.ir.legality import Phase, faults
from services.tuner.ir.nodes import Program
from services.tuner.microbench import webgpu
from services.tuner.microbench.probe import Probe
from services.tuner.microbench.typescript import typescript
from services.tuner.microbench.webgpu import (
    BLOCK,
    CHAINS,
    GROUPS,
    ROWS,
    SIDE,
    SINK,
    SOURCE,
    SPLIT_BLOCKS,
    SPLIT_PARTS,
    STEPS,
    STREAM_BYTES,
    STREAM_VECTORS,
    SUITE,
    THREADS,
    WHOLE,
    TileLoop,
    settings,
    suite,
)
from tests.unit.tuner.execution import Floats
from tests.unit.tuner.gpu_execution import execute_gpu

CLIENT = Path(__file__).parents[3] / "client" / "src" / "probe"
TILES = (
    TileLoop(groups=2),
    TileLoop(groups=2, vec4=False),
    TileLoop(groups=2, staged=True),
)


def test_the_module_of_the_client_is_current() -> None:
    """Its first line says which command writes it."""
    assert (CLIENT / "gpu-modules.ts").read_text() == typescript(TargetKind.WEBGPU)


def test_the_client_knows_the_version_of_the_suite() -> None:
    text = (CLIENT / "gpu-probe.ts").read_text()
    assert re.findall(r"GPU_SUITE = (\d+);", text) == [str(SUITE)]
    assert SUITE > 100, "those below are of wasm"


@pytest.mark.parametrize("probe", suite(), ids=lambda probe: probe.primitive)
def test_both_settings_of_a_primitive_do_the_same_work_in_another_text(probe: Probe[str]) -> None:
    base, advanced = settings()[probe.base], settings()[probe.advanced]
    assert base.work == advanced.work
    assert base.text != advanced.text
    assert probe.margin >= 1.2


def artifact(programs: tuple[Program, ...]) -> Artifact:
    module = print_module(programs, (SOURCE, SINK))
    sizes = {buffer.name: buffer.size for p in programs for buffer in p.parameters}
    tensors = tuple(
        Tensor(name=name, role=role, dtype=DType.F32, shape=(sizes[name],))
        for name, role in ((SOURCE, Role.INPUT), (SINK, Role.OUTPUT))
    )
    return webgpu_artifact(module, tensors)


def small(count: int) -> Floats:
    """Sums of products of these are exact."""
    return np.asarray(np.arange(count) % 7 - 3, np.float32)


def sums_of(loop: TileLoop, data: Floats) -> Floats:
    """Each thread's sums over the rows of its tile: float32[threads, 4]."""
    a = data[: BLOCK * loop.k].reshape(BLOCK, loop.k)
    b = data[BLOCK * loop.k :].reshape(loop.k, BLOCK)
    tiles = (a @ b).reshape(SIDE, ROWS, SIDE, 4).sum(axis=1)
    return np.asarray(tiles.reshape(THREADS, 4), np.float32)


@pytest.mark.parametrize("loop", TILES, ids=str)
def test_a_tile_loop_multiplies_its_matrices(loop: TileLoop) -> None:
    program = loop.program()
    assert faults(program, Phase.SCALAR_REPLACED) == ()
    data = small(loop.elements)
    output = execute_gpu(artifact((program,)), [data], slices=2)
    assert np.array_equal(output.reshape(loop.groups, THREADS, 4), [sums_of(loop, data)] * 2)


def test_a_split_contraction_adds_what_its_parts_sum() -> None:
    data = small(WHOLE.elements)
    whole = execute_gpu(artifact(webgpu.split_k_whole()), [data])
    assert np.array_equal(whole.reshape(-1, THREADS, 4)[0], sums_of(WHOLE, data))
    programs = webgpu.split_k_parts()
    assert all(faults(program, Phase.SCALAR_REPLACED) == () for program in programs)
    part = TileLoop(k=WHOLE.k // SPLIT_PARTS)
    data = small(part.elements)
    split = execute_gpu(artifact(programs), [data])
    wanted = SPLIT_PARTS * sums_of(part, data)
    assert np.array_equal(split.reshape(-1, THREADS, 4), [wanted] * SPLIT_BLOCKS)


def test_the_limit_is_sums_of_products_in_registers() -> None:
    program = webgpu.sums_of_products()
    assert faults(program, Phase.SCALAR_REPLACED) == ()
    text = print_module((program,), (SOURCE, SINK)).text
    assert text.count("fma(") == CHAINS
    body = text[text.index("for (") : text.index("sink[")]
    assert "source[" not in body
    work = settings()["peak"].work
    assert work == 2 * 4 * CHAINS * STEPS * THREADS * GROUPS


def test_a_stream_reads_every_vector_of_its_source_once() -> None:
    program = webgpu.stream()
    text = print_module((program,), (SOURCE, SINK)).text
    places = [int(number) for number in re.findall(r"source\[[^\]]* \+ (\d+)u\]", text)]
    stride = GROUPS * THREADS
    assert places == [stride * number for number in range(1, STREAM_VECTORS)]
    assert stride * STREAM_VECTORS * 16 == STREAM_BYTES
