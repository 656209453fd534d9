"""Sends an imported model to a gateway: its files first, then what registers them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from cli.gateway_client import GatewayClient
from kernelzoo.domain.plan import Plan
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.plans import plan_bytes
from services.gateway.wire.models import ModelRequest, PlanRequest, Registered, SourceHashes

PIECE_BYTES = 1 << 20

Told = Callable[[str], None]
"""Takes a line on how far it has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedModel:
    """An import makes this of a file. `golden` are the files of the plans, in their order;
    `weights` is the one of all; `programs` the text of each program that a plan calls. `f16` is the
    same with values or a cache of f16, for WebGPU; with a cache of f16 the weights are the same.
    `int8` is the same with products of bytes. `wide`: nodes of `f16` whose values stay f32.
    `remarks` are sentences on the file that who adds it should know. `source_hashes` are those of
    the file; None for a language model, which no page opens by its file. `original` says which of
    the weights lie in the file (services/tuner/graph/original_map.py); None where few do.
    """

    plans: tuple[Plan, ...]
    golden: tuple[bytes, ...]
    weights: Path
    programs: Mapping[str, str]
    f16: "ImportedModel | None" = None
    int8: "ImportedModel | None" = None
    wide: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    source_hashes: SourceHashes | None = None
    original: bytes | None = None

    @property
    def parts(self) -> "tuple[ImportedModel, ...]":
        return tuple(each for each in (self, self.f16, self.int8) if each is not None)

    @property
    def weights_by_precision(self) -> Mapping[Precision, Path]:
        """The files of weights of plans with values of f32."""
        parts = (each for each in (self, self.int8) if each is not None)
        return {Precision.of_kernels(each.plans[0].kernels): each.weights for each in parts}


def send(
    gateway: GatewayClient,
    model: ImportedModel,
    *,
    source: str,
    replace: bool,
    weights_url: str | None,
    told: Told,
    targets: Sequence[TargetKind] = (TargetKind.WASM,),
) -> Registered:
    """Raises InvalidInput where the gateway refuses. Files without a model are removed there after
    a day.
    """
    plans: list[PlanRequest] = []
    programs: dict[str, str] = {}
    sent: dict[Path, str] = {}
    for part in model.parts:
        if not weights_url and part.weights not in sent:
            sent[part.weights] = _send_weights(gateway, part.weights, told)
        weights = sent.get(part.weights)
        plans += _send_plans(gateway, part, weights, weights_url)
        programs |= part.programs
    told("registering")
    request = ModelRequest(
        source=source,
        source_hashes=model.source_hashes,
        plans=plans,
        programs=programs,
        targets=list(targets),
    )
    return gateway.register_model(_name(model.plans), request, replace=replace)


def _send_plans(
    gateway: GatewayClient, part: ImportedModel, weights: str | None, weights_url: str | None
) -> Iterator[PlanRequest]:
    original = None if part.original is None else _send_bytes(gateway, part.original)
    for plan, golden in zip(part.plans, part.golden, strict=True):
        plan_hash = _send_bytes(gateway, plan_bytes(plan))
        _send_bytes(gateway, golden)
        yield PlanRequest(
            plan=plan_hash, weights=weights, weights_url=weights_url, original=original
        )


def _name(plans: Sequence[Plan]) -> str:
    names = {plan.model for plan in plans}
    if len(names) != 1:
        raise InvalidInput("plans of one model have one name")
    return names.pop()


def _send_bytes(gateway: GatewayClient, body: bytes) -> str:
    """Gives their hash."""
    name = sha256(body).hexdigest()
    if not gateway.has_blob(name):
        gateway.put_blob(name, len(body), iter((body,)))
    return name


def _send_weights(gateway: GatewayClient, path: Path, told: Told) -> str:
    """Sends the weights; gives their hash."""
    told("hashing the weights")
    digest = sha256()
    for piece in _pieces(path):
        digest.update(piece)
    name = digest.hexdigest()
    if not gateway.has_blob(name):
        size = path.stat().st_size
        gateway.put_blob(name, size, _watched(path, size, told))
    return name


def _watched(path: Path, size: int, told: Told) -> Iterator[bytes]:
    sent = 0
    for piece in _pieces(path):
        yield piece
        sent += len(piece)
        told(f"sending the weights: {sent / 1e6:.0f} of {size / 1e6:.0f} MB")


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
