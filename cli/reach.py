"""Which gateway a command talks to: the stack of a state directory, or one elsewhere."""

import os
from pathlib import Path

from cli.gateway_client import APPLICATION_KEY, OPERATOR_KEY, GatewayClient
from cli.stack.keys import read_or_make_keys
from cli.stack.place import Place
from cli.stack.record import running_stack
from kernelzoo.errors import InvalidInput


def reach(state: Path, url: str | None) -> GatewayClient:
    """Raises StackError, with the remedy, when no stack runs on `state` and no `url` is given,
    and InvalidInput for a `url` that is none.
    """
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"--url {url} lacks its scheme; write http://{url} or https://{url}")
        return GatewayClient(
            url=url.rstrip("/"),
            operator_key=os.environ.get(OPERATOR_KEY, ""),
            application_key=os.environ.get(APPLICATION_KEY, ""),
        )
    place = Place.at(state)
    record = running_stack(place)
    return GatewayClient(url=record.url, operator_key=read_or_make_keys(place).operator)
