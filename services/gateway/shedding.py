"""Manifests that would have to be built are refused early while there is too much to do.

Device classes are claims, so that anybody can ask for as many manifests that are in no memory as it
likes. What is refused never reaches routing, dependencies or the database: the path alone is read,
and the answer is written in advance. Manifests in memory, and those of classes that are known to
have voted, pass untouched; a class that has not is given what it was before, if that is here.
"""

import time
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelzoo.metrics import HTTP_REQUEST_DURATION, HTTP_REQUESTS, MANIFESTS_SHED
from services.gateway.cache import ManifestCache
from services.gateway.cors import FOR_ALL
from services.gateway.manifests import Key, class_name, hardware_text
from services.gateway.middleware import HEADERS
from services.gateway.models import AFTER, HARDWARE, cache_key
from services.gateway.problems import problem
from services.gateway.proxies import Proxies
from services.gateway.recall import IN_HASTE
from services.gateway.state import State

RETRY_S = 2

ZOO = "/v1/zoo/"
MODELS = "/v1/models/"
_TEMPLATES = {
    (ZOO, 2): "/v1/zoo/{name}/{device_class}",
    (ZOO, 3): "/v1/zoo/{name}/{wasm_class}/{webgpu_class}",
    (MODELS, 2): "/v1/models/{name}/{device_class}",
}
"""By the path's beginning and the number of parts behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """`key`: as the cache of manifests, or that of models, has it. `again`: by a page that has seen
    a later one.
    """

    template: str
    key: Key
    of_model: bool
    again: bool

    def memory(self, state: State) -> ManifestCache:
        return state.models if self.of_model else state.manifests


class Shedding:
    """The outermost layer of the gateway, so that a refusal costs no other."""

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = _manifest_asked(scope)
        if asked is None:
            await self._app(scope, receive, send)
            return
        state: State = scope["app"].state.kernelzoo
        if not _is_miss(state, asked):
            await self._app(scope, receive, send)
            return
        place = state.admission.enter(self._proxies.network(scope, state.tokens))
        if place is None:
            if asked.again or asked.memory(state).guess(asked.key) is None:
                await _refuse(asked.template, send)
            else:
                await self._app({**scope, IN_HASTE: True}, receive, send)
            return
        start_s = time.perf_counter()
        left = False

        def leave() -> None:
            nonlocal left
            if not left:
                left = True
                state.admission.leave(place, time.perf_counter() - start_s)

        async def send_made(message: Message) -> None:
            # It is made: how long it takes to be read is the reader's affair.
            leave()
            await send(message)

        try:
            await self._app(scope, receive, send_made)
        finally:
            leave()


def _manifest_asked(scope: Scope) -> _Asked | None:
    """None where something else is asked for."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    path: str = scope["path"]
    prefix = next((each for each in (ZOO, MODELS) if path.startswith(each)), None)
    if prefix is None:
        return None
    parts = path[len(prefix) :].split("/")
    template = _TEMPLATES.get((prefix, len(parts)))
    # The coverage of a model is no class of devices.
    if template is None or (prefix == MODELS and ":" not in parts[1]):
        return None
    query = scope["query_string"]
    told = parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else []
    given, of_model = dict(told), prefix == MODELS
    if of_model:
        key = cache_key(parts[0], parts[1], told)
    else:
        name, *classes = parts
        key = name, *map(class_name, classes), hardware_text(given.get(HARDWARE, ""))
    return _Asked(template=template, key=key, of_model=of_model, again=AFTER in given)


def _is_miss(state: State, asked: _Asked) -> bool:
    """Neither in memory, nor of a class that has voted, nor being built for somebody else, nor kept
    while the database is away."""
    cache = asked.memory(state)
    return not (
        (cache.get(asked.key) is not None and not asked.again)
        or cache.knows(asked.key)
        or state.builds.under_way((state.wake.served_generation, *asked.key))
        or (state.wake.away and _is_kept(state, asked))
    )


def _is_kept(state: State, asked: _Asked) -> bool:
    return state.standby.has(asked.key) or asked.memory(state).latest(asked.key) is not None


_REFUSAL = problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too many manifests are asked for that have to be made first; "
    "the page runs without for now, ask again in a moment",
    {"Retry-After": str(RETRY_S), **HEADERS, **FOR_ALL},
)
_START = {
    "type": "http.response.start",
    "status": _REFUSAL.status_code,
    "headers": _REFUSAL.raw_headers,
}
_BODY = {"type": "http.response.body", "body": _REFUSAL.body}
_COUNTS = {
    template: (HTTP_REQUESTS.labels(template, "5xx"), HTTP_REQUEST_DURATION.labels(template))
    for template in _TEMPLATES.values()
}


async def _refuse(template: str, send: Send) -> None:
    MANIFESTS_SHED.inc()
    requests, seconds = _COUNTS[template]
    requests.inc()
    seconds.observe(0.0)
    await send(_START)
    await send(_BODY)
