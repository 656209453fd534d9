"""A proxy before a zoo, as its sample has it, for as long as a test asks through it; and a gateway
that answers as a test says, where the question is what the proxy makes of it."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event

import httpx2

from cli.stack.ports import LOOPBACK
from kernelzoo.serving import serving
from tests.running import eventually


@contextmanager
def proxying(command: Sequence[str | Path], port: int) -> Iterator[httpx2.Client]:
    """Runs the command of a proxy that listens on a port, and asks it once it answers."""
    process = subprocess.Popen(command)
    try:
        with httpx2.Client(base_url=f"http://{LOOPBACK}:{port}", timeout=30) as client:
            eventually(lambda: _listens(client), f"an answer of {command[0]}")
            yield client
    finally:
        process.terminate()
        process.wait(10)


def _listens(client: httpx2.Client) -> bool:
    try:
        client.get("/healthz")
    except httpx2.TransportError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as the gateway got it; `peer` is the connection by which it came."""

    path: str
    headers: Message
    peer: tuple[str, int]


@dataclass(slots=True)
class ScriptedGateway:
    """Answers everything with `status`, `headers` and `body`, `held` once `released` is set."""

    headers: dict[str, str] = field(default_factory=dict)
    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    held: str = ""
    released: Event = field(default_factory=Event)
    asked: list[Asked] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)
    """Bytes of the bodies that were read, by path."""

    def of(self, path: str) -> list[Asked]:
        return [each for each in self.asked if each.path == path]


@contextmanager
def scripted_gateway(port: int) -> Iterator[ScriptedGateway]:
    script = ScriptedGateway()

    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            script.asked.append(
                Asked(path=self.path, headers=self.headers, peer=self.client_address)
            )
            script.read[self.path] = len(
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
            )
            if self.path == script.held:
                script.released.wait(30)
            self.send_response(script.status)
            for name, value in {"Content-Length": str(len(script.body)), **script.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(script.body)

        do_POST = do_PUT = do_GET  # noqa: N815 - names of the library

        def log_message(self, *_: object) -> None: ...

    with serving(ThreadingHTTPServer((LOOPBACK, port), _Handler)):
        yield script
