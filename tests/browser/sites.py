"""Somebody's site: a page of another origin than the zoo's, empty unless told."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kernelzoo.serving import serving

PAGE = b"<!doctype html><title>somebody's site</title>"
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}


@contextmanager
def site(headers: Mapping[str, str], page: bytes = PAGE) -> Iterator[str]:
    """Its address; every answer is the page, with `headers`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            for name, value in (*headers.items(), ("Content-Type", "text/html")):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
