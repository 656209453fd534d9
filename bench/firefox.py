"""Firefox over WebDriver BiDi, which it speaks itself: no driver program is needed.

https://w3c.github.io/webdriver-bidi/
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("firefox-esr", "firefox")
_LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
_START_S = 60


def find_firefox() -> Path | None:
    found = (path for name in NAMES if (path := shutil.which(name)))
    return next((Path(path) for path in found), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirefoxPage:
    """One tab. Answers of `evaluate` pass as JSON text, so that they are plain values."""

    connection: ClientConnection
    context: str
    ids: Iterator[int] = field(default_factory=lambda: count(10))

    def goto(self, url: str) -> None:
        target = {"context": self.context, "url": url, "wait": "complete"}
        _call(self.connection, next(self.ids), "browsingContext.navigate", target)

    def evaluate(self, function: str, argument: object = None) -> Any:
        """Raises RuntimeError with the page's own words when the function throws."""
        expression = f"({function})({json.dumps(argument)}).then(JSON.stringify)"
        answer = _call(
            self.connection,
            next(self.ids),
            "script.evaluate",
            {
                "expression": expression,
                "target": {"context": self.context},
                "awaitPromise": True,
            },
        )
        if answer["type"] == "exception":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"]["value"])


@contextmanager
def firefox_page(program: Path) -> Iterator[FirefoxPage]:
    """A fresh browser with a fresh profile, so that nothing is remembered."""
    with tempfile.TemporaryDirectory() as profile:
        command = [str(program), "--headless", "--remote-debugging-port=0", "--profile", profile]
        process = subprocess.Popen(
            [*command, "about:blank"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        try:
            with connect(f"{_address(process)}/session", max_size=None) as connection:
                _call(connection, 1, "session.new", {"capabilities": {}})
                tree = _call(connection, 2, "browsingContext.getTree", {})
                yield FirefoxPage(connection=connection, context=tree["contexts"][0]["context"])
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if match := _LISTENING.search(line):
            return match[1]
    raise RuntimeError("Firefox ended before it listened")


def _call(
    connection: ClientConnection, number: int, method: str, parameters: dict[str, Any]
) -> dict[str, Any]:
    """Sends a command and passes over events until its answer is there."""
    connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
    while True:
        answer = json.loads(connection.recv(timeout=_START_S))
        if answer.get("id") != number:
            continue
        if answer["type"] == "error":
            raise RuntimeError(f"{method}: {answer['error']}: {answer['message']}")
        result: dict[str, Any] = answer["result"]
        return result
