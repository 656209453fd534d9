"""Applications, for the operator."""

import re
from ipaddress import IPv6Address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from services.gateway.wire.model import ApplicationName, WireModel

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def _possible(origin: str) -> str:
    """Raises ValueError where no page can have it: its host is no name and no address."""
    parts = urlsplit(origin)
    host, port = parts.hostname or "", parts.port
    if ":" in host:
        IPv6Address(host)
    elif not all(map(_LABEL.fullmatch, host.split("."))):
        raise ValueError(f"{host!r} is no name of a host")
    if port == 0:
        raise ValueError("no page has port 0")
    return origin


Origin = Annotated[
    str,
    StringConstraints(
        max_length=256, pattern=r"^https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?$"
    ),
    AfterValidator(_possible),
    Field(examples=["https://www.example"]),
]
Count = Annotated[int, Field(ge=0, le=1_000_000)]


class QuotaWire(WireModel):
    """Tuning jobs within 24 hours, sets in all, workloads in each."""

    jobs_per_day: Count = 50
    sets: Count = 10
    workloads_per_set: Count = 128


class ApplicationRequest(WireModel):
    """`origins` are as browsers write them: scheme, host, and port where it is not the usual."""

    name: ApplicationName
    origins: Annotated[list[Origin], Field(max_length=64)]
    quota: QuotaWire = QuotaWire()


class OriginsChange(WireModel):
    """Origins change so; one that is in both lists is removed."""

    added: Annotated[list[Origin], Field(max_length=64, default_factory=list)]
    removed: Annotated[list[Origin], Field(max_length=64, default_factory=list)]


class Origins(WireModel):
    """The origins of the pages whose agents may measure for the application."""

    name: str
    origins: list[str]


class NewKey(WireModel):
    """`key` is told once and kept by nobody here."""

    name: str
    key: str


class Application(WireModel):
    """An application with what it may use, and what of it is used: sets, and jobs of the last 24
    hours."""

    name: str
    origins: list[str]
    quota: QuotaWire
    sets: int
    jobs_today: int
    disabled: bool
    created_at: str


class ApplicationList(WireModel):
    applications: list[Application]
