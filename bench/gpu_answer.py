"""What the page answers, as in `page/src/webgpu/request.ts`."""

from pathlib import Path

import msgspec

from bench.report import CannotMeasure


class _Camel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Named in JSON as TypeScript names it."""


class Result(_Camel):
    """Nanoseconds of each round: of the kernel alone, and of a call among many."""

    name: str
    flops: int
    bytes: int
    difference: float | None
    dispatches: tuple[str, ...]
    profiled_ns: float | None
    kernel_ns: tuple[float, ...]
    call_ns: tuple[float, ...]


class Contest(_Camel):
    """`failures`: by name, why something took no part; by "all" why nothing did."""

    case: str
    results: tuple[Result, ...]
    failures: dict[str, str]


class Adapter(_Camel):
    vendor: str
    architecture: str
    subgroup_min_size: int
    subgroup_max_size: int
    features: tuple[str, ...]
    limits: dict[str, float]


class Answer(_Camel):
    """`clock`: "timestamp", or "wall" where the adapter has no timestamps."""

    date: str
    browser: str
    adapter: Adapter
    clock: str
    contests: tuple[Contest, ...]


def parsed(text: bytes) -> Answer:
    try:
        return msgspec.json.decode(text, type=Answer)
    except msgspec.DecodeError as error:
        raise CannotMeasure(f"this is no answer of the WebGPU page: {error}") from error


def read(path: Path) -> Answer:
    if not path.is_file():
        raise CannotMeasure(f"{path} does not exist; save there what the page answered")
    return parsed(path.read_bytes())
