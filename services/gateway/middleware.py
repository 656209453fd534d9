"""Every request passes these: a count, a limit on its body, and the headers of every answer."""

import time
from collections.abc import Iterable
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelzoo.metrics import HTTP_REQUEST_DURATION, HTTP_REQUESTS, NO_ROUTE
from services.gateway.problems import problem

HEADERS = {
    # Our pages are isolated, so that they have SharedArrayBuffer and a 5 µs clock; they compile
    # what they fetch, and load nothing from anywhere else.
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; "
        "style-src 'self'; worker-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class StandardHeaders:
    """Puts the standard headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class Counted:
    """Counts and times answers by the template of their route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start_s = time.perf_counter()
        status = int(HTTPStatus.INTERNAL_SERVER_ERROR)

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)
            # Background tasks follow the last byte, and are no part of the answer.
            if message["type"] == "http.response.body" and not message.get("more_body"):
                count(scope, status, time.perf_counter() - start_s)

        try:
            await self._app(scope, receive, send_counted)
        except Exception:
            count(scope, status, time.perf_counter() - start_s)
            raise


def count(scope: Scope, status: int, seconds: float) -> None:
    """Counts and times an answer by the template of its route."""
    route = route_template(scope)
    HTTP_REQUESTS.labels(route, f"{status // 100}xx").inc()
    HTTP_REQUEST_DURATION.labels(route).observe(seconds)


def route_template(scope: Scope) -> str:
    """The template of the route that answered; for mounted files, where they are mounted."""
    if route := scope.get("route"):
        template: str = route.path
        return template
    return "/client" if scope.get("root_path") == "/client" else NO_ROUTE


class HeadAsGet:
    """Answers HEAD as GET, without the body. What would go on, as files and streams do, is ended
    with its first part.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        ended = False

        async def send_head(message: Message) -> None:
            nonlocal ended
            if message["type"] != "http.response.body":
                await send(message)
                return
            if not ended:
                ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            if message.get("more_body"):
                # As if the client had gone, which ends whatever sends.
                raise ClientDisconnect

        try:
            await self._app({**scope, "method": "GET"}, receive, send_head)
        except Exception:
            if not ended:
                raise


WITHOUT_BODY: Message = {"type": "http.request", "body": b"", "more_body": False}
STREAMED = "/v1/blobs/"
"""Bodies below it are files, which their route takes as they come and bounds by itself."""


class BodyLimit:
    """Refuses a body over `limit_bytes` with 413, told or streamed."""

    def __init__(self, app: ASGIApp, limit_bytes: int) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(STREAMED):
            await self._app(scope, receive, send)
            return
        if scope["method"] not in ("POST", "PUT", "PATCH"):
            await self._app(scope, replayed([WITHOUT_BODY], receive), send)
            return
        read, body = await read_body(receive, self._limit_bytes)
        if read[-1]["type"] == "http.disconnect":
            return
        if len(body) > self._limit_bytes:
            await self._refuse(scope, receive, send)
            return
        await self._app(scope, replayed(read, receive), send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the request body exceeds {self._limit_bytes} bytes; send fewer items at once",
        )
        await answer(scope, receive, send)


async def read_body(receive: Receive, limit_bytes: int) -> tuple[list[Message], bytearray]:
    """Reads messages until the body is whole or longer than `limit_bytes`, or its sender has left,
    and returns them with the body in them."""
    read: list[Message] = []
    body, more = bytearray(), True
    while more and len(body) <= limit_bytes:
        message = await receive()
        read.append(message)
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return read, body


def replayed(read: Iterable[Message], receive: Receive) -> Receive:
    """Gives the messages that were read once more; then whatever the server says next."""
    unread = iter(read)

    async def next_message() -> Message:
        return next(unread, None) or await receive()

    return next_message
