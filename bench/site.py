"""The address that benchmark pages come from: isolated, with the peers' files and our artifacts."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from bench.report import CannotMeasure
from kernelzoo.serving import serving

PAGE = Path(__file__).parent / "page"
MODULES = PAGE / "node_modules"
FOLDERS = {
    "": PAGE / "dist",
    "onnxruntime-web": MODULES / "onnxruntime-web" / "dist",
    "tfjs": MODULES / "@tensorflow" / "tfjs-backend-wasm" / "dist",
}
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
}
ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cache-Control": "no-store",
}


class Site(ThreadingHTTPServer):
    """Serves until closed. `publish` adds a file that exists in memory alone."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._published: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def publish(self, path: str, body: bytes) -> None:
        self._published[path] = body

    def read(self, path: str) -> bytes | None:
        if path in self._published:
            return self._published[path]
        folder, _, name = path.strip("/").rpartition("/")
        file = FOLDERS.get(folder, PAGE / "dist") / (name or "index.html")
        return file.read_bytes() if file.is_file() else None

    def receive(self, body: bytes) -> None:
        """What a page posts; that of most is not wanted."""

    @classmethod
    @contextmanager
    def serving(cls) -> Iterator[Self]:
        """Raises CannotMeasure when the page has not been built."""
        if not (PAGE / "dist" / "page.js").exists() or not MODULES.exists():
            raise CannotMeasure("the page is not built; run `make bench-page`")
        with serving(cls()) as site:
            yield site


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        body = self.server.read(path)
        self.send_response(404 if body is None else 200)
        for name, value in ISOLATION.items():
            self.send_header(name, value)
        self.send_header("Content-Type", TYPES.get(Path(path).suffix, "text/html"))
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_POST(self) -> None:
        self.server.receive(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Requests are of no interest."""
