"""A full collection of garbage holds the gateway's only thread, so it must not look at all code.
Nor may one of the youngest have many to look at.
"""

import asyncio
import gc
import socket
import sys

import pytest
import uvicorn

from services.gateway import garbage
from services.gateway.__main__ import main
from services.gateway.background import running

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


def test_what_came_is_looked_through_soon_however_much_went() -> None:
    """The interpreter counts what came less what went."""
    came: list[list[int]] = [[] for _ in range(1000)]

    async def look() -> None:
        looked = asyncio.Event()

        def note(phase: str, _: dict[str, int]) -> None:
            if phase == "stop":
                looked.set()

        gc.callbacks.append(note)
        try:
            async with asyncio.timeout(20), running(garbage.collect_youngest()):
                await looked.wait()
        finally:
            gc.callbacks.remove(note)
        assert not any(each is came for each in gc.get_objects(0))

    gc.disable()
    try:
        asyncio.run(look())
    finally:
        gc.enable()
