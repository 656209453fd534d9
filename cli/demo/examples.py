"""Serves the examples from an origin of their own, as a customer's site would."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from kernelzoo.serving import serving

_CHECKOUT = Path(__file__).parents[2]
EXAMPLES = _CHECKOUT / "examples"
_BENCH_PAGE = _CHECKOUT / "bench" / "page"
FRAMEWORKS = "/frameworks/frameworks.js"
"""onnxruntime-web and TensorFlow.js, as `make bench-page` builds them, and the files they read."""
PEER = "/frameworks/onnxruntime-session.js"
"""A worker that runs a whole network in onnxruntime-web."""
_FOLDERS = {
    "/frameworks/": _BENCH_PAGE / "dist",
    "/onnxruntime-web/": _BENCH_PAGE / "node_modules" / "onnxruntime-web" / "dist",
    "/tfjs/": _BENCH_PAGE / "node_modules" / "@tensorflow" / "tfjs-backend-wasm" / "dist",
}

# Shared memory and fine clocks exist in cross-origin isolated pages only.
ISOLATION = (
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Embedder-Policy", "require-corp"),
)


class _Isolated(SimpleHTTPRequestHandler):
    folders: Mapping[str, Path] = _FOLDERS

    def end_headers(self) -> None:
        for name, value in ISOLATION:
            self.send_header(name, value)
        super().end_headers()

    def translate_path(self, path: str) -> str:
        asked = urlsplit(path).path
        for prefix, folder in self.folders.items():
            file = (folder / asked.removeprefix(prefix)).resolve()
            if asked.startswith(prefix) and file.is_relative_to(folder.resolve()):
                return str(file)
        return super().translate_path(path)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base
        """Silent: the terminal belongs to the demo."""


def frameworks_are_built() -> bool:
    return (_BENCH_PAGE / "dist" / "frameworks.js").exists()


@contextmanager
def served_examples(
    directory: Path = EXAMPLES, folders: Mapping[str, Path] = MappingProxyType({})
) -> Iterator[str]:
    """Gives the origin. Loopback only, on a free port. The files of `folders` are served below
    their paths, which begin and end with a slash.
    """
    bound = type("_Bound", (_Isolated,), {"folders": {**_FOLDERS, **folders}})
    handler = partial(bound, directory=str(directory))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
