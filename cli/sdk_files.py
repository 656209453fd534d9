"""`kernelzoo zoo sdk`: the SDK as files for a static host."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, Field, StringConstraints, ValidationError

from cli.gateway_client import GatewayClient, reach
from cli.options import STATE, StateOption, UrlOption
from cli.terminal import note, out
from kernelzoo.errors import InvalidInput

INDEX = "sdk.json"
ENTRY = "sdk.js"
CHAT = "chat.js"
"""A page with a language model imports this beside it."""
Chunk = Annotated[str, StringConstraints(pattern=r"^chunks/[a-z0-9-]{1,40}-[0-9a-z]{6}\.js$")]


class SdkIndex(BaseModel):
    """The document `/client/sdk.json`: `chunks` are what `sdk.js` loads when a page needs it."""

    version: str
    integrity: str
    chunks: Annotated[list[Chunk], Field(max_length=64)]


def sdk(
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.")],
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Write the SDK's files for a static host, as pages with a bundle need them."""
    if output.is_dir() and any(output.iterdir()):
        raise InvalidInput(f"{output} is not empty; name a new folder")
    with reach(state, url) as gateway:
        found = index_of(gateway)
        files = files_of(gateway, found)
    for name, body in files.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_bytes(body)
    size = sum(len(body) for body in files.values())
    note(f"wrote {len(files)} files of the SDK {found.version}, {size} bytes, to {output}")
    out.print(f'a page imports them by import("./{output.name}/{ENTRY}")', markup=False)


def index_of(gateway: GatewayClient) -> SdkIndex:
    """The index of its SDK. Raises InvalidInput for what is no gateway of this version."""
    try:
        return SdkIndex.model_validate_json(gateway.client_file(INDEX))
    except ValidationError as error:
        raise InvalidInput(f"{gateway.url}/client/{INDEX} names no files of the SDK") from error


def files_of(gateway: GatewayClient, index: SdkIndex) -> dict[str, bytes]:
    return {name: gateway.client_file(name) for name in (ENTRY, CHAT, *index.chunks)}
