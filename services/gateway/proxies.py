"""Decides whose word is taken for the address of a visitor: that of proxies which the operator
names.

Each proxy appends to X-Forwarded-For the address that it was asked from, so that the last entries
were written by the operator's proxies, and all before them by whoever asked. Counting from the end,
as many as there are proxies, finds the visitor whatever else it wrote there.
"""

from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Self

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from kernelzoo.errors import InvalidInput
from services.gateway.problems import problem
from services.gateway.tokens import LOCAL, Tokens

_WIDEST = {4: 8, 6: 16}
"""Prefix of the widest network of proxies: whoever is believed from everywhere can be anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxies:
    """`hops`: how many stand between the visitor and the gateway, the last of them in `peers`."""

    peers: tuple[IPv4Network | IPv6Network, ...]
    hops: int

    @classmethod
    def of(cls, trusted: str, hops: int) -> Self:
        """`trusted`: addresses and CIDRs with commas between them. Raises InvalidInput."""
        names = [each.strip() for each in trusted.split(",") if each.strip()]
        return cls(peers=tuple(_network(name) for name in names), hops=hops)

    def __contains__(self, peer: str) -> bool:
        address = ip_address(peer.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None) or address
        return any(mapped in network for network in self.peers)

    def visitor(self, scope: Scope) -> str | None:
        """The address that the proxy of a request says it was asked from; None where no proxy asks,
        or it says nothing. Raises NoAddress.
        """
        client = scope.get("client")
        if not self.peers or not client or client[0] not in self:
            return None
        told = ",".join(Headers(scope=scope).getlist("x-forwarded-for"))
        if not told:
            return None
        entry = told.rsplit(",", self.hops)[-self.hops :][0].strip()
        address = _address(entry)
        if address is None:
            raise NoAddress(entry)
        return address

    def network(self, scope: Scope, tokens: Tokens) -> str:
        """Tells layers that stand before `ForwardedFor` the visitor's network; '' for one that a
        proxy does not name as it should: it is refused later."""
        try:
            address = self.visitor(scope) or (scope.get("client") or (LOCAL, 0))[0]
        except NoAddress:
            return ""
        return tokens.network(address)


class NoAddress(Exception):
    """Its argument stands in X-Forwarded-For where the visitor's address should be."""


def _network(name: str) -> IPv4Network | IPv6Network:
    if name == "*":
        raise InvalidInput(
            "KERNELZOO_TRUSTED_PROXIES is '*': any visitor could say that it is any other, and "
            "count as many networks; name the addresses or CIDRs of your proxies, and in "
            "KERNELZOO_TRUSTED_HOPS how many of them stand in a row"
        )
    try:
        network = ip_network(name)
    except ValueError as error:
        raise InvalidInput(
            f"KERNELZOO_TRUSTED_PROXIES names {name[:60]!r}; write addresses and CIDRs, as in "
            "10.1.0.0/16,10.2.0.7"
        ) from error
    if network.prefixlen < _WIDEST[network.version]:
        raise InvalidInput(
            f"KERNELZOO_TRUSTED_PROXIES names {name}, which visitors have addresses of; name the "
            "addresses or CIDRs of your proxies alone"
        )
    return network


class ForwardedFor:
    """Puts the visitor's address in the place of the proxy's. What is no address is a 400."""

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                address = self._proxies.visitor(scope)
            except NoAddress as error:
                await _refuse(str(error), scope, receive, send)
                return
            if address is not None:
                # In its place: those who stand further out read there which route answered.
                scope["client"] = (address, 0)
        await self._app(scope, receive, send)


def _address(entry: str) -> str | None:
    """The address in `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or
    `[2001:db8::1]:80`; None where there is none.
    """
    if entry.startswith("["):
        host = entry[1:].partition("]")[0]
    elif entry.count(":") == 1:
        host = entry.partition(":")[0]
    else:
        host = entry
    try:
        return str(ip_address(host))
    except ValueError:
        return None


async def _refuse(entry: str, scope: Scope, receive: Receive, send: Send) -> None:
    answer = problem(
        HTTPStatus.BAD_REQUEST,
        f"X-Forwarded-For names {entry[:60]!r} where the visitor's address should be; the proxies "
        "before this gateway must append the address that asks them",
    )
    await answer(scope, receive, send)
