"""Firefox over WebDriver BiDi, which it speaks itself: no driver program is needed.

https://w3c.github.io/webdriver-bidi/
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from workers.fleet.browsers import Launch, PageLost
from workers.fleet.process import BrowserProcess

NAMES = ("firefox-esr", "firefox")
PACKAGE = "firefox-esr"
START_S = 60
ANSWER_S = 60
# Quiet on the network. Firefox's remote agent sets more of the kind by itself while it listens.
PREFERENCES = (
    'user_pref("app.update.enabled", false);',
    'user_pref("browser.safebrowsing.downloads.enabled", false);',
    'user_pref("browser.safebrowsing.malware.enabled", false);',
    'user_pref("browser.safebrowsing.phishing.enabled", false);',
    'user_pref("network.captive-portal-service.enabled", false);',
    'user_pref("network.connectivity-service.enabled", false);',
    'user_pref("network.prefetch-next", false);',
    'user_pref("toolkit.telemetry.server", "");',
)
# A container that forbids user namespaces stands in for the sandbox, as it does for Chromium's.
_WITHOUT_SANDBOX = {"MOZ_DISABLE_CONTENT_SANDBOX": "1", "MOZ_DISABLE_GMP_SANDBOX": "1"}


def find_firefox() -> Path | None:
    found = (path for name in NAMES if (path := shutil.which(name)))
    return next((Path(path) for path in found), None)


class Firefox:
    """A browser with one tab. Every method may raise PageLost; `kill` never does."""

    def __init__(self, program: Path, profile: Path, *, sandbox: bool = True) -> None:
        profile.mkdir(parents=True, exist_ok=True)
        (profile / "user.js").write_text("\n".join(PREFERENCES))
        # Written by Firefox once it listens; one of an earlier run names a port of nobody.
        self._address = profile / "WebDriverBiDiServer.json"
        self._address.unlink(missing_ok=True)
        self._ids = count(1)
        self._connection: ClientConnection | None = None
        self._connected = ExitStack()
        self._tab = ""
        command = (str(program), "--headless", "--remote-debugging-port=0", "--no-remote")
        self._process = BrowserProcess.start(
            (*command, "--profile", str(profile), "about:blank"),
            profile / "firefox.log",
            {"MOZ_CRASHREPORTER_DISABLE": "1", **({} if sandbox else _WITHOUT_SANDBOX)},
        )

    def connect(self) -> None:
        self._connection = self._dial()
        self._call("session.new", {"capabilities": {}})
        tree = self._call("browsingContext.getTree", {})
        self._tab = tree["contexts"][0]["context"]

    def goto(self, url: str) -> None:
        target = {"context": self._tab, "url": url, "wait": "complete"}
        self._call("browsingContext.navigate", target)

    def evaluate(self, function: str, argument: object = None) -> Any:
        """Answers pass as JSON text, so that they are plain values. Raises PageLost with what the
        page threw.
        """
        expression = f"({function})({json.dumps(argument)}).then(JSON.stringify)"
        target = {"context": self._tab}
        answer = self._call(
            "script.evaluate", {"expression": expression, "target": target, "awaitPromise": True}
        )
        if answer["type"] == "exception":
            raise PageLost(answer["exceptionDetails"]["text"])
        text = answer["result"].get("value")
        return None if text is None else json.loads(text)

    def close(self) -> None:
        """Firefox writes the page's storage to the profile before it ends."""
        self._call("browser.close", {})
        self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._connected.close()

    def _dial(self) -> ClientConnection:
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            self._process.insist()
            with suppress(OSError, ValueError, KeyError, WebSocketException):
                at = json.loads(self._address.read_text())
                url = f"ws://{at['ws_host']}:{at['ws_port']}/session"
                return self._connected.enter_context(connect(url, max_size=None))
            time.sleep(0.1)
        raise PageLost(f"Firefox did not listen within {START_S} s")

    def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Sends a command and passes over events until its answer is there."""
        assert self._connection is not None, "connect first"
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        try:
            self._connection.send(json.dumps(message))
            while (answer := json.loads(self._connection.recv(ANSWER_S))).get("id") != number:
                continue
        except (OSError, TimeoutError, WebSocketException) as error:
            raise PageLost(f"Firefox does not answer {method}: {error}") from error
        if answer["type"] == "error":
            raise PageLost(f"{method}: {answer['error']}: {answer['message']}")
        result: dict[str, Any] = answer["result"]
        return result


def start_firefox(launch: Launch) -> Firefox:
    """Raises PageLost where there is no Firefox."""
    program = find_firefox()
    if program is None:
        raise PageLost(f"there is no Firefox any more; install the package {PACKAGE}")
    return Firefox(program, launch.profile, sandbox=launch.sandbox)


@contextmanager
def firefox_page(program: Path) -> Iterator[Firefox]:
    """A fresh browser with a fresh profile, so that nothing is remembered."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        firefox = Firefox(program, Path(profile))
        try:
            firefox.connect()
            yield firefox
        finally:
            firefox.kill()
