"""Serves the examples from an origin of their own, as a customer's site would."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kernelzoo.serving import serving

EXAMPLES = Path(__file__).parents[3] / "examples"

# Shared memory and fine clocks exist in cross-origin isolated pages only.
ISOLATION = (
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Embedder-Policy", "require-corp"),
)


class _Isolated(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        for name, value in ISOLATION:
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base
        """Silent: the terminal belongs to the demo."""


@contextmanager
def served_examples(directory: Path = EXAMPLES) -> Iterator[str]:
    """Gives the origin. Loopback only, on a free port."""
    handler = partial(_Isolated, directory=str(directory))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
