"""Options that several subcommands share."""

from pathlib import Path
from typing import Annotated

import typer

from kernelzoo.domain.target import TargetKind, parse_measured
from workers.fleet.gpu import GpuChoice

STATE = Path(".kernelzoo")

StateOption = Annotated[
    Path,
    typer.Option("--state", envvar="KERNELZOO_STATE", help="Directory of the stack's data."),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", help="A gateway elsewhere; its key: KERNELZOO_OPERATOR_KEY or KERNELZOO_KEY."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="What was found as JSON on standard output.")
]
BrowserOption = Annotated[
    list[str] | None,
    typer.Option(
        "--browser", help="chromium, firefox or webkit, as in firefox=2; may be repeated."
    ),
]
TargetOption = Annotated[str, typer.Option("--target", help="wasm or webgpu.")]
TargetsOption = Annotated[
    list[str] | None, typer.Option("--target", help="wasm or webgpu; may be given twice.")
]
GpuOption = Annotated[
    GpuChoice,
    typer.Option(
        "--gpu", help="Adapter of webgpu: of a GPU, in software, or a GPU's where there is one."
    ),
]
OperatorArgument = Annotated[
    str, typer.Argument(help="Operator (matmul, conv2d, softmax, …) or a workload key.")
]
OptionalOperator = Annotated[
    str | None, typer.Argument(help="Operator (matmul, conv2d, softmax, …) or a workload key.")
]
ShapeArgument = Annotated[
    str | None, typer.Argument(help="Extents, as in 384x768x768; none after a key.")
]


def parse_targets(texts: list[str] | None) -> tuple[TargetKind, ...]:
    """Each once, in the order given; wasm without any. Raises InvalidInput for one that
    agents do not measure."""
    return tuple(dict.fromkeys(parse_measured(text) for text in texts or [TargetKind.WASM]))
