"""`kernelzoo zoo list|show|export`: what the zoo of a running stack holds."""

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.table import Table

from kernelzoo.cli.figures import number, share
from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.cli.options import STATE, StateOption, TargetsOption, UrlOption, parse_targets
from kernelzoo.cli.reach import reach
from kernelzoo.cli.terminal import note, out
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.zoo import ZooEntry

app = typer.Typer(help="What the zoo holds.", no_args_is_help=True)


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
    target: TargetsOption = None, state: StateOption = STATE, url: UrlOption = None
) -> None:
    """One line per entry."""
    wanted = _wanted(target)
    with reach(state, url) as gateway:
        entries = [entry for entry in gateway.entries() if entry.kind in wanted]
    table = Table()
    for heading in ("workload", "device class", "version", "state", "GFLOP/s", "votes"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(
            entry.workload,
            entry.device_class,
            str(entry.version),
            entry.state,
            number(entry.gflops),
            share(entry),
        )
    out.print(table if entries else "the zoo is empty; `kernelzoo tune matmul 384x768x768`")


@app.command()
def show(
    key: Annotated[str, typer.Argument(help="A workload key.")],
    target: TargetsOption = None,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Every entry of a workload with its config and evidence."""
    workload, wanted = Workload.parse(key), _wanted(target)
    with reach(state, url) as gateway:
        of_targets = [entry for entry in gateway.entries() if entry.kind in wanted]
    entries = [entry for entry in of_targets if entry.workload == workload.key]
    if not entries:
        raise InvalidInput(f"the zoo has no entry for {key}; `kernelzoo tune {key}` makes one")
    for entry in entries:
        out.print_json(entry.model_dump_json())


@app.command()
def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Standard output when left out.")
    ] = None,
    target: TargetsOption = None,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """All entries as JSON, each with the description of its kernel, whose bytes are checked."""
    wanted = _wanted(target)
    with reach(state, url) as gateway:
        exported = Export(
            entries=[
                ExportedEntry(entry=entry, kernel=_kernel(gateway, entry))
                for entry in gateway.entries()
                if entry.kind in wanted
            ]
        )
    text = json.dumps(exported.model_dump(mode="json"), indent=2)
    if output is None:
        print(text)
    else:
        output.write_text(text + "\n")
        note(f"wrote {len(exported.entries)} entries to {output}")


def _wanted(targets: list[str] | None) -> tuple[TargetKind, ...]:
    """All where none is named."""
    return parse_targets(targets) if targets else tuple(TargetKind)


def _kernel(gateway: GatewayClient, entry: ZooEntry) -> Kernel | None:
    manifest = gateway.manifest(entry.workload, entry.device_class)
    offered = [served for each in manifest.entries for served in (each.wasm, each.webgpu) if served]
    kernels = (served.kernel for served in offered)
    kernel = next((one for one in kernels if one.candidate == entry.candidate), None)
    if kernel is not None:
        gateway.artifact(kernel)
    return kernel
