"""Caches before the gateway that forget answers by their tags: Varnish, Fastly and Cloudflare.

An answer names its tags in `Surrogate-Key`, with spaces between them, and in `Cache-Tag`, with
commas. Fastly reads the first, Cloudflare the second, and Varnish what its settings tell it to.
https://www.fastly.com/documentation/reference/api/purging/
https://developers.cloudflare.com/api/resources/cache/methods/purge/
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPException
from typing import Protocol
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings

PATIENCE_S = 5.0
FASTLY_URL = "https://api.fastly.com"
MOST_KEYS = 256
"""Fastly takes so many keys at a time, and Varnish a header of 8 KiB, unless `http_req_hdr_len` is
set; a tag has up to 25 bytes."""
CLOUDFLARE_URL = "https://api.cloudflare.com/client/v4"
CLOUDFLARE_MOST_TAGS = 100


class CdnKind(StrEnum):
    VARNISH = "varnish"
    FASTLY = "fastly"
    CLOUDFLARE = "cloudflare"


class Cdn(Protocol):
    """`softens`: it can be told to ask again for what it has, and to give it meanwhile."""

    @property
    def softens(self) -> bool: ...

    def purge(self, tags: Sequence[str], *, soft: bool) -> None:
        """Has everything with one of these tags forgotten, or asked for again where `soft`; blocks
        until it is. Raises OSError where it is not known to be.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Varnish:
    """Each of `urls` is one Varnish, which knows nothing of what another keeps, and purges for who
    asks from an address that it trusts, as examples/proxies/varnish.vcl has it.
    """

    urls: tuple[str, ...]
    softens: bool = True

    def purge(self, tags: Sequence[str], *, soft: bool) -> None:
        failure: OSError | None = None
        for url in self.urls:
            try:
                _purge_keys("PURGE", url, {"Soft-Purge": "1"} if soft else {}, tags)
            except OSError as error:
                # One that is away must not keep the others from hearing of it.
                failure = error
        if failure is not None:
            raise failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Fastly:
    url: str
    service: str
    token: str = field(repr=False)
    softens: bool = True

    def purge(self, tags: Sequence[str], *, soft: bool) -> None:
        url = f"{self.url}/service/{quote(self.service, safe='')}/purge"
        softly = {"Fastly-Soft-Purge": "1"} if soft else {}
        _purge_keys("POST", url, {"Fastly-Key": self.token, **softly}, tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloudflare:
    """Forgets, and never asks again for what it has."""

    url: str
    zone: str
    token: str = field(repr=False)
    softens: bool = False

    def purge(self, tags: Sequence[str], *, soft: bool) -> None:  # noqa: ARG002 - as Cdn
        url = f"{self.url}/zones/{quote(self.zone, safe='')}/purge_cache"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        for some in _in_batches(tags, CLOUDFLARE_MOST_TAGS):
            _ask("POST", url, headers, json.dumps({"tags": list(some)}).encode())


def chosen_cdn(settings: Settings) -> Cdn | None:
    """Makes the one that the operator chose. Raises InvalidInput for an unknown one, or one of
    which something is missing.
    """
    if not settings.purge:
        return None
    try:
        kind = CdnKind(settings.purge)
    except ValueError as error:
        raise InvalidInput(
            f"KERNELZOO_PURGE is {settings.purge[:40]!r}; write one of {', '.join(CdnKind)}"
        ) from error
    urls = tuple(url.strip().rstrip("/") for url in settings.purge_url.split(",") if url.strip())
    for url in urls:
        if not url.startswith(("https://", "http://")):
            raise InvalidInput(f"KERNELZOO_PURGE_URL names {url[:60]!r}, which is no address")
    token, service = settings.purge_token.get_secret_value(), settings.purge_service
    match kind:
        case CdnKind.VARNISH:
            _refuse_missing(kind, {"URL": urls})
            return Varnish(urls=urls)
        case CdnKind.FASTLY:
            _refuse_missing(kind, {"SERVICE": service, "TOKEN": token})
            return Fastly(url=urls[0] if urls else FASTLY_URL, service=service, token=token)
        case CdnKind.CLOUDFLARE:
            _refuse_missing(kind, {"SERVICE": service, "TOKEN": token})
            return Cloudflare(url=urls[0] if urls else CLOUDFLARE_URL, zone=service, token=token)


def _refuse_missing(kind: CdnKind, needed: Mapping[str, object]) -> None:
    missing = [f"KERNELZOO_PURGE_{name}" for name, given in needed.items() if not given]
    if missing:
        raise InvalidInput(f"KERNELZOO_PURGE={kind} needs {' and '.join(missing)}")


def _purge_keys(method: str, url: str, headers: Mapping[str, str], tags: Sequence[str]) -> None:
    """Names the tags as keys in a header."""
    for some in _in_batches(tags, MOST_KEYS):
        _ask(method, url, {**headers, "Surrogate-Key": " ".join(some)})


def _in_batches(tags: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    return (tags[start : start + most] for start in range(0, len(tags), most))


class _NoRedirects(HTTPRedirectHandler):
    """Fails: a POST would become a GET, which purges nothing, succeeds, and has the token."""

    def redirect_request(self, *_: object) -> None: ...


_OPENER = build_opener(_NoRedirects)


def _ask(method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> None:
    """Raises OSError where nobody answers, or not by HTTP, and for every status but a success."""
    request = Request(url, body or None, dict(headers), method=method)  # noqa: S310 - checked
    # Of http or https alone: the operator's setting is refused else.
    try:
        with _OPENER.open(request, timeout=PATIENCE_S):
            pass
    except HTTPException as error:
        raise OSError(f"{url} answered something else than HTTP: {error!r}") from error
