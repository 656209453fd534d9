"""The address that benchmark pages come from: isolated, with the peers' files and our artifacts."""

import gzip
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import BinaryIO, Self

from bench.report import CannotMeasure
from kernelzoo.serving import serving

PAGE = Path(__file__).parent / "page"
MODULES = PAGE / "node_modules"
FOLDERS = {
    "": PAGE / "dist",
    "client": PAGE.parents[1] / "client" / "dist",
    "client/chunks": PAGE.parents[1] / "client" / "dist" / "chunks",
    "litertjs": MODULES / "@litertjs" / "core" / "wasm",
    "onnxruntime-web": MODULES / "onnxruntime-web" / "dist",
    "tfjs": MODULES / "@tensorflow" / "tfjs-backend-wasm" / "dist",
}
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
}
BYTES = "application/octet-stream"
"""A browser that is watched decodes all of a file that is said to be text, 20 ms a megabyte."""
COPIED_BYTES = 1 << 20
PACED_BYTES = 1 << 15
LATE_S = 0.05
"""A sleep or a busy machine holds a piece up by this at most; what holds it up longer is the
browser."""
ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
COMPRESSED = (".html", ".js", ".json", ".mjs", ".wasm")
PART = re.compile(r"bytes=(\d+)-(\d+)")
FRESH = "no-store"
KEPT = "max-age=31536000, immutable"


class Pace:
    """Lets bytes of all connections together through at one rate. A browser's own throttling of a
    page leaves the requests of its workers alone."""

    def __init__(self, bytes_s: float) -> None:
        self._bytes_s = bytes_s
        self._lock = Lock()
        self._free_s = 0.0

    def wait(self, count: int, since_s: float) -> float:
        """Until `count` more bytes would have arrived, which could be sent from `since_s` on;
        answers when that is. Sleeps end late: what follows is due as if they had not."""
        ready_s = max(since_s, monotonic() - LATE_S)
        with self._lock:
            self._free_s = max(self._free_s, ready_s) + count / self._bytes_s
            until_s = self._free_s
        sleep(max(0.0, until_s - monotonic()))
        return until_s


class BenchSite(ThreadingHTTPServer):
    """Serves until closed. `publish` adds a file that exists in memory alone, `lend` one that lies
    elsewhere. At a pace, texts and code are compressed, as hosts on the internet send them; what is
    published `at_once` is not held back, as a page's own inputs are there."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._published: dict[str, bytes] = {}
        self._at_once: set[str] = set()
        self._lent: dict[str, Path] = {}
        self._gzipped: dict[str, bytes] = {}
        self.cache_control = FRESH
        self.pace: Pace | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def publish(self, path: str, body: bytes, *, at_once: bool = False) -> None:
        self._published[path] = body
        self._gzipped.pop(path, None)
        if at_once:
            self._at_once.add(path)

    def lend(self, path: str, file: Path) -> None:
        self._lent[path] = file

    def published(self, path: str) -> bytes | None:
        return self._published.get(path)

    def pace_of(self, path: str) -> Pace | None:
        return None if path in self._at_once else self.pace

    def gzipped(self, path: str) -> bytes | None:
        """None for what is sent as it is. It is compressed when it is first asked for."""
        if self.pace is None or Path(path).suffix not in COMPRESSED:
            return None
        if path not in self._gzipped:
            body, file = self.published(path), self.file(path)
            if body is None and file is not None:
                body = file.read_bytes()
            if body is None:
                return None
            self._gzipped[path] = gzip.compress(body, mtime=0)
        return self._gzipped[path]

    def file(self, path: str) -> Path | None:
        """Finds the file of an address, unless it exists in memory alone."""
        folder, _, name = path.strip("/").rpartition("/")
        usual = FOLDERS.get(folder, PAGE / "dist") / (name or "index.html")
        file = self._lent.get(path, usual)
        return file if file.is_file() else None

    @contextmanager
    def kept_by_browsers(self, bytes_s: float | None) -> Iterator[None]:
        """Meanwhile files may be kept for ever, and are sent at `bytes_s` where that is given: all
        but what is there at once."""
        self.cache_control = KEPT
        self.pace = None if bytes_s is None else Pace(bytes_s)
        try:
            yield
        finally:
            self.cache_control, self.pace = FRESH, None

    def receive(self, body: bytes) -> None:
        """Takes what a page posts; most do not need it."""

    @classmethod
    @contextmanager
    def serving(cls) -> Iterator[Self]:
        """Raises CannotMeasure when the page has not been built."""
        if not (PAGE / "dist" / "page.js").exists() or not MODULES.exists():
            raise CannotMeasure("the page is not built; run `make bench-page`")
        with serving(cls()) as site:
            yield site


class _Handler(BaseHTTPRequestHandler):
    server: BenchSite

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        body, file = self.server.published(path), self.server.file(path)
        # The address of a folder, "/", has no suffix: its page has one.
        suffix = Path(path).suffix if body is not None or file is None else file.suffix
        if (gzipped := self.server.gzipped(path)) is not None:
            self._begin(200, suffix, len(gzipped), {"Content-Encoding": "gzip"})
            self._send(BytesIO(gzipped), path)
        elif body is not None:
            self._begin(200, suffix, len(body))
            self._send(BytesIO(body), path)
        elif file is not None and (part := PART.fullmatch(self.headers.get("Range", ""))):
            first, last = int(part[1]), int(part[2])
            with file.open("rb") as opened:
                opened.seek(first)
                content = opened.read(last + 1 - first)
            told = f"bytes {first}-{first + len(content) - 1}/{file.stat().st_size}"
            self._begin(206, suffix, len(content), {"Content-Range": told})
            self._send(BytesIO(content), path)
        elif file is not None:
            with file.open("rb") as opened:
                self._begin(200, suffix, file.stat().st_size)
                self._send(opened, path)
        else:
            self._begin(404, suffix, 0)

    def _send(self, source: BinaryIO, path: str) -> None:
        pace = self.server.pace_of(path)
        if pace is None:
            shutil.copyfileobj(source, self.wfile, COPIED_BYTES)
            return
        ready_s = monotonic()
        while piece := source.read(PACED_BYTES):
            ready_s = pace.wait(len(piece), ready_s)
            self.wfile.write(piece)

    def _begin(
        self, status: int, suffix: str, length: int, more: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**ISOLATION, **(more or {})}.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", self.server.cache_control)
        self.send_header("Content-Type", TYPES.get(suffix, BYTES))
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def do_POST(self) -> None:
        self.server.receive(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Requests are of no interest."""
