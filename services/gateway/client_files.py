"""The client's files: compressed as they were built, and kept for as long as they are right."""

import mimetypes
import re
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

CODINGS = {"br": ".br", "gzip": ".gz"}
"""The shortest first; `client/build.js` writes them beside each file that they make shorter."""

# Names with a hash of what is in them, as client/bundles.js gives them.
_HASHED = re.compile(r"^(chunks|pinned)/|-[0-9a-z]{12}\.js")
_ALIASES = ("sdk.js", "sdk.json", "chat.js", "ort.js")
FOR_EVER = "public, max-age=31536000, immutable"
FOR_MINUTES = "public, max-age=300, stale-if-error=86400"
ASK_AGAIN = "no-cache"
"""Pages and their scripts, which must be of one build."""


class ClientFiles(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await self._compressed(path, scope) or await super().get_response(path, scope)
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = kept(path)
        return response

    async def _compressed(self, path: str, scope: Scope) -> Response | None:
        """None where nothing is compressed as this browser reads it."""
        told = next((value for name, value in scope["headers"] if name == b"accept-encoding"), b"")
        readable = accepted(told.decode("latin-1"))
        for coding, suffix in CODINGS.items():
            if coding not in readable:
                continue
            try:
                response = await super().get_response(path + suffix, scope)
            except HTTPException as error:
                if error.status_code == HTTPStatus.NOT_FOUND:
                    continue
                raise
            kind, _ = mimetypes.guess_type(path)
            response.headers["Content-Encoding"] = coding
            response.headers["Content-Type"] = f"{kind or 'text/plain'}; charset=utf-8"
            return response
        return None


def accepted(header: str) -> frozenset[str]:
    """The codings that an Accept-Encoding names and does not forbid with q=0 (RFC 9110, 12.5.3)."""
    named = (re.sub(r"\s", "", each.lower()).partition(";q=") for each in header.split(","))
    return frozenset(coding for coding, _, weight in named if not re.fullmatch(r"0(\.0*)?", weight))


def kept(path: str) -> str:
    if _HASHED.search(path):
        return FOR_EVER
    return FOR_MINUTES if path in _ALIASES else ASK_AGAIN
