"""A static host of models, and what pages of another origin do with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from json import loads
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page

from fixtures.model_site import SiteKernels, write_model
from kernelzoo.serving import serving
from tests.browser.model_plans import chosen
from tests.browser.sites import site
from tests.plans import PlannedNetwork

CLASS = "0123456789abcdef:r1-0:wasm+simd128"
GPU_CLASS = "0123456789abcdef:r101-0:webgpu"

PAGES = Path(__file__).parent / "pages"
"""Modules that pages of tests load; their functions take and give JSON."""
LOSE = (PAGES / "losing.js").read_text()
PROBED = (PAGES / "probed.js").read_text()
READ_S = 0.5
"""A browser drops what it has not read of an answer that breaks off."""
COUNT = (PAGES / "counting.js").read_text()
CLIENT = Path(__file__).parents[2] / "client" / "dist"

OPEN = """
  const { KernelZoo, KernelZooError } = await import(`${host}/client/sdk.js`);
  const deviceClass = "0123456789abcdef:r1-0:wasm+simd128";
  const open = (options = {}) => KernelZoo.open(host, { deviceClass, backend: "wasm", ...options });
  const refusal = async (work) => {
    try { await work(); return "nothing was refused"; } catch (error) {
      return `${error instanceof KernelZooError ? error.stage : error.name}: ${error.message}`;
    }
  };
"""


_CALL = """async ([host, file, name, given]) =>
  (await import(`${host}/pages/${file}.js`))[name](...given)"""


class Evaluating(Protocol):
    """A page of Playwright's, or of another engine."""

    def evaluate(self, script: str, argument: Any, /) -> Any: ...


def evaluated(page: Evaluating, host: "Host", file: str, function: str, *given: object) -> Any:
    """Calls a function of a file of `pages`."""
    return page.evaluate(_CALL, [host.url, file, function, list(given)])


def script(body: str) -> str:
    return f"async ([host, feeds]) => {{ {OPEN} {body} }}"


class Host:
    """A static host, and the failures that pages told it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.told: list[dict[str, Any]] = []
        self.sent: list[str] = []
        self.cache_control = "no-store"
        self.held: Event | None = None
        """Set when the second half of weights may be sent."""
        self.ranged = False
        """Returns whether parts of files are sent where they are asked for."""
        self.parts: list[tuple[int, int]] = []
        """Parts that were sent: their first byte, and how many."""
        self.cuts = 0
        """So many of the next answers break off after half of what they have of weights."""

    def write(self, network: PlannedNetwork, **changed: Any) -> None:
        """Writes a model of CLASS, with other kernels for some workloads."""
        self.write_for(CLASS, network, **changed)

    def write_for(self, device_class: str, network: PlannedNetwork, **changed: Any) -> None:
        kernels: dict[str, SiteKernels] = {
            key: changed.get(key) or chosen(each) for key, each in network.workloads.items()
        }
        write_model(self.folder, device_class, network.plan, network.files, kernels)


class Handler(SimpleHTTPRequestHandler):
    host: Host

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Allow-Headers", "*")
        self.send_header("Cross-Origin-Resource-Policy", "cross-origin")
        self.send_header("Cache-Control", self.host.cache_control)
        super().end_headers()

    def translate_path(self, path: str) -> str:
        if path.startswith("/client/"):
            return str(CLIENT / path.removeprefix("/client/").partition("?")[0])
        if path.startswith("/pages/"):
            return str(PAGES / path.removeprefix("/pages/"))
        return super().translate_path(path)

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        if asked is None or not self.host.ranged:
            super().do_GET()
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        whole = Path(self.translate_path(self.path)).read_bytes()
        part = whole[int(first) : int(last) + 1 if last else None]
        self.host.parts.append((int(first), len(part)))
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if not self._broke_off(part, self.wfile):
            self.wfile.write(part)

    def _broke_off(self, body: bytes, outputfile: Any) -> bool:
        """Returns whether half of the answer was sent, and the connection is closed once that was
        read."""
        if not (self.host.cuts and self.path.endswith(".weights")):
            return False
        self.host.cuts -= 1
        self.close_connection = True
        outputfile.write(body[: len(body) // 2])
        sleep(READ_S)
        return True

    def do_OPTIONS(self) -> None:
        self.send_response(204)
        self.end_headers()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        self.host.sent.append(self.path)
        held = self.host.held
        if not self.path.endswith(".weights"):
            super().copyfile(source, outputfile)
            return
        body = source.read()
        if self._broke_off(body, outputfile):
            return
        if held is not None:
            outputfile.write(body[: len(body) // 2])
            held.wait(60)
            outputfile.write(body[len(body) // 2 :])
            return
        outputfile.write(body)

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        told = loads(self.rfile.read(length))
        if self.path == "/rest" and self.host.held is not None:
            self.host.held.set()
        else:
            self.host.told.append(told)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def hosting(host: Host, handler: type[Handler] = Handler) -> Iterator[None]:
    """Serves the host's folder until it is left; the host knows its address then."""
    bound = partial(type("Bound", (handler,), {"host": host}), directory=str(host.folder))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), bound)) as server:
        host.url = f"http://127.0.0.1:{server.server_port}"
        yield


@contextmanager
def page_elsewhere(browser: Browser, before: str = "") -> Iterator[Page]:
    """A page of another origin, and not isolated; it runs the script `before` any other."""
    with site({}) as address:
        opened = browser.new_page()
        opened.add_init_script(before)
        opened.goto(address)
        yield opened
        opened.close()


def lists(arrays: dict[str, NDArray[Any]]) -> dict[str, list[float]]:
    return {name: array.ravel().tolist() for name, array in arrays.items()}


def close(found: list[float], wanted: NDArray[Any]) -> bool:
    reach = 1e-4 * float(np.abs(wanted).max())
    return bool(np.abs(np.array(found) - wanted.ravel()).max() <= reach)


def is_right(found: dict[str, list[Any]], network: PlannedNetwork) -> bool:
    return all(
        close([float(entry) for entry in found[name]], wanted)
        for name, wanted in network.outputs.items()
    )
