"""Models as they are registered, listed, and given to a page with the kernels of its class."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import TargetKind
from services.gateway.wire.model import (
    STORABLE,
    CandidateId,
    KeyText,
    MeasuredTarget,
    Sha256,
    ShortText,
    WireModel,
)
from services.gateway.wire.zoo import ServedKernel, SignatureWire

ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Url = Annotated[str, StringConstraints(max_length=2048, pattern=r"^https?://[\x21-\x7e]+$")]
ProgramText = Annotated[str, StringConstraints(max_length=1 << 16, pattern=STORABLE)]


class PlanRequest(WireModel):
    """`plan`, `weights` and `original` are hashes of files that were sent before, as is the golden
    file that the plan names. Weights may be on the author's own host instead, at `weights_url`.
    `original` says which of them lie in the file that the model was imported from
    (services/tuner/graph/original_map.py).
    """

    plan: Sha256
    weights: Sha256 | None
    weights_url: Url | None = None
    original: Sha256 | None = None


class SourceHashes(WireModel):
    """The hashes of a file of ONNX without its weights, and of its weights
    (services/tuner/graph/source_hashes.py).
    """

    graph: Sha256
    weights: Sha256


class ModelRequest(WireModel):
    """`source`: the file that it was imported from; pages find the model by its `source_hashes`.
    `programs`: the text of each program that the plans call, by its key. `targets`: what its
    workloads are tuned for.
    """

    source: ShortText
    source_hashes: SourceHashes | None = None
    plans: Annotated[list[PlanRequest], Field(min_length=1, max_length=64)]
    programs: Annotated[dict[KeyText, ProgramText], Field(max_length=4096, default={})]
    targets: Annotated[
        list[MeasuredTarget],
        Field(min_length=1, max_length=2, default=[TargetKind.WASM]),
    ]


class FileWire(WireModel):
    """`url` is relative to the gateway's address where it begins with a slash. `sha256` is null for
    weights on an author's own host: the plan has the hashes of their chunks.
    """

    url: str
    sha256: Sha256 | None
    size_bytes: int


class OpenAxis(WireModel):
    """An axis of an input or output that has a range: axis number `place` has `most` entries where
    the plan's `dimension` has its largest extent, and `step` less for each less of that. An axis
    that grows with two dimensions is there twice.
    """

    place: int
    dimension: str
    most: int
    step: int


class PortWire(WireModel):
    """An input or output: a page gives and takes its `dtype`. `open`: the axes of `shape` that have
    a range. That of a batch has one entry in `shape`.
    """

    name: str
    dtype: str
    shape: list[int]
    open: list[OpenAxis] = Field(default_factory=list)


class PlanWire(WireModel):
    """`least`: the smallest extents of dimensions that have a range; `dimensions` and shapes have
    the largest. `precision`: what its products multiply. `error`: by how much golden outputs
    differ, in parts of their largest magnitude, from those with f32, where the import took fewer
    bits than the file has. `dtype`: what its values are in memory. Pages with WebGPU are given the
    plan of f16 where there is one, others that of f32. `memory`: bytes of weights and of
    activations; scratch depends on the kernels of a class. `original`: says which of the weights
    lie in the file that the model was imported from; null where few do.
    """

    dimensions: dict[str, int]
    least: dict[str, int]
    dtype: Literal[DType.F32, DType.F16]
    precision: Precision
    error: float | None
    plan: FileWire
    weights: FileWire
    original: FileWire | None = None
    golden: FileWire
    inputs: list[PortWire]
    outputs: list[PortWire]
    memory: dict[Literal["weights", "activations"], int]
    kernels: int
    calls: int


class ModelDocument(WireModel):
    name: ModelName
    source: str
    added_at: str
    plans: list[PlanWire]


class ModelOfGraph(WireModel):
    """A model that was imported from a graph with the `weights` of this hash."""

    weights: Sha256
    model: ModelDocument


class ModelsOfGraph(WireModel):
    models: list[ModelOfGraph]


class ListedModel(WireModel):
    """`workloads` and `flops` of an inference of its first plan."""

    name: ModelName
    source: str
    added_at: str
    plans: int
    workloads: int
    flops: int
    weights_bytes: int


class ModelList(WireModel):
    models: list[ListedModel]


class Registered(WireModel):
    """`jobs`: tuning jobs that were opened for it; the others there were."""

    model: ModelDocument
    jobs: int


class FailedDefault(WireModel):
    """A workload of which no kernel compiles for a target, so that pages of it cannot run it."""

    workload: KeyText
    target: MeasuredTarget
    detail: str


class ModelReadiness(WireModel):
    """`defaults`: the workloads of a model on each target that it is tuned for; of so many all
    default kernels are `compiled`. Pages of every device can run it once that is all of them.
    """

    model: ModelName
    defaults: int
    compiled: int
    failed: list[FailedDefault]


class ModuleWire(WireModel):
    """All kernels and their pack kernels in one module. `functions`: the export of each artifact,
    by its hash.
    """

    url: str
    sha256: Sha256
    size_bytes: int
    functions: dict[Sha256, str]


class ModuleForRuns(WireModel):
    """The module of the kernels that are the best for up to `runs` runs."""

    runs: int
    module: ModuleWire


class PrecisionWire(WireModel):
    """A precision that a model has plans of. An inference by it is expected to take `expected_ms`
    on the class: the times of the kernels that are served for its calls, as far as a quorum of the
    operator's agents or of networks told them. `measured` is the share of its operations whose
    times they are; the others are taken to run as fast. Null while nothing is known, and where
    there is no other to compare with. `error` is as in a `PlanWire`.
    """

    precision: Precision
    expected_ms: float | None
    measured: float
    error: float | None


class ModelManifest(WireModel):
    """A plan with the kernels of one class of devices. `plan` is the document that
    `GET /v1/models/{name}` names (kernelzoo/domain/plan.py); `kernels` has each of its workloads
    but those that are `missing`.

    `missing` are workloads for which no kernel has been compiled yet: without them the model cannot
    run. Those of them that are `compiling` will be there in a moment, as defaults are compiled
    before everything else: ask again. While some are missing `module` is null, as it is on WebGPU
    and where kernels cannot be linked: each is fetched by itself. `modules_by_runs` are other
    modules, for the fewest runs first, where kernels have others `by_runs`.
    `precision` is that of the plan, `precision_reason` a sentence on why it is given, and
    `precisions` are all that were compared; where one is asked for, that alone.
    `issued_at`, `serial` and `signatures` are as in a `Manifest`.
    """

    model: Literal[1]
    name: ModelName
    device_class: str
    dimensions: dict[str, int]
    precision: Precision = Precision.F32
    precision_reason: str = ""
    precisions: list[PrecisionWire] = Field(default_factory=list)
    plan: dict[str, Any]
    weights: FileWire
    golden: FileWire
    module: ModuleWire | None
    modules_by_runs: list[ModuleForRuns] = Field(default_factory=list)
    kernels: dict[KeyText, ServedKernel]
    missing: list[KeyText]
    compiling: list[KeyText] = Field(default_factory=list)
    issued_at: str
    serial: int
    signatures: list[SignatureWire]


class PlanCoverage(WireModel):
    """A plan on a class of devices. Of its `workloads` so many are `confirmed` or `provisional`;
    `confirmed_flops` is the share of an inference's operations that the former are.

    `expected_ms` is the sum of the calls of an inference, by the times of the kernels that won and
    of default kernels where none has yet. `measured` is the share of the operations for which one
    of them is known; the others are taken to run as fast. Null while nothing is measured.
    `prepare_ms` is what precedes warm runs of the kernels that won, each call packing weights of
    its own; null where no agent has told it.
    """

    dimensions: dict[str, int]
    precision: Precision
    device_class: str
    workloads: int
    confirmed: int
    provisional: int
    confirmed_flops: float
    page_loads: int
    expected_ms: float | None
    measured: float
    prepare_ms: float | None


class WrongOutput(WireModel):
    """A page of this class computed an `output` that is not the golden one of a plan, with default
    kernels. `golden`: the hash of that plan's golden file.
    """

    model: ModelName
    golden: Sha256
    device_class: Annotated[str, Field(max_length=256, pattern=STORABLE)]
    output: Annotated[str, Field(min_length=1, max_length=256, pattern=STORABLE)]


class WrongPlan(WireModel):
    """A plan whose golden outputs pages of a class computed wrongly although they ran default
    kernels: on so many `networks` `since` then, within the last 30 days. `outputs`: the first wrong
    one of each network.
    """

    dimensions: dict[str, int]
    dtype: Literal[DType.F32, DType.F16]
    precision: Precision
    device_class: str
    outputs: list[str]
    networks: int
    since: str
    last_at: str


class ModelCoverage(WireModel):
    """`wrong`: the plans and classes that most networks found wrong."""

    model: ModelName
    coverage: list[PlanCoverage]
    wrong: list[WrongPlan]


class SwapWire(WireModel):
    """From `at` on an inference is expected to take `expected_ms`, as the calls of `workload` take
    `after_ms` instead of `before_ms` with this kernel. `served`: pages are given it; else it leads,
    and too few have voted.
    """

    at: str
    expected_ms: float
    workload: KeyText
    candidate: CandidateId
    before_ms: float
    after_ms: float
    served: bool


class ModelTimeline(WireModel):
    """Tells how long an inference takes on a class, from one kernel to the next. `first_ms`: with
    default kernels alone; null while nothing is measured. `measured` is the share of its operations
    whose times are known.
    """

    model: ModelName
    device_class: str
    dimensions: dict[str, int]
    first_ms: float | None
    measured: float
    swaps: list[SwapWire]
