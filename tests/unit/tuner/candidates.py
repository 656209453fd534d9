"""Workloads and schedules that the tests of the tuner share."""

from hypothesis import strategies as st

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.matmul.config import Outer, WasmMatmulConfig
from services.tuner.schedules.registry import lite_space

MODELS = tuple(
    Workload.parse(key)
    for key in (
        "matmul:f32:m384k768n768",
        "matmul:f32:m640k768n3072",
        "batch_matmul:f32:b12m384k384n64",
        "batch_matmul:f32:b120m64k64n64",
    )
)
"""K0 to K3: two projections and two attention products of BERT."""


def contraction(*extents: int) -> Workload:
    """m, k, n; or batch, m, k, n."""
    return Workload.of("matmul" if len(extents) == 3 else "batch_matmul", extents)


def schedule(
    workload: Workload,
    tile: tuple[int, int],
    *,
    block: tuple[int, int] | None = None,
    unroll_k: int = 1,
    pack: Pack = Pack.NONE,
    fma: bool = False,
    outer: Outer = Outer.ROWS,
) -> Candidate:
    """A candidate with a tile of rows x columns; blocks are one tile unless said otherwise."""
    block_m, block_n = block or tile
    return WasmMatmulConfig(
        tile_m=tile[0],
        tile_n=tile[1],
        unroll_k=unroll_k,
        block_m=block_m,
        block_n=block_n,
        pack=pack,
        fma=fma,
        outer=outer,
    ).candidate(workload)


@st.composite
def lite_candidates(draw: st.DrawFn, longest: int) -> Candidate:
    """A point of the lite space of a small shape; primes are drawn as often as round sizes."""
    sizes = st.one_of(
        st.integers(1, longest),
        st.sampled_from([n for n in (1, 2, 3, 5, 7, 13, 31, 61, 67) if n <= longest]),
        st.sampled_from([n for n in (4, 8, 16, 48, 64) if n <= longest]),
    )
    batch = draw(st.sampled_from(((), (1,), (2,), (3,), (9,))))
    space = lite_space(contraction(*batch, *(draw(sizes) for _ in "mkn")), TargetKind.WASM)
    return space[draw(st.integers(0, len(space) - 1))]
