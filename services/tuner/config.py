"""The settings of one kernel of a contraction: nnJIT's Table 1, as a value.

Table 1 names tiles x, y, r for rows, columns and the summed axis, 0 for the register tile and 1 for
the cache tile: `tile_m` is x0, `tile_n` y0, `unroll_k` r0, `block_m` x1, `block_n` y1; r1 is k.
"""

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Self

from kernelzoo.domain.candidate import Candidate, Setting
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.extents import Extents

LANES = 4
MAX_TILE_ELEMENTS = 128
MAX_UNROLL_K = 8
MAX_UNROLLED_PRODUCTS = 512
MAX_PANEL_COLUMNS = 512
MAX_SCRATCH_BYTES = 1 << 26


class Pack(StrEnum):
    """How b is read: in place, or copied into panels of `tile_n` columns inside the kernel."""

    NONE = "none"
    KERNEL = "kernel"


class Outer(StrEnum):
    """The axis of the outermost loop, the one that a caller may slice."""

    BATCH = "b"
    ROWS = "m"
    COLUMNS = "n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractionConfig:
    """Tiles and blocks count elements. `fma` lets products and sums round once."""

    tile_m: int
    tile_n: int
    unroll_k: int
    block_m: int
    block_n: int
    pack: Pack
    fma: bool
    outer: Outer

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Raises InvalidSchedule for a config that is no schedule of its workload."""
        if candidate.kind is not TargetKind.WASM:
            raise InvalidSchedule(f"{candidate.kind} candidates are not compiled yet; use wasm")
        config = cls._read(candidate.config)
        fault = config.fault(Extents.of(candidate.workload))
        if fault:
            raise InvalidSchedule(f"config of {candidate.workload.key} is refused: {fault}")
        if candidate.requires != config.requires:
            raise InvalidSchedule(
                f"candidate says it requires {', '.join(candidate.requires) or 'nothing'}; "
                f"with fma={config.fma} it must say {', '.join(config.requires)}"
            )
        return config

    @classmethod
    def _read(cls, settings: tuple[tuple[str, Setting], ...]) -> Self:
        names = [name for name, _ in settings]
        known = sorted(field.name for field in fields(cls))
        if names != known:
            strange = sorted(set(names) ^ set(known)) or names
            raise InvalidSchedule(
                f"config setting {str(strange[0])[:40]!r} is unknown, missing, repeated or out of "
                f"order; give exactly {', '.join(known)}, sorted"
            )
        values = dict(settings)
        return cls(
            tile_m=_whole(values, "tile_m"),
            tile_n=_whole(values, "tile_n"),
            unroll_k=_whole(values, "unroll_k"),
            block_m=_whole(values, "block_m"),
            block_n=_whole(values, "block_n"),
            pack=Pack(_choice(values, "pack", tuple(Pack))),
            fma=_switch(values, "fma"),
            outer=Outer(_choice(values, "outer", tuple(Outer))),
        )

    @property
    def requires(self) -> tuple[str, ...]:
        return ("relaxed-simd", "simd128") if self.fma else ("simd128",)

    def rounded(self, extents: Extents) -> Extents:
        """The extents rounded up to whole register tiles."""
        return Extents(
            batch=extents.batch,
            m=_round_up(extents.m, self.tile_m),
            k=_round_up(extents.k, self.unroll_k),
            n=_round_up(extents.n, self.tile_n),
        )

    def range_extent(self, extents: Extents) -> int:
        """Iterations of the outermost loop."""
        whole = self.rounded(extents)
        return {
            Outer.BATCH: whole.batch or 1,
            Outer.ROWS: whole.m // self.block_m,
            Outer.COLUMNS: whole.n // self.block_n,
        }[self.outer]

    def candidate(self, workload: Workload) -> Candidate:
        return Candidate(
            workload=workload,
            kind=TargetKind.WASM,
            config=tuple(sorted((n, _plain(v)) for n, v in asdict(self).items())),
            requires=self.requires,
        )

    def fault(self, extents: Extents) -> str:
        """What makes the config unusable, or ''. Every check is cheap: nothing is compiled yet."""
        tiles = (self.tile_m, self.tile_n, self.unroll_k, self.block_m, self.block_n)
        if min(tiles) < 1:
            return "tiles, blocks and unroll_k start at 1"
        if self.tile_m * self.tile_n > MAX_TILE_ELEMENTS or self.tile_n % LANES:
            return (
                f"a register tile of {self.tile_m}x{self.tile_n} must have tile_n a multiple of "
                f"{LANES} and at most {MAX_TILE_ELEMENTS} entries"
            )
        if (
            self.unroll_k > MAX_UNROLL_K
            or self.tile_m * self.tile_n * self.unroll_k > MAX_UNROLLED_PRODUCTS
        ):
            return (
                f"unroll_k={self.unroll_k} is too large; use at most {MAX_UNROLL_K}, and "
                f"{MAX_UNROLLED_PRODUCTS} products in the loop body"
            )
        return self._block_fault(extents)

    def _block_fault(self, extents: Extents) -> str:
        whole = self.rounded(extents)
        for axis, block, tile, size in (
            ("m", self.block_m, self.tile_m, whole.m),
            ("n", self.block_n, self.tile_n, whole.n),
        ):
            if block % tile or size % block:
                return f"block_{axis}={block} must divide {size} into whole tiles of {tile}"
        if self.outer is Outer.BATCH and not extents.batch:
            return "outer=b needs a batch axis; use m or n"
        if self.pack is Pack.NONE:
            return ""
        if self.outer is Outer.ROWS:
            return "pack=kernel with outer=m would pack again for every block of rows; use b or n"
        if self.block_n > MAX_PANEL_COLUMNS or 4 * whole.k * self.block_n > MAX_SCRATCH_BYTES:
            return (
                f"packing {whole.k}x{self.block_n} at once is too much; use at most "
                f"{MAX_PANEL_COLUMNS} columns and {MAX_SCRATCH_BYTES} bytes"
            )
        return ""


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


def _plain(value: Setting) -> Setting:
    return str(value) if isinstance(value, StrEnum) else value


def _whole(values: dict[str, Setting], name: str) -> int:
    value = values[name]
    if type(value) is not int:
        raise InvalidSchedule(f"config setting {name} must be a whole number")
    return value


def _switch(values: dict[str, Setting], name: str) -> bool:
    value = values[name]
    if type(value) is not bool:
        raise InvalidSchedule(f"config setting {name} must be true or false")
    return value


def _choice(values: dict[str, Setting], name: str, choices: tuple[str, ...]) -> str:
    value = values[name]
    if not isinstance(value, str) or value not in choices:
        raise InvalidSchedule(f"config setting {name} must be one of {', '.join(choices)}")
    return value
