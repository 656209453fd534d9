"""A full collection of garbage holds the gateway's only thread, so it must not look at all code."""

import gc
import socket
import sys

import pytest
import uvicorn

from services.gateway.__main__ import main

NEEDED = {
    "KERNELZOO_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
    "KERNELZOO_REDIS_URL": "redis://127.0.0.1:9",
    "KERNELZOO_OPERATOR_KEY": "o" * 32,
    "KERNELZOO_TOKEN_SECRET": "t" * 32,
}


def test_what_is_there_before_the_first_request_is_not_looked_through_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[int] = []

    def started(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        looked_at.append(len(gc.get_objects()))
        server.started = True
        for each in sockets:
            each.close()

    monkeypatch.setattr(sys, "argv", ["gateway", "--port", "0"])
    monkeypatch.setattr(uvicorn.Server, "run", started)
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)
    try:
        main()
    finally:
        gc.unfreeze()
    assert looked_at[0] < 1000 < len(gc.get_objects()) / 100
