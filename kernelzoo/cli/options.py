"""Options that several subcommands share."""

from pathlib import Path
from typing import Annotated

import typer

STATE = Path(".kernelzoo")

StateOption = Annotated[
    Path,
    typer.Option("--state", envvar="KERNELZOO_STATE", help="Directory of the stack's data."),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", help="A gateway elsewhere; its operator key: KERNELZOO_OPERATOR_KEY."),
]
TargetOption = Annotated[str, typer.Option("--target", help="wasm or webgpu.")]
OperatorArgument = Annotated[
    str, typer.Argument(help="Operator (matmul, batch_matmul) or a workload key.")
]
ShapeArgument = Annotated[
    str | None, typer.Argument(help="Extents, as in 384x768x768; none after a key.")
]
