"""`kernelzoo zoo …`: what the zoo of a running stack holds, and what it must not serve."""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from cli.bundle.collecting import collect, parse_classes
from cli.bundle.parts import parse_bytes
from cli.bundle.storing import read, write
from cli.bundle.verifying import Verified, refuse_older, verified
from cli.denials import allow, denied, deny, rollback
from cli.exports import (
    READERS,
    ExportFormat,
    ImportFormat,
    Wanted,
    claims_request,
    exported,
)
from cli.figures import number, share, standing
from cli.gateway_client import GatewayClient, reach
from cli.listing import Column, print_json, show_all
from cli.options import (
    STATE,
    JsonOption,
    StateOption,
    TargetOption,
    TargetsOption,
    UrlOption,
    parse_targets,
)
from cli.sdk_files import sdk
from cli.terminal import note, out
from kernelzoo.domain.target import MEASURED, TargetKind, parse_measured
from kernelzoo.domain.workload import workload_key
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.results import TunerClaim
from kernelzoo.signing import public_key
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.zoo import ZooEntry

KeysOption = Annotated[
    list[str] | None,
    typer.Option("--key", help="A public key to trust; may be given more than once."),
]

app = typer.Typer(help="What the zoo holds.", no_args_is_help=True)
for command in (deny, allow, rollback, denied, sdk):
    app.command()(command)


class ExportedEntry(BaseModel):
    """`kernel` is how a page is told of it; its bytes were checked against `kernel.sha256`.

    None when the gateway serves another kernel for this key by now.
    """

    entry: ZooEntry
    kernel: Kernel | None


class Export(BaseModel):
    """Format 1 of `kernelzoo zoo export`."""

    kernelzoo_export: int = 1
    entries: list[ExportedEntry]


