"""The gateway is told when the device of an agent is lost."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from kernelzoo.domain.target import MEASURED
from kernelzoo.serving import serving
from workers.fleet.agent import AgentSpec, run_agent
from workers.fleet.browsers import BrowserKind, Launch, Tab
from workers.fleet.host import TALK
from workers.fleet.turns import TimingTurn

GPU, CPU = "0123456789abcdef:r102-1:webgpu", "0123456789abcdef:r3-1:wasm"
ENGINE = {"name": "Chromium", "version": "156"}
LONGEST_S = 20


@pytest.fixture
def told() -> Iterator[tuple[str, Queue[dict[str, Any]]]]:
    """A gateway's address, and the lost devices that it is told of."""
    losses: Queue[dict[str, Any]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._accept()

        def do_POST(self) -> None:
            assert self.path == "/v1/lost-devices"
            losses.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._accept()

        def _accept(self) -> None:
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}", losses


def page_that_tells(events: list[dict[str, Any]]) -> Any:
    """Opens a page that says all of it at once."""

    class Page:
        async def goto(self, url: str) -> None: ...

        async def evaluate(self, function: str, argument: object) -> Any:
            _ = argument
            if function != TALK:
                return None
            return {"wishes": [], "notes": None, "state": "measuring", "events": events}

    @asynccontextmanager
    async def opener(launch: Launch) -> AsyncIterator[Tab]:
        _ = launch
        yield Page()

    return opener


def test_a_lost_device_is_told_for_the_class_that_lost_it_and_not_the_one_opened_last(
    told: tuple[str, Queue[dict[str, Any]]], tmp_path: Path
) -> None:
    url, losses = told
    events: list[dict[str, Any]] = [
        {"type": "session", "target": "webgpu", "deviceClass": GPU, "engine": ENGINE},
        {"type": "lease", "target": "webgpu", "workload": "matmul:f32:m1k2n3"},
        {"type": "session", "target": "wasm", "deviceClass": CPU, "engine": ENGINE},
        {"type": "lease", "target": "wasm", "workload": "relu:f32:n8"},
        {"type": "lease", "target": "webgpu", "workload": "gelu:f32:n8"},
        {"type": "stuck", "target": "webgpu", "reason": "The driver does not end."},
    ]
    spec = AgentSpec(
        name="agent-1",
        browser=BrowserKind.CHROMIUM,
        launch=Launch(profile=tmp_path, gpu=None, sandbox=True),
        url=url,
        targets=MEASURED,
        operator_key="key",
    )

    async def first_loss() -> dict[str, Any]:
        agent = asyncio.create_task(
            run_agent(spec, page_that_tells(events), TimingTurn(), lambda _: None, asyncio.Event())
        )
        try:
            return await asyncio.to_thread(losses.get, timeout=LONGEST_S)
        finally:
            agent.cancel()

    loss = asyncio.run(first_loss())
    assert (loss["workload"], loss["device_class"]) == ("gelu:f32:n8", GPU)
    assert loss["why"] == "The driver does not end."
