"""The formats of `kernelzoo zoo export` and `kernelzoo zoo import`, by name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from cli.gateway_client import GatewayClient
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.domain.workload import workload_key
from kernelzoo.errors import InvalidInput
from kernelzoo.formats import kernel_tuner, tables
from kernelzoo.formats.results import (
    CandidateTrial,
    ClassResults,
    File,
    TableRow,
    TunerClaim,
    fastest,
)
from services.gateway.wire import results as wire
from services.gateway.wire.zoo import Device, ZooEntry


class ExportFormat(StrEnum):
    """`json` is our own, with the description of each kernel."""

    JSON = "json"
    T4 = "t4"
    CACHE = "kernel-tuner"
    CPP = "cpp"
    TYPESCRIPT = "typescript"


class ImportFormat(StrEnum):
    T4 = "t4"
    CACHE = "kernel-tuner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An export is limited by these: to one workload or of all that have an entry, and of these
    targets."""

    workload: str | None = None
    targets: tuple[TargetKind, ...] = MEASURED

    def of(self, entries: Iterable[ZooEntry]) -> list[ZooEntry]:
        return [
            entry
            for entry in entries
            if self.workload in (None, entry.workload) and entry.target in self.targets
        ]


MOST_CLAIMS = 16
"""Lines of a workload and device: only a few of them can claim a place among the first."""

READERS: dict[ImportFormat, Callable[[str], tuple[TunerClaim, ...]]] = {
    ImportFormat.T4: kernel_tuner.read_t4,
    ImportFormat.CACHE: kernel_tuner.read_cache,
}


def exported(gateway: GatewayClient, form: ExportFormat, wanted: Wanted) -> tuple[File, ...]:
    """The files of a format; none where there is nothing to write. Raises InvalidInput for one
    that this command does not write.
    """
    match form:
        case ExportFormat.T4:
            every = _results(gateway, wanted)
            return tuple(_file(each, "t4", kernel_tuner.t4(each)) for each in every)
        case ExportFormat.CACHE:
            kinds = (kind for each in _results(gateway, wanted) for kind in each.by_settings())
            return tuple(_file(each, "cache", kernel_tuner.cache(each)) for each in kinds)
        case ExportFormat.CPP:
            return _table("kernelzoo.hpp", tables.cpp, _winners(gateway, wanted))
        case ExportFormat.TYPESCRIPT:
            return _table("kernelzoo.ts", tables.typescript, _winners(gateway, wanted))
        case ExportFormat.JSON:
            raise InvalidInput("json is written by the command itself")


def claims_request(
    source: str, claims: tuple[TunerClaim, ...], workload: str | None, target: TargetKind
) -> wire.ClaimsRequest:
    """`workload` stands in where the file names none of ours, `target` where its device is none of
    our classes. Raises InvalidInput for too many.
    """
    chosen = fastest(claims, MOST_CLAIMS)
    if len(chosen) > wire.MOST_CLAIMS:
        raise InvalidInput(f"{len(chosen)} claims are more than {wire.MOST_CLAIMS}; split the file")
    return wire.ClaimsRequest(
        source=source,
        claims=[
            wire.ClaimWire(
                workload=_named(claim, workload),
                target=_kind(claim, target),
                device=claim.device,
                config=dict(claim.config),
                time=claim.time,
            )
            for claim in chosen
        ],
    )


def _named(claim: TunerClaim, workload: str | None) -> str:
    """Raises InvalidInput where neither the file nor the caller says what was tuned."""
    if workload is not None:
        return workload_key(workload)
    try:
        return workload_key(claim.workload_key)
    except InvalidInput as error:
        raise InvalidInput(
            f"the file calls its kernel {claim.workload_key[:60]!r}, which is no workload here; "
            "say which it is with --workload"
        ) from error


def _kind(claim: TunerClaim, otherwise: TargetKind) -> TargetKind:
    try:
        return DeviceClass.parse(claim.device).target.kind
    except InvalidInput:
        return otherwise


def _results(gateway: GatewayClient, wanted: Wanted) -> tuple[ClassResults, ...]:
    keys = dict.fromkeys(entry.workload for entry in gateway.entries())
    named = keys if wanted.workload is None else (workload_key(wanted.workload),)
    found = (each for key in named for each in gateway.results(key) if each.trials)
    return tuple(
        ClassResults(
            workload_key=workload_key(each.workload),
            device_class=each.device_class,
            trials=tuple(_trial(trial) for trial in each.trials),
        )
        for each in found
        if DeviceClass.parse(each.device_class).target.kind in wanted.targets
    )


def _trial(trial: wire.Trial) -> CandidateTrial:
    return CandidateTrial(
        config=tuple(sorted(trial.config.items())),
        requires=tuple(trial.requires),
        outcome=trial.outcome,
        times_ns=tuple(trial.times_ns),
        compile_ns=trial.compile_ns,
        measured_at=trial.measured_at,
    )


def _file(results: ClassResults, form: str, text: str) -> File:
    """One for each workload, device class and kind of config, by a name that file systems take."""
    first = results.parameters[0]
    stem = f"{results.workload_key}-{results.device_class}-{first}".replace(":", "_")
    return File(name=f"{stem}.{form}.json", text=text)


def _table(
    name: str, text_of: Callable[[tuple[TableRow, ...]], str], rows: tuple[TableRow, ...]
) -> tuple[File, ...]:
    """C++ knows no array without entries."""
    return (File(name=name, text=text_of(rows)),) if rows else ()


def _winners(gateway: GatewayClient, wanted: Wanted) -> tuple[TableRow, ...]:
    devices = {each.device_id: each for each in gateway.devices()}
    return tables.winners(
        _row(entry, device)
        for entry in wanted.of(gateway.entries())
        if (device := devices.get(DeviceClass.parse(entry.device_class).device_id)) is not None
    )


def _row(entry: ZooEntry, device: Device) -> TableRow:
    gpu = entry.target is TargetKind.WEBGPU
    return TableRow(
        workload_key=entry.workload,
        vendor=device.gpu_vendor if gpu else device.cpu_architecture,
        target=entry.target,
        requires=tuple(entry.requires),
        config=tuple(sorted(entry.config.items())),
        artifact=entry.artifact,
        ballots=entry.evidence.ballots,
        relative_time=entry.evidence.relative_time,
    )
