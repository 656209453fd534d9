"""An isolated page with nothing in it, and browsers that evaluate something there."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from bench.report import CannotMeasure
from kernelzoo.serving import serving
from workers.fleet.chromium import launched_chromium
from workers.fleet.firefox import find_firefox, firefox_page

HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Content-Type": "text/html",
}


class Evaluates(Protocol):
    """A page: `evaluate` calls a JavaScript function with a value and answers its value."""

    def goto(self, url: str, /) -> object: ...

    def evaluate(self, function: str, argument: Any, /) -> Any: ...


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>benchmark</title>")

    def log_message(self, *_: Any) -> None:
        """Requests are of no interest."""


@contextmanager
def blank_site() -> Iterator[str]:
    """The address of the page."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), _Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@contextmanager
def chromium() -> Iterator[Evaluates]:
    with launched_chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(0)
        yield page


@contextmanager
def firefox() -> Iterator[Evaluates]:
    program = find_firefox()
    if program is None:
        raise CannotMeasure("there is no Firefox; install one with `apt-get install firefox-esr`")
    with firefox_page(program) as page:
        yield page


BROWSERS: dict[str, Callable[[], AbstractContextManager[Evaluates]]] = {
    "chromium": chromium,
    "firefox": firefox,
}
