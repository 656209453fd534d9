"""Serves the gateway: `python -m services.gateway --host 127.0.0.1 --port 8787`."""

import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from functools import partial
from typing import cast

import uvicorn

from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from services.gateway import garbage
from services.gateway.app import create
from services.gateway.connections import Connections, Patience, PatientProtocol
from services.gateway.doorway import DoorwayServer
from services.gateway.proxies import Proxies

GRACE_S = 1
"""Long polls are cut at shutdown: an agent that is cut off polls again."""


def main() -> None:
    options = _options()
    try:
        _refuse_old_names()
        settings = Settings()
        proxies = Proxies.of(settings.trusted_proxies, settings.trusted_hops)
    except InvalidInput as error:
        sys.exit(f"gateway: {error}")
    connections = Connections(settings.connections_per_network, settings.connections, proxies)
    protocol = partial(PatientProtocol, open_connections=connections, patience=Patience())
    gateway = create(settings)
    garbage.spare_what_is_there()
    config = uvicorn.Config(
        gateway,
        host=options.host,
        port=options.port,
        http=cast("type[PatientProtocol]", protocol),
        ws="none",
        access_log=False,
        # Proxies are ours to believe: `services.gateway.proxies`.
        proxy_headers=False,
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = DoorwayServer(config, connections)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[config.bind_socket()])
    if not server.started:
        sys.exit("gateway: it did not start; its log says why")


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m services.gateway", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8787)
    return parser.parse_args()


def _refuse_old_names() -> None:
    if os.environ.get("FORWARDED_ALLOW_IPS"):
        raise InvalidInput(
            "FORWARDED_ALLOW_IPS is not read any more; name your proxies in "
            "KERNELZOO_TRUSTED_PROXIES, how many stand in a row in KERNELZOO_TRUSTED_HOPS, and "
            "unset it"
        )


if __name__ == "__main__":
    main()