@app.command("list")
def list_entries(
    target: TargetsOption = None,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """One line per entry."""
    wanted = _targets(target)
    with reach(state, url) as gateway:
        entries = [entry for entry in gateway.entries() if entry.target in wanted]
    show_all(
        entries,
        COLUMNS,
        _row,
        none="the zoo is empty; `kernelzoo tune matmul 384x768x768`",
        as_json=as_json,
    )


COLUMNS = (
    Column(heading="workload"),
    Column(heading="device class", rank=4),
    Column(heading="version", rank=3, right=True),
    Column(heading="state"),
    Column(heading="GFLOP/s", rank=1, right=True),
    Column(heading="votes", rank=2),
)


def _row(entry: ZooEntry) -> tuple[str, ...]:
    return (
        entry.workload,
        entry.device_class,
        str(entry.version),
        standing(entry),
        number(entry.gflops),
        share(entry),
    )


@app.command()
def show(
    key: Annotated[str, typer.Argument(help="A workload key.")],
    target: TargetsOption = None,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Every entry of a workload with its config and evidence, as JSON."""
    workload, wanted = workload_key(key), _targets(target)
    with reach(state, url) as gateway:
        of_targets = [entry for entry in gateway.entries() if entry.target in wanted]
    entries = [entry for entry in of_targets if entry.workload == workload]
    if not entries:
        raise InvalidInput(f"the zoo has no entry for {key}; `kernelzoo tune {key}` makes one")
    print_json(entries)


@app.command()
def export(
    form: Annotated[
        ExportFormat, typer.Option("--format", help="docs/exports.md describes each.")
    ] = ExportFormat.JSON,
    workload: Annotated[str | None, typer.Option(help="This workload alone.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file for json, else a directory; or print."),
    ] = None,
    target: TargetsOption = None,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Write what the crowd learned: as JSON, in formats of other tuners, or as a table for a
    runtime."""
    wanted = Wanted(workload=workload, targets=_targets(target))
    with reach(state, url) as gateway:
        if form is ExportFormat.JSON:
            _write(_json(gateway, wanted), output)
            return
        files = exported(gateway, form, wanted)
    if not files:
        raise InvalidInput("there is nothing to export yet; `kernelzoo tune` measures something")
    if output is None:
        for file in files:
            print(file.text, end="")
        return
    output.mkdir(parents=True, exist_ok=True)
    for file in files:
        (output / file.name).write_text(file.text)
    note(f"wrote {len(files)} files to {output}")


@app.command("import")
def import_claims(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    form: Annotated[ImportFormat, typer.Option("--format", help="Of the file.")],
    workload: Annotated[
        str | None, typer.Option(help="Its workload key, where the file has a name of its own.")
    ] = None,
    target: TargetOption = "wasm",
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Let another tuner's results say what to measure first. They never count as votes."""
    claims = _claims(file, form)
    if not claims:
        raise InvalidInput(f"{file} holds no successful measurement")
    request = claims_request(file.name[:64], claims, workload, parse_measured(target))
    with reach(state, url) as gateway:
        answer = gateway.claim(request)
    if as_json:
        print_json(answer)
        return
    out.print(
        f"{answer.accepted} of the fastest {len(request.claims)} claims name a candidate, and are "
        f"measured early; {answer.unknown} are of no space here"
    )


def _claims(file: Path, form: ImportFormat) -> tuple[TunerClaim, ...]:
    """Raises InvalidInput, which names the file, for what is not of the format."""
    try:
        return READERS[form](file.read_text(encoding="utf-8", errors="strict"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is no text; name a file of the format {form}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{file} is not of the format {form}: {error}") from error


@app.command()
def bundle(
    name: Annotated[
        str,
        typer.Argument(metavar="SET", help="A workload set, the key of a workload, or a model."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder, or FILE.zip.")],
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", help="A wasm class, or WASM/WEBGPU; all that voted, if left out."),
    ] = None,
    javascript: Annotated[
        bool, typer.Option("--javascript", help="Kernels for pages without WebAssembly, too.")
    ] = False,
    max_file: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Weights in files no larger than this, as in 24MiB."),
    ] = None,
    key: KeysOption = None,
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Write signed kernels for a static host, with a zoo.lock to review."""
    given = parse_classes(classes or ())
    file_bytes = None if max_file is None else parse_bytes(max_file)
    with reach(state, url) as gateway:
        files = collect(gateway, name, given, javascript=javascript, file_bytes=file_bytes)
    found = verified(files, _keys(key))
    write(files, output)
    size = sum(len(body) for body in files.values())
    if as_json:
        print_json({**_told(found), "output": str(output), "bytes": size})
        return
    note(
        f"wrote {found.manifests} manifests and {found.kernels} kernels, {size} bytes, to {output}"
    )
    out.print("pages pin " + ", ".join(found.keys))
    out.print(f"or this bundle alone: {found.head.index}")


@app.command()
def verify(
    place: Annotated[Path, typer.Argument(metavar="BUNDLE", exists=True)],
    key: KeysOption = None,
    max_age: Annotated[
        int | None, typer.Option(min=1, metavar="DAYS", help="Refuse what was signed before.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check signatures, hashes and zoo.lock of a bundle. Makes no request."""
    found = verified(read(place), _keys(key))
    if max_age is not None:
        refuse_older(found, datetime.now(UTC) - timedelta(days=max_age))
    if as_json:
        print_json(_told(found))
        return
    out.print(
        f"{found.head.set} of {found.head.zoo}, {found.head.made}: {found.manifests} manifests, "
        f"{found.kernels} kernels, signed by {', '.join(found.keys)} since {found.head.issued}"
    )
    if not key:
        note("that key is what the bundle says; give the one that you trust with --key")


def _told(found: Verified) -> dict[str, object]:
    return {
        **asdict(found.head),
        "manifests": found.manifests,
        "kernels": found.kernels,
        "keys": list(found.keys),
    }


def _keys(given: list[str] | None) -> tuple[str, ...]:
    return tuple(public_key(text) for text in given or ())


def _json(gateway: GatewayClient, wanted: Wanted) -> Export:
    return Export(
        entries=[
            ExportedEntry(entry=entry, kernel=_kernel(gateway, entry))
            for entry in wanted.of(gateway.entries())
        ]
    )


def _write(exported: Export, output: Path | None) -> None:
    text = json.dumps(exported.model_dump(mode="json"), indent=2)
    if output is None:
        print(text)
        return
    output.write_text(text + "\n")
    note(f"wrote {len(exported.entries)} entries to {output}")


def _targets(targets: list[str] | None) -> tuple[TargetKind, ...]:
    """All where none is named."""
    return parse_targets(targets) if targets else MEASURED


def _kernel(gateway: GatewayClient, entry: ZooEntry) -> Kernel | None:
    manifest = gateway.manifest(entry.workload, entry.device_class)
    offered = [served for each in manifest.entries for served in (each.wasm, each.webgpu) if served]
    kernels = (served.kernel for served in offered)
    kernel = next((one for one in kernels if one.candidate == entry.candidate), None)
    if kernel is not None:
        gateway.artifact(kernel)
    return kernel
