"""The page answers these, as in `page/src/webgpu/request.ts`."""

from bench.page_json import PageJson


class GpuScreened(PageJson, frozen=True, kw_only=True):
    """`relative_time`: against the reference; None where it failed. `calls` of the candidate make
    one sample: few of a short kernel say that the sample was mostly overhead."""

    candidate: str
    config: str
    relative_time: float | None
    failure: str
    calls: int
    samples_ns: tuple[float, ...]
    reference_ns: tuple[float, ...]


class GpuResult(PageJson, frozen=True, kw_only=True):
    """Nanoseconds of each round: of the kernel alone, of a call among many, and of a call among
    many of which several are handed to the GPU at once."""

    name: str
    flops: int
    bytes: int
    dispatches: tuple[str, ...]
    profiled_ns: float | None
    difference: float | None
    kernel_ns: tuple[float, ...]
    call_ns: tuple[float, ...]
    batched_ns: tuple[float, ...]


class GpuContest(PageJson, frozen=True, kw_only=True):
    """`compile_ms` is what the job said of its candidates; `screened` is in the order of the space.
    `failures`: by name, why something took no part; by
    "ours" why none of our kernels did, by "all" why nothing did.
    """

    case: str
    workload: str
    tolerance: float
    compile_ms: float
    screened: tuple[GpuScreened, ...]
    results: tuple[GpuResult, ...]
    failures: dict[str, str]


class Adapter(PageJson, frozen=True, kw_only=True):
    vendor: str
    architecture: str
    subgroup_min_size: int
    subgroup_max_size: int
    features: tuple[str, ...]
    limits: dict[str, float]


class PageAnswer(PageJson, frozen=True, kw_only=True):
    """`peers`: their releases. `commit` is that of the job, '' in answers to older pages."""

    commit: str = ""
    date: str
    browser: str
    adapter: Adapter
    peers: dict[str, str]


class GpuAnswer(PageAnswer, frozen=True, kw_only=True):
    contests: tuple[GpuContest, ...]
