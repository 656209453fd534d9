"""WebKitGTK's MiniBrowser over WebDriver, on a display of its own where the machine has none.

https://www.w3.org/TR/webdriver2/
"""

import json
import os
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from workers.fleet.browsers import Launch, PageLost
from workers.fleet.process import BrowserProcess

PACKAGE = "webkit2gtk-driver"
DISPLAY_PACKAGE = "xvfb"
START_S = 60
ANSWER_S = 60
_BROWSERS = (Path("/usr/lib"), Path("/usr/libexec"), Path("/usr/lib64"))
_HOST = "127.0.0.1"

# WebKitGTK isolates a page without giving it shared memory, which the kernels run in, unless the
# engine is told to (2.50.6).
_ENGINE = {"JSC_useSharedArrayBuffer": "1"}

_CALL = """const [argument, done] = arguments;
(FUNCTION)(argument).then((value) => done({ value }),
  (reason) => done({ error: String(reason) }));"""


def find_minibrowser(roots: tuple[Path, ...] = _BROWSERS) -> Path | None:
    found = (path for root in roots for path in root.glob("**/webkit2gtk-4*/MiniBrowser"))
    return next(found, None)


def missing_for_webkit(which: Callable[[str], str | None] = shutil.which) -> str | None:
    """The Debian package that is missing, or None where all is there."""
    if which("WebKitWebDriver") is None or find_minibrowser() is None:
        return PACKAGE
    if "DISPLAY" not in os.environ and which("Xvfb") is None:
        return DISPLAY_PACKAGE
    return None


class WebKit:
    """A browser with one tab. Every method may raise PageLost; `kill` never does."""

    def __init__(self, profile: Path, shares_memory: bool = True) -> None:
        profile.mkdir(parents=True, exist_ok=True)
        self._profile = profile
        self._port = _free_port()
        self._session = ""
        self._engine = _ENGINE if shares_memory else {}
        self._display = _own_display(profile)
        self._driver: BrowserProcess | None = None

    def connect(self) -> None:
        display = {} if self._display is None else {"DISPLAY": _display_name(self._display)}
        self._driver = BrowserProcess.start(
            ("WebKitWebDriver", f"--port={self._port}", f"--host={_HOST}"),
            self._profile / "webkit.log",
            {**self._engine, **display, **_homes(self._profile)},
        )
        _until(self._listens, self._driver, "WebKitWebDriver")
        browser = {"binary": str(find_minibrowser()), "args": ["--automation"]}
        wanted = {"alwaysMatch": {"webkitgtk:browserOptions": browser}}
        self._session = self._call("POST", "/session", {"capabilities": wanted})["sessionId"]

    def goto(self, url: str) -> None:
        self._in_session("POST", "/url", {"url": url})

    def evaluate(self, function: str, argument: object = None) -> Any:
        """Raises PageLost with what the page threw."""
        script = {"script": _CALL.replace("FUNCTION", function), "args": [argument]}
        answer = self._in_session("POST", "/execute/async", script)
        if "error" in answer:
            raise PageLost(answer["error"])
        return answer.get("value")

    def close(self) -> None:
        self._in_session("DELETE", "")

    def kill(self) -> None:
        for process in (self._driver, self._display):
            if process is not None:
                process.kill()

    def _listens(self) -> bool:
        with suppress(PageLost):
            return bool(self._call("GET", "/status", None)["ready"])
        return False

    def _in_session(self, method: str, path: str, body: object = None) -> Any:
        return self._call(method, f"/session/{self._session}{path}", body)

    def _call(self, method: str, path: str, body: object) -> Any:
        data = None if body is None else json.dumps(body).encode()
        address = f"http://{_HOST}:{self._port}{path}"
        request = Request(address, method=method, data=data)
        try:
            with urlopen(request, timeout=ANSWER_S) as answer:  # noqa: S310
                return json.loads(answer.read())["value"]
        except HTTPError as error:
            raise PageLost(f"WebKitWebDriver: {_reason(error)}") from error
        except (OSError, ValueError) as error:
            raise PageLost(f"WebKitWebDriver does not answer: {error}") from error


def start_webkit(launch: Launch) -> WebKit:
    """Raises PageLost where WebKitGTK cannot be driven."""
    if (package := missing_for_webkit()) is not None:
        raise PageLost(f"WebKitGTK cannot be driven any more; install the package {package}")
    return WebKit(launch.profile)


def _reason(error: HTTPError) -> str:
    with suppress(ValueError, KeyError, TypeError):
        value = json.loads(error.read())["value"]
        return f"{value['error']}: {value['message']}"
    return str(error)


def _own_display(profile: Path) -> BrowserProcess | None:
    """Windows of an agent are for nobody's eyes, so a desktop is used only without Xvfb."""
    program = shutil.which("Xvfb")
    if program is None:
        return None
    number = profile / "display"
    number.unlink(missing_ok=True)
    # With -displayfd the server takes a free display and writes its number there.
    options = ("-screen", "0", "800x600x24", "-nolisten", "tcp", "-displayfd", "1")
    return BrowserProcess.start((program, *options), number, {})


def _display_name(server: BrowserProcess) -> str:
    def numbers() -> list[str]:
        return [line for line in server.log.read_text().splitlines() if line.isdecimal()]

    _until(lambda: bool(numbers()), server, "Xvfb")
    return f":{numbers()[0]}"


def _until(holds: Callable[[], bool], process: BrowserProcess, name: str) -> None:
    until_s = time.monotonic() + START_S
    while not holds():
        process.insist()
        if time.monotonic() > until_s:
            raise PageLost(f"{name} did not start within {START_S} s")
        time.sleep(0.05)


def _homes(profile: Path) -> dict[str, str]:
    """Nothing of the browser lies outside the profile."""
    return {f"XDG_{kind}_HOME": str(profile / kind.lower()) for kind in ("DATA", "CACHE", "CONFIG")}


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port
