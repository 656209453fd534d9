"""Visits of the real agent page, each with a fresh profile, as far as the request for a session."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from bench.report import CannotMeasure
from kernelzoo.domain.device import Hardware
from kernelzoo.serving import serving
from services.gateway.middleware import HEADERS
from services.gateway.wire.sessions import SessionRequest
from workers.fleet.chromium import launched_chromium
from workers.fleet.firefox import find_firefox, firefox_page

DIST = Path(__file__).parents[2] / "client" / "dist"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
LONGEST_S = 60

Opened = Callable[[str], AbstractContextManager[None]]
"""Opens an address in a browser that remembers nothing, for as long as the context lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageVisit:
    """`ready_ms` is from the request for the page to the request for a session."""

    session: SessionRequest
    ready_ms: float

    @property
    def device_id(self) -> str:
        return Hardware(**self.session.hardware.model_dump()).device_id

    @property
    def engine(self) -> str:
        return f"{self.session.engine.name} {self.session.engine.version}"


class AgentSite(ThreadingHTTPServer):
    """The gateway's agent page without a gateway: it keeps what sessions are asked for with."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.opened_s = 0.0
        self.visits: SimpleQueue[PageVisit] = SimpleQueue()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/agent?start=1"

    def visit(self, opened: Opened) -> PageVisit:
        with opened(self.url):
            try:
                return self.visits.get(timeout=LONGEST_S)
            except Empty as error:
                raise CannotMeasure(f"no session was asked for in {LONGEST_S} s") from error


@contextmanager
def agent_site() -> Iterator[AgentSite]:
    if not (DIST / "agent.html").exists():
        raise CannotMeasure("the client is not built; run `npm run build` in client/")
    with serving(AgentSite()) as site:
        yield site


class _Handler(BaseHTTPRequestHandler):
    server: AgentSite

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/agent":
            self.server.opened_s = time.monotonic()
        file = DIST / ("agent.html" if path == "/agent" else path.rpartition("/")[2])
        found = file.is_file()
        self._answer(
            HTTPStatus.OK if found else HTTPStatus.NOT_FOUND,
            TYPES.get(file.suffix, "application/octet-stream"),
            file.read_bytes() if found else b"",
        )

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/sessions":
            session = SessionRequest.model_validate(body)
            ready_ms = 1e3 * (time.monotonic() - self.server.opened_s)
            self.server.visits.put(PageVisit(session=session, ready_ms=ready_ms))
        self._answer(HTTPStatus.FORBIDDEN, "application/json", b'{"detail": "nothing to do"}')

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Requests are of no interest."""


@contextmanager
def in_chromium(url: str) -> Iterator[None]:
    with launched_chromium() as browser:
        browser.new_page().goto(url)
        yield


@contextmanager
def in_firefox(url: str) -> Iterator[None]:
    program = find_firefox()
    if program is None:
        raise CannotMeasure("there is no Firefox; install one with `apt-get install firefox-esr`")
    with firefox_page(program) as page:
        page.goto(url)
        yield
